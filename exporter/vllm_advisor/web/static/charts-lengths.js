// Context lengths, and what each limit on them would cost.

/* global uPlot */

import { axis, colour, DASHED, DOTTED, DOUBLINGS, faint, line, marks, short, shorts } from "./plot.js";

const BARS_A_DOUBLING = 6;
const LOGARITHMIC = { distr: 3, log: 2 };

export function context({ recommendation, tables }) {
  const { tokens, requests } = tables.lengths;
  if (!tokens.length) return null;
  const [edges, counts] = histogram(tokens, requests);
  const { max_model_len: limit } = recommendation.flags;
  const seen = recommendation.context;
  const lines = [
    {
      at: limit.recommended,
      label: `recommended ${short(limit.recommended)}`,
      colour: "latency",
      width: 2.5,
    },
    {
      at: limit.configured,
      label: `today ${short(limit.configured)}`,
      colour: "today",
      dash: DASHED,
      width: 2,
    },
    ...[
      ["p50", seen.p50],
      ["p90", seen.p90],
      ["p99", seen.p99],
      ["p99.9", seen.p999],
    ].map(([label, at]) => ({ at, label, colour: "quiet", dash: DOTTED, width: 1 })),
  ];
  const most = Math.max(edges.at(-1), limit.recommended ?? 0, limit.configured ?? 0);
  return [
    {
      scales: {
        x: { time: false, ...LOGARITHMIC, range: [edges[0] / 1.2, most * 1.3] },
        y: { range: (_, __, top) => [0, top * 1.35] },
      },
      axes: [
        axis("prompt and output tokens of a request", DOUBLINGS),
        axis("requests", { values: shorts, size: 60 }),
      ],
      series: [
        { label: "tokens" },
        {
          label: "requests",
          stroke: colour("latency"),
          fill: faint("latency", 25),
          width: 1,
          paths: uPlot.paths.stepped({ align: 1 }),
          points: { show: false },
        },
      ],
      plugins: [marks(lines)],
    },
    [edges, counts],
  ];
}

export function tradeoff({ recommendation, tables }) {
  const {
    max_model_len: limits,
    requests_over_per_day: over,
    memory_sequences: held,
    quantile,
  } = tables.tradeoff;
  if (limits.length < 2) return null;
  const chosen = recommendation.flags.max_model_len.recommended;
  const keep = limits.map((limit, index) => limits.indexOf(limit) === index);
  const only = (values) => values.filter((_, index) => keep[index]);
  return [
    {
      scales: {
        x: {
          time: false,
          ...LOGARITHMIC,
          range: [limits[0] / 1.15, Math.max(limits.at(-1), chosen ?? 0) * 1.2],
        },
        held: { range: (_, __, top) => [0, top * 1.15] },
        y: { range: (_, __, top) => [0, (top || 1) * 1.15] },
      },
      axes: [
        axis("--max-model-len", DOUBLINGS),
        axis("requests over it in a day", { values: shorts, size: 65, stroke: colour("target") }),
        axis("sequences in memory", {
          scale: "held",
          side: 1,
          values: shorts,
          size: 55,
          stroke: colour("memory"),
          grid: { show: false },
        }),
      ],
      series: [
        { label: "limit" },
        line("requests over it in a day", "target", {
          points: { show: true, size: 8, fill: colour("target") },
        }),
        line("sequences in memory", "memory", {
          scale: "held",
          dash: DASHED,
          points: { show: true, size: 8, fill: colour("page") },
        }),
      ],
      plugins: [
        marks([
          { at: chosen, label: `recommended ${short(chosen)}`, colour: "latency", width: 2.5 },
          ...only(limits).map((at) => ({
            at,
            label: `p${100 * quantile[limits.lastIndexOf(at)]}`,
            colour: "quiet",
            dash: DOTTED,
            width: 1,
          })),
        ]),
      ],
    },
    [only(limits), only(over), only(held)],
  ];
}

function histogram(tokens, requests) {
  const bar = (value) => Math.floor(Math.log2(Math.max(value, 1)) * BARS_A_DOUBLING);
  const first = bar(tokens[0]);
  const counts = new Array(bar(tokens.at(-1)) - first + 2).fill(0);
  tokens.forEach((value, index) => (counts[bar(value) - first] += requests[index]));
  return [counts.map((_, index) => 2 ** ((first + index) / BARS_A_DOUBLING)), counts];
}
