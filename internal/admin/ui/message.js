// One message: what it says, what was tried, what came back.
import { get, message as messageAt, post, remove } from "./api.js";
import { h, icon, octets, plural, put, since, until, when } from "./dom.js";
import { attempt, badge, button, confirm, field, head, note, plainly } from "./parts.js";
import { pretty, raw } from "./xml.js";

export default function message(view, { live, signal, watch }, id) {
  put(view, h("p", { class: "loading" }, "Loading…"));
  let shown = "";

  async function load() {
    let m;
    try {
      m = await get(messageAt(id), null, signal);
    } catch (e) {
      if (e.name === "AbortError") return;
      put(view, head("Message", id), h("div", { class: "empty" }, h("p", { class: "empty-title" }, e.status === 404 ? "This message is gone" : "This message cannot be shown"), h("p", null, e.status === 404 ? "It was delivered or dropped, or it never was here." : e.message), h("p", null, h("a", { href: "#/queues" }, "To the queues"))));
      return;
    }
    const text = JSON.stringify(m);
    if (text === shown) return;
    shown = text;
    draw(m);
  }

  function draw(m) {
    const e = m.message;
    const back = "#/queues/" + encodeURIComponent(e.route) + (e.state === "pending" ? "" : "?state=" + e.state);
    const actions = [];
    if (e.state === "dead" || e.state === "delivered") actions.push(button("Replay", () => act("Replay", () => post(messageAt(id) + "/replay"), "The message waits again.", "It waits again and is delivered when its turn comes. If an earlier attempt may have been processed it is marked as a possible duplicate."), "primary"));
    if (e.state !== "delivered" && e.state !== "awaiting") actions.push(button("Move…", () => move(e)));
    actions.push(button("Drop", () => act("Drop", () => remove(messageAt(id)), "The message is dropped.", "It is gone for good: nobody delivers it, and it cannot be brought back.", back), "danger-quiet"));

    put(
      view,
      h("header", { class: "page-head" }, h("div", null, h("a", { class: "back", href: back }, icon("back"), e.route), h("h1", { class: "mono", tabindex: "-1" }, id), h("p", { class: "queue-state" }, e.in_flight ? badge("pending", "under way") : badge(e.state), h("span", { class: "sub" }, [e.operation, octets(e.size), "accepted " + since(e.accepted) + " ago"].filter(Boolean).join(" · ")))), h("div", { class: "actions" }, actions)),
      e.state === "dead" && h("section", { class: "card verdict", "aria-labelledby": "why" }, h("h2", { id: "why" }, "Why it is here"), h("p", { class: "reason" }, badge("dead", e.reason), h("span", null, plainly(e.text))), faultText(m.reply) && h("p", { class: "fault" }, "The backend says: ", h("q", null, faultText(m.reply))), e.stops_key && h("p", null, "Its order key stands still until it is replayed or dropped.")),
      e.waits_for && h("section", { class: "card verdict" }, h("p", null, "Its order key stands still for a dead letter: ", h("a", { class: "mono", href: "#/messages/" + encodeURIComponent(e.waits_for) }, e.waits_for))),
      h("div", { class: "columns message" }, h("div", null, body("Envelope", m.envelope, m.envelope_base64, m.envelope_cut, "", m.envelope_error, [m.hidden && plural(m.hidden, "place is", "places are") + " masked with ***.", m.attachments && plural(m.attachments, "attachment is", "attachments are") + " not shown."]), m.reply && body("Last answer", m.reply.body, m.reply.body_base64, false, m.reply.type, m.reply.error)), h("div", null, facts(e), timeline(m), fields(m.header))),
    );
  }

  async function act(action, change, done, text, to) {
    if (!(await confirm({ title: action + " this message?", text, action, danger: action === "Drop" }))) return;
    if ((await attempt(change, done)) && to) location.hash = to;
    else load();
  }

  async function move(e) {
    const routes = [...live.queues.values()].filter((q) => q.destination && q.route !== e.route && !q.route.includes("@")).map((q) => q.route);
    if (!routes.length) {
      note("There is no other route that stores messages.", true);
      return;
    }
    const answer = await confirm({ title: "Move this message?", text: "It keeps its id and its attempts and is delivered by the other route.", action: "Move", fields: [field("To route", h("select", { name: "to" }, routes.map((r) => h("option", { value: r }, r))))] });
    if (!answer) return;
    await attempt(() => post("/queues/move", { to: answer.to, ids: [id] }), (r) => (r.count ? "The message is moved to " + answer.to + "." : "The message is under way and stays."));
    load();
  }

  let counts = "";
  watch(() => {
    const now = JSON.stringify(live.tick && live.tick.queues);
    if (now !== counts && now) load();
    counts = now;
  });
  load();
}

/** faultText is what a fault says to people, "" if the answer is none. */
function faultText(reply) {
  const m = reply && reply.body && /<(?:[\w.-]+:)?(?:faultstring|Text)(?:\s[^>]*)?>([^<]{1,500})</.exec(reply.body);
  const marks = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };
  return m ? m[1].replace(/&(lt|gt|amp|quot|apos);/g, (_, name) => marks[name]).trim() : "";
}

/** body shows an envelope or an answer. */
function body(title, text, base64, cut, type, error, notes = []) {
  const area = h("div");
  const buttons = h("div", { class: "tabs small", role: "group", "aria-label": "How " + title.toLowerCase() + " is shown" });
  const modes = [["Laid out", pretty], ["As received", raw]];
  const choose = (i) => {
    put(area, modes[i][1](text));
    [...buttons.children].forEach((b, j) => b.setAttribute("aria-pressed", String(i === j)));
  };
  const id = "body-" + title.replace(" ", "-").toLowerCase();
  const section = (...content) => h("section", { class: "card", "aria-labelledby": id }, h("div", { class: "card-head" }, h("h2", { id }, title), type && h("span", { class: "sub" }, type), text && buttons), content);
  if (base64) return section(h("p", null, "It is not text. In Base64:"), raw(base64.replace(/(.{76})/g, "$1\n")));
  const remarks = [cut && "This is the start of a large message. gateway queue export gets all of it.", error && "The rest is not shown: " + error + ".", ...notes].filter(Boolean);
  const aside = remarks.length > 0 && h("p", { class: "sub remarks" }, remarks.join(" "));
  if (!text) return section(aside || h("p", { class: "sub" }, "It is empty."));
  modes.forEach(([label], i) => buttons.append(h("button", { type: "button", class: "tab", onclick: () => choose(i) }, label)));
  choose(0);
  return section(area, aside);
}

function facts(e) {
  const row = (name, ...value) => value.some(Boolean) && [h("dt", null, name), h("dd", null, value)];
  return h("section", { class: "card", "aria-labelledby": "facts" }, h("h2", { id: "facts" }, "Facts"), h("dl", { class: "facts" }, row("Route", h("a", { href: "#/queues/" + encodeURIComponent(e.route) }, e.route)), row("Backend", e.destination), row("Site", e.site), row("Handed over", e.handed && when(e.handed)), row("Operation", e.operation), row("Order key", e.lane), row("Accepted", when(e.accepted)), row("Died", e.died && when(e.died)), row("Delivered", e.delivered && when(e.delivered)), row("Size", octets(e.size)), row("Next attempt", e.next_attempt && until(e.next_attempt))));
}

/** timeline is what was tried, the latest last. */
function timeline(m) {
  const e = m.message;
  const items = [h("li", null, h("span", { class: "dot calm", "aria-hidden": "true" }), h("div", null, h("strong", null, "Accepted"), when(e.accepted)))];
  for (const a of m.attempts) {
    items.push(h("li", null, h("span", { class: "dot " + (a.maybe ? "warn" : a.reason ? "bad" : "good"), "aria-hidden": "true" }), h("div", null, h("strong", null, a.n ? "Attempt " + a.n : "Note", a.status ? " – status " + a.status : ""), when(a.at), a.reason && h("p", null, plainly(a.reason)), a.maybe && h("p", { class: "sub" }, "The backend may have processed it."), a.not_before && h("p", { class: "sub" }, "Next attempt not before ", when(a.not_before, true), "."))));
  }
  if (e.died) items.push(h("li", null, h("span", { class: "dot bad", "aria-hidden": "true" }), h("div", null, h("strong", null, "Dead letter"), when(e.died), h("p", null, e.reason))));
  if (e.delivered) items.push(h("li", null, h("span", { class: "dot good", "aria-hidden": "true" }), h("div", null, h("strong", null, "Delivered"), when(e.delivered))));
  if (e.next_attempt && !e.in_flight) items.push(h("li", null, h("span", { class: "dot hollow", "aria-hidden": "true" }), h("div", null, h("strong", null, "Next attempt"), when(e.next_attempt))));
  return h("section", { class: "card", "aria-labelledby": "timeline" }, h("h2", { id: "timeline" }, "What happened"), h("ol", { class: "timeline" }, items));
}

function fields(list) {
  return h("section", { class: "card", "aria-labelledby": "fields" }, h("h2", { id: "fields" }, "Header fields"), list.length ? h("dl", { class: "facts mono" }, list.map((f) => [h("dt", null, f.name), h("dd", null, f.value)])) : h("p", { class: "sub" }, "None are kept with it."));
}
