// The explorer: the bar to ask with, the output, the views, and the panel that follows the selection.

import { drawAsk } from "./ask.js";
import { createAsking } from "./asking.js";
import { clear, h, keepingFocus } from "./dom.js";
import { drawOutput } from "./output.js";
import { drawPanel, sameGrids } from "./panel.js";
import { differing, makeScene, unitsOf } from "./scene.js";
import { hint } from "./side.js";
import { focus } from "./store.js";
import { taskOf, viewsOf } from "./tasks.js";

const UNITS = { words: "Words", pieces: "Pieces" };

let page = null; // the boxes of the page that is shown; watchers are set up once

export function drawExplore(main, store) {
  const first = page === null;
  page = { asking: page?.asking ?? createAsking(store) };
  page.ask = h("section", { class: "card ask-card" });
  page.tabs = h("div", { class: "tabs" });
  page.stage = h("div", { class: "stage" });
  page.panel = h("aside", { class: "panel", "aria-label": "Numbers and heads" });
  page.center = h("section", { class: "card views" }, page.tabs, page.stage);
  clear(main, page.ask, h("div", { class: "columns" }, page.center, page.panel));
  drawBar(store);
  drawAnswers(store);
  if (first) watch(store, main);
  if (first && store.state.text) page.asking.ask({ keepPin: true });
  if (first && !store.state.text) page.bar.source.focus({ preventScroll: true });
}

function watch(store, main) {
  const shown = (act) => () => store.state.page === "explore" && act(store);
  const { asking } = page;
  let off = store.state.off;
  store.watch(["run", "other"], () => {
    drawBar(store);
    if (store.state.text) asking.ask({ keepPin: true });
  });
  store.watch(["answers", "view", "unit", "kind", "layer", "head", "other", "theme"], shown(redraw));
  store.watch(["off"], () => {
    const changed = Object.keys(store.state.off).filter((run) => store.state.off[run] !== off[run]);
    off = store.state.off;
    if (page.panes?.length) page.follow(page.panes);
    store.set({ path: null }); // with other heads the tree is another
    changed.forEach((run) => asking.askAgain(run));
  });
  store.watch(["kind", "layer", "head"], () => asking.fetchChosen());
  store.watch(["path"], () => asking.followPath());
  store.watch(["hover", "pin"], shown(light));
  store.watch(["drafts", "error", "busy", "path"], shown(drawProgress));
  store.watch(["unit"], () => store.set({ pin: null, hover: null }));
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    shown(redraw)();
  }).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shown(redraw));
}

function redraw(store) {
  keepingFocus([page.tabs, page.stage, page.panel], () => drawAnswers(store));
}

function summaryOf(store, name) {
  return store.state.runs.find((run) => run.name === name);
}

function drawBar(store) {
  const summary = summaryOf(store, store.state.run);
  page.bar = drawAsk(page.ask, store, taskOf(summary), () => page.asking.ask());
  page.outputs = h("div", { class: "outputs" });
  page.ask.append(page.outputs);
  drawProgress(store);
}

// What each shown run has to show: its prediction, the scene of it, the words that differ.
function panesOf(store) {
  const { run, other, answers, off } = store.state;
  const names = [run, other].filter((name) => name && answers[name]);
  return names.map((name) => {
    const { now, all, searched } = answers[name];
    const rival = names.length > 1 ? answers[name === run ? other : run].now : all;
    const unit = unitOf(store, name);
    const scene = makeScene(now, { ...store.state, unit });
    const anyOff = Object.keys(off[name] ?? {}).length > 0;
    const differs = differsIn(now, rival, scene, unit);
    return { run: name, prediction: now, searched, all, anyOff, scene, rival, differs };
  });
}

// Words where the task has them, else pieces.
function unitOf(store, name) {
  const { units } = taskOf(summaryOf(store, name));
  return units.includes(store.state.unit) ? store.state.unit : units[0];
}

function differsIn(mine, theirs, scene, unit) {
  if (scene?.rows.side !== "target" || mine === theirs) return new Set();
  const by = scene.pieces ? "pieces" : unit;
  const [own, rivals] = [mine, theirs].map(
    (each) => unitsOf(each, "target", by).map((word) => word.text),
  );
  return differing(own, rivals);
}

function drawAnswers(store) {
  const panes = panesOf(store);
  page.updates = [];
  page.panes = [];
  drawProgress(store, panes);
  page.center.hidden = page.panel.hidden = panes.length === 0;
  if (panes.length === 0) return;
  drawTabs(store);
  const view = viewOf(store);
  page.stage.classList.toggle("double", panes.length > 1);
  const boxes = panes.map(
    (pane) => h("div", { class: "pane", "data-view": view.id, "data-run": pane.run }),
  );
  clear(page.stage, boxes);
  panes.forEach(
    (pane, at) => page.updates.push(drawPane(boxes[at], pane, view, store, panes.length > 1)),
  );
  page.panes = panes;
  const grids = sameGrids(page.grids, panes, store.state);
  if (grids !== page.grids) page.follow = drawPanel(page.panel, panes, store);
  page.grids = grids;
  light(store);
}

function drawPane(box, pane, view, store, named) {
  if (named) box.append(h("h2", { class: "pane-name" }, pane.run));
  const inner = h("div", { class: "pane-view" });
  box.append(inner);
  if (pane.prediction.target.tokens.length === 0) return void inner.append(hint("Nothing was said."));
  if (!pane.scene.attention && !view.blind) return void inner.append(
    hint("This model has no attention to show."),
  );
  return view.draw(inner, pane, store);
}

// The chosen view, or the task's first where it has no such view.
function viewOf(store) {
  const views = viewsOf(summaryOf(store, store.state.run));
  return views.find((view) => view.id === store.state.view) ?? views[0];
}

function drawTabs(store) {
  const views = viewsOf(summaryOf(store, store.state.run));
  const shown = viewOf(store).id;
  const tab = (view) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        "data-tab": view.id,
        "aria-selected": String(view.id === shown),
        onclick: () => store.set({ view: view.id }),
      },
      view.title,
    );
  const list = h("div", { role: "tablist", class: "tablist", "aria-label": "Views" }, views.map(tab));
  list.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = views.findIndex((view) => view.id === shown);
    store.set({ view: views.at((at + by) % views.length).id });
    page.tabs.querySelector("[aria-selected=true]").focus();
  });
  const { units } = taskOf(summaryOf(store, store.state.run));
  const unit = (name) =>
    h(
      "button",
      {
        type: "button",
        "data-unit": name,
        "aria-pressed": String(unitOf(store, store.state.run) === name),
        onclick: () => store.set({ unit: name }),
      },
      UNITS[name],
    );
  const choice = h(
    "div",
    { class: "segments small", role: "group", "aria-label": "Units" },
    units.map(unit),
  );
  clear(page.tabs, list, units.length > 1 ? choice : null);
}

// The outputs as they grow, the error beside the text, and three examples while there is nothing.
function drawProgress(store, panes = panesOf(store)) {
  const { error, drafts, busy, answers, run, other } = store.state;
  page.bar.problem.textContent = error ?? "";
  page.bar.source.setAttribute("aria-invalid", String(Boolean(error)));
  const names = [run, other].filter(Boolean);
  const drawn = names.map(
    (name) => drawOutput(
      name,
      panes.find((pane) => pane.run === name),
      busy ? drafts[name] : undefined,
      store,
    ),
  );
  const empty = !busy && Object.keys(answers).length === 0;
  clear(page.outputs, empty ? examples(store) : drawn);
}

function examples(store) {
  const { examples: sentences } = summaryOf(store, store.state.run);
  if (!sentences.length) return null;
  const start = (text) => () => {
    store.set({ text });
    page.bar.source.value = text;
    page.bar.grow();
    page.asking.ask();
  };
  const buttons = sentences.map((text) =>
    h(
      "button",
      { type: "button", class: "example", "data-testid": "example", onclick: start(text) },
      text,
    ),
  );
  const keys =
    "Point at a word to see what it looks at, click to pin it; arrow keys walk along, x switches a head off.";
  return h(
    "div",
    { class: "examples" },
    h("span", { class: "hint" }, "Try one of these:"),
    buttons,
    h("p", { class: "hint help" }, keys),
  );
}

function light(store) {
  const now = focus(store.state);
  page.updates?.forEach((update) => update?.(now));
  if (page.panes?.length) page.follow(page.panes);
}
