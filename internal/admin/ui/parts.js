// What several pages have in common: states in words, dialogs, notes.
import { h, icon, plural, put } from "./dom.js";

/** states says how a state is shown: its colour, and its word. */
const states = {
  up: ["good", "up"],
  degraded: ["warn", "partly up"],
  down: ["bad", "down"],
  idle: ["calm", "idle"],
  held: ["warn", "held"],
  denied: ["bad", "credentials refused"],
  pending: ["calm", "pending"],
  retrying: ["warn", "retrying"],
  dead: ["bad", "dead"],
  orphaned: ["bad", "orphaned"],
  delivered: ["good", "delivered"],
  awaiting: ["calm", "awaits an answer"],
  paused: ["warn", "paused"],
};

/** badge is a state: a dot of a colour and a word. */
export function badge(state, text) {
  const [cls, word] = states[state] || ["calm", state];
  return h("span", { class: "badge " + cls }, h("span", { class: "dot", "aria-hidden": "true" }), text || word);
}

/** head is the head of a page. */
export function head(title, sub, ...actions) {
  return h("header", { class: "page-head" }, h("div", null, h("h1", { tabindex: "-1" }, title), sub && h("p", { class: "sub" }, sub)), h("div", { class: "actions" }, actions));
}

/** empty is what stands where there is nothing. */
export function empty(title, text) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), text && h("p", null, text));
}

/** plainly is a reason as people read it: the stable words of the log have no spaces. */
export function plainly(text) {
  return (text || "").replace(/\b(not|maybe)_(sent|processed)\b/g, "$1 $2");
}

/** button is one; kind is "", "primary" or "danger". */
export function button(text, onclick, kind = "", more = {}) {
  return h("button", { type: "button", class: "button " + kind, onclick, ...more }, text);
}

const notes = h("div", { class: "notes", role: "status", "aria-live": "polite" });

/** notesArea is where notes appear. */
export function notesArea() {
  return notes;
}

/** note tells what was done; bad ones stay until they are closed. */
export function note(text, bad) {
  const el = h("div", { class: "note" + (bad ? " bad" : "") }, h("span", null, text), h("button", { type: "button", class: "icon-button", "aria-label": "Close this note", onclick: () => el.remove() }, icon("close")));
  notes.append(el);
  while (notes.childElementCount > 4) notes.firstElementChild.remove();
  if (!bad) setTimeout(() => el.remove(), 6000);
}

/** attempt does something and notes what has gone wrong. It returns whether it went well. */
export async function attempt(what, done) {
  try {
    const result = await what();
    const text = typeof done === "function" ? done(result) : done;
    if (text) note(text);
    return true;
  } catch (e) {
    if (e.name === "AbortError") return false;
    note(e.message + (e.count ? " (" + plural(e.count, "message") + " done before)" : ""), true);
    return false;
  }
}

/**
 * confirm asks before something is done that matters, and returns what was filled
 * in, or null. fields are elements with a name.
 */
export function confirm({ title, text, action, danger, fields = [] }) {
  return new Promise((answer) => {
    const go = h("button", { class: "button " + (danger ? "danger" : "primary"), value: "go" }, action);
    const stay = h("button", { class: "button", value: "stay", type: "button", onclick: () => dialog.close("stay") }, "Cancel");
    const form = h("form", { method: "dialog", onsubmit: (e) => { e.preventDefault(); if (form.reportValidity()) dialog.close("go"); } }, h("h2", { id: "dialog-title" }, title), [text].flat().map((t) => h("p", null, t)), fields, h("div", { class: "dialog-actions" }, stay, go));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    dialog.addEventListener("close", () => {
      const values = dialog.returnValue === "go" ? Object.fromEntries(new FormData(form)) : null;
      dialog.remove();
      answer(values);
    });
    document.body.append(dialog);
    dialog.showModal();
    if (!fields.length) (danger ? stay : go).focus();
  });
}

/** field is a labelled input or select. */
export function field(label, input, hint) {
  return h("label", { class: "field" }, h("span", null, label), input, hint && h("span", { class: "hint" }, hint));
}

/** table is a table with a head; the rows are added to its body. */
export function table(caption, columns) {
  const body = h("tbody");
  const el = h("div", { class: "table-box" }, h("table", null, h("caption", { class: "hidden" }, caption), h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.cls }, c.label)))), body));
  return { el, body };
}

/** cell is a table cell that tells its column where the table is a list. */
export function cell(label, cls, ...content) {
  return h("td", { "data-label": label, class: cls }, content);
}

/** setCell replaces what an element has, where the text is another: focus stays. */
export function setCell(el, ...content) {
  const fresh = put(h("div"), ...content);
  if (fresh.textContent !== el.textContent) el.replaceChildren(...fresh.childNodes);
}
