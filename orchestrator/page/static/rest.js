// The orchestrator's REST interface, as this page uses it. The token stays in this tab.

const KEY = "qclimb-token";

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

// A refusal: `message` is the orchestrator's sentence, `errors` the fields that are wrong.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `status ${status}`);
    this.status = status;
    this.errors = problem.errors || [];
  }
}

async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${token.get()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  const found = answer.status === 204 ? null : await answer.json();
  const next = /<([^>]+)>; rel="next"/.exec(answer.headers.get("Link") || "");
  return next ? found.concat(await ask(method, next[1])) : found;
}

// Of a list in pages all of them.
export const get = (path) => ask("GET", path);
export const post = (path, body) => ask("POST", path, body);
export const put = (path, body) => ask("PUT", path, body);
export const remove = (path) => ask("DELETE", path);

// Server-sent events, by fetch: EventSource sends no token. Calls `heard(name, data)`; returns when the stream ends.
export async function listen(path, heard, signal) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${token.get()}` }, signal });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (left + value).split(/\r?\n\r?\n/);
    left = parts.pop();
    for (const part of parts) {
      const lines = part.split(/\r?\n/);
      const of = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
      if (of("data").length) heard(of("event")[0], JSON.parse(of("data").join("\n")));
    }
  }
}
