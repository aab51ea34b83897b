// The vectors that tell a model where a token stands: a row a position, a column a dimension.

import * as api from "./api.js";
import { clear, h, two } from "./dom.js";
import { paint } from "./matrix.js";
import { hint } from "./side.js";

const kept = new Map(); // run and size -> what the API said

export async function drawPositions(box, run, size) {
  const key = `${run} ${size}`;
  try {
    if (!kept.has(key)) kept.set(key, await api.positions(run, size));
  } catch (error) {
    clear(box, hint(error.message));
    return;
  }
  const { name, dim, rows } = kept.get(key);
  const canvas = h(
    "canvas",
    {
      width: dim,
      height: rows.length,
      class: "pixels",
      role: "img",
      "aria-label": `Positions, ${rows.length} by ${dim}`,
    },
  );
  paint(canvas, rows.map((row) => row.map((value) => (value + 1) / 2)));
  canvas.style.width = "100%";
  canvas.style.height = `${Math.max(160, Math.min(rows.length * 16, 480))}px`;
  const said = h("p", { class: "hint", "aria-live": "polite" }, "Point at the picture to read it.");
  canvas.addEventListener("pointermove", (event) => {
    const area = canvas.getBoundingClientRect();
    const t = Math.min(
      rows.length - 1,
      Math.floor(((event.clientY - area.top) / area.height) * rows.length),
    );
    const i = Math.min(dim - 1, Math.floor(((event.clientX - area.left) / area.width) * dim));
    said.textContent = `position ${t}, dimension ${i}: ${two(rows[t][i])}`;
  });
  clear(
    box,
    h(
      "p",
      { class: "hint" },
      `${name}, ${rows.length} positions by ${dim} dimensions; pale is −1, ink is 1.`,
    ),
    h("div", { "data-testid": "positions" }, canvas),
    said,
  );
}
