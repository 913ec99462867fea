package bench

import (
	"bytes"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// TestWriters: every form of the same results is what testdata has. Accept a
// change with: go test ./bench -run TestWriters -update
func TestWriters(t *testing.T) {
	for name, write := range map[string]func(io.Writer, *Results) error{
		"table.txt":    func(w io.Writer, r *Results) error { return WriteTable(w, r, nil) },
		"results.csv":  WriteCSV,
		"results.txt":  WriteLines,
		"results.prom": WriteProm,
		"bench.txt":    WriteGoBench,
	} {
		var b bytes.Buffer
		if err := write(&b, sampleResults()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, b.Bytes(), want)
		}
	}
}

// TestTableIsAligned: the columns of a block end below each other, also where a
// label is not of ASCII.
func TestTableIsAligned(t *testing.T) {
	r := sampleResults()
	other := r.Tests[0]
	other.Combo, other.Label, other.Founding = "µµ", "größer – as long as a label can get", ""
	r.Tests = []Test{r.Tests[0], other}
	var b strings.Builder
	if err := WriteTable(&b, r, nil); err != nil {
		t.Fatal(err)
	}
	end := -1
	for line := range strings.Lines(b.String()) {
		before, _, found := strings.Cut(line, "µs ")
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "      ") || !found {
			continue
		}
		if n := len([]rune(before)); end >= 0 && n != end {
			t.Errorf("the first latency ends in column %d, above in %d:\n%s", n, end, b.String())
		} else {
			end = n
		}
	}
	if end < 0 {
		t.Errorf("no rows:\n%s", b.String())
	}
}

// TestForms: each form can be read by those for whom it is meant.
func TestForms(t *testing.T) {
	r := sampleResults()
	dir := t.TempDir()
	for range 2 {
		if err := WriteFolder(dir, r, true); err != nil {
			t.Fatal(err)
		}
	}
	open := func(name string) *os.File {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	if again, err := ReadJSON(open("results.json")); err != nil || len(again.Tests) != 2 {
		t.Errorf("results.json: %v", err)
	}
	if lines, err := csv.NewReader(open("results.csv")).ReadAll(); err != nil || len(lines) != 3 {
		t.Errorf("results.csv: %d lines, %v", len(lines), err)
	}
	bf := benchfmt.NewReader(open("bench.txt"), "bench.txt")
	n := 0
	for bf.Scan() {
		switch rec := bf.Result().(type) {
		case *benchfmt.Result:
			n++
			if _, ok := rec.Value("sec/op"); !ok && rec.Name.String() == "Ping/combo=ff-2" {
				t.Errorf("bench.txt: no time in %+v", rec)
			}
		case *benchfmt.SyntaxError:
			t.Errorf("bench.txt: %v", rec)
		}
	}
	if n != 3 || bf.Err() != nil {
		t.Errorf("bench.txt: %d results, %v", n, bf.Err())
	}
	if page, err := io.ReadAll(open("report.html")); err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("report.html: %v", err)
	}
	history, err := io.ReadAll(open("results.txt"))
	if err != nil || bytes.Count(history, []byte("\n")) != 4 {
		t.Errorf("results.txt is not appended to: %v\n%s", err, history)
	}
	h, err := r.Tests[0].Histogram()
	if err != nil || h.TotalCount() != 2000 {
		t.Errorf("histogram: %d, %v", h.TotalCount(), err)
	}
	if b, err := io.ReadAll(open("ping.ff.hgrm")); err != nil || !bytes.Contains(b, []byte("Total count    =         2000")) {
		t.Errorf("ping.ff.hgrm: %v\n%s", err, b)
	}
	if _, err := os.Stat(filepath.Join(dir, "threads.hh.hgrm")); err == nil {
		t.Error("a histogram of nothing")
	}
	r.Tests[0].Runs[0].HDR = "broken"
	if err := WriteFolder(dir, r, true); err == nil {
		t.Error("a broken histogram is written")
	}
}

// TestWriteFile: a file is replaced only by a whole one.
func TestWriteFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := WriteFile(file, sampleResults(), WriteJSON, false); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	err = WriteFile(file, sampleResults(), func(w io.Writer, _ *Results) error {
		_, _ = w.Write([]byte("half"))
		return io.ErrShortWrite
	}, false)
	if err == nil {
		t.Error("no error")
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("a file was replaced by half of one: %v", err)
	}
}
