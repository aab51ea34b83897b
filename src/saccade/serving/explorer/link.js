// A link that restores the view: what was chosen stands in the address, behind the #.

const WORDS = ["run", "other", "text", "view", "unit", "kind", "page"];
const METHODS = ["greedy", "beam", "sample"];
const COUNTS = ["layer", "head"];
const DECODING = ["method", "beam", "choices", "temperature", "top_p", "seed", "length"];

export function toHash(state) {
  const parts = new URLSearchParams();
  for (const name of [...WORDS, ...COUNTS]) {
    if (state[name] !== null && state[name] !== "") parts.set(name, state[name]);
  }
  for (const name of DECODING) parts.set(name, state.decoding[name]);
  if (state.pin) parts.set("pin", `${state.pin.side} ${state.pin.axis} ${state.pin.index}`);
  const off = Object.entries(state.off).filter(([, layers]) => Object.keys(layers).length > 0);
  if (off.length) parts.set("off", JSON.stringify(Object.fromEntries(off)));
  return `#${parts}`;
}

// The part of a state that an address tells; what is not understood is left out.
export function fromHash(hash, before) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const found = {};
  for (const name of WORDS) if (parts.has(name)) found[name] = parts.get(name);
  for (const name of COUNTS) if (/^\d+$/.test(parts.get(name) ?? "")) found[name] = Number(parts.get(name));
  const decoding = { ...before.decoding };
  for (const name of DECODING) {
    if (!parts.has(name)) continue;
    const number = Number(parts.get(name));
    if (name !== "method" && Number.isFinite(number)) decoding[name] = number;
    if (name === "method" && METHODS.includes(parts.get(name))) decoding.method = parts.get(name);
  }
  if (found.page !== "runs") found.page = "explore";
  found.decoding = decoding;
  const pin = /^(source|target|read) (rows|columns) (\d+)$/.exec(parts.get("pin") ?? "");
  if (pin) found.pin = { side: pin[1], axis: pin[2], index: Number(pin[3]) };
  const off = headsOff(parts.get("off"));
  if (off) found.off = off;
  return found;
}

function headsOff(text) {
  try {
    const found = JSON.parse(text);
    const lists = Object.values(found).flatMap((layers) => Object.values(layers));
    return lists.every((list) => Array.isArray(list) && list.every(Number.isInteger)) ? found : null;
  } catch {
    return null;
  }
}
