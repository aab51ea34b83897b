// The header: which run answers, which one stands beside it, and the page's tools.

import { clear, h } from "./dom.js";
import { FORMATS } from "./save.js";
import { switchTheme } from "./theme.js";

export function drawHeader(store) {
  const [chosen, tools] = ["chosen", "tools"].map((id) => document.getElementById(id));
  const draw = () => {
    clear(chosen, store.state.page === "explore" ? runChoices(store) : []);
    clear(tools, toolButtons(store));
  };
  draw();
  store.watch(["run", "other", "page"], draw);
  document.querySelector("[data-testid=home]").addEventListener("click", (event) => {
    event.preventDefault();
    store.set({ page: "explore" });
  });
}

function runChoices(store) {
  const { runs, run, other } = store.state;
  const pick = h(
    "select",
    {
      "aria-label": "Run",
      "data-testid": "run-choice",
      onchange: (event) => store.set(
        { run: event.target.value, other: other === event.target.value ? null : other },
      ),
    },
  );
  pick.append(
    ...runs.map(
      (each) => h("option", { value: each.name, selected: each.name === run }, described(each)),
    ),
  );
  if (runs.length < 2) return [h("span", { class: "pill" }, h("strong", {}, run), ` ${about(runs[0])}`)];
  const beside = h(
    "select",
    {
      "aria-label": "Compare with",
      "data-testid": "compare-choice",
      class: other ? "" : "empty",
      onchange: (event) => store.set({ other: event.target.value || null }),
    },
  );
  beside.append(
    h("option", { value: "" }, other ? "no comparison" : "+ compare a run"),
    ...runs.filter((each) => each.name !== run).map(
      (each) => h("option", { value: each.name, selected: each.name === other }, described(each)),
    ),
  );
  return [
    h("span", { class: "pill" }, pick),
    h("span", { class: other ? "pill" : "pill dashed" }, beside),
  ];
}

function described(run) {
  return `${run.name} ${about(run)}`;
}

function about(run) {
  const score = run.score ? `${run.score.name} ${run.score.value.toFixed(1)}` : null;
  return [run.languages || (run.model === run.name ? "" : run.model), score].filter(Boolean).join(" · ");
}

function toolButtons(store) {
  const onRuns = store.state.page === "runs";
  return [
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        "data-testid": "runs-page",
        "aria-pressed": String(onRuns),
        onclick: () => store.set({ page: onRuns ? "explore" : "runs" }),
      },
      "Runs",
    ),
    saveMenu(store),
    h("button", { type: "button", class: "quiet", "data-testid": "link", onclick: copyLink }, "Link"),
    h(
      "button",
      {
        type: "button",
        class: "quiet icon",
        "data-testid": "theme",
        "aria-label": "Light or dark",
        onclick: () => { switchTheme(); store.set({ theme: (store.state.theme ?? 0) + 1 }); },
      },
      "◐",
    ),
  ];
}

function saveMenu(store) {
  const menu = h("div", { class: "menu", role: "menu", hidden: true });
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "data-testid": "save",
      "aria-haspopup": "menu",
      "aria-expanded": "false",
    },
    "Save ▾",
  );
  const open = (now) => {
    menu.hidden = !now;
    button.setAttribute("aria-expanded", String(now));
    if (now) menu.querySelector("button").focus();
  };
  menu.append(
    ...Object.entries(FORMATS).map(([format, save]) =>
      h("button", { type: "button", role: "menuitem", "data-format": format, onclick: async () => {
        open(false);
        const view = document.querySelector("[data-view]") ?? document.getElementById("main");
        const saved = await save(view, `saccade-${view.dataset.view ?? "runs"}`);
        toast(saved ? `Saved as ${format}.` : "There is no picture here to save.");
      } }, format),
    ),
  );
  button.addEventListener("click", () => open(menu.hidden));
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      open(false);
      button.focus();
    }
    const items = [...menu.children];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) items.at((items.indexOf(event.target) + by) % items.length).focus();
  });
  document.addEventListener(
    "click",
    (event) => !button.parentElement?.contains(event.target) && open(false),
  );
  return h("span", { class: "menu-holder" }, button, menu);
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    toast("The link to this view is copied.");
  } catch {
    toast("The address above is the link to this view.");
  }
}

let fading = null;

export function toast(sentence) {
  const place = document.getElementById("toast");
  place.textContent = sentence;
  place.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => place.classList.remove("shown"), 2500);
}
