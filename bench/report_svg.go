package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// svgChart is a picture under construction. Its coordinates are pixels of the
// width that it was made for, so that text keeps its size: a page has each
// chart twice, for wide and for narrow windows. Colours and fonts are classes of
// the page, which knows whether it is day or night.
type svgChart struct {
	b             strings.Builder
	width, height float64
}

func (c *svgChart) el(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

func (c *svgChart) line(x1, y1, x2, y2 float64, class string) {
	c.el(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// text writes s; anchor is start, middle or end.
func (c *svgChart) text(x, y float64, anchor, class, s string) {
	c.el(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(s))
}

// bar is a rectangle that stands at x and is rounded at its right end.
func (c *svgChart) bar(x, y, w, h float64, class, title string) {
	r := min(4, w, h/2)
	c.el(`<path d="M%.1f %.1fh%.1fa%.1f %.1f 0 0 1 %.1f %.1fv%.1fa%.1f %.1f 0 0 1 -%.1f %.1fh-%.1fz" class="%s">%s</path>`,
		x, y, max(0, w-r), r, r, r, r, max(0, h-2*r), r, r, r, r, max(0, w-r), class, svgTitle(title))
}

func (c *svgChart) dot(x, y, r float64, class, title string) {
	c.el(`<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s">%s</circle>`, x, y, r, class, svgTitle(title))
}

// cross is the mark of what has failed: not told by its colour alone.
func (c *svgChart) cross(x, y, r float64, class, title string) {
	c.el(`<path d="M%.1f %.1fl%.1f %.1fm0 %.1fl%.1f %.1f" class="%s">%s</path>`,
		x-r, y-r, 2*r, 2*r, -2*r, -2*r, 2*r, class, svgTitle(title))
}

func (c *svgChart) path(points []svgPoint, class string) {
	var d strings.Builder
	for i, p := range points {
		fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(i, 1)], p.x, p.y)
	}
	c.el(`<path d="%s" class="%s"/>`, d.String(), class)
}

// String returns the element. label is what it shows, for those who do not see it.
func (c *svgChart) String(label string) string {
	return fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n%s</svg>",
		c.width, c.height, c.width, c.height, html.EscapeString(label), c.b.String())
}

type svgPoint struct{ x, y float64 }

func svgTitle(s string) string {
	if s == "" {
		return ""
	}
	return "<title>" + html.EscapeString(s) + "</title>"
}

// A svgScale maps values to pixels, by their logarithm if log is set.
type svgScale struct {
	from, to float64 // values
	at, end  float64 // pixels
	log      bool
}

func (s svgScale) pos(v float64) float64 {
	f := func(v float64) float64 { return v }
	if s.log {
		f = math.Log
		v = max(v, s.from)
	}
	if s.to == s.from {
		return s.at
	}
	return s.at + (f(v)-f(s.from))/(f(s.to)-f(s.from))*(s.end-s.at)
}

// niceSteps returns about n round values from 0 up to at least most.
func niceSteps(most float64, n int) []float64 {
	if most <= 0 {
		return []float64{0, 1}
	}
	raw := most / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 2.5, 5} {
		if raw <= m*unit {
			step = m * unit
			break
		}
	}
	var steps []float64
	for v := 0.0; ; v += step {
		steps = append(steps, v)
		if v >= most*0.999 {
			return steps
		}
	}
}

// logTicks returns the values 1, 2 and 5 times a power of ten from just below
// from to just above to, or the powers alone where that would be many.
func logTicks(from, to float64) []float64 {
	var all []float64
	factors := []float64{1, 2, 5}
	if to/from > 2000 {
		factors = factors[:1]
	}
	for e := math.Floor(math.Log10(from)); ; e++ {
		for _, f := range factors {
			v := f * math.Pow(10, e)
			if v <= from*1.001 {
				all = all[:0] // the last one that is not above from is the first
			}
			all = append(all, v)
			if v >= to*0.999 && len(all) > 1 {
				return all
			}
		}
	}
}

// spreadLabels moves the places of labels apart until they are gap away from
// each other, and keeps them within from and to as far as there is room. It
// returns the places in the order in which they came.
func spreadLabels(at []float64, gap, from, to float64) []float64 {
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	for i := 1; i < len(order); i++ { // few, and mostly in order
		for k := i; k > 0 && at[order[k]] < at[order[k-1]]; k-- {
			order[k], order[k-1] = order[k-1], order[k]
		}
	}
	out := make([]float64, len(at))
	last := from - gap
	for _, i := range order {
		out[i] = max(at[i], last+gap)
		last = out[i]
	}
	next := to + gap
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		out[i] = min(out[i], next-gap)
		next = out[i]
	}
	return out
}

// shortNumber writes an axis value: 12k, 1.5M.
func shortNumber(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return trimZero(fmt.Sprintf("%.1f", v/1e6)) + "M"
	case a >= 1e4:
		return trimZero(fmt.Sprintf("%.1f", v/1e3)) + "k"
	case a >= 10 || a == 0:
		return grouped(v)
	}
	return trimZero(fmt.Sprintf("%.2f", v))
}

func trimZero(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// airy puts a narrow blank between a figure and its unit.
func airy(s string) string {
	i := strings.LastIndexAny(s, "0123456789") + 1
	if i == 0 || i == len(s) || s[i] == ' ' {
		return s
	}
	return s[:i] + "\u202f" + s[i:]
}
