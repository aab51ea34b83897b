// What words do when they are pointed at, clicked or walked along: the same in every view.

import { same } from "./store.js";

// Attributes for the element of a word. Touch does what hover does, by its click.
export function touchable(store, place, label) {
  const hover = (event) => event.pointerType !== "touch" && store.set({ hover: place });
  return {
    tabindex: "-1",
    role: "button",
    "aria-label": label,
    "data-axis": place.axis,
    "data-index": place.index,
    onpointerenter: hover,
    onpointerleave: () => same(store.state.hover, place) && store.set({ hover: null }),
    onclick: () => pin(store, place),
    onfocus: () => store.set({ hover: place }),
    onblur: () => same(store.state.hover, place) && store.set({ hover: null }),
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        pin(store, place);
      }
    },
  };
}

export function pin(store, place) {
  store.set({ pin: same(store.state.pin, place) ? null : place });
}

const ALONG = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

// Arrow keys move along the words of a picture: with the focus, or the pin when nothing has it.
export function walkable(root, upright) {
  const words = () => [...root.querySelectorAll("[data-axis]")];
  const first = words()[0];
  if (first) first.setAttribute("tabindex", "0");
  root.addEventListener("keydown", (event) => {
    const current = event.target.closest("[data-axis]");
    if (!current || !(event.key in ALONG)) return;
    const { axis, index } = current.dataset;
    const across = upright
      ? ["ArrowLeft", "ArrowRight"].includes(event.key)
      : ["ArrowUp", "ArrowDown"].includes(event.key);
    const next = across
      ? words().find((word) => word.dataset.axis !== axis && word.dataset.index === index)
      : words().find(
          (word) =>
            word.dataset.axis === axis && Number(word.dataset.index) === Number(index) + ALONG[event.key],
        );
    if (next) {
      event.preventDefault();
      words().forEach((word) => word.setAttribute("tabindex", word === next ? "0" : "-1"));
      next.focus();
    }
  });
}
