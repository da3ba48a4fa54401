// Draws the deployment's charts from the API, and again when something changed.

/* global uPlot */

import { axis, colour, DASHED, DOTTED, DOUBLINGS, draw, faint, line, marks, short, TIME_AXIS, TIME_SERIES } from "./plot.js";

const name = document.querySelector(".what-if").dataset.name;
const api = `${document.body.dataset.root}/api/v1/deployments/${encodeURIComponent(name)}`;
const BARS_A_DOUBLING = 6;
const LOGARITHMIC = { distr: 3, log: 2 };
const ERRORS_OF_THE_BAND = 1.64;

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
    else element.replaceChildren(Object.assign(document.createElement("p"), { textContent: "Nothing to draw yet." }));
  }
  document.documentElement.dataset.charts = "drawn";
}

function context({ recommendation, tables }) {
  const { tokens, requests } = tables.lengths;
  if (!tokens.length) return null;
  const [edges, counts] = histogram(tokens, requests);
  const { max_model_len: limit } = recommendation.flags;
  const told = recommendation.context;
  const lines = [
    { at: limit.recommended, label: `recommended ${short(limit.recommended)}`, colour: "latency", width: 2.5 },
    { at: limit.configured, label: `today ${short(limit.configured)}`, colour: "today", dash: DASHED, width: 2 },
    ...[["p50", told.p50], ["p90", told.p90], ["p99", told.p99], ["p99.9", told.p999]].map(([label, at]) =>
      ({ at, label, colour: "quiet", dash: DOTTED, width: 1 })),
  ];
  const most = Math.max(edges.at(-1), limit.recommended ?? 0, limit.configured ?? 0);
  return [{
    scales: { x: { time: false, ...LOGARITHMIC, range: [edges[0] / 1.2, most * 1.3] }, y: { range: (_, __, top) => [0, top * 1.35] } },
    axes: [axis("prompt and output tokens of a request", DOUBLINGS), axis("requests", { values: shorts, size: 60 })],
    series: [{ label: "tokens" },
      { label: "requests", stroke: colour("latency"), fill: faint("latency", 25), width: 1, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
    plugins: [marks(lines)],
  }, [edges, counts]];
}

function tradeoff({ recommendation, tables }) {
  const { max_model_len: limits, requests_over_per_day: over, memory_sequences: held, quantile } = tables.tradeoff;
  if (limits.length < 2) return null;
  const chosen = recommendation.flags.max_model_len.recommended;
  const keep = limits.map((limit, index) => limits.indexOf(limit) === index);
  const only = (values) => values.filter((_, index) => keep[index]);
  return [{
    scales: { x: { time: false, ...LOGARITHMIC, range: [limits[0] / 1.15, Math.max(limits.at(-1), chosen ?? 0) * 1.2] }, held: { range: (_, __, top) => [0, top * 1.15] }, y: { range: (_, __, top) => [0, (top || 1) * 1.15] } },
    axes: [axis("--max-model-len", DOUBLINGS), axis("requests over it in a day", { values: shorts, size: 65, stroke: colour("target") }),
      axis("sequences in memory", { scale: "held", side: 1, values: shorts, size: 55, stroke: colour("memory"), grid: { show: false } })],
    series: [{ label: "limit" },
      line("requests over it in a day", "target", { points: { show: true, size: 8, fill: colour("target") } }),
      line("sequences in memory", "memory", { scale: "held", dash: DASHED, points: { show: true, size: 8, fill: colour("page") } })],
    plugins: [marks([{ at: chosen, label: `recommended ${short(chosen)}`, colour: "latency", width: 2.5 },
      ...only(limits).map((at) => ({ at, label: `p${100 * quantile[limits.lastIndexOf(at)]}`, colour: "quiet", dash: DOTTED, width: 1 }))])],
  }, [only(limits), only(over), only(held)]];
}

function latency({ recommendation, tables }) {
  const { observed, curve } = tables;
  if (!curve.concurrency.length) return null;
  const { memory, latency: ceiling } = recommendation.ceilings;
  const cap = recommendation.flags.max_num_seqs.configured;
  const milliseconds = (values) => values.map((value) => value * 1000);
  const band = (sign) => curve.tpot_seconds.map((value, index) => 1000 * value * (1 + sign * ERRORS_OF_THE_BAND * (curve.error_ratio[index] ?? 0)));
  const data = uPlot.join([[observed.concurrency, milliseconds(observed.tpot_mean_seconds)],
    [curve.concurrency, milliseconds(curve.tpot_seconds), band(1), band(-1)]], [[1], [1, 1, 1]]);
  const seen = curve.concurrency.at(-1);
  const furthest = Math.max(seen, ...[ceiling.sequences, memory.sequences, cap].filter((at) => at && at <= 1.6 * seen));
  const slo = ceiling.slo_tpot_seconds * 1000;
  const edge = { stroke: faint("latency", 40), width: 0, points: { show: false } };
  const top = Math.min(Math.max(slo * 1.3, ...data[2].filter(Number.isFinite)), slo * 4);
  return [{
    scales: { x: { time: false, range: [0, furthest * 1.05] }, y: { range: [0, top * 1.1] } },
    axes: [axis("sequences running at once on one engine"), axis("ms per output token", { size: 60 })],
    series: [{ label: "sequences" },
      { label: "mean, as observed", stroke: colour("today"), width: 0, paths: () => null, points: { show: true, size: 6, fill: colour("today") } },
      line(`${ceiling.statistic}, fitted`, "latency", { width: 2.5, spanGaps: true }),
      { label: "90% band, upper", ...edge, spanGaps: true }, { label: "lower", ...edge, spanGaps: true }],
    bands: [{ series: [3, 4], fill: faint("latency", 18) }],
    plugins: [marks([{ at: slo, label: `target ${short(slo)} ms`, colour: "target", dash: DASHED, across: true },
      { at: ceiling.sequences, label: `latency ceiling ${short(ceiling.sequences)}`, colour: "latency", width: 2 },
      { at: memory.sequences, label: `memory ceiling ${short(memory.sequences)}`, colour: "memory", dash: DASHED, width: 2 },
      { at: cap, label: `today's cap ${short(cap)}`, colour: "today", dash: DOTTED, width: 2 }])],
  }, data];
}

function running({ recommendation, tables }) {
  const day = tables.occupancy;
  if (day.start_seconds.length < 2) return null;
  const { configured, recommended } = recommendation.flags.max_num_seqs;
  const most = Math.max(...day.running_max, ...day.waiting_mean);
  const top = Math.max(most, recommended ?? 0, configured && configured < 2 * most ? configured : 0);
  return [{
    scales: { y: { range: [0, top * 1.15 || 1] } },
    axes: [axis("", TIME_AXIS), axis("sequences on one engine", { values: shorts, size: 60 })],
    series: [TIME_SERIES, line("running, mean", "latency"), line("running, most", "latency", { width: 1, dash: DASHED }),
      line("waiting, mean", "memory", { dash: DOTTED })],
    plugins: [marks([{ at: configured, label: `today's cap ${short(configured)}`, colour: "today", dash: DASHED, across: true },
      { at: recommended, label: `recommended ${short(recommended)}`, colour: "pool", across: true }])],
  }, [day.start_seconds, day.running_mean, day.running_max, day.waiting_mean]];
}

function kv({ tables }) {
  const day = tables.occupancy;
  if (day.start_seconds.length < 2) return null;
  const percent = (values) => values.map((value) => (value === null ? null : 100 * value));
  return [{
    scales: { y: { range: [0, 100] } },
    axes: [axis("", TIME_AXIS), axis("% of the KV pool in use", { size: 60 })],
    series: [TIME_SERIES, line("mean", "pool", { fill: faint("pool", 20) }), line("most", "pool", { width: 1, dash: DASHED })],
  }, [day.start_seconds, percent(day.kv_used_mean_ratio), percent(day.kv_used_max_ratio)]];
}

function history({ tables }) {
  const past = tables.history;
  if (!past.time_seconds.length) return null;
  const now = Date.now() / 1000;
  const until = (values) => [...values, values.at(-1)];
  const stepped = { paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } };
  return [{
    scales: { y: { range: (_, __, top) => [0, top * 1.15 || 1] } },
    axes: [axis("", TIME_AXIS), axis("sequences", { values: shorts, size: 60 })],
    series: [TIME_SERIES, line("recommended", "pool", { ...stepped, width: 3 }), line("memory ceiling", "memory", { ...stepped, dash: DASHED }),
      line("latency ceiling", "latency", { ...stepped, dash: DOTTED })],
  }, [[...past.time_seconds, now], until(past.max_num_seqs), until(past.memory_sequences), until(past.latency_sequences)]];
}

const CHARTS = { context, tradeoff, latency, running, kv, history };

function histogram(tokens, requests) {
  const bar = (value) => Math.floor(Math.log2(Math.max(value, 1)) * BARS_A_DOUBLING);
  const first = bar(tokens[0]);
  const counts = new Array(bar(tokens.at(-1)) - first + 2).fill(0);
  tokens.forEach((value, index) => (counts[bar(value) - first] += requests[index]));
  return [counts.map((_, index) => 2 ** ((first + index) / BARS_A_DOUBLING)), counts];
}

function shorts(_, values) {
  return values.map(short);
}

let redraw = null;
new ResizeObserver(() => {
  clearTimeout(redraw);
  redraw = setTimeout(drawAll, 100);
}).observe(document.querySelector("main"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.addEventListener("refreshed", load);
load();
