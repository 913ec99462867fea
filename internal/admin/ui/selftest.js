// The self-test: start it, watch it, read its reports.
import { ask, get, post } from "./api.js";
import { count, h, icon, keyed, plural, put, s, say, span, took, when } from "./dom.js";
import { attempt, badge, button, cell, confirm, empty, head, setCell, table } from "./parts.js";

const results = {
  done: (r) => (r.good ? badge("up", "done") : badge("retrying", "done, with doubts")),
  cancelled: () => badge("pending", "cancelled"),
  late: () => badge("down", "not done in time"),
  failed: () => badge("down", "failed"),
};

/** selfTest is the page that starts one and lists what is over. */
export function selfTest(view, { signal, onLeave }) {
  const choice = h("fieldset", { class: "choices" }, h("legend", { class: "hidden" }, "Which self-test"));
  const start = button("Start…", begin, "primary");
  const chooser = h("section", { class: "card", "aria-labelledby": "choose" }, h("h2", { id: "choose" }, "Start a self-test"), h("p", { class: "warning" }, h("strong", null, "It loads this machine. "), "A self-test uses every processor and writes to the disk of the store. It is a process of its own with a folder of its own and touches no message and no setting of this gateway, but messages take longer until it is over. In production choose a quiet hour."), choice, h("div", { class: "actions" }, start));
  const now = running(cancel);
  const list = table("Reports", [{ label: "Started" }, { label: "Self-test" }, { label: "Took", cls: "num" }, { label: "Result" }, { label: "In a line" }]);
  const none = empty("No reports yet", "The last ten are kept beside the store.");
  list.el.hidden = none.hidden = true;
  put(view, head("Self-test", "What this gateway does on this machine, and what holds it back. gateway bench does the same, and more, on the command line."), now.el, chooser, h("section", { class: "card flush", "aria-label": "Reports" }, list.el, none));

  let tests = new Map();
  let over = null; // reports, before
  let last = ""; // what is running
  const title = (name) => (tests.has(name) ? tests.get(name).title : name);
  const showReports = keyed(list.body, (r) => r.id, (r) => {
    const name = r.result === "done" ? h("a", { href: "#/selftest/" + r.id }, when(r.started)) : when(r.started);
    return { el: h("tr", null, h("th", { scope: "row" }, name), cell("Self-test", "", title(r.test)), cell("Took", "num", span(r.seconds)), cell("Result", "", results[r.result](r)), cell("In a line", "wide", r.verdict || r.error || "–")), update() {} };
  });

  function offer(list) {
    if (tests.size) return;
    tests = new Map(list.map((t) => [t.name, t]));
    choice.append(...list.map((t, i) => h("label", { class: "choice" }, h("input", { type: "radio", name: "test", value: t.name, checked: i === 0 }), h("span", null, h("strong", null, t.title), h("span", { class: "sub" }, `about ${span(t.seconds)}, at most ${span(t.limit_seconds)}`), h("span", null, t.about)))));
  }

  async function load() {
    let state;
    try {
      state = await get("/selftest", null, signal);
    } catch (e) {
      if (e.name !== "AbortError" && !tests.size) put(view, head("Self-test"), empty("No self-test can be started", e.message));
      return;
    }
    offer(state.tests);
    const run = state.running;
    chooser.hidden = Boolean(run);
    now.update(run, run && tests.get(run.test));
    showReports(state.reports);
    none.hidden = state.reports.length > 0;
    list.el.hidden = !state.reports.length;
    const fresh = state.reports[0];
    if (last && !run && fresh && fresh.id === last && fresh.result === "done" && over !== null) location.hash = "#/selftest/" + last; // it was watched to its end
    over = state.reports.length;
    last = run ? run.id : "";
  }

  async function begin() {
    const t = tests.get(choice.querySelector("input:checked").value);
    if (!(await confirm({ title: `Start “${t.title}”?`, text: `For about ${span(t.seconds)} it loads every processor of this machine and its disk. Messages take longer meanwhile.`, action: "Start" }))) return;
    start.disabled = true;
    await attempt(() => post("/selftest", { test: t.name }));
    start.disabled = false;
    load();
  }

  async function cancel() {
    if (!(await confirm({ title: "Cancel the self-test?", text: "What it has measured so far is lost.", action: "Cancel the self-test", danger: true }))) return;
    await attempt(() => post("/selftest/cancel"));
    load();
  }

  load();
  const timer = setInterval(load, 1000);
  onLeave(() => clearInterval(timer));
}

/** running shows the self-test that is under way. */
function running(cancel) {
  const name = h("h2", { id: "running" });
  const bar = h("progress", { class: "bar-progress", "aria-labelledby": "running" });
  const time = h("p", { class: "sub" });
  const lines = h("pre", { class: "envelope lines", role: "log", "aria-live": "off", "aria-label": "What it says", tabindex: "0" });
  const stop = button("Cancel…", cancel);
  const el = h("section", { class: "card", "aria-labelledby": "running", hidden: true }, h("div", { class: "card-head" }, name, badge("retrying", "this machine is loaded"), h("div", { class: "actions push" }, stop)), bar, time, lines);
  return {
    el,
    update(run, test) {
      el.hidden = !run;
      if (!run) return;
      say(name, "Running: " + (test ? test.title : run.test));
      const usual = test ? test.seconds : 60;
      if (run.seconds < usual && !run.stopping) {
        bar.max = usual;
        bar.value = run.seconds;
      } else bar.removeAttribute("value"); // nobody knows how long yet
      say(time, run.stopping ? "It is asked to stop." : `${span(run.seconds)} of about ${span(usual)}.`);
      stop.disabled = Boolean(run.stopping);
      const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
      say(lines, run.lines.join("\n") || "It begins…");
      if (atEnd) lines.scrollTop = lines.scrollHeight;
    },
  };
}

/** titles are what the tests of a report measure. */
const titles = {
  ping: "Messages a second of one caller",
  web: "Pages a second",
  threads: "Callers that are served in time",
  startup: "From start to first reply",
  mem: "Memory",
  calls: "What a call costs",
  queue: "Stored messages",
  net: "What the network carries",
};

/** report shows one that is over: its figures, drawn here. The page that can be kept has a style of its own, which the policy of this one forbids. */
export async function selfTestReport(view, { signal }, id) {
  const back = h("a", { class: "back", href: "#/selftest" }, icon("back"), "Self-test");
  put(view, h("p", { class: "loading" }, "Loading…"));
  let r;
  try {
    r = await get("/selftest/" + encodeURIComponent(id), null, signal);
  } catch (e) {
    if (e.name !== "AbortError") put(view, back, head("Report", id), empty(e.status === 404 ? "This report is gone" : "This report cannot be shown", e.status === 404 ? "The last ten are kept." : e.message));
    return;
  }
  const keep = (what, name, type) => attempt(async () => save(await (await ask("GET", "/selftest/" + encodeURIComponent(id) + what)).blob(), name, type));
  const good = (r.verdict || "").startsWith("ok");
  const where = [r.env.cpu, plural(r.env.cpus, "processor"), [r.env.os, r.env.arch, r.env.kernel].filter(Boolean).join(" "), r.env.go, "gateway " + r.env.version].filter(Boolean);
  put(
    view,
    h("header", { class: "page-head" }, h("div", null, back, h("h1", { tabindex: "-1" }, "Report of the self-test"), h("p", { class: "queue-state" }, badge(good ? "up" : "retrying", good ? "can be believed" : "with doubts"), h("span", { class: "sub" }, when(r.env.started), " · took " + span(r.env.seconds)))), h("div", { class: "actions" }, button("Keep as a page", () => keep("/report", `selftest-${id}.html`), "primary"), button("Keep as JSON", () => keep("", `selftest-${id}.json`)))),
    h("section", { class: "card", "aria-labelledby": "line" }, h("h2", { id: "line" }, "In a line"), h("p", null, r.verdict), h("p", { class: "sub" }, where.join(" · ")), (r.notes || []).length > 0 && h("ul", { class: "plain-list" }, r.notes.map((n) => h("li", null, n)))),
    groups(r.tests || []).map(([name, tests]) => group(name, tests)),
    r.limits && limits(r.limits),
  );
}

function save(blob, name) {
  const a = h("a", { href: URL.createObjectURL(blob), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60000);
}

/** groups are the rows by their test, in the order of the results. */
function groups(tests) {
  const by = new Map();
  for (const t of tests) by.set(t.name, [...(by.get(t.name) || []), t]);
  return [...by];
}

const believed = (t) => t.verdict === "valid" || t.verdict === "DISTURBED";

/** figure writes a score. */
function figure(v) {
  const n = Math.abs(v);
  return n === Math.trunc(n) || n >= 1000 ? count(v) : n < 10 ? String(Number(v.toPrecision(3))) : v.toFixed(1);
}

function group(name, tests) {
  const id = "test-" + name;
  const list = table("Rows of " + name, [{ label: "Row" }, { label: "Score", cls: "num" }, { label: "Differs by", cls: "num" }, { label: "50 %", cls: "num" }, { label: "99 %", cls: "num" }, { label: "Of the limit", cls: "num" }, { label: "Held back by" }, { label: "Verdict" }]);
  list.body.append(...tests.map((t) => {
    const latency = t.summary.latency_us || {};
    const more = (t.measures || []).map((m) => `${m.name} ${measure(m)}`).join(", ");
    return h("tr", null, h("th", { scope: "row" }, t.label || t.combo || t.name, more && h("span", { class: "under" }, more)), cell("Score", "num", `${figure(t.summary.mean)} ${t.unit}`), cell("Differs by", "num", t.runs && t.runs.length > 1 ? (100 * t.summary.cov).toFixed(1) + " %" : "–"), cell("50 %", "num", micros(latency.p50)), cell("99 %", "num", micros(latency.p99)), cell("Of the limit", "num", t.eff === undefined ? "–" : Math.round(100 * t.eff) + " %"), cell("Held back by", "", t.limiter || "–"), cell("Verdict", "wide", badge(t.verdict === "valid" ? "up" : believed(t) ? "retrying" : "down", t.verdict), (t.reasons || []).length > 0 && h("span", { class: "under" }, t.reasons.join("; "))));
  }));
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, titles[name] || name), bars(tests), list.el);
}

const micros = (us) => (us ? took(us / 1000) : "–");

/** measure writes a figure in its base unit as people read it. */
function measure(m) {
  switch (m.unit) {
    case "s":
      return took(m.value * 1000);
    case "B":
      return m.value >= 1 << 20 ? (m.value / (1 << 20)).toFixed(1) + " MiB" : (m.value / 1024).toFixed(1) + " KiB";
    case "bit/s":
      return figure(m.value / 1e6) + " Mbit/s";
  }
  return figure(m.value) + (m.unit ? " " + m.unit : "");
}

/** bars draws the rows of the most common unit, where there are some to compare. The table says the same. */
function bars(tests) {
  const units = new Map();
  for (const t of tests) units.set(t.unit, (units.get(t.unit) || 0) + 1);
  const unit = [...units].sort((a, b) => b[1] - a[1])[0][0];
  const rows = tests.filter((t) => t.unit === unit && t.summary.mean > 0);
  if (rows.length < 2) return null;
  const most = Math.max(...rows.map((t) => t.summary.mean));
  const doubts = rows.some((t) => !believed(t)) && h("p", { class: "hint" }, "Grey: cannot be believed, the table says why.");
  return h("div", { class: "bars", "aria-hidden": "true" }, doubts, rows.map((t) => h("div", { class: "bar-row" + (believed(t) ? "" : " void") }, h("span", { class: "bar-label" }, t.label || t.combo), s("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none" }, s("rect", { class: "track", width: 100, height: 10 }), s("rect", { class: "fill", width: ((100 * t.summary.mean) / most).toFixed(2), height: 10 })), h("span", { class: "bar-value" }, `${figure(t.summary.mean)} ${t.unit}`))));
}

function limits(l) {
  const row = (name, value, text) => value > 0 && [h("dt", null, name), h("dd", null, text)];
  return h("section", { class: "card", "aria-labelledby": "limits" }, h("h2", { id: "limits" }, "What this machine allows at most"), h("dl", { class: "facts" }, row("TCP round trip between two processes", l.floor_us, micros(l.floor_us)), row("Loopback stream, writes of 1,500 octets", l.stream_1500_mbit, figure(l.stream_1500_mbit) + " Mbit/s"), row("Loopback stream, writes of 64 KiB", l.stream_64k_mbit, figure(l.stream_64k_mbit) + " Mbit/s"), row("Copying memory", l.memcpy_gb_s, figure(l.memcpy_gb_s) + " GB/s"), l.sync && row("Write and sync of one record, mean", l.sync.mean_us, micros(l.sync.mean_us)), l.sync && row("Write and sync of one record, 99 %", l.sync.p99_us, micros(l.sync.p99_us))));
}
