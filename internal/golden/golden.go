// Package golden runs tests whose cases are txtar files: one file is one case,
// its comment says why the case exists, its sections are input and expected
// output.
//
// Run a package's tests with -update to write changed outputs back; comments
// and inputs stay as they are. Review the diff like code.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected sections of golden cases")

// A Case is one txtar file.
type Case struct {
	Name string // of the file, without extension
	path string
	arc  *txtar.Archive
}

// Glob loads every case that matches pattern. No match fails tb: a folder that
// was moved must not turn a test into one that checks nothing.
func Glob(tb testing.TB, pattern string) []*Case {
	tb.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		tb.Fatalf("golden: pattern %q: %v", pattern, err)
	}
	if len(paths) == 0 {
		tb.Fatalf("golden: no case matches %q", pattern)
	}
	cases := make([]*Case, len(paths))
	for i, path := range paths {
		arc, err := txtar.ParseFile(path)
		if err != nil {
			tb.Fatalf("golden: %v", err)
		}
		base := filepath.Base(path)
		cases[i] = &Case{Name: strings.TrimSuffix(base, filepath.Ext(base)), path: path, arc: arc}
	}
	return cases
}

// Run calls f as a subtest for each case that matches pattern.
func Run(t *testing.T, pattern string, f func(*testing.T, *Case)) {
	t.Helper()
	for _, c := range Glob(t, pattern) {
		t.Run(c.Name, func(t *testing.T) { f(t, c) })
	}
}

// File returns the section called name; nil if the case has none.
func (c *Case) File(name string) []byte {
	if i := c.index(name); i >= 0 {
		return c.arc.Files[i].Data
	}
	return nil
}

// Has reports whether the case has a section called name.
func (c *Case) Has(name string) bool { return c.index(name) >= 0 }

// Check fails t unless got equals the section called name. A txtar section
// always ends in a newline, so one missing at the end of got does not count.
// Under -update the section is rewritten instead, or added.
func (c *Case) Check(t *testing.T, name, got string) {
	t.Helper()
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	want := string(c.File(name))
	if want == got {
		return
	}
	if !*update {
		t.Errorf("%s: section %s differs; accept with -update\n--- got\n%s--- want\n%s", c.path, name, got, want)
		return
	}
	if i := c.index(name); i >= 0 {
		c.arc.Files[i].Data = []byte(got)
	} else {
		c.arc.Files = append(c.arc.Files, txtar.File{Name: name, Data: []byte(got)})
	}
	if err := os.WriteFile(c.path, txtar.Format(c.arc), 0o644); err != nil {
		t.Fatalf("golden: %v", err)
	}
}

func (c *Case) index(name string) int {
	return slices.IndexFunc(c.arc.Files, func(f txtar.File) bool { return f.Name == name })
}
