// The bar with the text and the choice of decoding; Enter asks.

import { clear, h } from "./dom.js";

const METHODS = { greedy: "Greedy", beam: "Beam", sample: "Sample" };
// The numbers each method takes: name in the API, what it is called, and its range.
const NUMBERS = {
  greedy: [],
  beam: [
    ["beam", "kept", { min: 1, max: 32, step: 1 }],
    ["choices", "choices", { min: 1, max: 64, step: 1 }],
  ],
  sample: [
    ["temperature", "temperature", { min: 0, max: 10, step: 0.1 }],
    ["top_p", "top p", { min: 0.05, max: 1, step: 0.05 }],
    ["seed", "seed", { min: 0, max: 999999, step: 1 }],
  ],
};

const LENGTH = ["length", "length", { min: 1, max: 2048, step: 1 }]; // where nothing else ends a text

function numbersOf(method, task) {
  return task.endless ? [...NUMBERS[method], LENGTH] : NUMBERS[method];
}

export function drawAsk(box, store, task, ask) {
  const source = h("textarea", {
    "data-testid": "source",
    "aria-label": task.asks,
    placeholder: task.asks,
    rows: 1,
    spellcheck: "false",
    dir: "auto",
    maxlength: 20000,
  });
  source.value = store.state.text;
  const grow = () => {
    source.style.height = "auto";
    source.style.height = `${Math.min(source.scrollHeight, 160)}px`;
  };
  const begin = () => {
    store.set({ text: source.value });
    ask();
  };
  source.addEventListener("input", grow);
  source.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      begin();
    }
  });
  const problem = h("p", { class: "problem", role: "alert", id: "problem", "data-testid": "problem" });
  const decoding = h("div", { class: "decoding" });
  const run = h(
    "button",
    { type: "button", class: "primary", "data-testid": "run", onclick: begin },
    task.verb,
    " ↵",
  );
  clear(box, h("div", { class: "ask" }, source, h("div", { class: "how" }, decoding, run)), problem);
  drawDecoding(decoding, store, task);
  requestAnimationFrame(grow);
  return { source, problem, decoding, grow };
}

function drawDecoding(box, store, task) {
  const { decoding } = store.state;
  const change = (values) => {
    store.set({ decoding: { ...store.state.decoding, ...values } });
    drawDecoding(box, store, task);
  };
  const methods = task.methods.map((method) =>
    h(
      "button",
      {
        type: "button",
        "data-method": method,
        "aria-pressed": String(method === decoding.method),
        onclick: () => change({ method }),
      },
      METHODS[method],
    ),
  );
  const numbers = numbersOf(decoding.method, task).map(([name, title, range]) =>
    h(
      "label",
      {},
      title,
      h("input", {
        type: "number",
        "data-number": name,
        value: decoding[name],
        ...range,
        onchange: (event) => {
          const value = Number(event.target.value);
          const valid = event.target.value !== "" && value >= range.min && value <= range.max;
          if (valid) store.set({ decoding: { ...store.state.decoding, [name]: value } });
          else event.target.value = store.state.decoding[name];
        },
      }),
    ),
  );
  clear(box, h("div", { class: "segments", role: "group", "aria-label": "Decoding" }, methods), numbers);
}

// The part of a request that says how to decode: what the method takes, nothing else.
export function decodingOf(decoding, task) {
  const taken = numbersOf(decoding.method, task).map(([name]) => [name, decoding[name]]);
  return { method: decoding.method, ...Object.fromEntries(taken) };
}
