// The grid of heads, the page's remote control: click chooses, x switches off, headers take them all.

import { clear, h } from "./dom.js";
import { KINDS } from "./scene.js";
import { largestOf, paint } from "./matrix.js";

// The panel of one run: a switch of kinds (the first run's alone), and a thumbnail a head.
export function drawHeads(box, prediction, run, store, { switching = true, large = false } = {}) {
  const attention = attentionOf(prediction, store.state.kind);
  const most = Math.max(...attention.layers.map((layer) => layer.weights.length));
  const grid = h("div", { class: large ? "heads large" : "heads", role: "group", "aria-label": "Heads" });
  grid.style.gridTemplateColumns = `28px repeat(${most}, minmax(0, 1fr))`;
  if (most > 1 || attention.layers.length > 1) grid.append(
    corner(store),
    ...columnHeaders(most, run, attention, store),
  );
  attention.layers.forEach((layer, number) => {
    if (most > 1 || attention.layers.length > 1) grid.append(rowHeader(layer, number, run, store));
    else grid.append(h("span"));
    for (let head = 0; head < most; head++) {
      const draw = () => thumbnail(layer, number, head, run, store, attention.scale > 1);
      grid.append(layer.weights[head] ? draw() : h("span"));
    }
  });
  const foot = h("div", { class: "heads-foot" });
  clear(box, switching ? kindSwitch(prediction, attention, store) : null, grid, large ? null : foot);
  grid.addEventListener("keydown", (event) => move(event, grid));
  return () => {
    mark(grid, run, store.state);
    clear(foot, switches(run, attention, store));
  };
}

export function attentionOf(prediction, kind) {
  return prediction.attention.find((each) => each.kind === kind) ?? prediction.attention[0];
}

function kindSwitch(prediction, attention, store) {
  if (prediction.attention.length < 2) return null;
  const choice = (each) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(each.kind === attention.kind),
        "data-kind": each.kind,
        onclick: () => store.set({ kind: each.kind }),
      },
      KINDS[each.kind],
    );
  return h(
    "div",
    { class: "segments small", role: "group", "aria-label": "Kind of attention" },
    prediction.attention.map(choice),
  );
}

function corner(store) {
  return h(
    "button",
    {
      type: "button",
      class: "header",
      title: "Average of all heads",
      "aria-label": "Average of all heads",
      "data-average": "",
      onclick: () => store.set({ layer: null, head: null }),
    },
    "x̄",
  );
}

function columnHeaders(most, run, attention, store) {
  return Array.from({ length: most }, (_, head) =>
    h(
      "button",
      {
        type: "button",
        class: "header",
        "data-header-head": head,
        "aria-label": `Head ${head + 1} of all layers`,
        onclick: () => store.set({ layer: null, head }),
        onkeydown: onX(() => toggle(store, run, attention.layers.map((layer) => [layer.name, head]))),
      },
      String(head + 1),
    ),
  );
}

function rowHeader(layer, number, run, store) {
  const all = layer.weights.map((_, head) => [layer.name, head]);
  return h(
    "button",
    {
      type: "button",
      class: "header",
      "data-header-layer": number,
      "aria-label": `All heads of layer ${number + 1}`,
      onclick: () => store.set({ layer: number, head: null }),
      onkeydown: onX(() => toggle(store, run, all)),
    },
    `L${number + 1}`,
  );
}

function thumbnail(layer, number, head, run, store, small) {
  const weights = layer.weights[head];
  const canvas = h("canvas", { width: weights[0].length, height: weights.length, "aria-hidden": "true" });
  paint(canvas, weights, small ? largestOf(weights) : 1);
  return h(
    "button",
    {
      type: "button",
      class: "head",
      "data-layer": number,
      "data-head": head,
      "data-name": layer.name,
      "aria-label": `Layer ${number + 1}, head ${head + 1}`,
      onclick: () => store.set(
        chosen(store.state, number, head) ? { layer: null, head: null } : { layer: number, head },
      ),
      onkeydown: onX(() => toggle(store, run, [[layer.name, head]])),
    },
    canvas,
  );
}

function chosen(state, layer, head) {
  return state.layer === layer && state.head === head;
}

function onX(act) {
  return (event) => {
    if (event.key.toLowerCase() !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
}

// Switch heads off, or on again when all of them are off already.
export function toggle(store, run, heads) {
  const before = store.state.off[run] ?? {};
  const isOff = ([layer, head]) => (before[layer] ?? []).includes(head);
  const on = heads.every(isOff);
  const after = { ...before };
  for (const [layer, head] of heads) {
    const others = (after[layer] ?? []).filter((each) => each !== head);
    after[layer] = on ? others : [...others, head].sort((a, b) => a - b);
  }
  const kept = Object.fromEntries(Object.entries(after).filter(([, list]) => list.length > 0));
  store.set({ off: { ...store.state.off, [run]: kept } });
}

// Heads that the state's choice means: one, a layer, a column, or nothing in particular.
export function chosenHeads(state, attention) {
  const { layer, head } = state;
  if (layer === null && head === null) return [];
  const layers = layer === null ? attention.layers : [attention.layers[layer]].filter(Boolean);
  return layers.flatMap(({ name, weights }) =>
    weights.map((_, number) => [name, number]).filter(([, number]) => head === null || number === head),
  );
}

function switches(run, attention, store) {
  const heads = chosenHeads(store.state, attention);
  const off = Object.values(store.state.off[run] ?? {}).flat().length;
  const all = heads.length > 0 && heads.every(
    ([layer, head]) => (store.state.off[run]?.[layer] ?? []).includes(head),
  );
  return [
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        disabled: heads.length === 0,
        "data-testid": "switch",
        onclick: () => toggle(store, run, heads),
      },
      all ? "switch on" : "switch off",
    ),
    off > 0
      ? h(
        "button",
        {
          type: "button",
          class: "quiet warm",
          "data-testid": "all-on",
          onclick: () => store.set({ off: { ...store.state.off, [run]: {} } }),
        },
        `${off} off · all on`,
      )
      : null,
  ];
}

function mark(grid, run, state) {
  for (const button of grid.querySelectorAll("button.head")) {
    const { layer, head, name } = button.dataset;
    const off = (state.off[run]?.[name] ?? []).includes(Number(head));
    const meant = (choice, mine) => choice === null || choice === Number(mine);
    const own = meant(state.layer, layer) && meant(state.head, head);
    const any = state.layer !== null || state.head !== null;
    button.classList.toggle("chosen", any && own);
    button.classList.toggle("off", off);
    button.setAttribute("aria-pressed", String(any && own));
    button.setAttribute(
      "aria-label",
      `Layer ${Number(layer) + 1}, head ${Number(head) + 1}${off ? ", switched off" : ""}`,
    );
  }
  grid.querySelector("[data-average]")?.classList.toggle(
    "chosen",
    state.layer === null && state.head === null,
  );
}

function move(event, grid) {
  const current = event.target.closest("button.head");
  const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!current || !by) return;
  const [layer, head] = [Number(current.dataset.layer) + by[0], Number(current.dataset.head) + by[1]];
  const next = grid.querySelector(`button.head[data-layer="${layer}"][data-head="${head}"]`);
  if (next) {
    event.preventDefault();
    next.focus();
  }
}
