// uPlot with this page's colours, labelled lines, and bands; colours always come with a dash or a label.

/* global uPlot */

export const DASHED = [7, 5];
export const DOTTED = [2, 4];
const HEIGHT = 300;
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function faint(name, share) {
  return `color-mix(in srgb, ${colour(name)} ${share}%, transparent)`;
}

export function axis(label, more = {}) {
  const grid = { stroke: colour("line"), width: 1 };
  return { label, stroke: colour("quiet"), grid, ticks: grid, font: FONT, labelFont: FONT, ...more };
}

// Ticks of a doubling each, for logarithmic axes.
export const DOUBLINGS = {
  space: 15,
  splits: (_, __, low, high) => {
    const [first, last] = [Math.ceil(Math.log2(low)), Math.floor(Math.log2(high))];
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => 2 ** (first + index));
  },
  values: (chart, values) => {
    const every = Math.ceil(values.length / (chart.width / 60));
    return values.map((value, index) => (index % every ? "" : short(value)));
  },
};

const CLOCK = [
  [86400, "{MM}-{DD}", "\n{YYYY}"],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}"],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}"],
];

export const TIME_AXIS = {
  space: 80,
  values: CLOCK.map(([from, text, day]) => [from, text, day, null, day, null, null, null, 1]),
};

export const TIME_SERIES = { label: "time, UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" };

export function line(label, name, more = {}) {
  return { label, stroke: colour(name), width: 2, points: { show: false }, ...more };
}

export function short(value) {
  if (value === null || value === undefined) return "";
  const [size, unit] = value >= 1e6 ? [1e6, "M"] : value >= 2e4 ? [1e3, "k"] : [1, ""];
  return (value / size).toLocaleString("en", { maximumFractionDigits: 1 }) + unit;
}

export function shorts(_, values) {
  return values.map(short);
}

export function draw(element, options, data) {
  element.replaceChildren();
  const width = element.clientWidth;
  const series = options.series.map((one) => ({ value: (_, value) => short(value), ...one }));
  const fixed = {
    width,
    height: HEIGHT,
    tzDate: inUtc,
    cursor: { drag: { x: false, y: false } },
    legend: { markers: { dash: dashOf, width: 3 } },
  };
  const chart = new uPlot({ ...fixed, ...options, series }, data, element);
  chart.root.querySelector("canvas")?.setAttribute("aria-hidden", "true");
  return chart;
}

// As the times in the tables are.
function inUtc(seconds) {
  return uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
}

function dashOf(chart, index) {
  const { dash } = chart.series[index];
  if (!dash) return "solid";
  return dash[0] > 4 ? "dashed" : "dotted";
}

// Lines at fixed values: {at, label, colour, dash, across}; a value outside the chart is left out.
export function marks(lines) {
  return {
    hooks: {
      draw: (chart) =>
        drawMarks(
          chart,
          lines.filter((one) => Number.isFinite(one.at)),
        ),
    },
  };
}

function drawMarks(chart, lines) {
  const { ctx, bbox } = chart;
  const scale = devicePixelRatio;
  const taken = [];
  const placed = lines.map((one) => ({
    ...one,
    position: chart.valToPos(one.at, one.across ? "y" : "x", true),
  }));
  const shown = placed.filter((one) => isWithin(bbox, one));
  ctx.save();
  ctx.font = FONT.replace("12px", `${12 * scale}px`);
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  for (const one of shown) stroke(ctx, bbox, one, scale);
  for (const one of shown) {
    ctx.fillStyle = colour(one.colour);
    if (one.across) write(ctx, one.label, bbox.left + 6 * scale, one.position - 5 * scale, scale);
    else writeBeside(ctx, bbox, one.label, one.position, scale, taken);
  }
  ctx.restore();
}

function isWithin(bbox, { across, position }) {
  const [from, size] = across ? [bbox.top, bbox.height] : [bbox.left, bbox.width];
  return position >= from && position <= from + size;
}

function stroke(ctx, bbox, { across, position, ...one }, scale) {
  ctx.strokeStyle = colour(one.colour);
  ctx.lineWidth = (one.width ?? 1.5) * scale;
  ctx.setLineDash((one.dash ?? []).map((length) => length * scale));
  ctx.beginPath();
  ctx.moveTo(across ? bbox.left : position, across ? position : bbox.top);
  ctx.lineTo(across ? bbox.left + bbox.width : position, across ? position : bbox.top + bbox.height);
  ctx.stroke();
}

// Puts a label beside its line, below those that are in the way.
function writeBeside(ctx, bbox, label, position, scale, taken) {
  const width = ctx.measureText(label).width;
  const fits = position + 5 * scale + width <= bbox.left + bbox.width;
  const left = fits ? position + 5 * scale : position - 5 * scale - width;
  let row = 0;
  while (
    taken.some(
      (one) => one.row === row && one.left < left + width + 4 * scale && left < one.right + 4 * scale,
    )
  )
    row += 1;
  taken.push({ row, left, right: left + width });
  write(ctx, label, left, bbox.top + (14 + 15 * row) * scale, scale);
}

function write(ctx, label, left, base, scale) {
  ctx.save();
  ctx.setLineDash([]);
  ctx.lineWidth = 4 * scale;
  ctx.lineJoin = "round";
  ctx.strokeStyle = colour("page");
  ctx.strokeText(label, left, base);
  ctx.restore();
  ctx.fillText(label, left, base);
}
