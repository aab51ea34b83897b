// The output as text: growing while it is decoded, then with the words that differ underlined.

import { h, visible } from "./dom.js";
import { differing } from "./scene.js";

export function drawOutput(run, pane, draft, store) {
  const named = store.state.other ? h("span", { class: "output-run" }, run) : null;
  if (draft !== undefined) {
    return h(
      "div",
      { class: "output-line" },
      named,
      h(
        "output",
        { "data-testid": "output", "data-run": run, class: "growing", dir: "auto", lang: "" },
        draft,
      ),
    );
  }
  if (!pane) return h(
    "div",
    { class: "output-line" },
    named,
    h("output", { "data-testid": "output", "data-run": run }),
  );
  const shown = h(
    "output",
    { "data-testid": "output", "data-run": run, dir: "auto" },
    marked(pane.prediction, pane.rival),
  );
  const more = [];
  if (pane.prediction.truncated) more.push(
    h("p", { class: "problem" }, "The text is longer than the model reads: its end was cut off."),
  );
  if (store.state.path) {
    more.push(
      h(
        "p",
        { class: "hint" },
        "A path of the beam tree. ",
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            "data-testid": "returned",
            onclick: () => store.set({ path: null }),
          },
          "back to the returned one",
        ),
      ),
    );
  } else if (pane.anyOff) {
    const same = pane.all.text === pane.prediction.text;
    const before = same ? "it says the same" : marked(pane.all, pane.prediction);
    const title = h("span", { class: "hint" }, "with all heads on: ");
    more.push(h("p", { class: "before", "data-testid": "before", dir: "auto" }, title, before));
  }
  return h("div", { class: "output-line" }, named, shown, more);
}

// The text of a prediction in pieces, each word that its rival has not said marked.
function marked(prediction, rival) {
  const cut = (text) => text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^\s]/gu) ?? [];
  const mine = cut(prediction.text);
  if (!rival || rival === prediction || mine.length > 2000) return [
    prediction.text.split("\n").map(visibleOrEmpty).join("\n"),
  ];
  const differs = differing(mine, cut(rival.text));
  return mine.map(
    (part, at) => (differs.has(at) && part.trim() ? h("mark", { class: "differs" }, part) : part),
  );
}

function visibleOrEmpty(text) {
  return text === "" ? "" : visible(text);
}
