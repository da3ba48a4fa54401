// Draws the deployment's charts from the API, and again when something changed.

import { context, tradeoff } from "./charts-lengths.js";
import { history, kv, latency, running } from "./charts-load.js";
import { draw } from "./plot.js";

const name = document.querySelector(".what-if").dataset.name;
const api = `${document.body.dataset.root}/api/v1/deployments/${encodeURIComponent(name)}`;

let told = null;

async function load() {
  const answers = await Promise.all([fetch(api), fetch(`${api}/evidence`)]).catch(() => []);
  if (answers.length !== 2 || answers.some((one) => !one.ok)) return;
  const [recommendation, evidence] = await Promise.all(answers.map((one) => one.json()));
  told = { recommendation, ...evidence };
  drawAll();
}

function drawAll() {
  if (!told) return;
  for (const element of document.querySelectorAll("[data-chart]")) {
    const chart = CHARTS[element.dataset.chart](told);
    if (chart) draw(element, ...chart);
    else
      element.replaceChildren(
        Object.assign(document.createElement("p"), { textContent: "Nothing to draw yet." }),
      );
  }
  document.documentElement.dataset.charts = "drawn";
}

const CHARTS = { context, tradeoff, latency, running, kv, history };

let redraw = null;
new ResizeObserver(() => {
  clearTimeout(redraw);
  redraw = setTimeout(drawAll, 100);
}).observe(document.querySelector("main"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.addEventListener("refreshed", load);
load();
