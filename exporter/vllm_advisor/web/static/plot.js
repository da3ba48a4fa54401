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

export function line(label, name, more = {}) {
  return { label, stroke: colour(name), width: 2, points: { show: false }, ...more };
}

export function short(value) {
  if (value === null || value === undefined) return "";
  const [size, unit] = value >= 1e6 ? [1e6, "M"] : value >= 1e4 ? [1e3, "k"] : [1, ""];
  return (value / size).toLocaleString("en", { maximumFractionDigits: 1 }) + unit;
}

export function draw(element, options, data) {
  element.replaceChildren();
  const width = element.clientWidth;
  const chart = new uPlot({ width, height: HEIGHT, cursor: { drag: { x: false, y: false } }, ...options }, data, element);
  chart.root.querySelector("canvas")?.setAttribute("aria-hidden", "true");
  return chart;
}

// Lines at fixed values: {at, label, colour, dash, across}; a value outside the chart is left out.
export function marks(lines) {
  return { hooks: { draw: (chart) => drawMarks(chart, lines.filter((one) => Number.isFinite(one.at))) } };
}

function drawMarks(chart, lines) {
  const { ctx, bbox } = chart;
  const scale = devicePixelRatio;
  const taken = [];
  ctx.save();
  ctx.font = FONT.replace("12px", `${12 * scale}px`);
  for (const one of lines) {
    const position = chart.valToPos(one.at, one.across ? "y" : "x", true);
    const [from, to] = one.across ? [bbox.top, bbox.top + bbox.height] : [bbox.left, bbox.left + bbox.width];
    if (position < from || position > to) continue;
    ctx.strokeStyle = ctx.fillStyle = colour(one.colour);
    ctx.lineWidth = (one.width ?? 1.5) * scale;
    ctx.setLineDash((one.dash ?? []).map((length) => length * scale));
    ctx.beginPath();
    ctx.moveTo(one.across ? bbox.left : position, one.across ? position : bbox.top);
    ctx.lineTo(one.across ? bbox.left + bbox.width : position, one.across ? position : bbox.top + bbox.height);
    ctx.stroke();
    if (one.across) ctx.fillText(one.label, bbox.left + 6 * scale, position - 5 * scale);
    else writeBeside(ctx, bbox, one.label, position, scale, taken);
  }
  ctx.restore();
}

// Puts a label beside its line, below those that are in the way.
function writeBeside(ctx, bbox, label, position, scale, taken) {
  const width = ctx.measureText(label).width;
  const fits = position + 5 * scale + width <= bbox.left + bbox.width;
  const left = fits ? position + 5 * scale : position - 5 * scale - width;
  let row = 0;
  while (taken.some((one) => one.row === row && one.left < left + width + 4 * scale && left < one.right + 4 * scale)) row += 1;
  taken.push({ row, left, right: left + width });
  ctx.fillText(label, left, bbox.top + (14 + 15 * row) * scale);
}
