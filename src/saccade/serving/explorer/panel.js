// The panel beside the views: numbers of the lit word, and the grid of heads of each run.

import { clear, h } from "./dom.js";
import { drawHeads } from "./heads.js";
import { drawChoices, drawLooks } from "./side.js";
import { focus } from "./store.js";

// Returns what follows the selection, called with the panes whenever a word is lit or a head chosen.
export function drawPanel(box, panes, store) {
  const [choices, looks] = [h("section", { class: "card" }), h("section", { class: "card" })];
  const withHeads = panes.filter((pane) => pane.prediction.attention.length > 0);
  const grids = withHeads.map((pane, at) => {
    const grid = h("div");
    const title = panes.length > 1 ? `Heads of ${pane.run}` : "Heads";
    const keys = h("span", { class: "hint" }, "click: choose · x: switch off");
    const head = h("div", { class: "card-head" }, h("h2", {}, title), keys);
    const mark = drawHeads(grid, pane.prediction, pane.run, store, { switching: at === 0 });
    return { card: h("section", { class: "card" }, head, grid), mark };
  });
  clear(box, choices, looks, grids.map((grid) => grid.card));
  return ([first]) => {
    const now = focus(store.state);
    drawChoices(choices, first.prediction, first.scene, now);
    drawLooks(looks, first.scene, now);
    grids.forEach((grid) => grid.mark());
  };
}

// What the grids show: while it is the same, another choice of head only marks them anew.
export function sameGrids(before, panes, { kind, theme }) {
  const now = [kind, theme, ...panes.flatMap((pane) => [pane.run, pane.prediction.attention])];
  const same = before?.length === now.length && before.every((each, at) => each === now[at]);
  return same ? before : now;
}
