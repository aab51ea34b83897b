// The arithmetic of one head for one word, as a walk: each step lights the numbers it speaks of.

import * as api from "./api.js";
import { clear, h, piece, two } from "./dom.js";
import { drawLines } from "./lines.js";
import { makeScene, placeOf } from "./scene.js";
import { hint } from "./side.js";

const [SHOWN, NUMBERS] = [6, 3]; // keys listed, and numbers of a vector
const kept = new Map(); // request -> explanation: a walk back asks for nothing twice

// What a question to the API is: the pinned word's first piece, the chosen head or the last layer's first.
export function question(prediction, scene, state, run) {
  const place = placeOf(scene, state.pin);
  const row = place?.axis === "rows" ? place.index : 0;
  const { layers } = scene.attention;
  const layer = layers[state.layer] ?? layers.at(-1);
  const head = Math.min(state.head ?? 0, layer.weights.length - 1);
  return {
    run,
    text: prediction.source?.text ?? state.text,
    output_ids: prediction.target.tokens.filter((token) => !token.given).map((token) => token.id),
    heads_off: state.off[run] ?? {},
    layer: layer.name,
    head,
    token: scene.rows.units[row].tokens[0],
  };
}

export async function drawArithmetic(box, { prediction, scene, run }, store, { long = false } = {}) {
  const asked = question(prediction, scene, store.state, run);
  const key = JSON.stringify(asked);
  box.dataset.key = key;
  try {
    if (!kept.has(key)) kept.set(key, await api.post("v1/explain", asked));
  } catch (error) {
    if (box.dataset.key === key) clear(box, hint(error.message));
    return;
  }
  if (box.dataset.key !== key) return; // another word was pinned meanwhile
  const found = kept.get(key);
  const layer = scene.attention.layers.findIndex((each) => each.name === found.layer);
  const title = `Arithmetic of “${piece(found.query)}” · layer ${layer + 1}, head ${found.head + 1}`;
  const table = drawTable(found, long ? found.keys.length : SHOWN);
  if (!long) return void clear(box, h("h2", {}, title), table);
  const image = h("div", { class: "walk-picture" });
  clear(box, h("h2", {}, title), walk(found, table, image), image, table);
  drawHead(image, prediction, scene, store, { layer, head: found.head, token: found.token });
}

// The lines of the head that is explained, from the word it is explained for.
function drawHead(box, prediction, scene, store, { layer, head, token }) {
  const unit = scene.pieces ? "pieces" : "words";
  const own = makeScene(prediction, { kind: scene.kind, unit, layer, head });
  if (!own || own.long || own.weights.length === 0) return;
  const index = own.rows.units.findIndex((each) => each.tokens.includes(token));
  const light = drawLines(box, own, store);
  const place = { side: own.rows.side, axis: "rows", index };
  light(place, place);
}

// The columns there are: an attention without queries or keys shows its weights alone.
function columnsOf(found) {
  const columns = [{ step: "key", title: "", cell: (i) => piece(found.keys[i]), sum: "sum" }];
  const add = (step, title, cell, sum = "") => columns.push({ step, title, cell, sum, number: true });
  if (found.products) add("products", "q·k", (i) => number(found.products[i]));
  if (found.scores) {
    const title = found.scale === null ? found.formula || "score" : `÷√${Math.round(found.scale ** 2)}`;
    add(
      "scores",
      title,
      (i) => (found.allowed && !found.allowed[i] ? "masked" : number(found.scores[i])),
    );
  }
  const total = (values) => two(values.reduce((a, b) => a + b, 0));
  if (found.factor) add("factor", "factor", (i) => two(found.factor[i]));
  if (found.probabilities) {
    const cell = (i) => two(found.probabilities[i]);
    add("probabilities", soft(found), cell, total(found.probabilities));
  }
  const title = found.probabilities ? "choice" : soft(found);
  add("weights", title, (i) => two(found.weights[i]), total(found.weights));
  if (found.weighted) {
    const width = found.weighted[0].length;
    const shown = Math.min(NUMBERS, width);
    add(
      "weighted",
      `× v (${shown} of ${width})`,
      (i) => vector(found.weighted[i]),
      vector(found.average),
    );
  }
  return columns;
}

// A window may put a factor on what the softmax gives.
function soft(found) {
  return found.factor ? "softmax × factor" : "softmax";
}

function drawTable(found, shown) {
  const columns = columnsOf(found);
  const order = found.keys.map((_, i) => i).sort((a, b) => found.weights[b] - found.weights[a]);
  const some = order.slice(0, shown);
  const rest = order.slice(shown).reduce((sum, i) => sum + found.weights[i], 0);
  const line = (name, cells) =>
    h(
      "tr",
      { class: name },
      columns.map(
        (column, at) => h(
          at ? "td" : "th",
          { "data-step": column.step, class: column.number ? "number" : "key" },
          cells(column),
        ),
      ),
    );
  const body = some.map((i) => line("", (column) => column.cell(i)));
  if (order.length > shown) {
    const more = { key: `${order.length - shown} more`, weights: two(rest) };
    body.push(line("more", (column) => more[column.step] ?? ""));
  }
  body.push(line("sum", (column) => column.sum));
  const head = h(
    "tr",
    {},
    columns.map(
      (column) => h(
        "th",
        { scope: "col", "data-step": column.step, class: column.number ? "number" : "key" },
        column.title,
      ),
    ),
  );
  return h(
    "div",
    { class: "scroll arithmetic", "data-testid": "arithmetic" },
    h("table", {}, h("thead", {}, head), h("tbody", {}, body)),
    after(found),
  );
}

function after(found) {
  if (!found.output) return null;
  const heads = found.heads > 1 ? `heads 1–${found.heads} side by side ` : "";
  return h(
    "p",
    { class: "number after", "data-step": "output" },
    `then ${heads}× Wᵒ  ${vector(found.output)}`,
  );
}

// The steps in order, as buttons: each lights its column.
function walk(found, table, image) {
  const all = [
    ["key", "q", found.q && `The query of this word, ${found.q.length} numbers: ${vector(found.q)}`],
    ["products", "q·k", found.products && "The query times every key: how well they match."],
    [
      "scores",
      found.scale === null ? "score" : "÷ √K",
      found.scores && (found.scale === null ? `The score: ${found.formula}.` : divided(found.scale)),
    ],
    ["factor", "factor", found.factor && "The window's, smaller the farther a key is from its middle."],
    ["probabilities", soft(found), found.probabilities && weighed(found)],
    [
      "weights",
      found.probabilities ? "choice" : soft(found),
      found.probabilities ? "One for the most probable key, zero for all others." : weighed(found),
    ],
    [
      "weighted",
      "× v",
      found.weighted && "Each value times its weight; their sum is what this head found.",
    ],
    [
      "output",
      "Wᵒ",
      found.output && "What all heads found, side by side, times one matrix: the layer's output.",
    ],
  ].filter(([, , sentence]) => sentence);
  const said = h("p", { class: "hint", "aria-live": "polite", "data-testid": "walk" });
  let at = 0;
  const buttons = all.map(
    ([, title], index) => h("button", { type: "button", onclick: () => go(index) }, title),
  );
  const go = (index) => {
    at = (index + all.length) % all.length;
    said.textContent = all[at][2];
    buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(number === at)));
    image.dataset.step = all[at][0];
    for (const cell of table.querySelectorAll("[data-step]")) cell.classList.toggle(
      "lit",
      cell.dataset.step === all[at][0],
    );
  };
  const next = h("button", { type: "button", class: "quiet", onclick: () => go(at + 1) }, "next →");
  go(0);
  return h(
    "div",
    { class: "walk" },
    h(
      "div",
      { class: "walk-steps" },
      h("div", { class: "segments small", role: "group", "aria-label": "Steps" }, buttons),
      next,
    ),
    said,
  );
}

function weighed(found) {
  const what = found.probabilities ? "probabilities" : "weights";
  const times = found.probabilities ? ", times its factor, made to add up to one" : ", times its factor";
  const end = found.factor ? times : `: ${what} that add up to one`;
  return `e to each score, divided by their sum${end}. Masked keys get exactly zero.`;
}

function divided(scale) {
  const by = `√${Math.round(scale ** 2)} = ${trimmed(scale)}`;
  return `Divided by ${by}, so that long vectors do not saturate the softmax.`;
}

function number(value) {
  if (value === null) return "−∞";
  return two(Math.abs(value) < 0.005 ? 0 : value).replace("-", "−");
}

function trimmed(value) {
  return String(Number(value.toFixed(3)));
}

function vector(values) {
  const some = values.slice(0, NUMBERS).map((value) => number(value).padStart(5, "\u2007"));
  return `[${some.join(" ")}${values.length > NUMBERS ? " …" : ""}]`;
}
