// Talking to the gateway. The token, where there is one, lies in sessionStorage: it
// belongs to this origin with its port, and to this tab. A cookie would go to every
// other port of the same host, where the gateway itself may serve pages of others.

const storage = "soapway.token";

/** Problem is an answer that is a problem document (RFC 9457), or none at all. */
export class Problem extends Error {
  constructor(doc) {
    super(doc.detail || doc.title);
    this.type = (doc.type || "").replace("urn:soapway:problem:", "");
    this.status = doc.status;
    this.count = doc.count || 0;
    this.problems = doc.problems || [];
  }
}

export const token = {
  get: () => sessionStorage.getItem(storage) || "",
  set: (t) => (t ? sessionStorage.setItem(storage, t) : sessionStorage.removeItem(storage)),
};

let askForToken = () => {};

/** onLocked sets what is done when the gateway wants a token. */
export function onLocked(f) {
  askForToken = f;
}

function headers(more) {
  const h = new Headers(more);
  if (token.get()) h.set("Authorization", "Bearer " + token.get());
  return h;
}

async function problemOf(response) {
  let doc = { title: "The gateway answered " + response.status, status: response.status };
  if ((response.headers.get("Content-Type") || "").startsWith("application/problem+json")) doc = await response.json();
  const p = new Problem(doc);
  if (p.status === 401) askForToken(p);
  return p;
}

/** ask makes one request and returns the response, or throws a Problem. */
export async function ask(method, path, body, signal) {
  let response;
  try {
    response = await fetch("/api/v1" + path, {
      method,
      signal,
      headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }),
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      redirect: "error",
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem({ title: "The gateway does not answer", status: 0 });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** get asks for JSON. */
export async function get(path, query, signal) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query || {})) if (value) q.set(name, value);
  const text = q.toString();
  return (await ask("GET", path + (text ? "?" + text : ""), undefined, signal)).json();
}

/** post makes a change and returns its answer, if it has one. */
export async function post(path, body) {
  const r = await ask("POST", path, body);
  return r.status === 204 ? null : r.json();
}

/** remove is DELETE. */
export async function remove(path) {
  await ask("DELETE", path);
}

/** route and message are the paths of one. */
export const route = (name) => "/queues/" + encodeURIComponent(name);
export const message = (id) => "/messages/" + encodeURIComponent(id);

/**
 * follow reads the events of the gateway until stop is called, and comes back with
 * the last id whenever the connection breaks. EventSource cannot send the token.
 */
export function follow({ onEvent, onState }) {
  const halt = new AbortController();
  let last = "";
  let pause = 500;
  (async () => {
    while (!halt.signal.aborted) {
      try {
        const response = await fetch("/api/v1/events", {
          headers: headers(last ? { "Last-Event-ID": last } : {}),
          signal: halt.signal,
          credentials: "omit",
          cache: "no-store",
        });
        if (!response.ok) throw await problemOf(response);
        onState(true);
        pause = 500;
        for await (const e of events(response.body)) {
          if (e.id) last = e.id;
          onEvent(e.event, JSON.parse(e.data));
        }
      } catch (e) {
        if (halt.signal.aborted) return;
        if (e instanceof Problem && e.status === 401) return;
      }
      if (halt.signal.aborted) return;
      onState(false);
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(2 * pause, 10000);
    }
  })();
  return () => halt.abort();
}

/** events takes a stream of server-sent events apart. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const e = { event: "message", data: "" };
      for (const line of rest.slice(0, end).split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) e[line.slice(0, at)] = line.slice(at + 2);
      }
      if (e.data) yield e;
    }
  }
}
