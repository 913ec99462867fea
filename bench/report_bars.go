package bench

import (
	"fmt"
	"strings"
)

// A barRow is one bar.
type barRow struct {
	label, under string // what it is, and a word below it
	value        float64
	text         string    // of the value
	note         string    // behind the text, quieter
	runs         []float64 // dots on the bar
	mark         float64   // a short line across it, such as the limit; 0 for none
	class        string    // of the bar
	void         bool      // cannot be believed
	hint         string    // shown when pointed at
}

// A barGroup is bars under a heading; "" for none.
type barGroup struct {
	heading string
	rows    []barRow
}

const (
	barHeight   = 22.0
	barPitch    = 46.0 // of a bar with its label beside it
	stackPitch  = 72.0 // of a bar with its label above it, in two lines
	stackLow    = 56.0 // and in one
	headHeight  = 34.0
	wideLimit   = 700.0 // from this width on labels stand beside their bars
	chartBottom = 34.0
)

// barChart draws groups of bars on one scale. mark says what the marks are.
func barChart(groups []barGroup, width float64, unit, label string) string {
	c := &svgChart{width: width}
	wide := width >= wideLimit
	left, pitch := 0.0, stackLow
	for _, g := range groups {
		for _, r := range g.rows {
			if r.under != "" || r.note != "" {
				pitch = stackPitch
			}
		}
	}
	if wide {
		left, pitch = 292, barPitch
	}
	most := 0.0
	for _, g := range groups {
		if g.heading != "" {
			c.height += headHeight
		}
		c.height += float64(len(g.rows)) * pitch
		for _, r := range g.rows {
			most = max(most, r.value, r.mark)
			for _, v := range r.runs {
				most = max(most, v)
			}
		}
	}
	bottom := c.height + 4
	c.height += chartBottom
	steps := niceSteps(most, map[bool]int{true: 6, false: 4}[wide])
	right := width - 14
	if wide {
		right = width - 128 // room for the value of the longest bar
	}
	x := svgScale{from: 0, to: steps[len(steps)-1], at: left, end: right}
	for i, v := range steps {
		c.line(x.pos(v), 0, x.pos(v), bottom, "grid")
		anchor := "middle"
		if !wide && i == 0 {
			anchor = "start"
		} else if !wide && i == len(steps)-1 {
			anchor = "end"
		}
		c.text(x.pos(v), bottom+17, anchor, "tick", shortNumber(v))
	}
	c.text(width, bottom+17, "end", "tick", map[bool]string{true: unit, false: ""}[wide])
	y := 0.0
	for _, g := range groups {
		if g.heading != "" {
			c.text(0, y+22, "start", "heading", g.heading)
			y += headHeight
		}
		for _, r := range g.rows {
			drawBar(c, r, x, y, pitch, wide)
			y += pitch
		}
	}
	return c.String(label)
}

func drawBar(c *svgChart, r barRow, x svgScale, y, pitch float64, wide bool) {
	top := y + (barPitch-barHeight)/2
	if !wide {
		top = y + pitch - barHeight - 9
		c.text(0, y+18, "start", "label", r.label)
		c.text(0, y+33, "start", "under", r.under)
	} else {
		at := y + barPitch/2 + 4
		if r.under != "" {
			at -= 8
			c.text(x.at-14, at+15, "end", "under", fitText(r.under, 12, x.at-14))
		}
		c.text(x.at-14, at, "end", "label", fitText(r.label, 14, x.at-14))
	}
	class := "bar " + r.class
	if r.void {
		class = "bar void"
	}
	end := x.pos(r.value)
	c.bar(x.at, top, max(1, end-x.at), barHeight, class, r.hint)
	for _, v := range r.runs {
		c.dot(x.pos(v), top+barHeight/2, 2.5, "run", "")
		end = max(end, x.pos(v)+3)
	}
	if r.mark > 0 {
		c.line(x.pos(r.mark), top-4, x.pos(r.mark), top+barHeight+4, "mark")
		if d := x.pos(r.mark) - end; wide && d > 0 && d < 110 {
			end = x.pos(r.mark) // the text does not stand on the mark
		}
	}
	if wide {
		c.el(`<text x="%.1f" y="%.1f" class="value">%s<tspan class="note" dx="6">%s</tspan></text>`, end+8, top+barHeight/2+5, svgEscape(r.text), svgEscape(r.note))
		return
	}
	c.text(c.width, y+18, "end", "value", r.text)
	c.text(c.width, y+33, "end", "under", r.note)
}

// fitText cuts a text of a font size to about so many pixels: a letter is 0.55 of
// its size wide on average.
func fitText(s string, size, pixels float64) string {
	most := int(pixels / (0.55 * size))
	if r := []rune(s); len(r) > most && most > 1 {
		return string(r[:most-1]) + "…"
	}
	return s
}

func svgEscape(s string) string { return strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(s) }

// rowClass gives each combination the colour that it has in all charts.
func rowClass(combo string) string {
	switch combo {
	case "hh", "hr", "rh", "rr", "ff", "nn":
		return "c-" + combo
	}
	return "c-hh"
}

// rateGroups makes bars of the rows of one test.
func rateGroups(tests []*Test) []barGroup {
	var g barGroup
	for _, t := range tests {
		r := barRow{
			label: or(t.Label, rowName(t.Name, t.Combo)), under: t.Founding, value: t.Summary.Mean, text: figure(t.Summary.Mean),
			runs: values(t.Runs), class: rowClass(t.Combo), void: !believable(t.Verdict),
			hint: fmt.Sprintf("%s: %s %s, runs %s to %s, p50 %s, p99 %s", rowName(t.Name, t.Combo), figure(t.Summary.Mean), t.Unit,
				figure(t.Summary.Min), figure(t.Summary.Max), micros(t.Summary.Latency.P50), micros(t.Summary.Latency.P99)),
		}
		if len(t.Runs) < 2 {
			r.runs = nil
		}
		if t.Eff != nil {
			r.note = fmt.Sprintf("%.0f %%", 100**t.Eff)
		}
		if r.void {
			r.note = string(t.Verdict)
		}
		g.rows = append(g.rows, r)
	}
	return []barGroup{g}
}

func or(s, t string) string {
	if s != "" {
		return s
	}
	return t
}

// believable reports whether a figure with this verdict says anything.
func believable(v Verdict) bool { return v == Valid || v == Disturbed }
