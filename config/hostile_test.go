package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// aliasBomb is "billion laughs": each list has the one before nine times.
func aliasBomb() string {
	var b strings.Builder
	b.WriteString("trusted_proxies: &a0 [x]\n")
	for i := range 60 {
		fmt.Fprintf(&b, "k%d: &a%d [%s]\n", i, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	b.WriteString("routes: *a60\nlisteners: *a60\n")
	return b.String()
}

// sharedBomb multiplies by aliases in places where every level is decoded.
func sharedBomb() string {
	var b strings.Builder
	b.WriteString("routes:\n  - {name: r, methods: &m [" + strings.TrimSuffix(strings.Repeat("A,", 2000), ",") + "]}\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  - {name: r%d, methods: *m}\n", i)
	}
	return b.String()
}

func nestedBlocks(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// Whatever the file, there is an answer in bounded time and memory: the stack
// does not overflow, and no library panics.
func TestHostileInput(t *testing.T) {
	const big = 1 << 18
	for name, text := range map[string]string{
		"long line":          strings.Repeat("a", maxLine+1),
		"too large":          strings.Repeat("#", maxFile+1),
		"one long line":      strings.Repeat("a", maxLine-1),
		"long comment":       strings.Repeat("#"+strings.Repeat("x", maxLine-2)+"\n", maxFile/maxLine),
		"open brackets":      strings.Repeat("[", big),
		"open braces":        strings.Repeat("{", big),
		"braces and keys":    strings.Repeat("{a: ", big/4),
		"dashes":             strings.Repeat("- ", big/2),
		"question marks":     strings.Repeat("? ", big/2),
		"deep but allowed":   strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1),
		"nested blocks":      nestedBlocks(2000),
		"keys on one line":   strings.Repeat("a: ", big/3),
		"anchors":            strings.Repeat("&a ", big/3),
		"tags":               strings.Repeat("!t ", big/3),
		"aliases":            strings.Repeat("*a ", big/3),
		"many keys":          strings.Repeat("a: b\n", big/5),
		"allowed keys":       strings.Repeat("a: b\n", maxKeys),
		"keys in lists":      strings.Repeat("- a: b\n", 25_000),
		"flow list":          "trusted_proxies: [" + strings.Repeat("a,", 40_000) + "]",
		"flow map":           "namespaces: {" + strings.Repeat("a: b,", 25_000) + "}",
		"many namespaces":    func() string { return "namespaces: {" + numbered("p%d: u,", 12_000) + "}" }(),
		"many backends":      "backends:\n" + numbered("  b%d: {}\n", maxKeys-1),
		"many routes":        "routes:\n" + numbered("  - {name: r%d}\n", 3_000),
		"many values":        "routes: [" + strings.Repeat("1,", 50_000) + "]",
		"many listeners":     "listeners: [" + numbered("{address: \"h:%d\", route: x},", 3_000) + "]",
		"blank lines":        "a: |\n" + strings.Repeat("\n", big),
		"runs of blanks":     strings.Repeat("a: |\n"+strings.Repeat("\n", maxBlankLines), 300),
		"literal":            "a: |\n" + strings.Repeat(" x\n", 60_000),
		"folded":             "a: >\n" + strings.Repeat(" x\n", 60_000),
		"quotes":             strings.Repeat("'", big),
		"double quotes":      strings.Repeat("\"", big),
		"open quote":         "a: \"" + strings.Repeat("x\n", 80_000),
		"escapes":            "a: \"" + strings.Repeat("\\n", big/2) + "\"",
		"documents":          strings.Repeat("---\n", big/4),
		"directives":         strings.Repeat("%a\n", 60_000),
		"tabs":               strings.Repeat("\t", big),
		"carriage returns":   strings.Repeat("\r", big),
		"variables":          "drain: \"" + strings.Repeat("${A}", 200_000) + "\"",
		"alias bomb":         aliasBomb(),
		"shared bomb":        sharedBomb(),
		"merge keys":         "routes:\n" + strings.Repeat("- <<: *a\n", 12_000),
		"zero octets":        strings.Repeat("\x00", 1000),
		"not UTF-8":          "a: \xff\n",
		"UTF-16":             "\xff\xfea\x00:\x00",
		"colons":             "routes: {a: [" + strings.Repeat(":", 25_000) + "]}",
		"joined colons":      "trusted_proxies: [{a: [" + strings.Repeat("x:1,", 25_000) + "]}]",
		"unknown long key":   strings.Repeat("k", 1<<20) + ": 1\n",
		"long names":         "routes: [{name: " + strings.Repeat("n", 1<<20) + "}]",
		"long QName":         "routes: [{name: a, redact: [" + strings.Repeat("a:", 1<<18) + "]}]",
		"long path of QName": "routes: [{name: a, order_by: \"body:" + strings.Repeat("/a", 1<<18) + "\"}]",
		"big number":         "limits: {depth: " + strings.Repeat("9", 1<<20) + ", text: " + strings.Repeat("9", 1<<20) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := LoadBytes("f", []byte(text), Options{Env: []string{"A=" + strings.Repeat("b", 10)}})
			problems, ok := errors.AsType[Problems](err)
			if !ok || len(problems) == 0 {
				t.Fatalf("got %v, want problems", err)
			}
			// Far above what any takes, with the race detector on a busy
			// machine: what this guards against never ends.
			if took := time.Since(start); took > 2*time.Minute {
				t.Errorf("took %v", took)
			}
			for _, p := range problems[:min(len(problems), 100)] {
				if len(p.Message)+len(p.Hint) > 1500 {
					t.Errorf("a problem of %d octets: %.200s…", len(p.String()), p)
				}
			}
		})
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// FuzzLoad: no input panics, every problem has a text, and what loads prints
// as a file that loads to the same.
func FuzzLoad(f *testing.F) {
	for _, c := range caseInputs(f) {
		f.Add(c)
	}
	f.Add([]byte("listeners: [{address: ':0'}]\nroutes: [{name: a, match: {path: /a/*, action: \"${\"}, to: [builtin:echo]}]\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a\n? b\n: c\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("file:")) || bytes.Contains(data, []byte("ca:")) || bytes.Contains(data, []byte("certificate")) {
			return // would read files of this machine
		}
		cfg, err := LoadBytes("f", data, Options{Env: []string{"A=b"}})
		if err != nil {
			problems, ok := errors.AsType[Problems](err)
			if !ok || len(problems) == 0 {
				t.Fatalf("got %v, want problems", err)
			}
			for _, p := range problems {
				if p.Message == "" {
					t.Errorf("a problem without text: %+v", p)
				}
				if n := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 1; p.Line > n {
					t.Errorf("%v is behind the last line, %d", p, n)
				}
			}
			return
		}
		text := cfg.Redacted()
		if bytes.Contains(text, []byte("redacted")) {
			return
		}
		again, err := LoadBytes("f", text, Options{})
		if err != nil {
			t.Fatalf("the printed form does not load: %v\n%s", err, text)
		}
		if got := again.Redacted(); !bytes.Equal(got, text) {
			t.Errorf("printed again it is another:\n%s\nfirst:\n%s", got, text)
		}
		if keys := RestartNeeded(cfg, again); len(keys) > 0 {
			t.Errorf("the printed form needs a restart for %v", keys)
		}
	})
}
