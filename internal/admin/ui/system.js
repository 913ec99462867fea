// Events as they happen, and the configuration.
import { get, post } from "./api.js";
import { count, h, keyed, plural, put, since, when } from "./dom.js";
import { attempt, badge, button, confirm, empty, head } from "./parts.js";

const kinds = {
  dead: ["dead", "dead letter"],
  down: ["down", "backend down"],
  up: ["up", "backend is back"],
  clock: ["retrying", "clock"],
  reload: ["pending", "reload"],
  store: ["down", "store"],
  change: ["pending", "change"],
  selftest: ["pending", "self-test"],
  refused: ["retrying", "refused"],
};

export function events(view, { live, watch }) {
  const list = h("ol", { class: "events" });
  const none = empty("Nothing has happened yet", "Dead letters, backends that go down or come back, reloads, changes by operators and refused requests appear here.");
  const choice = h("select", { "aria-label": "Which events", onchange: () => update() }, h("option", { value: "" }, "All events"), Object.entries(kinds).map(([k, [, word]]) => h("option", { value: k }, word[0].toUpperCase() + word.slice(1))));
  const hold = h("button", { type: "button", class: "button", "aria-pressed": "false", onclick: () => { held = !held; hold.setAttribute("aria-pressed", String(held)); hold.textContent = held ? "Go on" : "Stand still"; update(); } }, "Stand still");
  put(view, head("Events", "The latest first. They are kept in memory only; the log and the audit file have more.", choice, hold), h("section", { class: "card flush" }, list, none));
  let held = false;
  let number = 0;
  const numbers = new WeakMap();
  const key = (e) => numbers.get(e) || (numbers.set(e, ++number), number);
  const show = keyed(list, key, (e) => {
    const [state, word] = kinds[e.kind] || ["pending", e.kind];
    const good = (e.kind === "change" || e.kind === "reload") && !e.ok;
    return {
      el: h("li", null, when(e.time, true), badge(good ? "down" : state, word + (good ? " failed" : "")), h("span", { class: "event-text" }, e.route && [h("a", { href: "#/queues/" + encodeURIComponent(e.route) + (e.kind === "dead" ? "?state=dead" : "") }, e.route), " "], e.backend && [h("strong", null, e.backend), " "], e.text, e.missed > 0 && h("span", { class: "sub" }, ` (${count(e.missed)} more like it before)`))),
      update() {},
    };
  });
  function update() {
    if (held) return;
    const wanted = live.notes.filter((e) => !choice.value || e.kind === choice.value).slice(0, 300);
    show(wanted);
    none.hidden = wanted.length > 0;
  }
  watch(update);
  update();
}

export function configuration(view, { signal }) {
  const box = h("div", { class: "cards" });
  put(view, head("Configuration", "What the file, the environment and the defaults came to. Secrets are hidden.", button("Reload", reload, "primary")), box);

  async function load() {
    let c;
    try {
      c = await get("/config", null, signal);
    } catch (e) {
      if (e.name !== "AbortError") put(box, empty("The configuration cannot be shown", e.message));
      return;
    }
    const r = c.reload;
    put(
      box,
      r && !r.ok && h("section", { class: "card problems", role: "alert" }, h("h2", null, "The last reload was refused"), h("p", null, `${since(r.time)} ago. The configuration of before stays in use. `, plural(r.problems.length, "problem"), ":"), h("ul", null, r.problems.map((p) => h("li", null, h("code", null, p))))),
      h("section", { class: "card" }, h("dl", { class: "facts" }, h("dt", null, "File"), h("dd", { class: "mono" }, c.path), h("dt", null, "In use since"), h("dd", null, when(c.loaded)), h("dt", null, "Last reload"), h("dd", null, r ? [badge(r.ok ? "up" : "down", r.ok ? "taken" : "refused"), " ", when(r.time)] : "none since the start"))),
      h("section", { class: "card flush", "aria-label": "Effective configuration" }, h("pre", { class: "config", tabindex: "0" }, h("code", null, c.text.split("\n").map(yamlLine)))),
    );
  }

  async function reload() {
    if (!(await confirm({ title: "Reload the configuration?", text: "The file is read again. It is taken as a whole, or, if it has a problem, not at all. No connection is dropped.", action: "Reload" }))) return;
    await attempt(() => post("/reload"), "The configuration is in use.");
    load();
  }
  load();
}

/** yamlLine colours the key of a line. */
function yamlLine(line) {
  const m = /^(\s*(?:- )?)([^\s:"]+|"[^"]*")(:)(.*)$/.exec(line);
  return m ? [m[1], h("span", { class: "yaml-key" }, m[2]), m[3], h("span", { class: m[4].includes("[redacted]") ? "yaml-hidden" : "yaml-value" }, m[4]), "\n"] : [line, "\n"];
}
