package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/perf/benchfmt"
)

// WriteJSON writes results in schema 1, indented, for people to read too.
func WriteJSON(w io.Writer, r *Results) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// ReadJSON reads what [WriteJSON] has written, of this schema.
func ReadJSON(r io.Reader) (*Results, error) {
	var out Results
	if err := json.NewDecoder(r).Decode(&out); err != nil {
		return nil, fmt.Errorf("bench: results: %w", err)
	}
	if out.Schema != Schema {
		return nil, fmt.Errorf("bench: results of schema %d, this version reads schema %d", out.Schema, Schema)
	}
	return &out, nil
}

// columns are what a row is in results.txt and results.csv.
var columns = []string{
	"test", "combo", "loop", "conns", "size", "n", "runs", "value", "unit", "cov", "spread", "ci95",
	"p50_us", "p90_us", "p99_us", "max_us", "errors", "client_cpu_us", "server_cpu_us", "reads", "writes", "switches",
	"cpu_allows", "rss_bytes", "peak_bytes", "limit", "eff", "limiter", "verdict",
}

// cells are the values of columns; what a row does not have is "".
func cells(t *Test) []string {
	s := &t.Summary
	opt := func(v *float64) string {
		if v == nil {
			return ""
		}
		return short(*v)
	}
	var n int64
	for _, r := range t.Runs {
		n += r.Ops
	}
	var p PerOp
	perOp := func(v float64) string { return "" }
	if s.PerOp != nil && t.Loop != LoopNone {
		p = *s.PerOp
		perOp = short
	}
	time := func(us float64) string {
		if s.Latency.Max == 0 {
			return ""
		}
		return short(us)
	}
	ceiling := ""
	if p.Ceiling > 0 {
		ceiling = short(p.Ceiling)
	}
	rss, peak := "", ""
	if m := t.Memory; m != nil {
		rss, peak = strconv.FormatUint(m.RSS, 10), strconv.FormatUint(m.Peak, 10)
	}
	limit := ""
	if t.Limit != nil {
		limit = short(t.Limit.Value)
	}
	return []string{
		t.Name, t.Combo, t.Loop, strconv.Itoa(t.Conns), strconv.Itoa(t.Size), strconv.FormatInt(n, 10), strconv.Itoa(len(t.Runs)),
		short(s.Mean), t.Unit, short(s.CoV), short(s.Spread), opt(s.CI95),
		time(s.Latency.P50), time(s.Latency.P90), time(s.Latency.P99), time(s.Latency.Max), strconv.FormatInt(s.Errors, 10),
		perOp(p.ClientCPU), opt(p.ServerCPU), perOp(p.Reads), perOp(p.Writes), perOp(p.Switches),
		ceiling, rss, peak, limit, opt(t.Eff), t.Limiter, string(t.Verdict),
	}
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// WriteCSV writes a line for each row, after one with the names of the columns.
func WriteCSV(w io.Writer, r *Results) error {
	c := csv.NewWriter(w)
	if err := c.Write(columns); err != nil {
		return err
	}
	for i := range r.Tests {
		if err := c.Write(cells(&r.Tests[i])); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// WriteLines writes one line for each row that grep can find and that says all of
// it, as the founding tool did: the file that it is appended to is the history of
// a machine.
func WriteLines(w io.Writer, r *Results) error {
	var b strings.Builder
	for i := range r.Tests {
		fmt.Fprintf(&b, "%s version=%s", r.Env.Started.Format("2006-01-02T15:04:05Z"), r.Env.Version)
		for j, v := range cells(&r.Tests[i]) {
			if v == "" {
				continue
			}
			if strings.ContainsFunc(v, unicode.IsSpace) {
				v = strconv.Quote(v)
			}
			fmt.Fprintf(&b, " %s=%s", columns[j], v)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteGoBench writes every run in the format of Go's benchmarks, which benchstat
// reads: time and rate of an operation, or the score of the test.
func WriteGoBench(w io.Writer, r *Results) error {
	bw := benchfmt.NewWriter(w)
	for i := range r.Tests {
		t := &r.Tests[i]
		for j := range t.Runs {
			if err := bw.Write(goResult(&r.Env, t, &t.Runs[j])); err != nil {
				return err
			}
		}
	}
	return nil
}

func goResult(e *Env, t *Test, run *Run) *benchfmt.Result {
	name := title(t.Name)
	if t.Combo != "" {
		name += "/combo=" + strings.ReplaceAll(t.Combo, "/", "-")
	}
	name += "-" + strconv.Itoa(e.GOMAXPROCS)
	res := &benchfmt.Result{Name: benchfmt.Name(name), Iters: max(1, int(run.Ops))}
	for _, c := range []benchfmt.Config{
		{Key: "goos", Value: []byte(e.OS), File: true},
		{Key: "goarch", Value: []byte(e.Arch), File: true},
		{Key: "pkg", Value: []byte("soapway"), File: true},
		{Key: "cpu", Value: []byte(e.CPU), File: true},
	} {
		if len(c.Value) > 0 {
			res.Config = append(res.Config, c)
		}
	}
	if run.Rate > 0 && t.Loop == LoopClosed {
		ns := 1e9 / run.Rate * float64(max(1, t.Conns))
		res.Values = append(res.Values, benchfmt.Value{Value: ns / 1e9, Unit: "sec/op", OrigValue: ns, OrigUnit: "ns/op"})
	}
	factor, dim := scoreUnit(t.Unit)
	switch {
	case dim == seconds:
		res.Values = append(res.Values, benchfmt.Value{Value: run.Value * factor, Unit: "sec/op", OrigValue: run.Value * factor * 1e9, OrigUnit: "ns/op"})
	case dim == bytesOf:
		res.Values = append(res.Values, benchfmt.Value{Value: run.Value * factor, Unit: "B"})
	default:
		res.Values = append(res.Values, benchfmt.Value{Value: run.Value, Unit: unitWord(t.Unit)})
	}
	return res
}

// unitWord is a unit as one word, as Go's benchmarks have it.
func unitWord(unit string) string {
	if unit == "messages/s" {
		return "msg/s"
	}
	return strings.ReplaceAll(unit, " ", "-")
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// WriteProm writes the rows as the text format of Prometheus, for the textfile
// collector of a node exporter.
func WriteProm(w io.Writer, r *Results) error {
	var b strings.Builder
	metric := func(name, help string, value func(t *Test) (float64, bool)) {
		fmt.Fprintf(&b, "# HELP gateway_bench_%s %s\n# TYPE gateway_bench_%s gauge\n", name, help, name)
		for i := range r.Tests {
			t := &r.Tests[i]
			if v, ok := value(t); ok {
				fmt.Fprintf(&b, "gateway_bench_%s{test=%s,combo=%s,unit=%s} %s\n", name, promQuote(t.Name), promQuote(t.Combo), promQuote(t.Unit), short(v))
			}
		}
	}
	metric("value", "Mean of the runs of a row, in its unit.", func(t *Test) (float64, bool) { return t.Summary.Mean, true })
	metric("p99_seconds", "99th percentile of the latency.", func(t *Test) (float64, bool) {
		return t.Summary.Latency.P99 / 1e6, t.Summary.Latency.Max > 0
	})
	metric("errors", "Replies that failed or were wrong.", func(t *Test) (float64, bool) { return float64(t.Summary.Errors), true })
	metric("efficiency_ratio", "How near the row came to the limit of the machine.", func(t *Test) (float64, bool) {
		if t.Eff == nil {
			return 0, false
		}
		return *t.Eff, true
	})
	metric("valid", "1 when the row can be believed.", func(t *Test) (float64, bool) {
		if t.Verdict == Valid || t.Verdict == Disturbed {
			return 1, true
		}
		return 0, true
	})
	fmt.Fprintf(&b, "# HELP gateway_bench_time_seconds When the self-test began.\n# TYPE gateway_bench_time_seconds gauge\ngateway_bench_time_seconds %d\n", r.Env.Started.Unix())
	_, err := io.WriteString(w, b.String())
	return err
}

func promQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// WriteHistograms writes the latencies of every row into folder dir, as the
// percentile tables (*.hgrm, in milliseconds) that the plotters of HdrHistogram
// read.
func WriteHistograms(dir string, r *Results) error {
	for i := range r.Tests {
		t := &r.Tests[i]
		h, err := t.Histogram()
		if err != nil {
			return err
		}
		if h.TotalCount() == 0 {
			continue
		}
		var b bytes.Buffer
		if _, err := h.PercentilesPrint(&b, 5, 1e6); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		name := strings.ReplaceAll(rowName(t.Name, t.Combo), "/", "-") + ".hgrm"
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return nil
}

// Histogram returns the latencies of all runs, in nanoseconds.
func (t *Test) Histogram() (*hdrhistogram.Histogram, error) {
	all := histogram()
	for _, r := range t.Runs {
		if r.HDR == "" {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(r.HDR)
		if err != nil {
			return nil, fmt.Errorf("bench: histogram of %s: %w", rowName(t.Name, t.Combo), err)
		}
		h, err := hdrhistogram.Decode(b)
		if err != nil {
			return nil, fmt.Errorf("bench: histogram of %s: %w", rowName(t.Name, t.Combo), err)
		}
		all.Merge(h)
	}
	return all, nil
}

// WriteFolder writes all files of results into folder dir, which it makes:
// results.json, results.csv, results.prom, bench.txt, report.html and, when
// histograms are asked for, *.hgrm. results.txt is appended to.
func WriteFolder(dir string, r *Results, histograms bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	for _, f := range []struct {
		name   string
		write  func(io.Writer, *Results) error
		append bool
	}{
		{"results.json", WriteJSON, false},
		{"results.csv", WriteCSV, false},
		{"results.prom", WriteProm, false},
		{"bench.txt", WriteGoBench, false},
		{"report.html", WriteHTML, false},
		{"results.txt", WriteLines, true},
	} {
		if err := WriteFile(filepath.Join(dir, f.name), r, f.write, f.append); err != nil {
			return err
		}
	}
	if !histograms {
		return nil
	}
	return WriteHistograms(dir, r)
}

// WriteFile writes results into a file by one of the writers of this package. A
// file that is there is replaced when the new one is complete, or appended to.
func WriteFile(file string, r *Results, write func(io.Writer, *Results) error, add bool) (err error) {
	name, mode := file+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC
	if add {
		name, mode = file, os.O_CREATE|os.O_WRONLY|os.O_APPEND
	}
	f, err := os.OpenFile(name, mode, 0o644)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	err = errors.Join(write(f, r), f.Close())
	if err == nil && !add {
		err = os.Rename(name, file)
	}
	if err != nil {
		return fmt.Errorf("bench: %s: %w", file, err)
	}
	return nil
}
