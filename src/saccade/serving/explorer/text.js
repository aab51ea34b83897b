// One text, flowing: a prompt and what continues it. A lit token inks what it looked back at.

import { clear, h, visible } from "./dom.js";
import { partners, placeOf } from "./scene.js";
import { touchable, walkable } from "./touch.js";

// Tokens of the whole text: the first was only read, every other one is a row of the scene.
export function drawText(box, prediction, scene, store) {
  const { read, target } = prediction;
  const letters = Array.from(target.text);
  const first = { side: "read", axis: "columns", index: 0 };
  const tokens = [
    drawToken(read.tokens[0], first, letters, store),
    ...target.tokens.map(
      (token, index) => drawToken(token, { side: "target", axis: "rows", index }, letters, store),
    ),
  ];
  const text = h("div", { class: "text", "data-testid": "text", dir: "auto" }, tokens);
  clear(box, text);
  walkable(text, false);
  return (focus) => light(scene, placeOf(scene, focus), placeOf(scene, store.state.pin), tokens);
}

function drawToken(token, place, letters, store) {
  const own = letters.slice(token.start, token.end).join("");
  const shown = own === "" ? visible(token.text) : own.replace(/\n/g, "⏎\n");
  const kind = token.given || place.axis === "columns" ? "token given" : "token";
  const verb = place.axis === "rows" ? "what it looks at" : "who looks at it";
  return h(
    "span",
    {
      class: own === "" ? `${kind} special` : kind,
      ...touchable(store, place, `${visible(token.text)}: ${verb}`),
    },
    shown,
  );
}

// A row is the step that predicted its token, one further on; a column is the token itself.
function light(scene, place, pinned, tokens) {
  const element = (each) => tokens[each.axis === "rows" ? each.index + 1 : each.index];
  for (const token of tokens) {
    token.classList.remove("lit", "pinned");
    token.style.setProperty("--weight", 0);
  }
  if (pinned) element(pinned)?.classList.add("pinned");
  if (!place) return;
  element(place)?.classList.add("lit");
  const across = place.axis === "rows" ? "columns" : "rows";
  partners(scene, place).forEach((weight, index) => {
    element({ axis: across, index })?.style.setProperty("--weight", weight);
  });
}
