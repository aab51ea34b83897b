// Elements from data. Text only ever becomes a text node: nothing a user or a model wrote is markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function clear(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// Draw boxes anew; what had the focus in one of them, known by its data, has it again.
export function keepingFocus(boxes, draw) {
  const held = document.activeElement;
  const box = boxes.find((each) => each.contains(held));
  const data = [...(held?.attributes ?? [])].filter(({ name }) => name.startsWith("data-"));
  const alike = data.map(({ name, value }) => `[${name}="${CSS.escape(value)}"]`).join("") || "*";
  const at = box ? [...box.querySelectorAll(alike)].indexOf(held) : -1;
  draw();
  if (at >= 0 && !held.isConnected) box.querySelectorAll(alike)[at]?.focus({ preventScroll: true });
}

// An SVG picture that is `width` x `height` pixels and never stretched.
export function picture(width, height, label, ...children) {
  const size = { width: Math.ceil(width), height: Math.ceil(height) };
  return s(
    "svg",
    { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": label },
    ...children,
  );
}

let measuring = null;

// The width of a text in pixels, in the page's own font.
export function textWidth(text, font = "14px") {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return measuring.measureText(text).width;
}

// The text, cut to a width with an ellipsis. Grapheme by grapheme: no emoji is torn apart.
export function fitted(text, width, font = "14px") {
  if (text.length < 200 && textWidth(text, font) <= width) return text;
  const marks = [...new Intl.Segmenter().segment(text.slice(0, 200))].map((part) => part.segment);
  let [least, most] = [0, marks.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (textWidth(marks.slice(0, middle).join("") + "…", font) <= width) least = middle;
    else most = middle - 1;
  }
  return marks.slice(0, least).join("") + "…";
}

// Controls and blanks made visible; everything else as it is.
export function visible(text) {
  const shown = text
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/[\p{Cc}\p{Cs}\p{Cn}\u2028\u2029]/gu, "·");
  return shown.trim() === "" ? "␣" : shown;
}

// A piece of a word without the mark that says a space stood before it.
export function piece(text) {
  return visible(text.length > 1 ? text.replace(/^▁/, "") : text);
}

export function two(value) {
  return value.toFixed(2);
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
