// What the views of attention draw: one matrix, the words of its rows and columns, and their names.

import { piece } from "./dom.js";

export const KINDS = { cross: "Cross", encoder: "Encoder", decoder: "Decoder" };
export const LONG = 60; // tokens, beyond which lines are off and the matrix is a canvas

// The scene of a prediction for what the state has chosen.
export function makeScene(prediction, { kind, layer, head, unit }) {
  if (prediction.attention.length === 0) return blindScene(prediction, unit);
  const attention =
    prediction.attention.find((each) => each.kind === kind) ?? prediction.attention[0];
  const weights = chosenWeights(attention, layer, head);
  const whole = attention.scale === 1 || attention.chosen !== null;
  const by = attention.scale === 1 ? unit : "pieces";
  const rows = unitsOf(prediction, attention.rows, by);
  const columns = unitsOf(prediction, attention.columns, by);
  return {
    kind: attention.kind,
    causal: attention.causal,
    pieces: by === "pieces",
    rows: { side: attention.rows, units: rows },
    columns: { side: attention.columns, units: columns },
    weights: by === "pieces" || !whole ? weights : merged(weights, rows, columns),
    long: Math.max(rows.length, columns.length) > LONG,
    title: titleOf(attention, layer, head),
    attention,
  };
}

// A model without attention: its words, and nothing between them.
function blindScene(prediction, unit) {
  const side = prediction.source ? "source" : "read";
  const [rows, columns] = ["target", side].map((each) => unitsOf(prediction, each, unit));
  return {
    kind: null,
    causal: side === "read",
    pieces: unit === "pieces",
    rows: { side: "target", units: rows },
    columns: { side, units: columns },
    weights: rows.map(() => columns.map(() => 0)),
    long: Math.max(rows.length, columns.length) > LONG,
    title: "no attention",
    attention: null,
  };
}

// The words of one side, each with the tokens it is made of; or every token by itself.
export function unitsOf(prediction, side, unit) {
  const sentence = prediction[side];
  if (unit === "pieces") {
    const goes = (token, at) => at > 0 && sentence.tokens[at - 1].word === token.word; // on a word
    return sentence.tokens.map((token, at) => ({
      text: `${goes(token, at) ? "·" : ""}${piece(token.text)}`,
      tokens: [at],
    }));
  }
  const units = sentence.words.map((text) => ({ text, tokens: [] }));
  sentence.tokens.forEach((token, at) => units[token.word].tokens.push(at));
  return units.filter((each) => each.tokens.length > 0);
}

// Pieces to words: what is looked at adds up, of those who look the mean is taken.
function merged(weights, rows, columns) {
  return rows.map((row) =>
    columns.map((column) => {
      let sum = 0;
      for (const t of row.tokens) for (const key of column.tokens) sum += weights[t][key];
      return sum / row.tokens.length;
    }),
  );
}

function chosenWeights(attention, layer, head) {
  if (attention.scale > 1) return attention.chosen ?? [];
  return mean(headsOf(attention, layer, head));
}

// The matrices that a choice of layer and head means; a model without that layer gives them all.
export function headsOf(attention, layer, head) {
  const layers = attention.layers[layer] ? [attention.layers[layer]] : attention.layers;
  return layers.flatMap(({ weights }) => (weights[head] ? [weights[head]] : weights));
}

function mean(matrices) {
  if (matrices.length === 1) return matrices[0];
  const sum = matrices[0].map((row) => new Float64Array(row.length));
  for (const matrix of matrices) {
    matrix.forEach((row, t) => row.forEach((weight, key) => (sum[t][key] += weight)));
  }
  return sum.map((row) => Array.from(row, (weight) => weight / matrices.length));
}

export function titleOf(attention, layer, head) {
  const single = attention.layers.length === 1 && attention.layers[0].weights.length === 1;
  if (single) return "the one attention";
  const parts = [];
  if (attention.layers[layer]) parts.push(`layer ${layer + 1}`);
  if (head !== null) parts.push(`head ${head + 1}`);
  return parts.length ? parts.join(", ") : "average of all heads";
}

// Where a focus lies in this scene: {axis: "rows" or "columns", index}, or null.
export function placeOf(scene, focus) {
  if (!scene || !focus) return null;
  const axes = focus.axis === "columns" ? ["columns", "rows"] : ["rows", "columns"];
  for (const axis of axes) {
    if (scene[axis].side === focus.side && focus.index < scene[axis].units.length) {
      return { axis, index: focus.index };
    }
  }
  return null;
}

// The weights from or to a word, by its partners.
export function partners(scene, place) {
  if (place.axis === "rows") return scene.weights[place.index] ?? [];
  return scene.weights.map((row) => row[place.index]);
}

// The place of the words that differ between two outputs: not on their longest common path.
export function differing(mine, theirs) {
  const [rows, columns] = [mine.length, theirs.length];
  const best = Array.from({ length: rows + 1 }, () => new Uint16Array(columns + 1));
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      best[i][j] =
        mine[i] === theirs[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  const found = new Set();
  let [i, j] = [0, 0];
  while (i < rows) {
    if (j < columns && mine[i] === theirs[j]) [i, j] = [i + 1, j + 1];
    else if (j < columns && best[i][j + 1] > best[i + 1][j]) j++;
    else found.add(i++);
  }
  return found;
}
