// The page: a header, the bar to ask with, the views of one or two runs, and the panel beside them.

import * as api from "./api.js";
import { createStore, INITIAL } from "./store.js";
import { h } from "./dom.js";
import { fromHash, toHash } from "./link.js";
import { drawHeader } from "./header.js";
import { drawExplore } from "./explore.js";
import { drawRuns } from "./runs.js";
import { listenToKeys } from "./keys.js";
import { startTheme } from "./theme.js";

const store = createStore({ ...INITIAL, ...fromHash(location.hash, INITIAL) });
const main = document.getElementById("main");

// What belongs into the address; it is replaced, not pushed: Back leaves the page.
const LINKED = [
  "run",
  "other",
  "text",
  "view",
  "unit",
  "kind",
  "page",
  "layer",
  "head",
  "decoding",
  "pin",
  "off",
];

startTheme();
listenToKeys(store);
start();

async function start() {
  try {
    const { runs } = await api.runs();
    const known = (name) => runs.some((run) => run.name === name);
    const { run, other } = store.state;
    store.set(
      { runs, run: known(run) ? run : runs[0].name, other: known(other) && other !== run ? other : null },
    );
  } catch (error) {
    main.replaceChildren(h("p", { class: "problem" }, error.message));
    return;
  }
  drawHeader(store);
  drawPage();
  store.watch(["page"], drawPage);
  store.watch(LINKED, (state) => history.replaceState(null, "", toHash(state)));
  window.addEventListener("hashchange", () => location.reload()); // somebody pasted another link
  const work = document.getElementById("work");
  store.watch(["busy"], (state) => (work.hidden = state.busy === 0));
}

function drawPage() {
  main.className = store.state.page;
  const pages = { explore: drawExplore, runs: drawRuns };
  (pages[store.state.page] ?? drawExplore)(main, store);
}
