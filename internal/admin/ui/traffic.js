// Routes and backends.
import { get } from "./api.js";
import { count, h, keyed, percent, put, took, until } from "./dom.js";
import { reason } from "./overview.js";
import { badge, cell, empty, head, plainly, setCell, table } from "./parts.js";

export function routes(view, { live, signal, watch, onLeave }) {
  const list = table("Routes in the order in which they are tried", [{ label: "Route" }, { label: "Takes" }, { label: "Backend" }, { label: "Delivery" }, { label: "Requests", cls: "num" }, { label: "Failed", cls: "num" }, { label: "50 %", cls: "num" }, { label: "99 %", cls: "num" }, { label: "Waiting" }]);
  put(view, head("Routes", "In the order in which they are tried; the first that fits takes the message. Figures are of the last hour."), h("section", { class: "card flush" }, list.el));
  const show = keyed(list.body, (r) => r.name, (r) => {
    const delivery = [r.delivery, r.assurance, r.order_by && "ordered by " + r.order_by, r.dedup && "dedup by " + r.dedup, r.reply && r.reply !== "discard" && "reply: " + r.reply].filter(Boolean);
    const [first, ...more] = delivery;
    const cells = Object.fromEntries(["Requests", "Failed", "50 %", "99 %"].map((l) => [l, cell(l, "num")]));
    const waiting = cell("Waiting");
    const backend = cell("Backend");
    const takes = cell("Takes", "wide");
    return {
      el: h("tr", null, h("th", { scope: "row" }, r.name), takes, backend, cell("Delivery", "", first, more.length > 0 && h("span", { class: "under" }, more.join(", "))), Object.values(cells), waiting),
      update(r) {
        setCell(takes, conditions(r));
        const b = live.backends.get(r.backend);
        setCell(backend, h("a", { href: "#/backends" }, r.backend), " ", b && b.state !== "up" && badge(b.state));
        setCell(cells.Requests, count(r.hour.requests));
        setCell(cells.Failed, r.hour.failed ? h("span", { class: "bad-text" }, percent(r.hour.failed / r.hour.requests)) : "0 %");
        setCell(cells["50 %"], took(r.hour.p50_ms));
        setCell(cells["99 %"], took(r.hour.p99_ms));
        const q = live.queues.get(r.name);
        setCell(waiting, q ? [h("a", { href: "#/queues/" + encodeURIComponent(r.name) }, count(q.pending + q.retrying)), " ", q.dead > 0 && badge("dead", count(q.dead) + " dead"), " ", q.paused && badge("paused")] : "–");
      },
    };
  });
  let known = [];
  async function load() {
    try {
      known = (await get("/routes", null, signal)).routes;
      show(known);
    } catch {
      // the banner tells
    }
  }
  watch(() => show(known));
  load();
  const timer = setInterval(load, 5000);
  onLeave(() => clearInterval(timer));
}

/** conditions is what a route takes, in a line. */
function conditions(r) {
  if (r.direct) return "nothing by itself: a listener names it";
  const all = Object.entries(r.match || {});
  if (!all.length) return "everything";
  return all.map(([key, value]) => h("span", { class: "condition" }, h("span", { class: "key" }, key), " ", h("code", null, value)));
}

export function backends(view, { live, watch, onLeave }) {
  const box = h("div", { class: "cards" });
  const none = empty("No backends", "Routes of the configuration lead to none.");
  put(view, head("Backends", "A backend is up while one of its nodes gets messages. What is stored for one that is down waits, and goes by itself once it is back."), box, none);
  const show = keyed(box, (b) => b.name, (b) => {
    const state = h("span");
    const why = h("p", { class: "sub" });
    const nodes = table("Nodes of " + b.name, [{ label: "Node" }, { label: "State" }, { label: "Why" }]);
    const leads = h("p", { class: "sub" });
    const showNodes = keyed(nodes.body, (n) => n.key, (n) => {
      const up = cell("State");
      const reason = cell("Why", "wide");
      return {
        el: h("tr", null, h("th", { scope: "row", class: "mono" }, n.name), up, reason),
        update(n) {
          setCell(up, badge(n.up ? "up" : "down", n.up ? "gets messages" : "out"));
          setCell(reason, [plainly(n.reason), n.until && "tried again " + until(n.until)].filter(Boolean).join("; ") || "–");
        },
      };
    });
    return {
      el: h("section", { class: "card nodes", "aria-label": "Backend " + b.name }, h("div", { class: "card-head" }, h("h2", null, b.name), state), why, nodes.el, leads),
      update(b) {
        setCell(state, badge(b.state));
        const text = reason(b, false, true);
        why.hidden = !text;
        setCell(why, text);
        showNodes(b.nodes.map((n, i) => ({ ...n, key: i + n.name })));
        setCell(leads, b.routes.length ? ["Routes: ", b.routes.map((r, i) => [i > 0 && ", ", live.queues.has(r) ? h("a", { href: "#/queues/" + encodeURIComponent(r) }, r) : r])] : "No route leads here by name.");
      },
    };
  });
  const update = () => {
    none.hidden = live.backends.size > 0 || !live.tick;
    show([...live.backends.values()].sort((a, b) => (a.state === "up") - (b.state === "up") || (a.name < b.name ? -1 : 1)));
  };
  watch(update);
  update();
  const timer = setInterval(update, 1000);
  onLeave(() => clearInterval(timer));
}

