// The first page: how it goes, and what needs somebody.
import { get } from "./api.js";
import { chart } from "./chart.js";
import { count, day, h, keyed, percent, plural, put, rate, say, since, span, took, until } from "./dom.js";
import { badge, cell, empty, head, plainly, setCell, table } from "./parts.js";

export default function overview(view, { live, watch, signal, onLeave }) {
  const tiles = {
    now: tile("Requests", "per second, now"),
    errors: tile("Failed", "last hour"),
    p50: tile("Median", "time to answer, last hour"),
    p99: tile("99 % within", "time to answer, last hour"),
    waiting: tile("Waiting", "stored messages, now", "#/queues"),
    dead: tile("Dead", "dead letters, now", "#/queues"),
  };
  const attention = h("ul", { class: "attention" });
  const attentionBox = h("section", { class: "card", "aria-labelledby": "attention" }, h("h2", { id: "attention" }, "Needs attention"), attention);
  const through = chart("Requests per second", (p, ago) => at(ago) + ": " + rate(p.requests / step) + " /s, " + count(p.failed) + " failed, " + count(p.delivered) + " stored messages delivered");
  const times = chart("Time to answer", (p, ago) => at(ago) + ": half within " + took(p.p50_ms) + ", 99 % within " + took(p.p99_ms));
  const depth = table("Stored messages by route", [{ label: "Route" }, { label: "Waiting", cls: "num" }, { label: "Dead", cls: "num" }, { label: "Oldest", cls: "num" }, { label: "State" }]);
  const nodes = table("Backends", [{ label: "Backend" }, { label: "State" }, { label: "Why" }]);
  const linkList = table("Links to other sites", [{ label: "Site" }, { label: "State" }, { label: "Waiting", cls: "num" }, { label: "Oldest", cls: "num" }, { label: "Sent per second", cls: "num" }, { label: "Certificate until" }, { label: "Why" }]);
  const linkBox = h("section", { class: "card", "aria-labelledby": "links", hidden: true }, h("h2", { id: "links" }, "Links to other sites"), linkList.el);
  const noQueues = empty("Nothing is stored", "Routes with delivery: queue or sync-then-queue appear here with what waits.");
  put(
    view,
    head("Overview"),
    h("div", { class: "tiles" }, Object.values(tiles).map((t) => t.el)),
    attentionBox,
    h("div", { class: "columns" }, h("section", { class: "card" }, through.el), h("section", { class: "card" }, times.el)),
    h("div", { class: "columns" }, h("section", { class: "card", "aria-labelledby": "depth" }, h("h2", { id: "depth" }, "Queues"), depth.el, noQueues), h("section", { class: "card", "aria-labelledby": "nodes" }, h("h2", { id: "nodes" }, "Backends"), nodes.el)),
    linkBox,
  );

  let step = 10;
  const at = (ago) => (ago === 0 ? "now" : span(ago * step) + " ago");
  const showQueues = keyed(depth.body, (q) => q.route, depthRow);
  const showLinks = keyed(linkList.body, (l) => l.name, linkRow);
  let links = [];
  const showBackends = keyed(nodes.body, (b) => b.name, backendRow);

  function update() {
    const t = live.tick;
    if (!t) return;
    say(tiles.now.value, rate(perSecond(t)));
    say(tiles.waiting.value, count(t.waiting));
    const list = [...live.queues.values()];
    const dead = list.reduce((n, q) => n + q.dead, 0);
    say(tiles.dead.value, count(dead));
    tiles.dead.el.classList.toggle("bad", dead > 0);
    depth.el.hidden = !list.length;
    noQueues.hidden = list.length > 0;
    showQueues(list.sort(byNeed));
    showBackends([...live.backends.values()].sort((a, b) => (a.state === "up") - (b.state === "up") || (a.name < b.name ? -1 : 1)));
    const needs = [...needed(live), ...neededOfLinks(links)];
    setCell(attention, needs.length ? needs : h("li", { class: "good" }, badge("up", "All is well"), h("span", null, "Every backend is up and no message needs a decision.")));
    attentionBox.classList.toggle("calm", !needs.length);
  }

  async function loadHour() {
    let hour;
    try {
      hour = await get("/history", null, signal);
    } catch {
      return; // the banner tells
    }
    step = hour.step_seconds;
    say(tiles.errors.value, percent(hour.hour.requests ? hour.hour.failed / hour.hour.requests : 0));
    say(tiles.errors.sub, `${count(hour.hour.failed)} of ${count(hour.hour.requests)}, last hour`);
    tiles.errors.el.classList.toggle("bad", hour.hour.failed > 0);
    say(tiles.p50.value, took(hour.hour.p50_ms));
    say(tiles.p99.value, took(hour.hour.p99_ms));
    const p = hour.points;
    through.update(p, [
      { cls: "area", area: true, values: p.map((x) => x.requests / step) },
      hour.hour.failed > 0 && { cls: "line bad", values: p.map((x) => x.failed / step) },
    ].filter(Boolean), `${plural(hour.hour.requests, "request")} in the last hour, ${count(hour.hour.failed)} failed, ${count(hour.hour.faults)} answered with a fault, ${count(hour.hour.refused)} refused.`, (v) => rate(v) + " /s");
    times.update(p, [
      { cls: "area soft", area: true, values: p.map((x) => x.p99_ms) },
      { cls: "line", values: p.map((x) => x.p50_ms) },
    ], hour.hour.requests ? `Half within ${took(hour.hour.p50_ms)} (line), 99 % within ${took(hour.hour.p99_ms)} (area).` : "No requests in the last hour.", took);
  }

  let linkTurn = 0;
  async function loadLinks() {
    if (!links.length && linkTurn++ % 10) return; // most gateways have none
    try {
      links = (await get("/links", null, signal)).links;
    } catch {
      return; // the banner tells
    }
    linkBox.hidden = !links.length;
    showLinks(links);
    update();
  }

  watch(update);
  update();
  loadHour();
  loadLinks();
  const timers = [setInterval(loadHour, 10000), setInterval(loadLinks, 2000), setInterval(update, 1000)];
  onLeave(() => timers.forEach(clearInterval));
}

function tile(label, sub, href) {
  const value = h("span", { class: "tile-value" }, "–");
  const small = h("span", { class: "tile-sub" }, sub);
  const inner = [h("span", { class: "tile-label" }, label), value, small];
  return { el: href ? h("a", { class: "tile", href }, inner) : h("div", { class: "tile" }, inner), value, sub: small };
}

/** perSecond is the rate between the last two ticks, 0 where they have stopped. */
function perSecond(t) {
  if (!t.before || performance.now() - t.at > 2500) return 0;
  const seconds = (new Date(t.time) - new Date(t.before.time)) / 1000;
  return seconds > 0 ? (t.total.requests - t.before.total.requests) / Math.max(1, seconds) : 0;
}

const waitingOf = (q) => q.pending + q.retrying + q.orphaned;

/** byNeed has routes with trouble first, then those with most that waits. */
function byNeed(a, b) {
  return (b.dead + b.orphaned > 0) - (a.dead + a.orphaned > 0) || waitingOf(b) - waitingOf(a) || (a.route < b.route ? -1 : 1);
}

function depthRow(q) {
  const waiting = cell("Waiting", "num");
  const dead = cell("Dead", "num");
  const oldest = cell("Oldest", "num");
  const state = cell("State");
  const el = h("tr", null, h("th", { scope: "row" }, h("a", { href: "#/queues/" + encodeURIComponent(q.route) }, q.route)), waiting, dead, oldest, state);
  return {
    el,
    update(q) {
      setCell(waiting, count(waitingOf(q)));
      setCell(dead, q.dead ? h("a", { class: "bad-text", href: `#/queues/${encodeURIComponent(q.route)}?state=dead` }, count(q.dead)) : "0");
      setCell(oldest, q.oldest ? since(q.oldest) : "–");
      setCell(state, queueState(q, true));
    },
  };
}

/** queueState is the state of a route's queue in badges. */
export function queueState(q, brief) {
  const out = [];
  if (q.paused) out.push(badge("paused"));
  if (q.held === "operator") out.push(badge("held", "backend held"));
  if (q.held === "credentials") out.push(badge("denied"));
  if (q.down) out.push(badge("down", "backend down" + (q.next_probe && !brief ? ", asked again " + until(q.next_probe) : "")));
  if (!q.destination) out.push(badge("orphaned", "route is gone"));
  if (q.stopped_keys) out.push(badge("retrying", plural(q.stopped_keys, "key") + " stopped"));
  if (q.loading) out.push(badge("pending", "being read"));
  return out.length ? out : [badge("up", "delivering")];
}

function backendRow(b) {
  const state = cell("State");
  const why = cell("Why", "wide");
  const el = h("tr", null, h("th", { scope: "row" }, h("a", { href: "#/backends" }, b.name)), state, why);
  return {
    el,
    update(b) {
      setCell(state, badge(b.state));
      setCell(why, reason(b) || "–");
    },
  };
}

/** modes says how messages go over a link. */
const modes = { push: "sends", "push-and-pull": "sends and fetches", accept: "the site connects" };

function linkRow(l) {
  const cells = { State: cell("State"), Waiting: cell("Waiting", "num"), Oldest: cell("Oldest", "num"), Rate: cell("Sent per second", "num"), Until: cell("Certificate until"), Why: cell("Why", "wide") };
  const under = h("span", { class: "under" });
  const el = h("tr", null, h("th", { scope: "row" }, l.name, under), Object.values(cells));
  return {
    el,
    update(l) {
      say(under, [modes[l.mode], l.peer].filter(Boolean).join(", "));
      setCell(cells.State, badge(l.state), l.seen && l.state !== "up" && h("span", { class: "under" }, "last seen " + since(l.seen) + " ago"));
      setCell(cells.Waiting, l.routes.length === 1 && l.lag_messages ? h("a", { href: "#/queues/" + encodeURIComponent(l.routes[0]) }, count(l.lag_messages)) : count(l.lag_messages));
      setCell(cells.Oldest, l.lag_messages ? span(l.lag_seconds) : "–");
      setCell(cells.Rate, l.routes.length ? rate(l.rate) : "–");
      setCell(cells.Until, l.certificate ? [day(l.certificate), h("span", { class: endsSoon(l.certificate) ? "under bad-text" : "under" }, until(l.certificate))] : "–");
      setCell(cells.Why, plainly(l.reason) || "–");
    },
  };
}

/** endsSoon tells certificates that somebody must look after: the gateway itself renews long before. */
const endsSoon = (time) => new Date(time) - Date.now() < 14 * 86400 * 1000;

function* neededOfLinks(links) {
  for (const l of links) {
    // Where routes lead over a link, their backend is what needs attention.
    if (l.state === "down" && !l.routes.length) yield h("li", null, badge("down", "link down"), h("span", null, `Link to ${l.name}: ${l.reason}`));
    if (l.certificate && endsSoon(l.certificate)) yield h("li", null, badge("retrying", "certificate"), h("span", null, `The certificate of the link with ${l.name} ends ${until(l.certificate)}`));
  }
}

/** reason says why a backend is as it is; alone says that its nodes are shown beside it. */
export function reason(b, calm, alone) {
  const out = b.nodes.filter((n) => !n.up).length;
  const text = [alone && b.nodes.length === 1 && b.reason === b.nodes[0].reason ? "" : plainly(b.reason)];
  if (b.nodes.length > 1 && out) text.push(`${out} of ${b.nodes.length} nodes are out`);
  if (!calm && b.next_probe && b.state === "down") text.push("asked again " + until(b.next_probe));
  return text.filter(Boolean).join("; ");
}

function* needed(live) {
  const item = (state, word, text, href, action) => h("li", null, badge(state, word), h("span", null, text), h("a", { href }, action));
  const t = live.tick;
  if (!t.ready) yield item("down", "not ready", (t.reasons || []).join(", "), "#/events", "See events");
  for (const d of t.degraded || []) yield item("down", "degraded", d, "#/events", "See events");
  for (const b of live.backends.values()) {
    if (b.state !== "up") yield item(b.state, undefined, `Backend ${b.name}: ${reason(b, true) || "no reason is known"}`, "#/backends", "See backends");
  }
  for (const q of [...live.queues.values()].sort(byNeed)) {
    const at = "#/queues/" + encodeURIComponent(q.route);
    if (q.orphaned) yield item("orphaned", undefined, `${plural(q.orphaned, "message")} of the removed route ${q.route} wait for you to move them`, at + "?state=orphaned", "Move or drop");
    if (q.dead) yield item("dead", undefined, `${plural(q.dead, "dead letter")} on ${q.route}`, at + "?state=dead", "Look at them");
    if (q.stopped_keys) yield item("retrying", "stopped", `${plural(q.stopped_keys, "order key")} of ${q.route} stand still for a dead letter`, at + "?state=dead", "Decide");
    if (q.paused) yield item("paused", undefined, `${q.route} is paused${waitingOf(q) ? ", " + plural(waitingOf(q), "message") + " wait" : ""}`, at, "Open");
  }
}
