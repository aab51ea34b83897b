// The one state of the page. Views read it and are told what changed; nobody else keeps any.

export const INITIAL = {
  page: "explore", // or "runs"
  runs: [], // as /v1/runs gives them
  run: null, // the name of the run that answers
  other: null, // the name of the run beside it
  text: "",
  decoding: { method: "greedy", beam: 4, choices: 4, temperature: 1, top_p: 1, seed: 1, length: 60 },
  view: null, // null: the task's first
  unit: "words", // or "pieces"
  kind: null, // of attention; null: the task's first
  layer: null, // a number, or null: the average of all
  head: null,
  pin: null, // {side, axis, index}: the word that was clicked
  hover: null, // the same, of the word under the pointer
  off: {}, // run -> layer name -> heads that are switched off
  answers: {}, // run -> {now, all}: the prediction, and the one with all heads on
  path: null, // run -> ids of a path of the beam tree that is looked at
  drafts: {}, // run -> text so far
  busy: 0,
  error: null, // {where, sentence}
};

export function createStore(initial = INITIAL) {
  let state = { ...initial };
  const watchers = new Set();
  return {
    get state() {
      return state;
    },
    set(change) {
      const before = state;
      state = { ...state, ...change };
      const changed = new Set(Object.keys(change).filter((key) => before[key] !== state[key]));
      if (changed.size === 0) return;
      for (const { keys, act } of [...watchers]) {
        if (keys.some((key) => changed.has(key))) act(state, changed);
      }
    },
    // Call `act` whenever one of `keys` has changed.
    watch(keys, act) {
      watchers.add({ keys, act });
    },
  };
}

// What all views light up: the word under the pointer, else the pinned one.
export function focus(state) {
  return state.hover ?? state.pin;
}

export function same(a, b) {
  return a === b || (a && b && a.side === b.side && a.axis === b.axis && a.index === b.index);
}
