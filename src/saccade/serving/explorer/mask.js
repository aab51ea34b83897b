// Who may look where: before any softmax, a mask forbids; a decoder sees only what it has read.

import { clear, fitted, h, picture, s, visible } from "./dom.js";
import { slanted } from "./matrix.js";

const [LABEL, TOP] = [112, 84];
const CAUSAL =
  "Causal: each row sees what was written before it; the rest is forbidden, its weight exactly zero.";
const FULL =
  "Full: every row may look at every column. Padding, had this batch any, would be forbidden.";

export function drawMask(box, scene) {
  const [rows, columns] = [scene.rows.units, scene.columns.units];
  const room = (box.clientWidth || 600) - LABEL - 48;
  const cell = Math.max(4, Math.min(26, Math.floor(room / Math.max(columns.length, 1))));
  const allowed = (t, key) => !scene.causal || columns[key].tokens[0] <= rows[t].tokens.at(-1);
  const cells = s("g", { class: "cells" });
  rows.forEach((_, t) =>
    columns.forEach((_, key) => {
      const may = allowed(t, key);
      const place = {
        x: LABEL + key * cell,
        y: TOP + t * cell,
        width: cell - 1,
        height: cell - 1,
        rx: 2,
      };
      cells.append(
        s("rect", { ...place, class: may ? "fill may" : "empty not", "data-may": String(may) }),
      );
    }),
  );
  const names = s("g", { class: "words" });
  const font = cell < 12 ? "9" : "13";
  rows.forEach((unit, t) => {
    if (cell < 9) return;
    names.append(
      s(
        "text",
        { x: LABEL - 8, y: TOP + t * cell + cell / 2 + 4, "text-anchor": "end", "font-size": font },
        fitted(visible(unit.text), LABEL - 16, `${font}px`),
      ),
    );
  });
  columns.forEach((unit, key) => {
    if (cell < 9) return;
    names.append(slanted(visible(unit.text), LABEL + key * cell + cell / 2, TOP - 8, cell));
  });
  const svg = picture(
    LABEL + columns.length * cell + 48,
    TOP + rows.length * cell + 4,
    "Mask",
    cells,
    names,
  );
  svg.classList.add("mask");
  const sentence = scene.causal ? CAUSAL : FULL;
  return clear(
    box,
    h("p", { class: "hint" }, sentence),
    h("div", { class: "scroll", "data-testid": "mask" }, svg),
  );
}
