// A chart of a few lines: learning curves, and quality by length.

import { picture, s } from "./dom.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [48, 96, 12, 32];
const STROKES = ["", "6 3", "2 3", "8 3 2 3", "1 4", "10 4"]; // one hue: lines differ by their dashes

// `lines`: [{name, points: [[x, y], ...]}]; `ticks`: names of places on the x axis, or null.
export function drawChart(width, height, title, lines, { ticks = null, dots = false } = {}) {
  const points = lines.flatMap((line) => line.points);
  const [x0, x1] = reach(points.map(([x]) => x));
  const ys = points.map(([, y]) => y);
  const scale = niceScale(Math.min(...ys), Math.max(...ys));
  const x = (value) => LEFT + ((value - x0) / (x1 - x0 || 1)) * (width - LEFT - RIGHT);
  const y = (value) =>
    height - BOTTOM - ((value - scale.low) / (scale.high - scale.low)) * (height - TOP - BOTTOM);
  const labels = spread(lines.map((line) => y(line.points.at(-1)[1])), 14);
  const svg = picture(
    width,
    height,
    title,
    s("g", { class: "grid" }, scale.ticks.map((tick) => horizontal(width, y(tick), shown(tick)))),
    s(
      "g",
      { class: "axis" },
      (ticks ?? xTicks(x0, x1)).map(
        ([at, name]) => s("text", { x: x(at), y: height - 10, "text-anchor": "middle" }, name),
      ),
    ),
    lines.map((line, number) => drawLine(line, number, x, y, dots)),
    lines.map(
      (line, number) => s(
        "text",
        { class: "name", x: width - RIGHT + 8, y: labels[number] + 4 },
        s("title", {}, line.name),
        line.name.slice(0, 14),
      ),
    ),
  );
  svg.classList.add("chart");
  svg.setAttribute("role", "img");
  return svg;
}

function drawLine(line, number, x, y, dots) {
  const path = line.points.map(
    ([a, b], at) => `${at ? "L" : "M"} ${x(a).toFixed(1)} ${y(b).toFixed(1)}`,
  ).join(" ");
  const marks = dots ? line.points.map(
    ([a, b]) => s("circle", { cx: x(a), cy: y(b), r: 3 }, s("title", {}, `${line.name}: ${shown(b)}`)),
  ) : [];
  return s(
    "g",
    { class: number % 2 ? "curve second" : "curve" },
    s("path", { d: path, "stroke-dasharray": STROKES[Math.floor(number / 2) % STROKES.length] }),
    marks,
  );
}

function horizontal(width, y, name) {
  return s(
    "g",
    {},
    s("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
    s("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, name),
  );
}

function reach(values) {
  return [Math.min(...values), Math.max(...values)];
}

// From a round number to a round number in round steps.
function niceScale(low, high) {
  const rough = (high - low || Math.abs(high) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((by) => by * power).find((each) => each >= rough);
  const [first, last] = [
    Math.floor(low / step),
    Math.max(Math.ceil(high / step), Math.floor(low / step) + 1),
  ];
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  return { low: ticks[0], high: ticks.at(-1), ticks };
}

function xTicks(low, high) {
  const { ticks } = niceScale(low, high);
  return ticks.filter((tick) => tick >= low && tick <= high).map(
    (tick) => [tick, tick.toLocaleString("en")],
  );
}

function shown(value) {
  return Math.abs(value) >= 1000 ? value.toLocaleString(
    "en",
    { maximumFractionDigits: 0 },
  ) : String(Number(value.toPrecision(3)));
}

// Labels at these heights, moved apart so that none covers another.
function spread(heights, least) {
  const order = heights.map((_, at) => at).sort((a, b) => heights[a] - heights[b]);
  const found = [...heights];
  order.forEach((at, rank) => {
    if (rank > 0) found[at] = Math.max(found[at], found[order[rank - 1]] + least);
  });
  return found;
}
