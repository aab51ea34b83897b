// The public HTTP API, and nothing else of the server.

export class Refused extends Error {
  constructor(sentence, field) {
    super(sentence);
    this.field = field;
  }
}

async function json(response) {
  const body = await response.json().catch(() => ({ error: `the server said ${response.status}` }));
  if (!response.ok) throw new Refused(body.error, body.field ?? null);
  return body;
}

export async function get(path) {
  return json(await reach(path));
}

export async function post(path, body, signal) {
  return json(await reach(path, asked(body, signal)));
}

export function runs() {
  return get("v1/runs");
}

export function details(name) {
  return get(`v1/runs/${encodeURIComponent(name)}`);
}

export function positions(name, size) {
  return get(`v1/runs/${encodeURIComponent(name)}/positions?size=${size}`);
}

// Server-sent events of a prediction: `tell` hears the drafts, the whole answer is returned.
export async function stream(body, tell, signal) {
  const response = await reach("v1/predict/stream", asked(body, signal));
  if (!response.ok) return json(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = []; // of the event on its way: a large one comes in hundreds of pieces
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refused("the server ended before its answer", null);
    parts.push(value);
    if (!value.includes("\n")) continue;
    const events = parts.join("").split("\n\n");
    parts = [events.pop()];
    for (const event of events) {
      const [name, data] = event.split("\n").map((line) => line.slice(line.indexOf(":") + 2));
      if (name === "draft") tell(JSON.parse(data).text);
      if (name === "done") return JSON.parse(data);
      if (name === "error") throw new Refused(JSON.parse(data).error, null);
    }
  }
}

function asked(body, signal) {
  const headers = { "content-type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body), signal };
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server does not answer; is saccade still running?", null);
  }
}
