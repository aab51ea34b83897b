// Keys that work anywhere on the page.

import { pin } from "./touch.js";

export function listenToKeys(store) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") letGo(store, event);
    const typing = event.target.closest?.("input, textarea, select");
    if (typing || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    KEYS[event.key.toLowerCase()]?.(store, event);
  });
}

const KEYS = {
  "/": (store, event) => {
    event.preventDefault();
    document.querySelector("[data-testid=source]")?.focus();
  },
  x: () => document.querySelector("[data-testid=switch]:enabled")?.click(),
  arrowleft: (store, event) => movePin(store, -1, event),
  arrowright: (store, event) => movePin(store, 1, event),
};

function letGo(store, event) {
  if (document.querySelector(".menu:not([hidden])")) return;
  if (event.target.blur && event.target.closest?.("[data-axis]")) event.target.blur();
  store.set({ pin: null, hover: null, path: null });
}

function movePin(store, by, event) {
  const { pin: place } = store.state;
  if (!place) return;
  const next = { ...place, index: place.index + by };
  const there = document.querySelector(`[data-axis="${next.axis}"][data-index="${next.index}"]`);
  if (!there) return;
  event.preventDefault();
  pin(store, next);
}
