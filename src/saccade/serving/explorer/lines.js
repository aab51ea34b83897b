// The sentence: what is looked at above, who looks below, lines between them; upright when narrow.

import { fitted, picture, s, textWidth, two, visible } from "./dom.js";
import { partners, placeOf } from "./scene.js";
import { touchable, walkable } from "./touch.js";

const [WIDEST, TALL, STEP] = [150, 28, 26];
const ROOMY = { font: 15, pad: 8, gap: 8 };
const DENSE = { font: 13, pad: 4, gap: 3 }; // a sentence of some twenty words still lies in a row
const FAINTEST = 0.04; // lines below this weight are drawn only when their word is lit

export function drawLines(box, scene, store, { differs = new Set(), height = 92 } = {}) {
  const width = box.clientWidth || 320;
  const plan =
    layAcross(scene, width, height, ROOMY) ??
    layAcross(scene, width, height, DENSE) ??
    layUpright(scene, width);
  const lines = s("g", { class: "lines", "aria-hidden": "true" });
  const words = { columns: s("g", { class: "words" }), rows: s("g", { class: "words" }) };
  const drawn = new Map();
  for (const axis of ["columns", "rows"]) {
    scene[axis].units.forEach((unit, index) => {
      const word = drawWord(scene, store, axis, index, plan[axis][index], plan);
      if (axis === "rows" && differs.has(index)) word.classList.add("differs");
      drawn.set(`${axis} ${index}`, word);
      words[axis].append(word);
    });
  }
  const svg = picture(
    plan.width,
    plan.height,
    "Words and what they look at",
    lines,
    words.columns,
    words.rows,
  );
  svg.classList.add("sentence");
  box.replaceChildren(svg);
  box.classList.toggle("tall", scene.long);
  walkable(svg, plan.upright);
  if (!scene.long) drawPaths(lines, scene, plan);
  return (focus, pin = store.state.pin) => light(scene, focus, pin, drawn, lines, plan);
}

// Both sentences as rows of words; null when they do not fit.
function layAcross(scene, width, height, look) {
  if (width < 560 || scene.long) return null;
  const rows = ["columns", "rows"].map((axis) => {
    const wide = scene[axis].units.map((unit) => wordWidth(unit.text, look));
    return { wide, sum: wide.reduce((a, b) => a + b, 0) };
  });
  const longest = Math.max(...rows.map(({ wide, sum }) => sum + look.gap * wide.length));
  if (longest > width) return null;
  const places = rows.map(({ wide, sum }, row) => {
    const gap = Math.min(28, (width - sum) / Math.max(wide.length, 1));
    let x = (width - sum - gap * (wide.length - 1)) / 2;
    const y = row === 0 ? 0 : TALL + height;
    return wide.map((w) => {
      const place = {
        x,
        y,
        width: w,
        height: TALL,
        joinX: x + w / 2,
        joinY: row === 0 ? TALL + 1 : y - 1,
      };
      x += w + gap;
      return place;
    });
  });
  return {
    look,
    upright: false,
    width,
    height: 2 * TALL + height + 2,
    columns: places[0],
    rows: places[1],
  };
}

// Columns of words: what is looked at on the left, who looks on the right.
function layUpright(scene, width) {
  const room = Math.min(Math.max((width - 64) / 2.6, 72), 220);
  const between = Math.min(Math.max(width - 2 * room, 64), 260);
  const left = Math.max(0, (width - 2 * room - between) / 2);
  const column = (axis, x) => {
    const start = axis === "columns";
    return scene[axis].units.map((unit, index) => {
      const w = Math.min(wordWidth(unit.text, ROOMY), room);
      const at = start ? x + room - w : x;
      const y = index * STEP;
      return {
        x: at,
        y,
        width: w,
        height: STEP - 2,
        joinX: start ? x + room + 1 : x - 1,
        joinY: y + STEP / 2 - 1,
      };
    });
  };
  const tallest = Math.max(scene.columns.units.length, scene.rows.units.length) * STEP;
  return {
    look: ROOMY,
    upright: true,
    width,
    height: tallest + 2,
    columns: column("columns", left),
    rows: column("rows", left + room + between),
  };
}

function wordWidth(text, { font, pad }) {
  return Math.min(textWidth(visible(text.slice(0, 80)), `${font}px`) + 2 * pad, WIDEST);
}

function drawWord(scene, store, axis, index, place, plan) {
  const { units, side } = scene[axis];
  const shown = visible(units[index].text);
  const focus = { side, axis, index };
  const verb = axis === "rows" ? "what it looks at" : "who looks at it";
  const { font, pad } = plan.look;
  const [anchor, x] = !plan.upright
    ? ["middle", place.x + place.width / 2]
    : axis === "columns"
      ? ["end", place.x + place.width - pad]
      : ["start", place.x + pad];
  const middle = place.y + place.height / 2;
  return s(
    "g",
    { class: "word", ...touchable(store, focus, `${shown.slice(0, 100)}: ${verb}`) },
    s(
      "rect",
      {
        class: "fill",
        x: place.x,
        y: place.y,
        width: place.width,
        height: place.height,
        rx: 6,
        "fill-opacity": 0,
      },
    ),
    s(
      "text",
      { x, y: middle + 5, "text-anchor": anchor, "font-size": font, direction: "ltr" },
      s("title", {}, shown.slice(0, 1000)),
      fitted(shown, place.width - 2 * pad + 1, `${font}px`),
    ),
    underline(place.x + pad, place.x + place.width - pad, middle + 10),
  );
}

// What is shown of a word that differs from the other output's; SVG colours no text's underline.
export function underline(x1, x2, y) {
  return s("line", { class: "underline", x1, x2, y1: y, y2: y });
}

function drawPaths(lines, scene, plan) {
  scene.weights.forEach((row, t) =>
    row.forEach((weight, key) => {
      if (weight >= FAINTEST) lines.append(linePath(plan, t, key, weight));
    }),
  );
}

function linePath(plan, t, key, weight) {
  const [from, to] = [plan.columns[key], plan.rows[t]];
  const [x, y, u, v] = [from.joinX, from.joinY, to.joinX, to.joinY];
  const bend = plan.upright
    ? `C ${(x + u) / 2} ${y}, ${(x + u) / 2} ${v}`
    : `C ${x} ${y + (v - y) * 0.62}, ${u} ${y + (v - y) * 0.38}`;
  return s("path", {
    d: `M ${x} ${y} ${bend}, ${u} ${v}`,
    class: "line",
    "stroke-width": (0.8 + 4.2 * weight).toFixed(2),
    "stroke-opacity": Math.min(1, 0.06 + 0.3 * weight).toFixed(3),
  });
}

// The lit word's lines stand out and its partners fill with ink; the rest recedes.
function light(scene, focus, pin, drawn, lines, plan) {
  const place = placeOf(scene, focus);
  for (const path of lines.querySelectorAll(".lit")) path.remove();
  lines.classList.toggle("receding", place !== null);
  for (const word of drawn.values()) {
    word.classList.remove("lit", "pinned", "partner");
    word.firstChild.setAttribute("fill-opacity", "0");
  }
  const pinned = placeOf(scene, pin);
  if (pinned) drawn.get(`${pinned.axis} ${pinned.index}`)?.classList.add("pinned");
  if (!place) return;
  drawn.get(`${place.axis} ${place.index}`)?.classList.add("lit");
  const across = place.axis === "rows" ? "columns" : "rows";
  partners(scene, place).forEach((weight, index) => {
    const word = drawn.get(`${across} ${index}`);
    if (!word || weight < 0.005) return;
    word.classList.toggle("partner", weight >= 0.05);
    word.firstChild.setAttribute("fill-opacity", (0.75 * weight).toFixed(3));
    const [t, key] = place.axis === "rows" ? [place.index, index] : [index, place.index];
    const path = linePath(plan, t, key, weight);
    path.classList.add("lit");
    path.setAttribute("stroke-opacity", Math.min(1, 0.15 + weight).toFixed(3));
    path.append(s("title", {}, two(weight)));
    lines.append(path);
  });
}
