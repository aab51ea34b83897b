// Questions to the server: what is asked when, and where its answers go in the store.

import * as api from "./api.js";
import { decodingOf } from "./ask.js";
import { taskOf } from "./tasks.js";

const ALTERNATIVES = 5;

export function createAsking(store) {
  let control = new AbortController();

  // Ask all chosen runs about the text, from the beginning; a question still open is dropped.
  async function ask({ keepPin = false } = {}) {
    control.abort();
    control = new AbortController();
    const { text, run, runs, other } = store.state;
    const task = taskOf(runs.find((each) => each.name === run));
    const fresh = { answers: {}, drafts: {}, path: null, hover: null, error: null };
    if (text.trim() === "" && !task.fromNothing) {
      store.set({ ...fresh, error: "Type a sentence first." });
      return;
    }
    store.set({ drafts: {}, path: null, hover: null, error: null, ...(keepPin ? {} : { pin: null }) });
    await Promise.all(
      [run, other].filter(Boolean).map((name) => working(() => askRun(name, control.signal))),
    );
  }

  async function askRun(name, signal) {
    const off = store.state.off[name];
    const anyOff = Object.keys(off ?? {}).length > 0;
    const all = anyOff ? await whole(request(name, {}), signal) : null;
    const tell = (text) => store.set({ drafts: { ...store.state.drafts, [name]: text } });
    const found = await api.stream(request(name, off ?? {}), tell, signal);
    const now = found.predictions[0];
    const drafts = { ...store.state.drafts, [name]: undefined }; // the answer stands where it grew
    keep(name, { now, searched: now, all: all ?? now, seconds: found.seconds }, { drafts });
    if (store.state.off[name] !== off) await askAgain(name); // switched while it spoke
    else await fetchChosen([name]);
  }

  // Heads were switched: the same question again, beside the answer with all of them on.
  async function askAgain(name) {
    const answer = store.state.answers[name];
    if (!answer) return;
    await working(async () => {
      const off = store.state.off[name];
      const now = await whole(request(name, off ?? {}), control.signal);
      if (store.state.off[name] !== off) return; // answers may overtake each other
      keep(name, { ...store.state.answers[name], now, searched: now });
      await fetchChosen([name]);
    });
  }

  // A path of the beam tree is looked at, or the returned one again.
  async function followPath() {
    const { path, answers, run } = store.state;
    if (!path) {
      for (const [name, answer] of Object.entries(answers)) {
        if (answer.now !== answer.searched) keep(name, { ...answer, now: answer.searched });
      }
      await fetchChosen();
      return;
    }
    const name = path.run ?? run;
    const body = { ...request(name, store.state.off[name] ?? {}), output_ids: path.ids, tree: false };
    await working(async () => {
      const now = await whole(body, control.signal);
      if (store.state.path !== path) return;
      keep(name, { ...store.state.answers[name], now });
      await fetchChosen([name]);
    });
  }

  // Of a long text only one head comes whole, or the average of all: fetch the chosen one.
  async function fetchChosen(names = Object.keys(store.state.answers)) {
    const { kind, layer, head } = store.state;
    const wanted = `${layer} ${head}`;
    for (const name of names) {
      const answer = store.state.answers[name];
      const attention = answer.now.attention.find((each) => each.kind === kind) ?? answer.now.attention[0];
      const there = attention?.chosen !== null && (attention?.wanted ?? "null null") === wanted;
      if (!attention || attention.scale === 1 || there) continue;
      const said = answer.now.target.tokens.filter((token) => !token.given);
      const ids = said.map((token) => token.id);
      const choice = {
        kinds: [attention.kind],
        layer: attention.layers[layer]?.name ?? null,
        head: layer === null ? null : head,
      };
      await working(async () => {
        const body = {
          ...request(name, store.state.off[name] ?? {}),
          attention: choice,
          output_ids: ids,
          tree: false,
          alternatives: 0,
        };
        const [fetched] = (await whole(body, control.signal)).attention;
        const { state } = store;
        const current = state.answers[name];
        if (current?.now.target !== answer.now.target) return; // of another text, path or heads
        if (state.kind !== kind || state.layer !== layer || state.head !== head) return;
        // Alone, a kind may be small enough to come whole.
        const chosen = { chosen: fetched.chosen, wanted };
        const heads = current.now.attention.map((each) => {
          if (each.kind !== attention.kind) return each;
          return fetched.scale === 1 ? fetched : { ...each, ...chosen };
        });
        const now = { ...current.now, attention: heads };
        const searched = current.now === current.searched ? now : current.searched;
        keep(name, { ...current, now, searched });
      });
    }
  }

  function request(name, off) {
    const { runs, text, decoding } = store.state;
    const summary = runs.find((run) => run.name === name);
    const { attention, searches } = summary;
    const kinds = attention.map((each) => each.kind);
    return {
      run: name,
      texts: [text],
      decoding: decodingOf(decoding, taskOf(summary)),
      attention: kinds.length ? { kinds } : null,
      alternatives: ALTERNATIVES,
      tree: searches && decoding.method !== "sample",
      heads_off: off,
    };
  }

  async function whole(body, signal) {
    return (await api.post("v1/predict", body, signal)).predictions[0];
  }

  function keep(name, answer, more = {}) {
    store.set({ answers: { ...store.state.answers, [name]: answer }, ...more });
  }

  async function working(work) {
    store.set({ busy: store.state.busy + 1 });
    try {
      await work();
    } catch (error) {
      if (error.name !== "AbortError") store.set({ error: error.message });
    } finally {
      store.set({ busy: store.state.busy - 1 });
    }
  }

  return { ask, askAgain, followPath, fetchChosen };
}
