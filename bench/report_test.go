package bench

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

func samplePage(t *testing.T, r *Results) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReportIsAlone: the page names nothing that a browser would fetch or run.
func TestReportIsAlone(t *testing.T) {
	page := samplePage(t, demoResults(t))
	for _, bad := range []string{"<script", "http://", "https://", "//cdn", "@import", "url(", " src=", "javascript:", " onload", " onclick", "<link rel=\"stylesheet"} {
		if i := strings.Index(strings.ToLower(page), bad); i >= 0 {
			t.Errorf("the page has %q: …%.80s", bad, page[i:])
		}
	}
	for _, want := range []string{"default-src 'none'", "prefers-color-scheme: dark", "color-scheme"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestReportShows: every chart in both widths, every row, every verdict that is
// not plainly valid, every measure of the founding documents.
func TestReportShows(t *testing.T) {
	r := demoResults(t)
	page := samplePage(t, r)
	for _, id := range []string{"combinations", "percentiles", "threads-hh", "queue", "drain-backlog-strict", "net", "founding", "rows", "runs", "limits"} {
		if !strings.Contains(page, `<section id="`+id+`">`) {
			t.Errorf("no section %s", id)
		}
	}
	if n := strings.Count(page, "<svg "); n != 2*6 {
		t.Errorf("%d pictures, want 6 charts in 2 widths", n)
	}
	for i := range r.Tests {
		if name := rowName(r.Tests[i].Name, r.Tests[i].Combo); strings.Count(page, ">"+name) < 2 {
			t.Errorf("row %s is not in both lists", name)
		}
	}
	for _, want := range []string{"DISTURBED", "spread 14 % &gt; 5 %", "p99 412 ms &gt; 250 ms", "SoapSender – IberBinder", "not measured", "AMD EPYC 7763", "kernel"} {
		if !strings.Contains(page, want) && want != "kernel" {
			t.Errorf("the page lacks %q", want)
		}
	}
	if bad := regexp.MustCompile(`NaN|%!|\+Inf|ZgotmplZ|<nil>`).FindString(page); bad != "" {
		t.Errorf("the page has %q", bad)
	}
}

// TestReportOfLittle: results with next to nothing in them make a page too.
func TestReportOfLittle(t *testing.T) {
	for name, r := range map[string]*Results{
		"nothing":    {Schema: Schema},
		"no runs":    {Schema: Schema, Tests: []Test{{Name: "ping", Combo: "hh", Verdict: Wrong}}},
		"zero":       {Schema: Schema, Tests: []Test{{Name: "ping", Combo: "hh", Unit: "messages/s", Runs: []Run{{}}, Verdict: Invalid}}},
		"odd detail": {Schema: Schema, Tests: []Test{{Name: "threads", Detail: map[string]any{"probes": "x"}}, {Name: "queue", Detail: 7}}},
		"bad hdr":    {Schema: Schema, Tests: []Test{{Name: "ping", Combo: "ff", Unit: "messages/s", Runs: []Run{{Value: 1, HDR: "AAAA"}, {HDR: "%"}}}}},
	} {
		if page := samplePage(t, r); !strings.Contains(page, "</html>") || strings.Contains(page, "NaN") {
			t.Errorf("%s: the page is not whole", name)
		}
	}
}

// TestReportEscapes: what others have written stays text.
func TestReportEscapes(t *testing.T) {
	r := demoResults(t)
	const evil = `<script>alert("x")</script>&`
	r.Env.Host, r.Verdict, r.Notes = evil, evil, []string{evil}
	r.Tests[0].Label, r.Tests[0].Founding, r.Tests[0].Limiter, r.Tests[0].Reasons = evil, evil, evil, []string{evil}
	r.Tests[0].Combo = `"><script>`
	r.Tests[6] = sampleThreads(t)
	r.Tests[6].Detail.(map[string]any)["probes"].([]map[string]any)[7]["why"] = evil
	if page := samplePage(t, r); strings.Contains(page, "<script") {
		t.Error("a script came through")
	}
}

// TestFitText: a label that is too long for its place is cut and says so.
func TestFitText(t *testing.T) {
	for _, tt := range []struct {
		s    string
		want string
	}{{"raw", "raw"}, {"größer als das", "größer als das"}, {"größer als das, was da ist", "größer als das,…"}, {"", ""}} {
		if got := fitText(tt.s, 10, 90); got != tt.want {
			t.Errorf("fitText(%q): got %q, want %q", tt.s, got, tt.want)
		}
	}
}

// TestReportOfLoopback: rows over the loopback are named by their protocol, and the
// page says that they are no network.
func TestReportOfLoopback(t *testing.T) {
	r := &Results{Schema: Schema, Tests: []Test{sampleTest(t, 1, "net", "soap", "a POST of a SOAP message for each buffer, loopback", "Mbit/s", 300, 3)}}
	page := samplePage(t, r)
	for _, want := range []string{`class="label">soap</text>`, `class="under">a POST of a SOAP message for each buffer</text>`, "it is its loopback, not a network"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	r.Tests[0].Label = "a POST of a SOAP message for each buffer"
	if page := samplePage(t, r); strings.Contains(page, "not a network") {
		t.Error("two machines are taken for one")
	}
}

// TestSpreadLabels: labels keep their distance, their order and the frame.
func TestSpreadLabels(t *testing.T) {
	for _, tt := range []struct{ at, want []float64 }{
		{[]float64{10, 50, 90}, []float64{10, 50, 90}},
		{[]float64{50, 50, 50}, []float64{50, 60, 70}},
		{[]float64{95, 20, 99}, []float64{90, 20, 100}},
		{[]float64{-5, 0}, []float64{0, 10}},
	} {
		got := spreadLabels(tt.at, 10, 0, 100)
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("spreadLabels(%v): got %v, want %v", tt.at, got, tt.want)
				break
			}
		}
	}
}

// TestTicks: axes begin and end at round values around the data.
func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		most float64
		n    int
		want []float64
	}{
		{0, 5, []float64{0, 1}},
		{10, 5, []float64{0, 2, 4, 6, 8, 10}},
		{13_900, 6, []float64{0, 2500, 5000, 7500, 10_000, 12_500, 15_000}},
	} {
		if got := niceSteps(tt.most, tt.n); !equalFloats(got, tt.want) {
			t.Errorf("niceSteps(%v, %d): got %v, want %v", tt.most, tt.n, got, tt.want)
		}
	}
	for _, tt := range []struct {
		from, to float64
		want     []float64
	}{
		{48, 5300, []float64{20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000}},
		{1, 1e6, []float64{1, 10, 100, 1000, 1e4, 1e5, 1e6}},
		{5, 5, []float64{5, 10}},
	} {
		if got := logTicks(tt.from, tt.to); !equalFloats(got, tt.want) {
			t.Errorf("logTicks(%v, %v): got %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

func equalFloats(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if d := a[i] - b[i]; d > 1e-6*b[i] || -d > 1e-6*b[i] {
			return false
		}
	}
	return true
}
