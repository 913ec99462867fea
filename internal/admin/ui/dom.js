// Making elements. Text of messages and of strangers reaches the page through here
// alone, always as text: nothing in the dashboard turns a string into markup.

/** h makes an element. Properties that begin with "on" are listeners, others are attributes. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** s makes an SVG element. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "indeterminate") el[name] = value;
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  el.append(...flat(children));
  return el;
}

function flat(children) {
  return children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false && c !== "").map((c) => (c instanceof Node ? c : String(c)));
}

/** put replaces what an element holds. */
export function put(el, ...children) {
  el.replaceChildren(...flat(children));
  return el;
}

/** say sets the text of an element, if it is another: less work for screen readers. */
export function say(el, text) {
  text = String(text);
  if (el.textContent !== text) el.textContent = text;
}

/**
 * keyed shows a list in an element and keeps what is there, so that focus and
 * selection stay: make(item) returns {el, update(item)}.
 */
export function keyed(parent, key, make) {
  const shown = new Map();
  return (items) => {
    const want = new Set(items.map(key));
    for (const [k, v] of shown) {
      if (!want.has(k)) {
        v.el.remove();
        shown.delete(k);
      }
    }
    let at = parent.firstElementChild;
    for (const item of items) {
      let v = shown.get(key(item));
      if (!v) {
        v = make(item);
        shown.set(key(item), v);
      }
      v.update(item);
      if (v.el === at) at = at.nextElementSibling;
      else parent.insertBefore(v.el, at);
    }
  };
}

/** icon is one of a few drawings, for the eye alone. */
export function icon(name) {
  const paths = {
    overview: "M3 12h4l3-8 4 16 3-8h4",
    routes: "M4 6h10m0 0l-3-3m3 3l-3 3M20 18H10m0 0l3-3m-3 3l3 3",
    queues: "M4 6h16M4 12h16M4 18h10",
    backends: "M5 4h14v6H5zM5 14h14v6H5zM8 7h.01M8 17h.01",
    events: "M12 7v5l3 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0",
    config: "M4 7h9m4 0h3M4 17h3m4 0h9M15 5v4M9 15v4",
    selftest: "M5 4v16M5 12h6l3-6 3 12 2-6h2",
    back: "M15 5l-7 7 7 7",
    close: "M6 6l12 12M18 6L6 18",
    theme: "M12 3v2m0 14v2M3 12h2m14 0h2M5.6 5.6L7 7m10 10l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0",
  };
  return s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: paths[name] }));
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** count writes a number of things. */
export function count(n) {
  return whole.format(n || 0);
}

/** plural writes a number with its word. */
export function plural(n, one, many = one + "s") {
  return count(n) + " " + (n === 1 ? one : many);
}

/** rate writes a number per second. */
export function rate(n) {
  if (n === 0) return "0";
  if (n < 10) return n.toFixed(1);
  return count(n);
}

/** percent writes a part of 1. */
export function percent(p) {
  if (!p) return "0 %";
  if (p < 0.001) return "< 0.1 %";
  return (p * 100).toFixed(p < 0.1 ? 1 : 0) + " %";
}

/** took writes milliseconds. */
export function took(ms) {
  if (!ms) return "–";
  if (ms < 1) return Math.round(ms * 1000) + " µs";
  if (ms < 10) return ms.toFixed(1) + " ms";
  if (ms < 1000) return Math.round(ms) + " ms";
  return (ms / 1000).toFixed(ms < 10000 ? 1 : 0) + " s";
}

/** octets writes a size. */
export function octets(n) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (n < 1024) return (n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)) + " " + unit;
    n /= 1024;
  }
  return n.toFixed(1) + " GiB";
}

/** span writes seconds in one or two units. */
export function span(seconds) {
  seconds = Math.max(0, Math.round(seconds));
  if (seconds < 60) return seconds + " s";
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  for (const [i, [unit, size]] of units.entries()) {
    if (seconds < size) continue;
    const rest = units[i + 1] && Math.floor((seconds % size) / units[i + 1][1]);
    return Math.floor(seconds / size) + " " + unit + (rest ? " " + rest + " " + units[i + 1][0] : "");
  }
  return "";
}

/** since writes how long ago a time was. */
export function since(time) {
  return time ? span((Date.now() - new Date(time)) / 1000) : "–";
}

/** until writes how long it is to a time. */
export function until(time) {
  const left = (new Date(time) - Date.now()) / 1000;
  return left < 0.5 ? "now" : "in " + span(left);
}

const stamp = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

const date = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });

/** day is a time element that shows the day alone. */
export function day(time) {
  const t = new Date(time);
  return h("time", { datetime: time, title: t.toISOString() }, date.format(t));
}

/** when is a time element. */
export function when(time, short) {
  const t = new Date(time);
  return h("time", { datetime: time, title: t.toISOString() }, (short ? clock : stamp).format(t));
}
