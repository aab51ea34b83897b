// The alignment matrix: a row for each word that looks, a column for each that is looked at.

import { fitted, h, picture, s, textWidth, two, visible } from "./dom.js";
import { underline } from "./lines.js";
import { placeOf } from "./scene.js";
import { pin, touchable, walkable } from "./touch.js";
import { same } from "./store.js";

const FONT = "13px";
const [LABEL, SLANT] = [112, 84]; // room for the words of the rows, and of the columns

export function drawMatrix(box, scene, store, { largest = 30, differs = new Set() } = {}) {
  const [rows, columns] = [scene.rows.units.length, scene.columns.units.length];
  const room = (box.clientWidth || 600) - LABEL - 48;
  if (scene.long) {
    const fits = Math.min((room + LABEL) / columns, 720 / rows);
    return drawCanvas(box, scene, store, Math.max(1, Math.min(8, fits)));
  }
  const cell = Math.max(15, Math.min(largest, Math.floor(room / Math.max(columns, 1))));
  return drawCells(box, scene, store, cell, rows, columns, differs);
}

function drawCells(box, scene, store, cell, rows, columns, differs) {
  const cells = s("g", { class: "cells" });
  const gap = cell > 20 ? 2 : 1;
  scene.weights.forEach((row, t) => {
    row.forEach((weight, key) => {
      cells.append(drawCell(scene, store, t, key, weight, cell, gap));
    });
  });
  const labels = {
    rows: scene.rows.units.map((unit, index) => rowLabel(scene, store, index, cell)),
    columns: scene.columns.units.map((unit, index) => columnLabel(scene, store, index, cell)),
  };
  labels.rows.forEach((label, index) => label.classList.toggle("differs", differs.has(index)));
  const frame = s("rect", { class: "frame", rx: 5, visibility: "hidden" });
  const svg = picture(
    LABEL + columns * cell + 48,
    SLANT + rows * cell + 4,
    `Alignment matrix, ${scene.title}`,
    cells,
    s("g", { class: "words" }, labels.columns),
    s("g", { class: "words" }, labels.rows),
    frame,
  );
  svg.classList.add("matrix");
  box.replaceChildren(svg);
  walkable(svg, true);
  return (focus) => {
    const place = placeOf(scene, focus);
    lightLabels(labels, place, placeOf(scene, store.state.pin));
    enclose(frame, place, cell, rows, columns);
  };
}

function drawCell(scene, store, t, key, weight, cell, gap) {
  const focus = { side: scene.rows.side, axis: "rows", index: t };
  const size = cell - gap;
  const names = [
    scene.rows.units[t],
    scene.columns.units[key],
  ].map((unit) => visible(unit.text).slice(0, 60));
  return s(
    "g",
    {
      "data-testid": "cell",
      "data-row": t,
      "data-column": key,
      "data-weight": two(weight),
      onpointerenter: (event) => event.pointerType !== "touch" && store.set({ hover: focus }),
      onpointerleave: () => same(store.state.hover, focus) && store.set({ hover: null }),
      onclick: () => pin(store, focus),
    },
    s(
      "rect",
      {
        class: "empty",
        x: LABEL + key * cell,
        y: SLANT + t * cell,
        width: size,
        height: size,
        rx: cell > 20 ? 3 : 1,
      },
    ),
    s(
      "rect",
      {
        class: "fill",
        x: LABEL + key * cell,
        y: SLANT + t * cell,
        width: size,
        height: size,
        rx: cell > 20 ? 3 : 1,
        "fill-opacity": weight.toFixed(3),
      },
      s("title", {}, `${names[0]} → ${names[1]}: ${two(weight)}`),
    ),
  );
}

function rowLabel(scene, store, index, cell) {
  const shown = visible(scene.rows.units[index].text);
  const focus = { side: scene.rows.side, axis: "rows", index };
  const cut = fitted(shown, LABEL - 16, FONT);
  const y = SLANT + index * cell + cell / 2 + 4;
  return s(
    "g",
    { class: "word", ...touchable(store, focus, `${shown.slice(0, 100)}: what it looks at`) },
    s(
      "text",
      { x: LABEL - 8, y, "text-anchor": "end", "font-size": "13" },
      s("title", {}, shown.slice(0, 1000)),
      cut,
    ),
    underline(LABEL - 8 - textWidth(cut, FONT), LABEL - 8, y + 3),
  );
}

function columnLabel(scene, store, index, cell) {
  const shown = visible(scene.columns.units[index].text);
  const focus = { side: scene.columns.side, axis: "columns", index };
  return s(
    "g",
    { class: "word", ...touchable(store, focus, `${shown.slice(0, 100)}: who looks at it`) },
    slanted(shown, LABEL + index * cell + cell / 2, SLANT - 8, cell),
  );
}

// A name above its column: the narrower the columns, the steeper and smaller.
export function slanted(text, x, y, cell) {
  const [angle, font] = cell >= 20 ? [-45, 13] : [-60, 11];
  return s(
    "text",
    { x, y, transform: `rotate(${angle} ${x} ${y})`, "font-size": font },
    s("title", {}, text.slice(0, 1000)),
    fitted(text, cell >= 20 ? 92 : 78, `${font}px`),
  );
}

function lightLabels(labels, place, pinned) {
  for (const axis of ["rows", "columns"]) {
    labels[axis].forEach((label, index) => {
      label.classList.toggle("lit", place?.axis === axis && place.index === index);
      label.classList.toggle("pinned", pinned?.axis === axis && pinned.index === index);
    });
  }
}

function enclose(frame, place, cell, rows, columns) {
  frame.setAttribute("visibility", place ? "visible" : "hidden");
  if (!place) return;
  const row = place.axis === "rows";
  const [wide, tall] = row ? [columns * cell, cell] : [cell, rows * cell];
  const [x, y] = row ? [0, place.index * cell] : [place.index * cell, 0];
  const around = { x: LABEL + x - 2, y: SLANT + y - 2, width: wide + 2, height: tall + 2 };
  for (const [name, value] of Object.entries(around)) frame.setAttribute(name, value);
}

// A long matrix is one picture: a pixel block a cell, read back by the pointer's place.
function drawCanvas(box, scene, store, cell) {
  const [rows, columns] = [scene.rows.units.length, scene.columns.units.length];
  const canvas = h("canvas", {
    width: columns,
    height: rows,
    class: "pixels",
    tabindex: "0",
    role: "img",
    "aria-label": `Alignment matrix, ${scene.title}, ${rows} by ${columns}`,
  });
  canvas.style.width = `${columns * cell}px`;
  canvas.style.height = `${rows * cell}px`;
  const most = largestOf(scene.weights);
  paint(canvas, scene.weights, most);
  const marker = h("div", { class: "marker", hidden: true });
  const start = `Point at the picture to read it; the darkest cell is ${two(most)}.`;
  const said = h("p", { class: "hint", "aria-live": "polite" }, start);
  box.replaceChildren(said, h("div", { class: "pixel-box" }, canvas, marker));
  const at = (event) => {
    const area = canvas.getBoundingClientRect();
    const t = Math.min(
      rows - 1,
      Math.max(0, Math.floor(((event.clientY - area.top) / area.height) * rows)),
    );
    const key = Math.min(
      columns - 1,
      Math.max(0, Math.floor(((event.clientX - area.left) / area.width) * columns)),
    );
    return [t, key];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [t, key] = at(event);
    const [row, column] = [
      scene.rows.units[t].text,
      scene.columns.units[key].text,
    ].map((text) => visible(text).slice(0, 40));
    said.textContent = `${row} → ${column}: ${two(scene.weights[t]?.[key] ?? 0)}`;
    const focus = { side: scene.rows.side, axis: "rows", index: t };
    if (!same(store.state.hover, focus)) store.set({ hover: focus });
  });
  canvas.addEventListener("pointerleave", () => store.set({ hover: null }));
  canvas.addEventListener(
    "click",
    (event) => pin(store, { side: scene.rows.side, axis: "rows", index: at(event)[0] }),
  );
  return (focus) => {
    const place = placeOf(scene, focus);
    marker.hidden = place?.axis !== "rows";
    if (!marker.hidden) marker.style.top = `${place.index * cell}px`;
    marker.style.height = `${cell}px`;
  };
}

// What is all ink in a picture of a long text, whose weights are small by nature.
export function largestOf(weights) {
  return weights.reduce((top, row) => row.reduce((a, b) => Math.max(a, b), top), 0) || 1;
}

// Weights as pixels of the ink's colour, their opacity the weight; `most` is all ink.
export function paint(canvas, weights, most = 1) {
  const context = canvas.getContext("2d");
  const [red, green, blue] = inkColour();
  const image = context.createImageData(canvas.width, canvas.height);
  weights.forEach((row, t) =>
    row.forEach((weight, key) => {
      const at = 4 * (t * canvas.width + key);
      image.data[at] = red;
      image.data[at + 1] = green;
      image.data[at + 2] = blue;
      image.data[at + 3] = Math.round(255 * Math.min(1, weight / most));
    }),
  );
  context.putImageData(image, 0, 0);
}

export function inkColour(name = "--ink") {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
