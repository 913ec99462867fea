// Stored messages: all routes, and the browser of one.
import { ask, get, message as messageAt, post, remove, route as routeAt } from "./api.js";
import { count, h, icon, keyed, octets, plural, put, say, since, until, when } from "./dom.js";
import { queueState } from "./overview.js";
import { attempt, badge, button, cell, confirm, empty, field, head, note, plainly, setCell, table } from "./parts.js";

/** queues lists the routes that store or have stored messages. */
export function queues(view, { live, watch, onLeave }) {
  const list = table("Routes that store messages", [{ label: "Route" }, { label: "Pending", cls: "num" }, { label: "Retrying", cls: "num" }, { label: "Dead", cls: "num" }, { label: "Orphaned", cls: "num" }, { label: "Size", cls: "num" }, { label: "Oldest", cls: "num" }, { label: "State" }]);
  const none = empty("No route stores messages", "A route with delivery: queue, or sync-then-queue, stores messages and delivers them when its backend can be reached.");
  put(view, head("Queues", "Messages that wait for their backend, and those that need a decision."), h("section", { class: "card flush" }, list.el, none));
  const show = keyed(list.body, (q) => q.route, (q) => {
    const at = "#/queues/" + encodeURIComponent(q.route);
    const cells = Object.fromEntries(["Pending", "Retrying", "Dead", "Orphaned", "Size", "Oldest"].map((l) => [l, cell(l, "num")]));
    const state = cell("State");
    return {
      el: h("tr", null, h("th", { scope: "row" }, h("a", { href: at }, q.route)), Object.values(cells), state),
      update(q) {
        for (const name of ["Pending", "Retrying", "Dead", "Orphaned"]) {
          const n = q[name.toLowerCase()];
          setCell(cells[name], n ? h("a", { href: at + "?state=" + name.toLowerCase(), class: name === "Dead" || name === "Orphaned" ? "bad-text" : "" }, count(n)) : "0");
        }
        setCell(cells.Size, octets(q.bytes));
        setCell(cells.Oldest, since(q.oldest));
        setCell(state, queueState(q, true));
      },
    };
  });
  const update = () => {
    const items = [...live.queues.values()].sort((a, b) => (a.route < b.route ? -1 : 1));
    none.hidden = items.length > 0 || !live.tick;
    list.el.hidden = !items.length;
    show(items);
  };
  watch(update);
  update();
  const timer = setInterval(update, 1000);
  onLeave(() => clearInterval(timer));
}

const states = ["pending", "retrying", "dead", "orphaned"];
const pageSize = 100;

/** queue is the browser of one route. */
export function queue(view, { live, watch, signal, query, onLeave }, name) {
  const filter = Object.fromEntries(["state", "operation", "text", "since"].map((k) => [k, query.get(k) || ""]));
  const path = routeAt(name);
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "Which messages" });
  const status = h("p", { class: "queue-state" });
  const actions = h("div", { class: "actions" });
  const search = h("input", { type: "search", placeholder: "Id, order key or reason", "aria-label": "Part of the id, the order key or the reason", value: filter.text });
  const operation = h("input", { type: "search", placeholder: "Operation", "aria-label": "Operation", value: filter.operation });
  const body = h("tbody");
  const all = h("input", { type: "checkbox", "aria-label": "Select all that are shown" });
  const list = h("div", { class: "table-box" }, h("table", { class: "messages" }, h("caption", { class: "hidden" }, "Messages of " + name), h("thead", null, h("tr", null, h("th", { class: "tick" }, all), ["Message", "State", "Operation", "Accepted", "Attempts", "Reason"].map((l) => h("th", { scope: "col", class: l === "Attempts" ? "num" : "" }, l)))), body));
  const foot = h("div", { class: "list-foot" });
  const bulk = h("div", { class: "bulk" });
  const none = empty("", "");
  put(
    view,
    h("header", { class: "page-head" }, h("div", null, h("a", { class: "back", href: "#/queues" }, icon("back"), "Queues"), h("h1", { tabindex: "-1" }, name), status), actions),
    h("div", { class: "filters" }, tabs, h("form", { class: "search", role: "search", onsubmit: (e) => { e.preventDefault(); go({ text: search.value.trim(), operation: operation.value.trim() }); } }, search, operation, h("button", { class: "button" }, "Search"))),
    bulk,
    h("section", { class: "card flush" }, list, none, foot),
  );

  const tallies = ["", ...states].map((s) => {
    const tally = h("span", { class: "tab-count" });
    tabs.append(h("button", { type: "button", class: "tab", "data-state": s || "all", "aria-pressed": String(filter.state === s), onclick: () => go({ state: s }) }, s ? s[0].toUpperCase() + s.slice(1) : "All", tally));
    return [s, tally];
  });
  let entries = [];
  // Where the pages begin, from the first one to that which is shown: the page stays as
  // small with a million messages as with a hundred.
  let starts = [""];
  let next = "";
  let busy = false;
  let loading = null; // done when it is not busy any more
  let counts = "";
  const chosen = new Set();

  function go(change) {
    const q = new URLSearchParams(Object.entries({ ...filter, ...change }).filter(([, v]) => v));
    const to = "#/queues/" + encodeURIComponent(name) + (q.size ? "?" + q : "");
    if (to === location.hash) first();
    else location.hash = to;
  }

  const showRows = keyed(body, (e) => e.id, (e) => {
    const tick = h("input", { type: "checkbox", "aria-label": "Select message " + e.id, onchange: () => { tick.checked ? chosen.add(e.id) : chosen.delete(e.id); marks(); } });
    const state = cell("State");
    const attempts = cell("Attempts", "num");
    const why = cell("Reason", "wide reason");
    return {
      el: h("tr", null, h("td", { class: "tick" }, tick), h("th", { scope: "row", "data-label": "Message" }, h("a", { class: "mono", href: "#/messages/" + encodeURIComponent(e.id), title: e.id }, e.id), e.lane && h("span", { class: "lane", title: "order key" }, e.lane)), state, cell("Operation", "", e.operation || "–"), cell("Accepted", "", when(e.accepted)), attempts, why),
      update(e) {
        tick.checked = chosen.has(e.id);
        setCell(state, e.in_flight ? badge("pending", "under way") : badge(e.state), e.stops_key ? badge("dead", "stops its key") : e.waits_for ? badge("retrying", "waits for a dead letter") : null);
        setCell(attempts, count(e.attempts));
        const text = reasonOf(e, live.queues.get(name));
        setCell(why, h("span", { class: "clamp", title: text }, text));
      },
    };
  });

  /** marks shows what is selected, and what can be done with it. */
  function marks() {
    const shown = entries.filter((e) => chosen.has(e.id)).length;
    all.checked = shown > 0 && shown === entries.length;
    all.indeterminate = shown > 0 && shown < entries.length;
    const some = chosen.size > 0;
    const q = live.queues.get(name);
    const total = q ? totalOf(q) : 0;
    const narrowed = filter.text || filter.operation || filter.since;
    const whole = narrowed ? "all that match" : filter.state ? `all ${count(total)} ${filter.state}` : `all ${count(total)}`;
    const mayReplay = !filter.state || filter.state === "dead";
    setCell(
      bulk,
      h("span", { class: "bulk-label" }, some ? plural(chosen.size, "message") + " selected" : entries.length ? "With " + whole + ":" : ""),
      entries.length > 0 && [
        mayReplay && button(some ? "Replay" : "Replay " + (filter.state === "dead" ? "them" : "dead letters"), () => (some ? each("Replay", "replayed", (id) => post(messageAt(id) + "/replay")) : many("replay", whole))),
        button("Move…", () => move(some ? [...chosen] : null, whole)),
        button("Drop", () => (some ? each("Drop", "dropped", (id) => remove(messageAt(id)), true) : many("drop", whole)), "danger-quiet"),
        some && button("Clear selection", () => { chosen.clear(); showRows(entries); marks(); }, "quiet"),
      ],
    );
  }
  all.addEventListener("change", () => {
    for (const e of entries) all.checked ? chosen.add(e.id) : chosen.delete(e.id);
    showRows(entries);
    marks();
  });

  /** each changes the selected messages one by one, once that is confirmed. */
  async function each(action, done, change, danger) {
    const ids = [...chosen];
    if (!(await confirm({ title: `${action} ${plural(ids.length, "message")}?`, text: danger ? "They are gone for good: nobody delivers them, and they cannot be brought back." : "They wait again and are delivered when their turn comes. Where an attempt may have been processed they are marked as possible duplicates.", action: `${action} ${plural(ids.length, "message")}`, danger }))) return;
    let ok = 0;
    let failed = null;
    for (const id of ids) {
      try {
        await change(id);
        ok++;
      } catch (e) {
        failed = failed || e;
        if (e.status === 0 || e.status === 401) break;
      }
    }
    chosen.clear();
    if (ok) note(`${plural(ok, "message")} ${done}.`);
    if (failed) note(`${plural(ids.length - ok, "message")} not ${done}: ${failed.message}`, true);
    load();
  }

  /** wanted is the filter as the API takes it in a body. */
  function wanted() {
    return Object.fromEntries(Object.entries(filter).filter(([, v]) => v));
  }

  async function many(action, whole) {
    const drop = action === "drop";
    const verb = drop ? "Drop" : "Replay";
    if (!(await confirm({ title: `${verb} ${whole} of ${name}?`, text: drop ? "They are gone for good: nobody delivers them, and they cannot be brought back. Those under way at this moment stay." : "Dead letters wait again and are delivered when their turn comes.", action: verb, danger: drop }))) return;
    await attempt(() => post(path + "/" + action, wanted()), (r) => `${plural(r.count, "message")} ${drop ? "dropped" : "replayed"}.`);
    load();
  }

  async function move(ids, whole) {
    const routes = [...live.queues.values()].filter((q) => q.destination && q.route !== name && !q.route.includes("@")).map((q) => q.route);
    if (!routes.length) {
      note("There is no other route that stores messages.", true);
      return;
    }
    const what = ids ? plural(ids.length, "message") : whole;
    const answer = await confirm({ title: `Move ${what} of ${name}?`, text: "They keep their ids, attempts and order, and are delivered by the other route.", action: "Move", fields: [field("To route", h("select", { name: "to", required: true }, routes.map((r) => h("option", { value: r }, r))))] });
    if (!answer) return;
    await attempt(() => post("/queues/move", ids ? { to: answer.to, ids } : { to: answer.to, from: name, ...wanted() }), (r) => `${plural(r.count, "message")} moved to ${answer.to}.` + (r.busy ? ` ${plural(r.busy, "message")} under way stayed.` : ""));
    chosen.clear();
    load();
  }

  const first = () => ((starts = [""]), load());

  /** turn goes to the next page, or one back. */
  async function turn(forward) {
    while (busy) await loading; // somebody clicks fast
    if (forward ? !next : starts.length < 2) return;
    if (forward) starts.push(next);
    else starts.pop();
    chosen.clear();
    await load();
    view.querySelector(".filters").scrollIntoView({ block: "start" });
    (body.querySelector("th a") || status).focus({ preventScroll: true });
  }

  /** load gets the page that is shown anew. */
  function load() {
    if (!busy) loading = fetchPage();
    return loading;
  }

  async function fetchPage() {
    busy = true;
    list.setAttribute("aria-busy", "true");
    try {
      let page = await get(path + "/messages", { ...filter, limit: pageSize, after: starts.at(-1) }, signal);
      while (!page.messages.length && starts.length > 1) { // what was on it is gone
        starts.pop();
        page = await get(path + "/messages", { ...filter, limit: pageSize, after: starts.at(-1) }, signal);
      }
      entries = page.messages;
      next = page.next || "";
      for (const id of chosen) if (!entries.some((e) => e.id === id)) chosen.delete(id);
      showRows(entries);
      none.hidden = entries.length > 0;
      list.hidden = !entries.length;
      put(none, h("p", { class: "empty-title" }, filter.text || filter.operation ? "Nothing matches" : filter.state === "dead" ? "No dead letters" : "Nothing waits here"), h("p", null, filter.text || filter.operation ? h("a", { href: "#/queues/" + encodeURIComponent(name) + (filter.state ? "?state=" + filter.state : "") }, "Show all") : filter.state ? "Messages in the state " + filter.state + " appear here as they come." : "Every message was delivered."));
      put(foot, entries.length > 0 && h("span", { role: "status" }, shownOf()), (next || starts.length > 1) && h("span", { class: "pager" }, button("Previous page", () => turn(false), "", { disabled: starts.length < 2 }), button("Next page", () => turn(true), "", { disabled: !next })), page.loading && h("span", null, "The store is still being read: more may come."));
      marks();
    } catch (e) {
      if (e.name !== "AbortError") {
        none.hidden = false;
        list.hidden = entries.length === 0;
        put(none, h("p", { class: "empty-title" }, "The messages cannot be listed"), h("p", null, e.message));
      }
    } finally {
      busy = false;
      list.removeAttribute("aria-busy");
    }
  }

  /** shownOf says which messages are shown. */
  function shownOf() {
    if (!next && starts.length < 2) return plural(entries.length, "message") + ".";
    const from = (starts.length - 1) * pageSize + 1;
    const q = live.queues.get(name);
    const total = !q || filter.text || filter.operation || filter.since ? 0 : totalOf(q);
    return `Messages ${count(from)} to ${count(from + entries.length - 1)}` + (total >= from ? ` of ${count(total)}.` : ".");
  }

  const totalOf = (q) => (filter.state ? q[filter.state] : q.pending + q.retrying + q.dead + q.orphaned);

  async function act(action, text, question) {
    if (question && !(await confirm(question))) return;
    await attempt(() => post(path + "/" + action), text);
  }

  let shownActions = "";
  function update() {
    const q = live.queues.get(name);
    for (const [s, tally] of tallies) say(tally, count(q ? (s ? q[s] : q.pending + q.retrying + q.dead + q.orphaned) : 0));
    if (!q) {
      say(status, live.tick ? "Nothing of this route is stored." : "");
      return;
    }
    setCell(status, queueState(q), h("span", { class: "sub" }, [q.destination && "to " + q.destination, q.in_flight && plural(q.in_flight, "delivery", "deliveries") + " under way", q.oldest && "oldest " + since(q.oldest), q.last_error && "last error: " + plainly(q.last_error)].filter(Boolean).join(" · ")));
    const kind = [q.paused, q.held, q.destination].join();
    if (kind !== shownActions) {
      shownActions = kind;
      put(actions, [
        q.paused
          ? button("Resume", () => act("resume", name + " is resumed."), "primary")
          : button("Pause", () => act("pause", name + " is paused.", { title: `Pause ${name}?`, text: "No attempt is made until you resume it, also over a restart. Messages go on to be accepted, and to expire.", action: "Pause" })),
        button("Flush", () => act("flush", "All waiting messages are due now.", { title: `Make all messages of ${name} due now?`, text: "Those that wait for their next attempt are tried at once, and a backend that is down is asked.", action: "Flush" })),
        q.held === "operator"
          ? button("Release backend", () => act("release", `Backend ${q.destination} is released.`), "primary")
          : q.destination && button("Hold backend", () => act("hold", `Backend ${q.destination} is held.`, { title: `Hold ${q.destination}?`, text: "Nothing stored is sent to it, from any route, until you release it.", action: "Hold backend" })),
        button("Export", download),
      ]);
    }
    const now = [q.pending, q.retrying, q.dead, q.orphaned, q.in_flight].join();
    if (now !== counts) {
      counts = now;
      if (!chosen.size && !busy) load();
      else marks();
    }
  }

  async function download() {
    await attempt(async () => {
      const q = new URLSearchParams(Object.entries(wanted()));
      const blob = await (await ask("GET", path + "/export" + (q.size ? "?" + q : ""))).blob();
      const a = h("a", { href: URL.createObjectURL(blob), download: name.replace(/[^A-Za-z0-9_-]/g, "_") + ".tar" });
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 60000);
    });
  }

  body.addEventListener("keydown", (e) => {
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    const row = e.target.closest("tr");
    const to = e.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
    if (!to) return;
    e.preventDefault();
    to.querySelector(e.target.type === "checkbox" ? "input" : "a").focus();
  });
  watch(update);
  update();
  if (!counts) load();
  const timer = setInterval(update, 2000);
  onLeave(() => clearInterval(timer));
}

/** reasonOf is why a message is where it is. */
function reasonOf(e, q) {
  if (e.state === "dead") return [e.reason, plainly(e.text)].filter(Boolean).join(": ") || "–";
  const parts = [];
  if (q && (q.down || q.held || q.paused) && !e.in_flight && e.state !== "orphaned") parts.push(q.paused ? "waits for the route to be resumed" : "waits for the backend");
  else if (e.next_attempt && !e.in_flight) parts.push("next attempt " + until(e.next_attempt));
  parts.push(plainly(e.reason));
  return parts.filter(Boolean).join(" · ") || "–";
}
