package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed report.tmpl.html
var reportTemplate string

// reportPage is parsed once; it depends on nothing but itself.
var reportPage = template.Must(template.New("report").Parse(reportTemplate))

// The widths for which every chart is drawn: a page shows the one that fits.
const (
	reportWide   = 1040.0
	reportNarrow = 440.0
)

// WriteHTML writes results as one page that needs nothing from anywhere: charts
// are part of it, it has no script, and its policy forbids both.
func WriteHTML(w io.Writer, r *Results) error {
	return reportPage.Execute(w, newReport(r))
}

// report is what the page shows.
type report struct {
	Title    string
	Env      Env
	Where    []string
	Good     bool
	Verdict  string
	Require  []Check
	Notes    []string
	Tiles    []reportTile
	Founding []FoundingRow
	Charts   []reportChart
	Tests    []reportRow
	Limits   []reportPair
	Colours  []string // of the combinations
}

type reportTile struct{ Label, Value, Unit, Under string }

type reportPair struct{ Name, Value string }

// A reportChart is one picture in two widths.
type reportChart struct {
	ID, Title, Text, Legend string
	Wide, Narrow            template.HTML
}

// A reportRow is a line of the table of all rows.
type reportRow struct {
	*Test
	Row, Score, CoV, P50, P99, Max, CPU, Eff string
	Memory                                   string // of the server side; hides that of Test
	Class                                    string
	Values, LimitText                        string
	More                                     []reportPair
	Probes                                   []reportProbe
}

// A reportProbe is a line of the table of what a search has tried.
type reportProbe struct {
	Stable                                                bool
	Threads, Window, Sent, Errors, P50, P99, Lag, Outcome string
}

// Bad reports whether the figure cannot be believed.
func (f FoundingRow) Bad() bool { return f.Here != "" && !believable(f.Verdict) }

// Times is the ratio for people, "" without one.
func (f FoundingRow) Times() string {
	switch {
	case f.Ratio <= 0:
		return ""
	case f.Ratio >= 100:
		return grouped(f.Ratio) + " ×"
	}
	return fmt.Sprintf("%.3g ×", f.Ratio)
}

func newReport(r *Results) *report {
	p := &report{
		Title: "What this gateway does on this machine", Env: r.Env, Where: whereOf(r.Env),
		Verdict: r.Verdict, Require: r.Require, Notes: r.Notes,
		Tiles: tilesOf(r), Charts: chartsOf(r), Limits: limitPairs(r.Limits),
		Colours: []string{"hh", "hr", "rh", "rr", "ff", "nn"},
	}
	p.Good = strings.HasPrefix(r.Verdict, "ok")
	for _, row := range FoundingRows(r) {
		if row.Here != "" {
			p.Founding = FoundingRows(r)
			break
		}
	}
	for i := range p.Founding {
		f := &p.Founding[i]
		f.Founding, f.Here = airy(f.Founding), airy(f.Here)
	}
	if len(r.Tests) < 4 {
		p.Founding = nil // a single test is no self-test
	}
	for i := range r.Tests {
		p.Tests = append(p.Tests, rowOf(&r.Tests[i]))
	}
	return p
}

func whereOf(e Env) (where []string) {
	add := func(format string, args ...any) {
		if s := strings.TrimSpace(fmt.Sprintf(format, args...)); s != "" {
			where = append(where, s)
		}
	}
	add("gateway %s%s", e.Version, inBrackets(shortCommit(e.Commit)))
	if e.CPU != "" {
		add("%s, %d processors", e.CPU, e.CPUs)
	} else {
		add("%d processors", e.CPUs)
	}
	add("%s", strings.TrimPrefix(e.OS+"/"+e.Arch+" "+e.Kernel, "/ "))
	add("%s", e.Go)
	if e.Host != "" {
		add("host %s", e.Host)
	}
	if !e.Started.IsZero() {
		add("%s", e.Started.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	if e.Seconds > 0 {
		add("took %v", time.Duration(e.Seconds*float64(time.Second)).Round(time.Second))
	}
	return where
}

// tilesOf are the figures that most readers come for.
func tilesOf(r *Results) (tiles []reportTile) {
	tile := func(row, measure, label, unit, under string) {
		t := findTest(r.Tests, row)
		if t == nil || len(t.Runs) == 0 {
			return
		}
		v := t.Summary.Mean
		if measure != "" {
			m := foundingMeasure{measure: measure}
			var ok bool
			if v, ok = m.of1(t); !ok {
				return
			}
		}
		text := figure(v)
		if unit == "B" {
			text, unit, _ = strings.Cut(octets(v), " ")
		}
		if !believable(t.Verdict) {
			under = string(t.Verdict)
		}
		tiles = append(tiles, reportTile{label, text, unit, under})
	}
	tile("ping.hh", "", "SOAP over HTTP, one caller", "messages/s", "each waits for the reply before")
	tile("ping.ff", "", "SOAP over framed TCP", "messages/s", "one caller")
	tile("threads.hh", "", "stable callers", "threads", "one message a second each")
	tile("queue.strict-64", "", "accepted for good", "messages/s", "64 senders, synced to disk")
	tile("startup", "", "start to first reply", "ms", "mean of cold starts")
	tile("mem.idle", "rss", "memory when idle", "B", "resident")
	return tiles
}

func limitPairs(l *Limits) (pairs []reportPair) {
	if l == nil {
		return nil
	}
	add := func(v float64, name, format string, args ...any) {
		if v > 0 {
			pairs = append(pairs, reportPair{name, fmt.Sprintf(format, args...)})
		}
	}
	add(l.FloorUS, "TCP round trip between two processes, median", "%s", airy(micros(l.FloorUS)))
	add(l.Stream1500, "loopback stream, writes of 1,500 octets", "%s Mbit/s", figure(l.Stream1500))
	add(l.Stream64K, "loopback stream, writes of 64 KiB", "%s Mbit/s", figure(l.Stream64K))
	add(l.MemcpyGBs, "copying memory", "%.1f GB/s", l.MemcpyGBs)
	if l.Sync != nil {
		add(l.Sync.Mean, "write and sync of one record, mean", "%s", airy(micros(l.Sync.Mean)))
		add(l.Sync.P99, "write and sync of one record, p99", "%s", airy(micros(l.Sync.P99)))
	}
	add(l.SyscallNS, "cheapest system call", "%.0f ns", l.SyscallNS)
	add(l.NowNS, "one look at the clock", "%.0f ns", l.NowNS)
	add(l.SleepOverUS, "a sleep of 50 µs is too long by", "%s", airy(micros(l.SleepOverUS)))
	return pairs
}

func rowOf(t *Test) reportRow {
	s := &t.Summary
	row := reportRow{Test: t, Row: rowName(t.Name, t.Combo), Score: figure(s.Mean), CoV: "–", P50: "–", P99: "–", Max: "–", CPU: "–", Eff: "–", Memory: "–", Class: "ok"}
	if !believable(t.Verdict) {
		row.Class = "bad"
	} else if t.Verdict == Disturbed {
		row.Class = "so-so"
	}
	if len(t.Runs) > 1 {
		row.CoV = fmt.Sprintf("%.1f %%", 100*s.CoV)
	}
	if s.Latency.Max > 0 {
		row.P50, row.P99, row.Max = airy(micros(s.Latency.P50)), airy(micros(s.Latency.P99)), airy(micros(s.Latency.Max))
	}
	if p := s.PerOp; p != nil {
		cpu := p.ClientCPU
		if p.ServerCPU != nil {
			cpu += *p.ServerCPU
		}
		row.CPU = airy(micros(cpu))
	}
	if t.Eff != nil {
		row.Eff = fmt.Sprintf("%.0f %%", 100**t.Eff)
	}
	if m := t.Memory; m != nil {
		row.Memory = octets(float64(m.RSS))
	}
	var all []string
	for _, v := range values(t.Runs) {
		all = append(all, figure(v))
	}
	row.Values = strings.Join(all, " · ")
	for _, m := range t.Measures {
		row.More = append(row.More, reportPair{m.Name, airy(withUnit(m.Value, m.Unit))})
	}
	if p := s.PerOp; p != nil && t.Loop != LoopNone {
		row.More = append(row.More, reportPair{"of one operation", fmt.Sprintf("%.1f reads, %.1f writes, %.1f context switches", p.Reads, p.Writes, p.Switches)})
		if p.Ceiling > 0 {
			row.More = append(row.More, reportPair{"the processors allow", figure(p.Ceiling) + "/s"})
		}
	}
	if m := t.Memory; m != nil {
		row.More = append(row.More, reportPair{"memory of " + m.Of, fmt.Sprintf("%s, peak %s, %d files", octets(float64(m.RSS)), octets(float64(m.Peak)), m.Files)})
	}
	if l := t.Limit; l != nil {
		row.LimitText = fmt.Sprintf("%s %s, by %s", figure(l.Value), t.Unit, l.Name)
	}
	row.Probes = probesOf(t)
	return row
}

// probesOf are the probes of a search, as text.
func probesOf(t *Test) (probes []reportProbe) {
	var d threadsDetail
	if !detailOf(t, &d) {
		return nil
	}
	for _, p := range d.Probes {
		outcome := "stable"
		if !p.Stable {
			outcome = or(p.Why, "not stable")
		}
		probes = append(probes, reportProbe{
			p.Stable, grouped(float64(p.Threads)), airy(micros(p.Window * 1e6)), grouped(float64(p.Sent)), grouped(float64(p.Errors)),
			airy(micros(p.P50)), airy(micros(p.P99)), airy(micros(p.LagP99)), outcome,
		})
	}
	return probes
}

// both draws a chart for both widths.
func both(draw func(width float64) string) (wide, narrow template.HTML) {
	// Every text in a chart is escaped where it is written.
	return template.HTML(draw(reportWide)), template.HTML(draw(reportNarrow))
}

// chartsOf draws what results have something for.
func chartsOf(r *Results) (charts []reportChart) {
	add := func(id, title, text, legend string, draw func(width float64) string) {
		c := reportChart{ID: id, Title: title, Text: text, Legend: legend}
		c.Wide, c.Narrow = both(draw)
		charts = append(charts, c)
	}
	if rows := rowsOf(r, "ping", func(t *Test) bool { return len(t.Runs) > 0 }); len(rows) > 0 {
		groups := rateGroups(rows)
		add("combinations", "Messages a second, by who sends and who receives",
			"One caller, and each message waits for the reply before. Dots are the runs; the share behind a figure is how near it comes to the fastest round trip that TCP has on this machine.",
			"", func(w float64) string {
				return barChart(groups, w, "messages/s", "messages a second of each combination")
			})
		var lines []lineSeries
		for _, t := range rows {
			if s, ok := percentilesOf(t); ok {
				lines = append(lines, s)
			}
		}
		if len(lines) > 0 {
			add("percentiles", "How long a reply takes",
				"At p99 one message in a hundred took longer than the line says. Both axes widen what is rare: a line that stays flat to the right is a gateway without surprises.",
				legendOf(lines), func(w float64) string { return percentileChart(lines, w) })
		}
	}
	for i := range r.Tests {
		t := &r.Tests[i]
		var d threadsDetail
		if t.Name == "threads" && detailOf(t, &d) && len(d.Probes) > 0 {
			add("threads-"+t.Combo, "Callers served in time, one message a second each",
				"Each step is a probe with so many callers ("+or(t.Label, t.Combo)+"), a dot if they were served in time, a cross if not. The number doubles until a probe fails, then the gap is halved; the last probe confirms.",
				"", func(w float64) string { return threadsChart(&d, w) })
		}
	}
	return append(charts, queueCharts(r)...)
}

func queueCharts(r *Results) (charts []reportChart) {
	if groups := queueGroups(r); len(groups) > 0 {
		c := reportChart{
			ID: "queue", Title: "Stored messages accepted a second",
			Text: "An answer means that the message is on disk, except where it says relaxed. JetStream alone syncs each message by itself; the gateway syncs all that wait at once.",
		}
		c.Wide, c.Narrow = both(func(w float64) string {
			return barChart(groups, w, "messages/s", "stored messages accepted a second")
		})
		charts = append(charts, c)
	}
	for i := range r.Tests {
		t := &r.Tests[i]
		var d drainDetail
		if t.Name == "queue" && detailOf(t, &d) && len(d.Waiting) > 1 {
			c := reportChart{
				ID: "drain-" + t.Combo, Title: "A backlog builds up and drains",
				Text: capital(or(t.Label, t.Combo)) + ". The messages that wait while their backend is down, and how fast they go once it is back. Nobody helps.",
			}
			c.Wide, c.Narrow = both(func(w float64) string { return drainChart(or(t.Label, t.Combo), &d, w) })
			charts = append(charts, c)
		}
	}
	if rows := rowsOf(r, "net", func(t *Test) bool { return len(t.Runs) > 0 }); len(rows) > 0 {
		groups := rateGroups(rows)
		where := ""
		for i, t := range rows {
			label, loopback := strings.CutSuffix(groups[0].rows[i].label, ", loopback")
			groups[0].rows[i].label, groups[0].rows[i].under = or(t.Combo, label), label
			if loopback {
				where = " Both ends were on this machine: it is its loopback, not a network."
			}
		}
		c := reportChart{ID: "net", Title: "What the network carries", Text: "Payload, by the clock of the receiving end. A raw stream shows the network, the others what a protocol leaves of it." + where}
		c.Wide, c.Narrow = both(func(w float64) string { return barChart(groups, w, "Mbit/s", "payload by protocol") })
		charts = append(charts, c)
	}
	return charts
}

// capital begins a sentence.
func capital(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

func rowsOf(r *Results, name string, ok func(*Test) bool) (rows []*Test) {
	for i := range r.Tests {
		if t := &r.Tests[i]; t.Name == name && ok(t) {
			rows = append(rows, t)
		}
	}
	return rows
}

// queueGroups are the rows that say how many messages are accepted, by the
// number of senders.
func queueGroups(r *Results) (groups []barGroup) {
	for _, t := range rowsOf(r, "queue", func(t *Test) bool { return t.Unit == "messages/s" && t.Params["senders"] != nil }) {
		heading := "1 sender"
		if n := fmt.Sprint(t.Params["senders"]); n != "1" {
			heading = n + " senders"
		}
		row := rateGroups([]*Test{t})[0].rows[0]
		switch t.Params["mode"] {
		case QueueStrict:
			row.label, row.class = "the gateway, strict", "c-hh"
		case QueueRelaxed:
			row.label, row.class, row.under = "the gateway, relaxed", "c-rr", "not safe against a power cut"
		case QueueJetStream:
			row.label, row.class = "JetStream alone, each message synced", "c-nn"
		}
		i := 0
		for i < len(groups) && groups[i].heading != heading {
			i++
		}
		if i == len(groups) {
			groups = append(groups, barGroup{heading: heading})
		}
		groups[i].rows = append(groups[i].rows, row)
	}
	return groups
}

// legendOf names the lines below a chart that is too narrow for their long names.
func legendOf(lines []lineSeries) string {
	var parts []string
	for _, l := range lines {
		parts = append(parts, l.name+": "+l.long)
	}
	return strings.Join(parts, " · ")
}
