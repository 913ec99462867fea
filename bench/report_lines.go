package bench

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A lineSeries is one line of a chart.
type lineSeries struct {
	name, long string
	points     []svgPoint // values, not pixels
	class      string     // of the line; that of its label is the same with -t behind it
}

// frame of a line chart in pixels.
const (
	lineHeight = 320.0
	lineLeft   = 52.0
	lineTop    = 26.0
	lineBottom = 30.0
)

// percentilesOf makes the curve of a row: x is the nines of the percentile
// (p90 is 1, p99 is 2), y microseconds. It is over the operations of all runs.
func percentilesOf(t *Test) (lineSeries, bool) {
	sum := histogram()
	for _, r := range t.Runs {
		b, err := base64.StdEncoding.DecodeString(r.HDR)
		if err != nil || r.HDR == "" {
			continue
		}
		h, err := hdrhistogram.Decode(b)
		if err != nil {
			continue
		}
		sum.Merge(h)
	}
	n := sum.TotalCount()
	if n == 0 {
		return lineSeries{}, false
	}
	s := lineSeries{name: t.Combo, long: or(t.Label, t.Combo), class: rowClass(t.Combo)}
	// The last point is the largest value, at the percentile that so many
	// operations can tell: further to the right nothing is known.
	most := math.Log10(float64(n))
	for x := 0.0; x < most; x += 0.05 {
		at := 100 * (1 - math.Pow(10, -x))
		s.points = append(s.points, svgPoint{x, float64(sum.ValueAtPercentile(at)) / 1e3})
	}
	s.points = append(s.points, svgPoint{most, float64(sum.Max()) / 1e3})
	return s, true
}

// percentileChart draws curves on axes of nines and of decades of time.
func percentileChart(series []lineSeries, width float64) string {
	c := &svgChart{width: width, height: lineTop + lineHeight + lineBottom}
	from, to, most := math.Inf(1), 0.0, 0.0
	for _, s := range series {
		for _, p := range s.points {
			from, to, most = min(from, max(p.y, 0.1)), max(to, p.y), max(most, p.x)
		}
	}
	lines := logTicks(from, to)
	wide := width >= wideLimit
	right := width - 44
	if wide {
		right = width - 250 // names of the lines
	}
	x := svgScale{from: 0, to: max(most, 2), at: lineLeft, end: right}
	y := svgScale{from: lines[0], to: lines[len(lines)-1], at: lineTop + lineHeight, end: lineTop, log: true}
	for _, v := range lines {
		c.line(lineLeft, y.pos(v), right, y.pos(v), "grid")
		c.text(lineLeft-8, y.pos(v)+4, "end", "tick", airy(micros(v)))
	}
	for _, tick := range []struct {
		nines float64
		name  string
	}{{0, "p0"}, {math.Log10(2), "p50"}, {1, "p90"}, {2, "p99"}, {3, "p99.9"}, {4, "p99.99"}, {5, "p99.999"}} {
		if tick.nines <= x.to {
			c.line(x.pos(tick.nines), lineTop, x.pos(tick.nines), lineTop+lineHeight, "grid")
			c.text(x.pos(tick.nines), lineTop+lineHeight+19, "middle", "tick", tick.name)
		}
	}
	drawLines(c, series, x, y, right, wide)
	return c.String("latency by percentile, a line for each combination")
}

// drawLines draws the lines and writes their names where they end.
func drawLines(c *svgChart, series []lineSeries, x, y svgScale, right float64, wide bool) {
	ends := make([]float64, len(series))
	for i, s := range series {
		points := make([]svgPoint, len(s.points))
		for k, p := range s.points {
			points[k] = svgPoint{x.pos(p.x), y.pos(p.y)}
		}
		c.path(points, "line "+s.class)
		last := points[len(points)-1]
		c.dot(last.x, last.y, 3.5, "end "+s.class, s.long)
		ends[i] = last.y
	}
	labels := spreadLabels(ends, 18, lineTop+6, lineTop+lineHeight-4)
	for i, s := range series {
		name := s.name
		if wide {
			name = s.long
		}
		last := x.pos(s.points[len(s.points)-1].x)
		if math.Abs(labels[i]-ends[i]) > 3 || right-last > 12 {
			c.line(last+6, ends[i], right+8, labels[i], "lead "+s.class)
		}
		c.text(right+12, labels[i]+4, "start", "name "+s.class+"-t", name)
	}
}

// threadsDetail is what a report reads of [Test.Detail] of threads.
type threadsDetail struct {
	Probes []struct {
		Threads int     `json:"threads"`
		Window  float64 `json:"window_s"`
		Sent    int64   `json:"sent"`
		Errors  int64   `json:"errors"`
		P50     float64 `json:"p50_us"`
		P99     float64 `json:"p99_us"`
		LagP99  float64 `json:"lag_p99_us"`
		Cores   float64 `json:"cores"`
		Stable  bool    `json:"stable"`
		Why     string  `json:"why"`
	} `json:"probes"`
	Stable   int `json:"stable"`
	Unstable int `json:"unstable"`
}

// detailOf reads the detail of a row into v by its JSON: a report may have been
// read from a file.
func detailOf(t *Test, v any) bool {
	if t.Detail == nil {
		return false
	}
	b, err := json.Marshal(t.Detail)
	return err == nil && json.Unmarshal(b, v) == nil
}

// threadsChart draws the search: a step for each probe, in the order in which
// they were made.
func threadsChart(d *threadsDetail, width float64) string {
	c := &svgChart{width: width, height: lineTop + lineHeight + lineBottom}
	most := 0
	for _, p := range d.Probes {
		most = max(most, p.Threads)
	}
	wide := width >= wideLimit
	steps := niceSteps(float64(most), 5)
	right := width - 14
	if wide && d.Stable > 0 {
		right = width - 150 // what the line of the result says
	}
	x := svgScale{from: 0, to: float64(len(d.Probes)), at: lineLeft, end: right}
	y := svgScale{from: 0, to: steps[len(steps)-1], at: lineTop + lineHeight, end: lineTop}
	for _, v := range steps {
		c.line(lineLeft, y.pos(v), right, y.pos(v), "grid")
		c.text(lineLeft-8, y.pos(v)+4, "end", "tick", shortNumber(v))
	}
	if d.Stable > 0 {
		at := y.pos(float64(d.Stable))
		c.line(lineLeft, at, right, at, "mark")
		if wide {
			c.text(right+8, at+1, "start", "value", grouped(float64(d.Stable)))
			c.text(right+8, at+16, "start", "under", "stable threads")
		}
	}
	var stairs []svgPoint
	for i, p := range d.Probes {
		at := y.pos(float64(p.Threads))
		stairs = append(stairs, svgPoint{x.pos(float64(i)), at}, svgPoint{x.pos(float64(i + 1)), at})
	}
	c.path(stairs, "stairs")
	every := max(1, len(d.Probes)*24/int(right-lineLeft)+1)
	for i, p := range d.Probes {
		mid, at := x.pos(float64(i)+0.5), y.pos(float64(p.Threads))
		title := fmt.Sprintf("probe %d: %s threads, ", i+1, grouped(float64(p.Threads)))
		if p.Stable {
			c.dot(mid, at, 5, "good", title+"stable")
		} else {
			c.cross(mid, at, 5, "bad", title+"not stable: "+p.Why)
		}
		if i%every == 0 {
			c.text(mid, lineTop+lineHeight+19, "middle", "tick", fmt.Sprint(i+1))
		}
	}
	return c.String("the search for the highest stable number of threads, probe by probe")
}

// drainDetail is [Test.Detail] of a backlog: how many messages were waiting, by
// the seconds since the first was sent.
type drainDetail struct {
	Waiting []drainSample `json:"waiting"`
	Down    float64       `json:"down_s"` // the backend went down
	Up      float64       `json:"up_s"`   // and came back
}

type drainSample struct {
	T float64 `json:"t_s"`
	N int64   `json:"n"`
}

// drainChart draws how a backlog builds up while the backend is down, and how it
// drains afterwards.
func drainChart(name string, d *drainDetail, width float64) string {
	c := &svgChart{width: width, height: lineTop + lineHeight + lineBottom}
	most, last := int64(0), 0.0
	for _, s := range d.Waiting {
		most, last = max(most, s.N), max(last, s.T)
	}
	steps := niceSteps(float64(most), 5)
	times := niceSteps(last, map[bool]int{true: 8, false: 4}[width >= wideLimit])
	right := width - 14
	x := svgScale{from: 0, to: last, at: lineLeft, end: right}
	y := svgScale{from: 0, to: steps[len(steps)-1], at: lineTop + lineHeight, end: lineTop}
	c.el(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="down"/>`, x.pos(d.Down), lineTop, x.pos(d.Up)-x.pos(d.Down), lineHeight)
	for _, v := range steps {
		c.line(lineLeft, y.pos(v), right, y.pos(v), "grid")
		c.text(lineLeft-8, y.pos(v)+4, "end", "tick", shortNumber(v))
	}
	for _, v := range times {
		if v <= last {
			c.text(x.pos(v), lineTop+lineHeight+19, "middle", "tick", trimZero(fmt.Sprintf("%.2f", v))+" s")
		}
	}
	var line []svgPoint
	for _, s := range d.Waiting {
		line = append(line, svgPoint{x.pos(s.T), y.pos(float64(s.N))})
	}
	floor := y.pos(0)
	area := append([]svgPoint{{line[0].x, floor}}, line...)
	area = append(area, svgPoint{line[len(line)-1].x, floor})
	c.path(area, "area")
	c.path(line, "line c-hh")
	if mid := (x.pos(d.Down) + x.pos(d.Up)) / 2; x.pos(d.Up)-x.pos(d.Down) > 100 {
		c.text(mid, lineTop-9, "middle", "under", "backend down")
	}
	c.line(x.pos(d.Up), lineTop, x.pos(d.Up), lineTop+lineHeight, "mark")
	if right-x.pos(d.Up) > 90 {
		c.text(x.pos(d.Up)+6, lineTop-9, "start", "under", "backend back")
	}
	return c.String(name + ": waiting messages over time")
}
