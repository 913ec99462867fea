// The frame of the dashboard: pages, live state, and the token.
import { ask, follow, get, onLocked, token } from "./api.js";
import { h, icon, put, say } from "./dom.js";
import { notesArea } from "./parts.js";
import overview from "./overview.js";
import { queues, queue } from "./queues.js";
import message from "./message.js";
import { backends, routes } from "./traffic.js";
import { selfTest, selfTestReport } from "./selftest.js";
import { configuration, events } from "./system.js";

/** live is what the gateway tells as it changes. */
export const live = {
  online: null,
  tick: null, // the last one, without the lists
  queues: new Map(),
  backends: new Map(),
  notes: [], // the latest events, the latest first
  watchers: new Set(),
};

/** watch calls f at every change until the page is left. */
function watch(f) {
  live.watchers.add(f);
  leaving.push(() => live.watchers.delete(f));
}

const pages = [
  { path: "", name: "Overview", icon: "overview", show: overview },
  { path: "queues", name: "Queues", icon: "queues", show: queues, one: queue },
  { path: "routes", name: "Routes", icon: "routes", show: routes },
  { path: "backends", name: "Backends", icon: "backends", show: backends },
  { path: "events", name: "Events", icon: "events", show: events },
  { path: "config", name: "Configuration", icon: "config", show: configuration },
  { path: "selftest", name: "Self-test", icon: "selftest", show: selfTest, one: selfTestReport },
  { path: "messages", one: message, under: "queues" },
];

const root = document.getElementById("app");
const main = h("main", { id: "main", tabindex: "-1" });
const state = h("p", { class: "state", role: "status" });
const banner = h("div", { class: "banner", role: "alert", hidden: true });
const version = h("p", { class: "version" });
const links = new Map();
let leaving = [];
let stopFollowing = () => {};

function shell() {
  const list = pages.filter((p) => p.name).map((p) => {
    const a = h("a", { href: "#/" + p.path }, icon(p.icon), h("span", null, p.name), h("span", { class: "mark" }));
    links.set(p.path, a);
    return h("li", null, a);
  });
  const nav = h("nav", { class: "side", "aria-label": "Pages" }, h("a", { class: "brand", href: "#/" }, h("img", { src: "/ui/icon.svg", alt: "", width: 24, height: 24 }), "Soapway"), h("ul", null, list), h("div", { class: "side-foot" }, state, version, h("div", { class: "side-buttons" }, themeButton(), lockButton())));
  put(root, nav, h("div", { class: "content" }, banner, main), notesArea());
}

/** themeButton goes from the system's colours to light to dark. */
function themeButton() {
  const order = ["auto", "light", "dark"];
  const words = { auto: "Colours: system", light: "Colours: light", dark: "Colours: dark" };
  let now = localStorage.getItem("soapway.theme") || "auto";
  const b = h("button", { type: "button", class: "icon-button", onclick: () => set(order[(order.indexOf(now) + 1) % 3]) }, icon("theme"));
  const set = (t) => {
    now = order.includes(t) ? t : "auto";
    localStorage.setItem("soapway.theme", now);
    document.documentElement.dataset.theme = now;
    b.setAttribute("aria-label", words[now]);
    b.title = words[now];
  };
  set(now);
  return b;
}

/** lockButton forgets the token, where there is one. */
function lockButton() {
  return token.get() && h("button", { type: "button", class: "link-button", onclick: () => { token.set(""); location.reload(); } }, "Sign out");
}

/** askForToken shows the form for the token in place of everything. */
function askForToken(problem) {
  stopFollowing();
  leave();
  const wrong = token.get() !== "";
  token.set("");
  const input = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, spellcheck: "false" });
  const error = h("p", { class: "error", role: "alert" }, wrong ? "The gateway does not accept this token." : "");
  const form = h("form", { class: "login", onsubmit: async (e) => {
    e.preventDefault();
    token.set(input.value.trim());
    onLocked(() => {});
    try {
      await ask("GET", "/status");
      onLocked(askForToken);
      start();
    } catch (p) {
      token.set("");
      onLocked(askForToken);
      say(error, p.status === 401 ? "The gateway does not accept this token." : p.message);
      input.select();
    }
  } }, h("img", { src: "/ui/icon.svg", alt: "", width: 40, height: 40 }), h("h1", null, "Soapway"), h("label", { class: "field" }, h("span", null, "Admin token"), input), error, h("button", { class: "button primary" }, "Sign in"), h("p", { class: "hint" }, "It is admin.token of the configuration. This tab keeps it until it is closed."));
  put(root, h("main", { class: "login-page" }, form));
  input.focus();
}

function leave() {
  for (const f of leaving) f();
  leaving = [];
}

/** show makes the page that the address names. */
function show(moved) {
  leave();
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [first, ...rest] = path.split("/");
  const page = pages.find((p) => p.path === first && (rest.length ? p.one : p.show));
  for (const [p, a] of links) {
    if (p === (page && (page.under || page.path))) {
      a.setAttribute("aria-current", "page");
      const bar = a.closest("ul"); // in a narrow window it goes from side to side
      bar.scrollLeft = a.offsetLeft - bar.offsetLeft - (bar.clientWidth - a.offsetWidth) / 2;
    }
    else a.removeAttribute("aria-current");
  }
  if (!page) {
    location.replace("#/");
    return;
  }
  const halt = new AbortController();
  leaving.push(() => halt.abort());
  const view = h("div", { class: "page" });
  put(main, view);
  document.title = (page.name ? page.name + " – " : "") + "Soapway";
  const context = { live, watch, signal: halt.signal, query: new URLSearchParams(query || ""), onLeave: (f) => leaving.push(f) };
  if (rest.length) page.one(view, context, decodeURIComponent(rest.join("/")));
  else page.show(view, context);
  if (moved) {
    window.scrollTo(0, 0);
    (view.querySelector("h1") || main).focus({ preventScroll: true });
  }
}

function changed() {
  const t = live.tick;
  if (t) {
    put(state, h("span", { class: "dot " + (t.ready ? (t.degraded ? "warn" : "good") : "bad"), "aria-hidden": "true" }), t.ready ? (t.degraded ? "Ready, degraded" : "Ready") : "Not ready: " + (t.reasons || []).join(", "));
  }
  const dead = [...live.queues.values()].reduce((n, q) => n + q.dead + q.orphaned, 0);
  const out = [...live.backends.values()].filter((b) => b.state !== "up").length;
  mark("queues", dead, "dead or orphaned");
  mark("backends", out, "not up");
  for (const f of live.watchers) f(live);
}

function mark(path, n, words) {
  const el = links.get(path).querySelector(".mark");
  say(el, n ? (n > 999 ? "999+" : n) : "");
  el.title = n ? n + " " + words : "";
}

function received(kind, data) {
  switch (kind) {
    case "tick":
      for (const q of data.queues || []) live.queues.set(q.route, q);
      for (const b of data.backends || []) live.backends.set(b.name, b);
      for (const name of data.queues_gone || []) live.queues.delete(name);
      for (const name of data.backends_gone || []) live.backends.delete(name);
      live.tick = { ...data, at: performance.now(), before: live.tick };
      if (live.tick.before) live.tick.before.before = null;
      break;
    case "note":
      live.notes.unshift(data);
      live.notes.length = Math.min(live.notes.length, 1000);
      break;
    case "gap":
      live.notes = [];
      live.queues.clear();
      live.backends.clear();
      break;
  }
  if (!waiting) {
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (root.querySelector(".side")) changed();
    });
  }
}

let waiting = false; // the page is going to be told

function online(is) {
  live.online = is;
  banner.hidden = is;
  say(banner, is ? "" : "No connection to the gateway. What is shown may be old; it is tried again by itself.");
}

async function start() {
  onLocked(askForToken);
  let status;
  try {
    status = await get("/status");
  } catch (p) {
    if (p.status !== 401) {
      shell();
      put(main, h("div", { class: "page" }, h("h1", null, "Soapway"), h("p", null, p.message)));
      setTimeout(start, 3000);
    }
    return;
  }
  shell();
  say(version, status.version || "");
  stopFollowing();
  stopFollowing = follow({ onEvent: received, onState: online });
  show(false);
}

window.addEventListener("hashchange", () => root.querySelector(".side") && show(true));
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea, dialog")) return;
  const search = main.querySelector("input[type=search]");
  if (search) {
    e.preventDefault();
    search.focus();
  }
});
start();
