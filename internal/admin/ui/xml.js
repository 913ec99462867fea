// Showing envelopes. What a stranger has sent is cut into pieces of text, each in an
// element of its own; none of it is ever parsed by the browser.
import { h } from "./dom.js";

const most = 256 * 1024; // characters that are laid out; more are shown as they are
const mostLines = 5000;

/** pretty is an envelope, indented and coloured where it is XML. */
export function pretty(text) {
  const code = h("code");
  const pre = h("pre", { class: "envelope", tabindex: "0" }, code);
  if (text.length > most || !text.trimStart().startsWith("<")) {
    code.textContent = text;
    return pre;
  }
  const lines = layOut(text);
  for (const line of lines.slice(0, mostLines)) {
    code.append("  ".repeat(Math.min(line.depth, 40)), ...line.parts.map(([kind, t]) => (kind ? h("span", { class: kind }, t) : t)), "\n");
  }
  if (lines.length > mostLines) code.append("… " + (lines.length - mostLines) + " more lines: choose “As received”");
  return pre;
}

/** raw is the same text as it is. */
export function raw(text) {
  return h("pre", { class: "envelope", tabindex: "0" }, h("code", null, text));
}

/** layOut cuts text into lines of parts: [class, text]. */
function layOut(text) {
  const lines = [];
  let depth = 0;
  let line = null;
  let only = false; // the line is a start tag, which its end tag may follow
  const begin = (parts, at) => lines.push((line = { depth: at, parts }));
  for (const token of tokens(text)) {
    if (token.kind === "text") {
      const t = token.text.trim();
      if (!t) continue;
      if (only) line.parts.push(["", t]);
      else begin([["", t]], depth);
      if (!only) line = null;
      continue;
    }
    if (token.kind === "end") {
      depth = Math.max(0, depth - 1);
      if (only) line.parts.push(...tag(token.text));
      else begin(tag(token.text), depth);
      only = false;
      continue;
    }
    begin(token.kind === "start" ? tag(token.text) : [["xml-" + (token.kind === "empty" ? "" : "other"), token.text]], depth);
    if (token.kind === "empty") line.parts = tag(token.text);
    only = token.kind === "start";
    if (only) depth++;
  }
  return lines;
}

/** tokens cuts at markup, in one pass. */
function* tokens(text) {
  const closers = [["<!--", "-->"], ["<![CDATA[", "]]>"], ["<?", "?>"]];
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf("<", at);
    if (open < 0) {
      yield { kind: "text", text: text.slice(at) };
      return;
    }
    if (open > at) yield { kind: "text", text: text.slice(at, open) };
    const other = closers.find(([start]) => text.startsWith(start, open));
    const close = other ? text.indexOf(other[1], open) : closeOf(text, open);
    if (close < 0) {
      yield { kind: "other", text: text.slice(open) };
      return;
    }
    at = close + (other ? other[1].length : 1);
    const t = text.slice(open, at);
    if (other) yield { kind: other[0] === "<![CDATA[" ? "text" : "other", text: t };
    else yield { kind: t[1] === "/" ? "end" : t[t.length - 2] === "/" ? "empty" : "start", text: t };
  }
}

/** closeOf is where a tag ends; a > in quotes does not end it. */
function closeOf(text, at) {
  for (let quote = ""; at < text.length; at++) {
    const c = text[at];
    if (quote) quote = c === quote ? "" : quote;
    else if (c === '"' || c === "'") quote = c;
    else if (c === ">") return at;
  }
  return -1;
}

/** tag colours the parts of a tag. */
function tag(text) {
  const parts = [];
  const name = /^<\/?[^\s/>]*/.exec(text)[0];
  parts.push(["xml-tag", name]);
  let rest = text.slice(name.length);
  for (let m; (m = /^(\s+)([^\s=/>]+)(\s*=\s*)("[^"]*"|'[^']*')/.exec(rest)); rest = rest.slice(m[0].length)) {
    parts.push(["", " "], ["xml-name", m[2]], ["", "="], ["xml-value", m[4]]);
  }
  parts.push(["xml-tag", rest.trim()]);
  return parts;
}
