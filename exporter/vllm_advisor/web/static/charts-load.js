// Time per output token by concurrency, and what ran and was recommended over time.

/* global uPlot */

import {
  axis,
  colour,
  DASHED,
  DOTTED,
  faint,
  line,
  marks,
  short,
  shorts,
  TIME_AXIS,
  TIME_SERIES,
} from "./plot.js";

const ERRORS_OF_THE_BAND = 1.64;

export function latency({ recommendation, tables }) {
  const { observed, curve } = tables;
  if (!curve.concurrency.length) return null;
  const { memory, latency: ceiling } = recommendation.ceilings;
  const cap = recommendation.flags.max_num_seqs.configured;
  const milliseconds = (values) => values.map((value) => value * 1000);
  const band = (sign) =>
    curve.tpot_seconds.map(
      (value, index) => 1000 * value * (1 + sign * ERRORS_OF_THE_BAND * (curve.error_ratio[index] ?? 0)),
    );
  const data = uPlot.join(
    [
      [observed.concurrency, milliseconds(observed.tpot_mean_seconds)],
      [curve.concurrency, milliseconds(curve.tpot_seconds), band(1), band(-1)],
    ],
    [[1], [1, 1, 1]],
  );
  const seen = curve.concurrency.at(-1);
  const furthest = Math.max(
    seen,
    ...[ceiling.sequences, memory.sequences, cap].filter((at) => at && at <= 1.6 * seen),
  );
  const slo = ceiling.slo_tpot_seconds * 1000;
  const edge = { stroke: faint("latency", 40), width: 0, points: { show: false } };
  const top = Math.min(Math.max(slo * 1.3, ...data[2].filter(Number.isFinite)), slo * 4);
  return [
    {
      scales: { x: { time: false, range: [0, furthest * 1.05] }, y: { range: [0, top * 1.1] } },
      axes: [axis("sequences running at once on one engine"), axis("ms per output token", { size: 60 })],
      series: [
        { label: "sequences" },
        {
          label: "mean, as observed",
          stroke: colour("today"),
          width: 0,
          paths: () => null,
          points: { show: true, size: 6, fill: colour("today") },
        },
        line(`${ceiling.statistic}, fitted`, "latency", { width: 2.5, spanGaps: true }),
        { label: "90% band, upper", ...edge, spanGaps: true },
        { label: "lower", ...edge, spanGaps: true },
      ],
      bands: [{ series: [3, 4], fill: faint("latency", 18) }],
      plugins: [
        marks([
          { at: slo, label: `target ${short(slo)} ms`, colour: "target", dash: DASHED, across: true },
          {
            at: ceiling.sequences,
            label: `latency ceiling ${short(ceiling.sequences)}`,
            colour: "latency",
            width: 2,
          },
          {
            at: memory.sequences,
            label: `memory ceiling ${short(memory.sequences)}`,
            colour: "memory",
            dash: DASHED,
            width: 2,
          },
          { at: cap, label: `today's cap ${short(cap)}`, colour: "today", dash: DOTTED, width: 2 },
        ]),
      ],
    },
    data,
  ];
}

export function running({ recommendation, tables }) {
  const day = tables.occupancy;
  if (day.start_seconds.length < 2) return null;
  const { configured, recommended } = recommendation.flags.max_num_seqs;
  const most = Math.max(...day.running_max, ...day.waiting_mean);
  const top = Math.max(most, recommended ?? 0, configured && configured < 2 * most ? configured : 0);
  return [
    {
      scales: { y: { range: [0, top * 1.15 || 1] } },
      axes: [axis("time, UTC", TIME_AXIS), axis("sequences on one engine", { values: shorts, size: 60 })],
      series: [
        TIME_SERIES,
        line("running, mean", "latency"),
        line("running, most", "latency", { width: 1, dash: DASHED }),
        line("waiting, mean", "memory", { dash: DOTTED }),
      ],
      plugins: [
        marks([
          {
            at: configured,
            label: `today's cap ${short(configured)}`,
            colour: "today",
            dash: DASHED,
            across: true,
          },
          { at: recommended, label: `recommended ${short(recommended)}`, colour: "pool", across: true },
        ]),
      ],
    },
    [day.start_seconds, day.running_mean, day.running_max, day.waiting_mean],
  ];
}

export function kv({ tables }) {
  const day = tables.occupancy;
  if (day.start_seconds.length < 2) return null;
  const percent = (values) => values.map((value) => (value === null ? null : 100 * value));
  return [
    {
      scales: { y: { range: [0, 100] } },
      axes: [axis("time, UTC", TIME_AXIS), axis("% of the KV pool in use", { size: 60 })],
      series: [
        TIME_SERIES,
        line("mean", "pool", { fill: faint("pool", 20) }),
        line("most", "pool", { width: 1, dash: DASHED }),
      ],
    },
    [day.start_seconds, percent(day.kv_used_mean_ratio), percent(day.kv_used_max_ratio)],
  ];
}

export function history({ tables }) {
  const past = tables.history;
  if (!past.time_seconds.length) return null;
  const now = Date.now() / 1000;
  const until = (values) => [...values, values.at(-1)];
  const stepped = { paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } };
  return [
    {
      scales: { y: { range: (_, __, top) => [0, top * 1.15 || 1] } },
      axes: [axis("time, UTC", TIME_AXIS), axis("sequences", { values: shorts, size: 60 })],
      series: [
        TIME_SERIES,
        line("recommended", "pool", { ...stepped, width: 3 }),
        line("memory ceiling", "memory", { ...stepped, dash: DASHED }),
        line("latency ceiling", "latency", { ...stepped, dash: DOTTED }),
      ],
    },
    [
      [...past.time_seconds, now],
      until(past.max_num_seqs),
      until(past.memory_sequences),
      until(past.latency_sequences),
    ],
  ];
}
