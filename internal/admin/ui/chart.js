// Small charts of the last hour. The text beside them says the same.
import { h, put, s, say } from "./dom.js";

const width = 720;
const height = 120;

/**
 * chart draws series over the last hour: [{name, cls, values, area}]. describe
 * makes the line that is read out for a point.
 */
export function chart(title, describe) {
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", class: "chart", role: "img" });
  const cursor = s("line", { class: "cursor", y1: 0, y2: height, x1: -10, x2: -10 });
  const note = h("p", { class: "chart-note" });
  const top = h("span", { class: "chart-top" });
  const el = h("figure", { class: "chart-box" }, h("figcaption", null, title, top), h("div", { class: "chart-frame" }, drawing), h("div", { class: "chart-axis", "aria-hidden": "true" }, h("span", null, "1 h ago"), h("span", null, "30 min"), h("span", null, "now")), note);
  let points = [];
  let rest = "";
  const at = (i) => (points.length < 2 ? 0 : (i / (points.length - 1)) * width);
  drawing.addEventListener("pointermove", (e) => {
    const box = drawing.getBoundingClientRect();
    const i = Math.round(((e.clientX - box.left) / box.width) * (points.length - 1));
    if (!points[i]) return;
    cursor.setAttribute("x1", at(i));
    cursor.setAttribute("x2", at(i));
    say(note, describe(points[i], points.length - 1 - i));
  });
  drawing.addEventListener("pointerleave", () => {
    cursor.setAttribute("x1", -10);
    cursor.setAttribute("x2", -10);
    say(note, rest);
  });
  return {
    el,
    update(list, series, summary, format) {
      points = list;
      const highest = Math.max(0, ...series.flatMap((line) => line.values));
      const y = (v) => height - 2 - (highest ? (v / highest) * (height - 8) : 0);
      const shapes = series.map((line) => {
        const path = line.values.map((v, i) => (i ? "L" : "M") + at(i).toFixed(1) + " " + y(v).toFixed(1)).join("");
        return line.area ? s("path", { class: line.cls, d: path + `L${width} ${height}L0 ${height}Z` }) : s("path", { class: line.cls, d: path });
      });
      put(drawing, shapes, cursor);
      drawing.setAttribute("aria-label", title + ". " + summary);
      say(top, highest ? "highest " + format(highest) : "");
      if (note.textContent === rest) say(note, summary);
      rest = summary;
    },
  };
}
