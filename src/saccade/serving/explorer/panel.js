// The panel beside the views: numbers of the lit word, and the grid of heads of each run.

import { clear, h } from "./dom.js";
import { drawHeads } from "./heads.js";
import { drawChoices, drawLooks } from "./side.js";
import { focus } from "./store.js";

// Returns what follows the selection: called whenever a word is lit or a head is chosen.
export function drawPanel(box, panes, store) {
  const [first] = panes;
  const [choices, looks] = [h("section", { class: "card" }), h("section", { class: "card" })];
  const withHeads = panes.filter((pane) => pane.prediction.attention.length > 0);
  const grids = withHeads.map((pane, at) => {
    const grid = h("div");
    const title = panes.length > 1 ? `Heads of ${pane.run}` : "Heads";
    const card = h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, title), h("span", { class: "hint" }, "click: choose · x: switch off")), grid);
    return { card, mark: drawHeads(grid, pane.prediction, pane.run, store, { switching: at === 0 }) };
  });
  clear(box, choices, looks, grids.map((grid) => grid.card));
  return () => {
    const now = focus(store.state);
    drawChoices(choices, first.prediction, first.scene, now);
    drawLooks(looks, first.scene, now);
    grids.forEach((grid) => grid.mark());
  };
}
