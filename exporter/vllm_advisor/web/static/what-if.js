// Asks the API what the ceilings would be, and shows it beside what they are.

const form = document.querySelector(".what-if");
const outcome = document.querySelector(".outcome");
const api = `${document.body.dataset.root}/api/v1/deployments/${encodeURIComponent(form.dataset.name)}/what-if`;
const ROWS = [
  ["--max-model-len", (one) => one.max_model_len.recommended, (one) => one.max_model_len.grade],
  ["Memory ceiling", (one) => one.memory.sequences, (one) => one.memory.grade],
  ["Latency ceiling", (one) => one.latency.sequences, (one) => one.latency.grade],
  ["--max-num-seqs", (one) => one.max_num_seqs.recommended, (one) => one.max_num_seqs.grade],
  ["Binding ceiling", (one) => one.binding, () => null],
];
const asItIs = new FormData(form);
let asking = null;
let waiting = null;

function changed() {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value === "" || value === asItIs.get(name)) continue;
    query.set(name, name === "margin" ? value / 100 : value);
  }
  return query;
}

async function ask() {
  asking?.abort();
  asking = new AbortController();
  const answer = await fetch(`${api}?${changed()}`, { signal: asking.signal }).catch(() => null);
  if (!answer) return;
  const told = await answer.json();
  outcome.replaceChildren(...(answer.ok ? shown(told) : [element("p", {}, told.detail ?? told.title)]));
}

function shown({ today, supposed, notes }) {
  const head = ["", "newest evidence", "supposed", "rests on"].map((text, index) =>
    element(index ? "th" : "td", index ? { scope: "col", class: index < 3 ? "number" : "" } : {}, text),
  );
  const rows = ROWS.map(([label, value, grade]) => {
    const [before, after] = [value(today), value(supposed)];
    const told = before === after ? written(after) : element("strong", {}, written(after));
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, label),
      element("td", { class: "number" }, written(before)),
      element("td", { class: "number" }, told),
      element("td", {}, grade(supposed) ?? ""),
    );
  });
  const table = element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
  const args =
    supposed.vllm_args && element("p", {}, element("code", {}, `vllm serve … ${supposed.vllm_args}`));
  return [table, args, ...notes.map((note) => element("p", {}, note))].filter(Boolean);
}

function written(value) {
  if (value === null) return "not known";
  return typeof value === "number" ? value.toLocaleString("en") : value;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function askSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(ask, 200);
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", askSoon);
form.addEventListener("reset", askSoon);
ask();
