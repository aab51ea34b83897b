// Numbers beside the picture: what else could have been said, and what the lit word looks at.

import { clear, h, piece, two, visible } from "./dom.js";
import { partners, placeOf } from "./scene.js";

const SHOWN = 5;

export function drawChoices(box, prediction, scene, focus) {
  const token = spokenToken(prediction, scene, focus);
  if (!token || token.alternatives.length === 0) return clear(
    box,
    hint("Each word's rivals appear here."),
  );
  const at = prediction.target.tokens.indexOf(token);
  const title = `“${piece(token.text).slice(0, 40)}” · step ${at + 1} · p ${two(token.probability)}`;
  const rivals = token.alternatives.some((each) => each.id === token.id)
    ? token.alternatives
    : [token, ...token.alternatives]; // drawn from further down
  const rows = rivals.map((each) => bar(piece(each.text), each.probability, each.id === token.id));
  return clear(box, h("h2", {}, title), h("div", { class: "bars", "data-testid": "choices" }, rows));
}

// The token of the output that a focus means: its own, or the first one.
function spokenToken(prediction, scene, focus) {
  const place = placeOf(scene, focus);
  const spoken = prediction.target.tokens.filter((token) => !token.given);
  if (!place || scene[place.axis].side !== "target") return spoken[0];
  return prediction.target.tokens[scene[place.axis].units[place.index].tokens[0]];
}

export function drawLooks(box, scene, focus) {
  if (!scene.attention) return clear(box, hint("This model looks at nothing: it has no attention."));
  const place = placeOf(scene, focus) ?? { axis: "rows", index: 0 };
  const across = place.axis === "rows" ? "columns" : "rows";
  const word = visible(scene[place.axis].units[place.index]?.text ?? "").slice(0, 40);
  const found = partners(scene, place)
    .map((weight, index) => ({ weight, text: scene[across].units[index].text }))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, SHOWN);
  const verb = place.axis === "rows" ? "looks at" : "is looked at by";
  return clear(
    box,
    h("h2", {}, `“${word}” ${verb} · ${scene.title}`),
    h(
      "div",
      { class: "bars", "data-testid": "looks" },
      found.map((each) => bar(each.text, each.weight, true)),
    ),
  );
}

function bar(text, value, strong) {
  const fill = h("span", { class: "bar-fill" });
  fill.style.width = `${Math.max(0.5, 100 * Math.min(1, value))}%`;
  return h(
    "div",
    { class: strong ? "bar" : "bar rival" },
    h("span", { class: "bar-name", title: visible(text).slice(0, 300), dir: "auto" }, visible(text)),
    h("span", { class: "bar-track" }, fill),
    h("span", { class: "number" }, two(value)),
  );
}

export function hint(sentence) {
  return h("p", { class: "hint" }, sentence);
}
