package uitest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"soapway/bench"
)

var results = flag.String("results", "", "`file` with results of gateway bench, for pictures of its report")

// TestBenchReportPictures takes pictures of a report: of the page as a whole, and of
// each chart. go test ./internal/uitest -run BenchReportPictures -results results.json -pictures DIR
func TestBenchReportPictures(t *testing.T) {
	if *results == "" || *pictures == "" {
		t.Skip("no -results or no -pictures")
	}
	r := readResults(t)
	own := writeReport(t, r)
	b := open(t, own)
	for _, wide := range []int64{420, 1120} {
		for shade, dark := range map[string]bool{"light": false, "dark": true} {
			b.shows(own, wide, dark)
			name := fmt.Sprintf("report-%s-%d", shade, wide)
			b.looks(name)
			for _, id := range value[[]string](b, `["header", ...[...document.querySelectorAll("section")].map((s) => "#" + s.id)]`) {
				b.looksAt(id, name+"-"+strings.TrimPrefix(id, "#"))
			}
		}
	}
	b.forget("data:,")
}

// TestBenchReportDocs takes the pictures of docs/bench.md, of results with all tests:
// go test ./internal/uitest -run BenchReportDocs -results results.json -pictures ../../docs/images
func TestBenchReportDocs(t *testing.T) {
	if *results == "" || filepath.Base(*pictures) != "images" {
		t.Skip("no -results, or no -pictures that is docs/images")
	}
	own := writeReport(t, readResults(t))
	b := open(t, own)
	for _, p := range []struct {
		name, id string
		dark     bool
	}{
		{"bench-combinations", "#combinations", false},
		{"bench-percentiles", "#percentiles", true},
		{"bench-threads", "#threads-hh", false},
		{"bench-drain", "#drain-backlog-strict", true},
	} {
		b.shows(own, 1120, p.dark)
		b.looksAt(p.id, p.name)
	}
	b.forget("data:,")
}

// shows loads the report into a window that is as high as the page.
func (b *browser) shows(own string, wide int64, dark bool) {
	b.t.Helper()
	b.dark(dark)
	b.do(chromedp.EmulateViewport(wide, 900), chromedp.Navigate(own+"/report.html"))
	b.sees("What this gateway does on this machine")
	b.until(`[...document.querySelectorAll("details")].every((d) => { d.open = d.querySelector("table") !== null; return true })`)
	b.do(chromedp.EmulateViewport(wide, value[int64](b, "document.documentElement.scrollHeight")))
}

// readResults reads what -results names.
func readResults(t *testing.T) *bench.Results {
	t.Helper()
	f, err := os.Open(*results)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.ReadJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// writeReport writes the report of results into a folder, and returns that as a
// browser names it.
func writeReport(t *testing.T, r *bench.Results) (own string) {
	t.Helper()
	dir := t.TempDir()
	if err := bench.WriteFile(filepath.Join(dir, "report.html"), r, bench.WriteHTML, false); err != nil {
		t.Fatal(err)
	}
	return "file://" + dir
}

// sampleResults are results with something for every chart.
func sampleResults() *bench.Results {
	row := func(name, combo, unit string, detail any, values ...float64) bench.Test {
		r := bench.Test{Name: name, Combo: combo, Label: name + " " + combo, Loop: bench.LoopClosed, Unit: unit, Verdict: bench.Valid, Detail: detail}
		for _, v := range values {
			r.Runs = append(r.Runs, bench.Run{Value: v, Verdict: bench.Valid})
			r.Summary.Mean += v / float64(len(values))
		}
		return r
	}
	probes := []map[string]any{{"threads": 64, "stable": true}, {"threads": 128, "stable": false, "why": "p99 300 ms > 250 ms"}}
	waiting := []map[string]any{{"t_s": 0, "n": 0}, {"t_s": 0.5, "n": 10_000}, {"t_s": 1.5, "n": 0}}
	accepted := row("queue", "strict-64", "messages/s", nil, 19_000, 19_500)
	accepted.Params = map[string]any{"mode": "strict", "senders": 64}
	return &bench.Results{
		Schema: bench.Schema, Verdict: "ok: 6 valid", Env: bench.Env{Version: "1", OS: "linux", Arch: "amd64", CPUs: 2},
		Tests: []bench.Test{
			row("ping", "hh", "messages/s", nil, 4800, 4900), row("ping", "ff", "messages/s", nil, 12_000, 12_500),
			row("threads", "hh", "threads", map[string]any{"probes": probes, "stable": 64}, 64), accepted,
			row("queue", "backlog-strict", "messages/s", map[string]any{"waiting": waiting, "up_s": 0.5}, 9000),
			row("net", "raw", "Mbit/s", nil, 899.7),
		},
	}
}

// TestBenchReport opens a report of the self-test as a file: it asks nobody for
// anything, leaves nothing in the console, shows the charts that fit the window, and
// is nowhere wider than that.
func TestBenchReport(t *testing.T) {
	r := sampleResults()
	own := writeReport(t, r)
	b := open(t, own)
	b.do(chromedp.Navigate(own + "/report.html"))
	b.sees("What this gateway does on this machine")
	for _, size := range []struct{ wide, high int64 }{{500, 900}, {1200, 900}} {
		for _, dark := range []bool{false, true} {
			b.dark(dark)
			b.do(chromedp.EmulateViewport(size.wide, size.high))
			if over := value[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("at %d the page is %d pixels too wide", size.wide, over)
			}
			if n := value[int](b, `[...document.querySelectorAll("svg")].filter((s) => s.getBoundingClientRect().height > 50).length`); n != 5 {
				t.Errorf("at %d there are %d charts, want 5", size.wide, n)
			}
			b.looks(map[bool]string{false: "report-light-", true: "report-dark-"}[dark] + map[int64]string{500: "narrow", 1200: "wide"}[size.wide])
		}
	}
	b.forget("data:,") // the icon that keeps the browser from asking for one
}
