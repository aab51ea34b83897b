// What fits each task: its words, and its views in the order of their tabs. A task more is an entry more.

import { drawArithmetic } from "./arithmetic.js";
import { attentionOf, drawHeads } from "./heads.js";
import { clear, h } from "./dom.js";
import { drawLines } from "./lines.js";
import { drawMask } from "./mask.js";
import { drawMatrix } from "./matrix.js";
import { drawPositions } from "./positions.js";
import { drawText } from "./text.js";
import { drawTree } from "./tree.js";

// Views of attention say nothing of a model that has none; `blind` ones do.
// A view draws a pane into a box and returns what lights a focus up in it.
// A pane: {run, prediction, scene, differs, first}, what one run has to show.
const VIEWS = {
  text: {
    title: "Text",
    blind: true,
    draw: (box, pane, store) => drawText(box, pane.prediction, pane.scene, store),
  },
  lines: { title: "Lines", blind: true, draw: drawOverview },
  matrix: {
    title: "Matrix",
    draw: (box, pane, store) => drawMatrix(
      scrolling(box),
      pane.scene,
      store,
      { largest: 40, differs: pane.differs },
    ),
  },
  heads: { title: "All heads", draw: drawAllHeads },
  arithmetic: {
    title: "Arithmetic",
    draw: (box, pane, store) => following(store, () => drawArithmetic(box, pane, store, { long: true })),
  },
  tree: {
    title: "Beam tree",
    blind: true,
    draw: (box, pane, store) => void drawTree(box, pane.searched, pane.run, store),
  },
  mask: { title: "Mask", draw: (box, pane) => void drawMask(box, pane.scene) },
  positions: {
    title: "Positions",
    draw: (box, pane) => void drawPositions(
      box,
      pane.run,
      Math.min(512, Math.max(20, pane.scene.columns.units.length)),
    ),
  },
};

const SEQUENCES = ["lines", "matrix", "heads", "arithmetic", "mask", "positions"];
const TASKS = {
  translate: {
    verb: "Translate",
    asks: "Type a sentence, Enter translates",
    methods: ["greedy", "beam", "sample"],
    units: ["words", "pieces"],
    views: SEQUENCES.toSpliced(4, 0, "tree"),
  },
  generate: {
    verb: "Continue",
    asks: "Type a beginning, Enter continues it",
    methods: ["sample", "greedy", "beam"],
    units: ["pieces"],
    views: ["text", ...SEQUENCES.toSpliced(4, 0, "tree")],
    fromNothing: true, // an empty text is the begin of one
    endless: true, // a text ends only at its length
  },
};

export function taskOf(summary) {
  return TASKS[summary?.task] ?? TASKS.translate;
}

export function viewsOf(summary) {
  return taskOf(summary).views.map((id) => ({ id, ...VIEWS[id] }));
}

// Lines, with the matrix and the arithmetic below them.
function drawOverview(box, pane, store) {
  const [lines, matrix, numbers] = [
    h("div"),
    h("div", { class: "scroll" }),
    h("div", { class: "beside" }),
  ];
  if (!pane.scene.attention) {
    clear(box, lines);
    return drawLines(lines, pane.scene, store, { differs: pane.differs });
  }
  clear(box, lines, h("div", { class: "below" }, matrix, numbers));
  const updates = [
    drawLines(lines, pane.scene, store, { differs: pane.differs }),
    drawMatrix(matrix, pane.scene, store, { differs: pane.differs }),
    following(store, () => drawArithmetic(numbers, pane, store)),
  ];
  return (focus) => updates.forEach((update) => update(focus));
}

// What is drawn anew for another pinned word: not for one that is merely pointed at.
function following(store, draw) {
  let pinned = store.state.pin;
  draw();
  return () => {
    if (store.state.pin !== pinned) {
      pinned = store.state.pin;
      draw();
    }
  };
}

// The grid, large; the chosen head enlarged beside it.
function drawAllHeads(box, pane, store) {
  const attention = attentionOf(pane.prediction, store.state.kind);
  const [grid, large] = [h("div"), h("div", { class: "scroll", "data-testid": "enlarged" })];
  const chosen = store.state.layer !== null || store.state.head !== null;
  const size = `${attention.layers.length} layers × ${attention.layers[0].weights.length} heads.`;
  const note = chosen ? `Enlarged: ${pane.scene.title}.` : "Click a head to enlarge it, x switches it off.";
  clear(
    box,
    h("p", { class: "hint" }, `${size} ${note}`),
    h("div", { class: chosen ? "enlarging" : "alone" }, grid, chosen ? large : null),
  );
  const mark = drawHeads(grid, pane.prediction, pane.run, store, { switching: false, large: true });
  const light = chosen ? drawMatrix(large, pane.scene, store, { differs: pane.differs }) : () => {};
  return (focus) => {
    mark();
    light(focus);
  };
}

function scrolling(box) {
  const inner = h("div", { class: "scroll" });
  clear(box, inner);
  return inner;
}
