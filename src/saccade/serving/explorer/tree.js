// The beam tree: left to right, a column a step; dropped paths stay, faint; the returned one is inked.

import { clear, fitted, h, picture, piece, s, two } from "./dom.js";
import { hint } from "./side.js";

const [WIDE, STEP, WORD] = [152, 22, 112];

let left = { of: null, at: 0 }; // how far a tree was scrolled

export function drawTree(box, prediction, run, store) {
  const nodes = prediction.tree;
  if (nodes.length === 0) {
    return clear(box, hint("Choose Beam (or Greedy) and run: every step's candidates appear here."));
  }
  const places = layOut(nodes);
  const shown = new Set(store.state.path?.run === run ? ancestors(nodes, store.state.path.index) : []);
  const edges = s("g", { class: "edges", "aria-hidden": "true" });
  const words = s("g", { class: "words" });
  nodes.forEach((node, index) => {
    const place = places[index];
    const from = node.parent < 0 ? null : places[node.parent];
    if (from) edges.append(edge(node, from, place));
    words.append(drawNode(nodes, index, place, run, store, shown.has(index)));
  });
  const steps = Math.max(...nodes.map((node) => node.step)) + 1;
  const tallest = Math.max(...places.map((place) => place.y)) + STEP;
  const svg = picture(steps * WIDE + 16, tallest + 8, "Beam tree", edges, words);
  svg.classList.add("tree");
  svg.addEventListener("keydown", (event) => walk(event, svg, nodes));
  words.firstChild.setAttribute("tabindex", "0");
  const scroll = h("div", { class: "scroll", "data-testid": "tree" }, svg);
  clear(box, legend(nodes), scroll);
  scroll.scrollLeft = left.of === nodes ? left.at : 0; // drawn again, it stays where it was
  scroll.addEventListener("scroll", () => (left = { of: nodes, at: scroll.scrollLeft }));
  return box;
}

// A column's candidates in the order of their parents, the best first: edges seldom cross.
function layOut(nodes) {
  const places = new Array(nodes.length);
  const columns = [];
  nodes.forEach((node, index) => (columns[node.step] ??= []).push(index));
  for (const column of columns) {
    const height = (index) => (nodes[index].parent < 0 ? 0 : places[nodes[index].parent].y);
    column.sort((a, b) => height(a) - height(b) || nodes[b].log_prob - nodes[a].log_prob);
    column.forEach((index, row) => {
      places[index] = { x: nodes[index].step * WIDE + 8, y: row * STEP + 8 };
    });
  }
  return places;
}

function kindOf(node) {
  if (node.returned) return "returned";
  return node.kept ? "kept" : "dropped";
}

function edge(node, from, to) {
  const [x, y, u, v] = [from.x + WORD, from.y + STEP / 2 - 2, to.x - 2, to.y + STEP / 2 - 2];
  return s("path", {
    class: `edge ${kindOf(node)}`,
    d: `M ${x} ${y} C ${(x + u) / 2} ${y}, ${(x + u) / 2} ${v}, ${u} ${v}`,
    "stroke-width": (0.6 + 4 * node.probability).toFixed(2),
  });
}

function drawNode(nodes, index, place, run, store, lit) {
  const node = nodes[index];
  const shown = piece(node.text);
  const show = () => store.set(
    { path: { run, ids: ancestors(nodes, index).map((at) => nodes[at].id), index } },
  );
  return s(
    "g",
    {
      class: `node ${kindOf(node)}${lit ? " shown" : ""}`,
      "data-testid": "node",
      "data-node": index,
      tabindex: "-1",
      role: "button",
      "aria-label": `${shown}, probability ${two(node.probability)}, ${kindOf(node)}`,
      onclick: show,
      onkeydown: (event) => event.key === "Enter" && show(),
    },
    s(
      "rect",
      { class: "fill", x: place.x - 4, y: place.y - 1, width: WORD + 6, height: STEP - 3, rx: 4 },
    ),
    s(
      "text",
      { x: place.x, y: place.y + 13, "font-size": "13" },
      s("title", {}, `${shown} ${two(node.probability)}`),
      fitted(shown, WORD - 32, "13px"),
    ),
    s(
      "text",
      { class: "number", x: place.x + WORD, y: place.y + 13, "text-anchor": "end", "font-size": "11" },
      two(node.probability),
    ),
  );
}

// The places of a path, from its first token to this one.
function ancestors(nodes, index) {
  const found = [];
  for (let at = index; at >= 0; at = nodes[at].parent) found.unshift(at);
  return found;
}

function legend(nodes) {
  const kept = nodes.filter((node) => node.kept).length;
  return h(
    "p",
    { class: "hint" },
    `${nodes.length} candidates, ${kept} kept. Inked: returned; faint: dropped. `,
    "Click one to see its sentence and what it looked at.",
  );
}

// Left goes to the parent, right to the best child, up and down along the step.
function walk(event, svg, nodes) {
  const current = event.target.closest("[data-node]");
  if (!current) return;
  const index = Number(current.dataset.node);
  const siblings = [...svg.querySelectorAll("[data-node]")]
    .map((each) => Number(each.dataset.node))
    .filter((each) => nodes[each].step === nodes[index].step);
  const at = siblings.indexOf(index);
  const found = {
    ArrowLeft: nodes[index].parent,
    ArrowRight: nodes.findIndex((node) => node.parent === index),
    ArrowUp: siblings[at - 1] ?? -1,
    ArrowDown: siblings[at + 1] ?? -1,
  }[event.key];
  if (found === undefined || found < 0) return;
  event.preventDefault();
  svg.querySelector(`[data-node="${found}"]`).focus();
}
