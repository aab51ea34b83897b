// Keys that work anywhere on the page.

import { pin } from "./touch.js";

export function listenToKeys(store) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select");
    if (event.key === "Escape") letGo(store, event);
    else if (!typing && event.key === "/") {
      event.preventDefault();
      document.querySelector("[data-testid=source]")?.focus();
    } else if (!typing && event.key.toLowerCase() === "x" && !event.ctrlKey && !event.metaKey && !event.altKey) {
      document.querySelector("[data-testid=switch]:enabled")?.click();
    } else if (!typing && store.state.pin && ["ArrowLeft", "ArrowRight"].includes(event.key) && !event.defaultPrevented) {
      movePin(store, event.key === "ArrowRight" ? 1 : -1, event);
    }
  });
}

function letGo(store, event) {
  if (document.querySelector(".menu:not([hidden])")) return;
  if (event.target.blur && event.target.closest?.("[data-axis]")) event.target.blur();
  store.set({ pin: null, hover: null, path: null });
}

function movePin(store, by, event) {
  const { pin: place } = store.state;
  const next = { ...place, index: place.index + by };
  const there = document.querySelector(`[data-axis="${next.axis}"][data-index="${next.index}"]`);
  if (!there) return;
  event.preventDefault();
  pin(store, next);
}
