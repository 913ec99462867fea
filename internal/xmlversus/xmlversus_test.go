package main

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"testing"
)

// The documents are the same in every run, or figures of two runs could not be
// compared.
func TestFamilies(t *testing.T) {
	want := map[string]struct{ variants, least, most int }{
		envelope1k: {variants, 1_200, 1_400},
		order2k:    {variants, 2_000, 2_500},
		orders1m:   {1, 1_000_000, 1_100_000},
		base64of1m: {1, 950_000, 1_050_000},
	}
	again := families()
	for i, f := range families() {
		w := want[f.name]
		if len(f.variants) != w.variants {
			t.Errorf("%s: got %d variants, want %d", f.name, len(f.variants), w.variants)
		}
		seen := map[[32]byte]bool{}
		for v, doc := range f.variants {
			if len(doc) < w.least || len(doc) > w.most {
				t.Errorf("%s: a variant of %d octets, want %d to %d", f.name, len(doc), w.least, w.most)
			}
			if seen[sha256.Sum256(doc)] {
				t.Errorf("%s: two variants are the same", f.name)
			}
			seen[sha256.Sum256(doc)] = true
			if !bytes.Equal(doc, again[i].variants[v]) {
				t.Errorf("%s: variant %d differs when made again", f.name, v)
			}
		}
	}
}

// Every contender in Go sees of every document what encoding/xml sees.
func TestContenders(t *testing.T) {
	for _, f := range families() {
		for _, doc := range f.variants {
			var want tally
			if err := encodingXML(doc, &want); err != nil {
				t.Fatal(err)
			}
			for name, parse := range contenders() {
				var got tally
				if err := parse(bytes.Clone(doc), &got); err != nil {
					t.Fatalf("%s, %s: %v", name, f.name, err)
				}
				w := want
				switch {
				case strings.HasPrefix(name, "decode"):
					w = tally{}
				case name == "gosax":
					w.spaced = 0
				case name == "scan":
					if got.text < w.text {
						t.Errorf("%s, %s: %d octets of text as written, want at least %d", name, f.name, got.text, w.text)
					}
					w.text = got.text
				}
				if got != w {
					t.Errorf("%s, %s: saw %v, want %v", name, f.name, &got, &w)
				}
			}
		}
	}
}

func TestServe(t *testing.T) {
	var out bytes.Buffer
	in := "doc d 16\n<a b='c'>d</a>\n\n" + "run scan d 3\nallocs scan d\nrun nobody d 1\nrun scan none 1\nnonsense\n" +
		"doc broken 3\n<a>run scan broken 1\n"
	if err := serve(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(got) != 8 {
		t.Fatalf("serve: got %d answers, want 8: %q", len(got), got)
	}
	if _, seen, _ := strings.Cut(got[1], " "); seen != "3 3 3 585 3 3 0" {
		t.Errorf("run: got %q, want three passes over one element", got[1])
	}
	for i, want := range map[int]string{0: "ok", 2: "0", 3: "error: ", 4: "error: ", 5: "error: ", 6: "ok", 7: "error: xmlstream: "} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("answer %d: got %q, want %q", i, got[i], want)
		}
	}
}

func TestPromise(t *testing.T) {
	for _, tt := range []struct {
		p    promise
		want string
	}{
		{promise{"a", 14, 10, 14, false}, "a\t14.00\t10\t14\tgoal"},
		{promise{"a", 10, 10, 14, false}, "a\t10.00\t10\t14\tmust"},
		{promise{"a", 9.99, 10, 14, false}, "a\t9.99\t10\t14\tMISSED"},
		{promise{"a", 12, 10, 0, false}, "a\t12.00\t10\t-\tmust"},
		{promise{"a", 0.5, 0, 0.6, false}, "a\t0.50\t-\t0.6\t-"},
		{promise{"a", 0.7, 0, 0.6, false}, "a\t0.70\t-\t0.6\tgoal"},
		{promise{"a", 0.7, 0, 0, false}, "a\t0.70\t-\t-\t-"},
		{promise{"a", 1.5, 1.5, 1.5, true}, "a\t1.50\t1.5\t1.5\tgoal"},
		{promise{"a", 1.6, 1.5, 1.5, true}, "a\t1.60\t1.5\t1.5\tMISSED"},
		{promise{"a", 0, 0, 0, true}, "a\t0.00\t0\t0\tgoal"},
		{promise{"a", 1, 0, 0, true}, "a\t1.00\t0\t0\tMISSED"},
	} {
		if got := tt.p.String(); got != tt.want {
			t.Errorf("String(%+v): got %q, want %q", tt.p, got, tt.want)
		}
	}
}

// A contender that does less than the others has no figure.
func TestCalibrateRefusesLessWork(t *testing.T) {
	f := family{"d", [][]byte{[]byte("<a b='c'>d</a>")}}
	in, commands := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(in, out) }()
	c := newChild(commands, answers)
	if err := c.load(f); err != nil {
		t.Fatal(err)
	}
	want, err := reference(c, f)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := calibrate(c, contender{name: "scanner", id: "scan", rawText: true}, f, 1, want); n < 1 || err != nil {
		t.Errorf("calibrate: got %d, %v, want some passes", n, err)
	}
	want.attrs++
	if _, err := calibrate(c, contender{name: "scanner", id: "scan", rawText: true}, f, 1, want); err == nil || !strings.Contains(err.Error(), "want 1 1 2 ") {
		t.Errorf("calibrate with an attribute missing: got %v, want an error that says what should be seen", err)
	}
	if err := commands.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
