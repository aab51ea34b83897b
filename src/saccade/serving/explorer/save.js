// The current view as a file: SVG and PNG of its picture, or one HTML page that needs no network.

import { h } from "./dom.js";

const KEPT = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "visibility",
  "text-anchor",
  "text-decoration-line",
  "text-decoration-color",
];

export const FORMATS = { SVG: saveSvg, PNG: savePng, HTML: saveHtml };

// The pictures of the view: its SVGs, and canvases as images in one.
function pictures(view) {
  return [...view.querySelectorAll("svg, canvas.pixels")].filter(
    (each) => each.getBoundingClientRect().width > 0,
  );
}

// One drawing with all of them, below each other; colours and fonts stand in the elements.
export function asSvg(view) {
  const found = pictures(view);
  if (found.length === 0) return null;
  const root = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const [pad, gap] = [16, 24];
  let [y, width] = [pad, 0];
  for (const each of found) {
    const box = each.getBoundingClientRect();
    const copy = each instanceof HTMLCanvasElement ? asImage(each, box) : styled(each);
    copy.setAttribute("x", pad);
    copy.setAttribute("y", y);
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    root.append(copy);
    y += box.height + gap;
    width = Math.max(width, box.width);
  }
  const size = { width: Math.ceil(width + 2 * pad), height: Math.ceil(y - gap + pad) };
  root.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  root.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  for (const [name, value] of Object.entries(size)) root.setAttribute(name, value);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries(
    { ...size, fill: getComputedStyle(view).backgroundColor },
  )) paper.setAttribute(name, value);
  root.prepend(paper);
  return { text: new XMLSerializer().serializeToString(root), ...size };
}

function styled(svg) {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  from.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value) to[index].setAttribute(name, value);
    }
    for (const name of ["tabindex", "role", "class"]) to[index].removeAttribute(name);
  });
  return copy;
}

function asImage(canvas, box) {
  const large = h("canvas", { width: Math.ceil(box.width), height: Math.ceil(box.height) });
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, large.width, large.height);
  const image = document.createElementNS("http://www.w3.org/2000/svg", "image");
  image.setAttribute("href", large.toDataURL());
  return image;
}

function saveSvg(view, name) {
  const drawn = asSvg(view);
  if (drawn) download(new Blob([drawn.text], { type: "image/svg+xml" }), `${name}.svg`);
  return drawn !== null;
}

async function savePng(view, name) {
  const drawn = asSvg(view);
  if (!drawn) return false;
  const url = URL.createObjectURL(new Blob([drawn.text], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = h("canvas", { width: 2 * drawn.width, height: 2 * drawn.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  download(await new Promise((done) => canvas.toBlob(done, "image/png")), `${name}.png`);
  return true;
}

// One page: the serialiser has escaped all text, and what a pointer lights up is a rule, not a script.
function saveHtml(view, name) {
  const drawn = asSvg(view);
  if (!drawn) return false;
  const rules = [
    "body{margin:24px}svg{max-width:100%;height:auto}",
    "[data-testid=cell]:hover rect,[data-axis]:hover rect{stroke:#ad4b22;stroke-width:2}",
    "path:hover{stroke:#ad4b22;stroke-opacity:1}",
  ];
  const head = `<meta charset="utf-8"><title>${name}</title><style>${rules.join("")}</style>`;
  const page = `<!doctype html>\n<html lang="en"><head>${head}</head><body>${drawn.text}</body></html>\n`;
  download(new Blob([page], { type: "text/html" }), `${name}.html`);
  return true;
}

function download(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
