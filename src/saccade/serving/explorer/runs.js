// The runs page: scores, learning curves, quality by length, and each run's card.

import * as api from "./api.js";
import { drawChart } from "./charts.js";
import { clear, h, plural } from "./dom.js";
import { hint } from "./side.js";

export async function drawRuns(box, store) {
  clear(box, hint("Reading the runs…"));
  let found;
  try {
    found = await Promise.all(store.state.runs.map((run) => api.details(run.name)));
  } catch (error) {
    return clear(box, h("p", { class: "problem" }, error.message));
  }
  if (store.state.page !== "runs") return box;
  const width = Math.min(box.clientWidth, 1240) - 74;
  const half = width > 936 ? (width - 16) / 2 : width;
  return clear(
    box,
    h(
      "section",
      { class: "card", "data-testid": "scores" },
      h("h1", {}, "Runs"),
      h("div", { class: "scroll" }, scoreTable(found, store)),
    ),
    h("section", { class: "card" }, h("h1", {}, "Learning curves"), curves(found, half)),
    h("section", { class: "card" }, h("h1", {}, "Quality by length"), byLength(found, half)),
    h("section", { class: "card" }, h("h1", {}, "Model cards"), found.map(card)),
  );
}

function scoreTable(found, store) {
  const metrics = [
    ...new Set(
      found.flatMap(
        ({ evaluations }) => evaluations.flatMap((each) => each.scores.map((score) => score.name)),
      ),
    ),
  ];
  const head = ["run", "model", "parameters", "evaluation", "examples", ...metrics];
  const rows = found.flatMap(({ summary, evaluations }) => {
    const sets = evaluations.length ? evaluations : [{ name: "–", examples: 0, scores: [] }];
    return sets.map((each, at) => scoreRow(summary, each, at === 0, metrics, store));
  });
  return h(
    "table",
    { class: "scores" },
    h(
      "thead",
      {},
      h("tr", {}, head.map((name, at) => h("th", { class: at > 1 && at !== 3 ? "number" : "" }, name))),
    ),
    h("tbody", {}, rows),
  );
}

function scoreRow(summary, evaluation, first, metrics, store) {
  const open = h(
    "button",
    {
      type: "button",
      class: "quiet strong",
      onclick: () => store.set({ run: summary.name, page: "explore" }),
    },
    summary.name,
  );
  const cells = metrics.map((name) => {
    const score = evaluation.scores.find((each) => each.name === name);
    return h(
      "td",
      { class: "number", title: score?.signature ?? "" },
      score ? score.value.toFixed(2) : "–",
    );
  });
  return h(
    "tr",
    {},
    h("td", {}, first ? open : ""),
    h("td", {}, first ? `${summary.model} ${summary.preset} ${summary.languages}` : ""),
    h("td", { class: "number" }, first ? summary.parameters.toLocaleString("en") : ""),
    h("td", {}, evaluation.name),
    h("td", { class: "number" }, evaluation.examples ? evaluation.examples.toLocaleString("en") : "–"),
    cells,
  );
}

function curves(found, width) {
  const names = [...new Set(found.flatMap((run) => Object.keys(run.curves)))];
  const order = [
    "loss",
    ...names.filter((name) => name.startsWith("dev")),
    ...names.filter((name) => name !== "loss" && !name.startsWith("dev")),
  ];
  const charts = order.filter((name) => names.includes(name)).map((name) => {
    const lines = found.filter((run) => run.curves[name]?.length).map(
      (run) => ({ name: run.summary.name, points: run.curves[name] }),
    );
    return h(
      "figure",
      {},
      h("figcaption", {}, `${name} by updates`),
      drawChart(width, 220, `${name} by updates`, lines),
    );
  });
  return charts.length ? h(
    "div",
    { class: "charts", "data-testid": "curves" },
    charts,
  ) : hint("Nothing was logged.");
}

// The same evaluation of all runs, one chart a score; bands of nearly equal size.
function byLength(found, width) {
  const sets = [...new Set(found.flatMap((run) => run.evaluations.map((each) => each.name)))];
  const charts = sets.flatMap((set) => {
    const runs = found.map(
      (run) => ({
        name: run.summary.name,
        bands: run.evaluations.find((each) => each.name === set)?.by_length ?? [],
      }),
    ).filter((run) => run.bands.length > 1);
    if (!runs.length) return [];
    const ticks = runs[0].bands.map((band, at) => [at, `${band.shortest}–${band.longest}`]);
    return Object.keys(runs[0].bands[0].scores).map((score) => {
      const lines = runs.map(
        (run) => ({
          name: run.name,
          points: run.bands.map((band, at) => [at, band.scores[score] ?? null]).filter(([, y]) => y !== null),
        }),
      ).filter((line) => line.points.length);
      const title = `${set}: ${score} by words of the text`;
      return h(
        "figure",
        {},
        h("figcaption", {}, title),
        drawChart(width, 220, title, lines, { ticks, dots: true }),
      );
    });
  });
  return charts.length ? h(
    "div",
    { class: "charts", "data-testid": "lengths" },
    charts,
  ) : hint("No evaluation kept its examples: `saccade eval` does.");
}

function card({ summary, card, config }) {
  const settings = Object.entries(config).map(([section, values]) =>
    h(
      "div",
      {},
      h("h3", {}, `[${section}]`),
      h(
        "dl",
        {},
        Object.entries(values).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
      ),
    ),
  );
  return h(
    "details",
    { "data-testid": "card" },
    h(
      "summary",
      {},
      h("strong", {}, summary.name),
      ` · ${summary.model}, ${plural(summary.parameters, "parameter")}`,
    ),
    h("pre", { class: "card-text" }, card || "This run has no card."),
    h("div", { class: "settings" }, settings),
  );
}
