"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const NS = document.querySelector("svg").namespaceURI;
  const { maps, chosen } = JSON.parse($("data").textContent);
  const MANY = 60; // tokens beyond which only chosen lines are drawn, and cells on a canvas
  const now = { map: 0, layer: 0, head: -1, focus: {}, pinned: null };

  // --- numbers ---

  const decoded = new Map();
  function layerOf(map, place) {
    const layer = map.layers[place];
    if (!decoded.has(layer)) {
      const bytes = atob(layer.weights);
      const values = new Float32Array(bytes.length / 2);
      for (let i = 0; i < values.length; i++) {
        const whole = bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1);
        values[i] = (whole / 65535) * layer.scale;
      }
      decoded.set(layer, values);
    }
    return decoded.get(layer);
  }

  function headOf(map, layer, head) {
    const size = map.target.length * map.source.length;
    const values = layerOf(map, layer);
    if (head >= 0) return values.subarray(head * size, (head + 1) * size);
    const heads = map.layers[layer].heads;
    const mean = new Float32Array(size);
    for (let h = 0; h < heads; h++) {
      for (let i = 0; i < size; i++) mean[i] += values[h * size + i] / heads;
    }
    return mean;
  }

  const map = () => maps[now.map];
  let weights = []; // of what is shown, query by query
  const many = () => Math.max(map().source.length, map().target.length) > MANY;
  const weight = (q, k) => weights[q * map().source.length + k];

  // --- making things ---

  function make(tag, attributes = {}, text = null) {
    const svg = ["path", "rect", "text", "tspan", "svg", "g"].includes(tag);
    const made = svg ? document.createElementNS(NS, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== null) made.textContent = text;
    return made;
  }

  function short(text, most) {
    const letters = Array.from(text);
    return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
  }

  /** Write a word; the mark of a space before it stays faint. */
  function write(place, word, most) {
    const text = short(word, most), marked = text.length > 1 && text.startsWith("▁");
    const inside = place.namespaceURI === NS ? "tspan" : "span";
    if (marked) place.append(make(inside, { class: "gap" }, "▁"));
    place.append(marked ? text.slice(1) : text);
    return place;
  }

  const plain = (word) => short(word.length > 1 ? word.replace(/^▁/, "") : word, 24);
  const every = (tokens) => tokens.map((_, place) => place);
  const greatest = (values) => values.reduce((most, value) => Math.max(most, value), 1e-6);

  // --- the sentence ---

  function showTokens() {
    const sides = [["keys", "k", map().source], ["queries", "q", map().target]];
    for (const [id, side, tokens] of sides) {
      $(id).replaceChildren(...tokens.map((token, place) => {
        const button = write(make("button", { class: "token", dir: "auto", title: token }), token, 80);
        const here = { [side]: place };
        button.addEventListener("pointerenter", () => look(here));
        button.addEventListener("pointerleave", () => look({}));
        button.addEventListener("focus", () => look(here));
        button.addEventListener("blur", () => look({}));
        button.addEventListener("click", () => pin(here));
        button.addEventListener("keydown", (event) => walk(event, side, place));
        return button;
      }));
    }
    $("view").classList.remove("upright");
    $("view").classList.toggle("flowing", many());
    const fits = $("tokens").scrollWidth <= $("tokens").clientWidth + 1;
    $("view").classList.toggle("upright", !fits && !many());
  }

  function walk(event, side, place) {
    const upright = $("view").classList.contains("upright");
    const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
    const [back, on, ...across] = upright ? [...keys.slice(2), ...keys.slice(0, 2)] : keys;
    const row = (of) => (of === "k" ? $("keys") : $("queries")).children;
    let next = null;
    if (event.key === back) next = row(side)[place - 1];
    if (event.key === on) next = row(side)[place + 1];
    if (across.includes(event.key)) {
      const other = row(side === "k" ? "q" : "k");
      next = other[Math.min(place, other.length - 1)];
    }
    if (next) {
      event.preventDefault();
      next.focus();
    }
  }

  function line(q, k, strength) {
    const from = $("keys").children[k], to = $("queries").children[q];
    const middle = (token) => [
      token.offsetLeft + token.offsetWidth / 2,
      token.offsetTop + token.offsetHeight / 2,
    ];
    const [x1, y1] = middle(from), [x2, y2] = middle(to);
    let shape;
    if ($("view").classList.contains("upright")) {
      const start = x1 + from.offsetWidth / 2 + 2, end = x2 - to.offsetWidth / 2 - 2;
      const half = (start + end) / 2;
      shape = `M${start},${y1} C${half},${y1} ${half},${y2} ${end},${y2}`;
    } else {
      const start = y1 + from.offsetHeight / 2 + 2, end = y2 - to.offsetHeight / 2 - 2;
      const half = (start + end) / 2;
      shape = `M${x1},${start} C${x1},${half} ${x2},${half} ${x2},${end}`;
    }
    const w = weight(q, k);
    return make("path", {
      d: shape, "stroke-width": (0.75 + 4 * w).toFixed(2), "stroke-opacity": strength(w).toFixed(3),
    });
  }

  function lines(queries, keys, least, strength) {
    const found = [];
    for (const q of queries) {
      for (const k of keys) if (weight(q, k) >= least) found.push(line(q, k, strength));
    }
    return found;
  }

  // --- the matrix ---

  let cell = 0, left = 0, top = 0;
  function showMatrix() {
    const { source, target } = map();
    const room = $("view").clientWidth - 32;
    const longest = (tokens) => Math.max(0, ...tokens.map((token) => Math.min(Array.from(token).length, 12)));
    left = many() ? 0 : 16 + 8 * longest(target);
    top = many() ? 0 : 16 + 6 * longest(source);
    const widest = Math.floor((room - left - 48) / Math.max(source.length, 1));
    const tallest = many() ? Math.floor(800 / target.length) : 28;
    cell = Math.max(many() ? 2 : 14, Math.min(28, widest, tallest));
    const most = greatest(weights);
    (many() ? paintCells : drawCells)(source, target, most);
    const hint = many() ? "Point at a word to see its lines." : "Lines from 0.02 on.";
    $("note").textContent =
      `A row is who looks, a column what it looks at; the darkest is ${most.toFixed(2)}. ${hint}`;
  }

  function drawCells(source, target, most) {
    const width = left + source.length * cell + 56, height = top + target.length * cell + 4;
    const svg = make("svg", { width, height, role: "img", "aria-label": "attention matrix" });
    source.forEach((token, k) => {
      const x = left + (k + 0.5) * cell + 4, y = top - 6;
      svg.append(write(make("text", { transform: `translate(${x},${y}) rotate(-45)` }), token, 12));
    });
    target.forEach((token, q) => {
      const y = top + q * cell;
      const place = { x: left - 8, y: y + cell / 2 + 5, "text-anchor": "end" };
      svg.append(write(make("text", place), token, 12));
      source.forEach((_, k) => {
        const box = { x: left + k * cell + 1, y: y + 1, width: cell - 2, height: cell - 2, rx: 3 };
        svg.append(make("rect", { ...box, class: "empty" }));
        const share = weight(q, k) / most;
        if (share > 0.004) svg.append(make("rect", { ...box, "fill-opacity": share.toFixed(3) }));
      });
    });
    svg.append(make("g", { id: "frames" }));
    $("matrix").replaceChildren(svg);
  }

  function paintCells(source, target, most) {
    const canvas = make("canvas");
    canvas.width = source.length * cell;
    canvas.height = target.length * cell;
    const ink = getComputedStyle(document.body).getPropertyValue("--ink").trim();
    const paint = canvas.getContext("2d");
    for (let q = 0; q < target.length; q++) {
      for (let k = 0; k < source.length; k++) {
        paint.fillStyle = `rgb(${ink} / ${weight(q, k) / most})`;
        paint.fillRect(k * cell, q * cell, cell, cell);
      }
    }
    $("matrix").replaceChildren(canvas);
  }

  $("matrix").addEventListener("pointermove", (event) => {
    const box = $("matrix").getBoundingClientRect();
    const k = Math.floor((event.clientX - box.left + $("matrix").scrollLeft - left) / cell);
    const q = Math.floor((event.clientY - box.top + $("matrix").scrollTop - top) / cell);
    const inside = q >= 0 && q < map().target.length && k < map().source.length;
    look(inside ? (k < 0 ? { q } : { q, k }) : {});
  });
  $("matrix").addEventListener("pointerleave", () => look({}));
  $("matrix").addEventListener("click", () => now.focus.q !== undefined && pin({ q: now.focus.q }));

  // --- the heads ---

  function showHeads() {
    $("heads").replaceChildren(...map().layers.map((layer, place) => {
      const row = make("div", { class: "layer" });
      row.style.setProperty("--heads", layer.heads);
      const all = make("button", { title: `${layer.name}: average of its heads` }, layer.short);
      all.addEventListener("click", () => choose(place, -1));
      row.append(all);
      for (let head = 0; head < layer.heads; head++) {
        const button = make("button", { class: "thumb", title: `${layer.name}, head ${head}` });
        button.append(thumbnail(headOf(map(), place, head)));
        button.addEventListener("click", () => choose(place, head));
        row.append(button);
      }
      return row;
    }));
  }

  function thumbnail(values) {
    const canvas = make("canvas"), columns = map().source.length, rows = map().target.length;
    canvas.width = Math.max(columns, 1);
    canvas.height = Math.max(rows, 1);
    const ink = getComputedStyle(document.body).getPropertyValue("--ink").split(" ").map(Number);
    const image = new ImageData(canvas.width, canvas.height);
    values.forEach((value, i) => image.data.set([...ink, Math.round(255 * Math.min(value, 1))], 4 * i));
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  function markHeads() {
    [...$("heads").children].forEach((row, layer) => {
      [...row.children].forEach((button, head) => {
        const here = layer === now.layer && head - 1 === now.head;
        button.setAttribute("aria-pressed", String(here));
      });
    });
  }

  // --- what is looked at ---

  function light() {
    const focus = Object.keys(now.focus).length ? now.focus : now.pinned || {};
    const { source, target } = map();
    const { q, k } = focus;
    const byQuery = q !== undefined, some = byQuery || k !== undefined;
    $("view").classList.toggle("lit", some);
    const loud = some ? lines(byQuery ? [q] : every(target), byQuery ? every(source) : [k], 0.005, Math.sqrt) : [];
    $("loud").replaceChildren(...loud);
    [...$("keys").children].forEach((token, place) => ink(token, byQuery ? weight(q, place) : 0, !byQuery && place === k));
    [...$("queries").children].forEach((token, place) => ink(token, some && !byQuery ? weight(place, k) : 0, place === q));
    frame(q, k);
    tell(focus);
  }

  function ink(token, value, chosen) {
    token.style.setProperty("--w", Math.min(value, 1).toFixed(3));
    token.classList.toggle("chosen", chosen);
    token.classList.toggle("partner", value >= 0.05);
  }

  function frame(q, k) {
    const frames = $("frames");
    if (!frames) return;
    const { source, target } = map();
    const boxes = [];
    if (q !== undefined) boxes.push({ x: left, y: top + q * cell, width: source.length * cell, height: cell });
    if (k !== undefined) boxes.push({ x: left + k * cell, y: top, width: cell, height: target.length * cell });
    frames.replaceChildren(...boxes.map((box) => make("rect", { ...box, class: "frame", rx: 5 })));
  }

  function tell({ q, k }) {
    const { source, target, layers } = map();
    const where = `${layers[now.layer].short}, ${now.head < 0 ? "average" : `head ${now.head}`}`;
    let title = `point at a word · ${where}`, pairs = [];
    if (q !== undefined) {
      title = `“${plain(target[q])}” looks at · ${where}`;
      pairs = source.map((token, place) => [token, weight(q, place), place === k]);
    } else if (k !== undefined) {
      title = `“${plain(source[k])}” is looked at by · ${where}`;
      pairs = target.map((token, place) => [token, weight(place, k), false]);
    }
    $("who").textContent = title;
    pairs.sort((a, b) => b[2] - a[2] || b[1] - a[1]);
    $("weights").replaceChildren(...pairs.slice(0, 6).map(([token, value]) => {
      const row = make("tr"), bar = make("td"), fill = make("i");
      fill.style.width = `${(100 * Math.min(value, 1)).toFixed(1)}%`;
      bar.append(fill);
      const word = write(make("td", { title: token, dir: "auto" }), token, 40);
      row.append(word, bar, make("td", {}, value.toFixed(2)));
      return row;
    }));
  }

  function look(focus) {
    now.focus = focus;
    light();
  }

  function pin(focus) {
    const same = JSON.stringify(now.pinned) === JSON.stringify(focus);
    now.pinned = same ? null : focus;
    light();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    now.pinned = null;
    if (document.activeElement) document.activeElement.blur();
    look({});
  });

  // --- choosing ---

  function choose(layer, head) {
    now.layer = layer;
    now.head = head;
    weights = headOf(map(), layer, head);
    draw();
  }

  function draw() {
    const { source, target } = map();
    $("quiet").replaceChildren(...(many() ? [] : lines(every(target), every(source), 0.02, (w) => 0.3 * w)));
    showMatrix();
    markHeads();
    light();
  }

  function enter(place, layer = maps[place].layers.length - 1, head = -1) {
    Object.assign(now, { map: place, focus: {}, pinned: null });
    [...$("kinds").children].forEach((button, kind) => button.setAttribute("aria-pressed", String(kind === place)));
    showTokens();
    showHeads();
    choose(layer, head);
  }

  document.querySelector("main").hidden = false;
  $("kinds").hidden = maps.length < 2;
  $("kinds").style.display = maps.length < 2 ? "none" : "";
  maps.forEach(({ kind }, place) => {
    const button = make("button", {}, kind);
    button.addEventListener("click", () => enter(place));
    $("kinds").append(button);
  });
  enter(chosen.map, chosen.layer, chosen.head);

  let wide = document.body.clientWidth;
  addEventListener("resize", () => {
    if (wide === document.body.clientWidth) return; // a phone's address bar comes and goes
    wide = document.body.clientWidth;
    showTokens();
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    showHeads();
    draw();
  });
})();
