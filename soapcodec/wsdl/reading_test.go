package wsdl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"soapway/internal/golden"
	"soapway/xmlstream"
)

// A dripping document comes in reads of a few octets; before each, what is settled
// is taken. It is kept in pieces of which only what has come may be looked at.
type dripping struct {
	doc   []byte
	piece int
	at    int
	fail  error // at the end, nil for io.EOF
	taken func(known [][]byte, n int)
	kept  [][]byte
}

// keep keeps octets in pieces of some octets, the rest of which is full of what must
// not be seen.
func (d *dripping) keep(b []byte) {
	const size = 100
	for n := d.at; len(b) > 0; {
		if n%size == 0 {
			d.kept = append(d.kept, bytes.Repeat([]byte{0xFF}, size))
		}
		k := copy(d.kept[n/size][n%size:], b)
		b, n = b[k:], n+k
	}
}

func (d *dripping) Read(p []byte) (int, error) {
	d.taken(d.kept, d.at)
	if d.at == len(d.doc) {
		if d.fail != nil {
			return 0, d.fail
		}
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), d.piece)], d.doc[d.at:])
	d.keep(p[:n])
	d.at += n
	return n, nil
}

// streamed rewrites a document while it comes in pieces. held is the longest time,
// in octets, that one is kept back.
func streamed(doc []byte, piece int, fail error, f func(Ref) (string, bool)) (out []byte, held int, err error) {
	w := NewRewriter(f)
	var pieces [][]byte
	var r *Reading
	give := func(known [][]byte, n int) {
		part := r.Part(known)
		held = max(held, n-part.Len())
		for _, p := range w.Append(pieces[:0], part) {
			out = append(out, p...)
		}
	}
	d := &dripping{doc: doc, piece: piece, fail: fail, taken: give}
	r = NewReading(d)
	if err = r.Run(); err == nil {
		give(d.kept, d.at)
	}
	return out, held, err
}

// elsewhere replaces some of the references, so that lengths change in both ways.
func elsewhere(r Ref) (string, bool) {
	switch {
	case r.Use == Address:
		return "http://gw.test/a'b\"<&>", true
	case strings.Contains(r.Value, "://"):
		return "x", true
	}
	return "", false
}

// known are the documents of the project.
func known(t testing.TB) map[string][]byte {
	t.Helper()
	docs := map[string][]byte{}
	for _, name := range []string{"depot.wsdl", "two.wsdl"} {
		docs[name] = read(t, name)
	}
	for _, c := range golden.Glob(t, "testdata/flat/*.txtar") {
		for line := range strings.Lines(string(c.File("sum"))) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			docs[c.Name+"/"+name] = c.File(name)
		}
	}
	docs["a mark"] = append([]byte("\xEF\xBB\xBF<?xml version='1.0'?>\n"), docs["two.wsdl"]...)
	docs["an end"] = append(slices.Clone(docs["depot.wsdl"]), "\n<!-- the end --> <?and more?>\n"...)
	docs["one tag"] = []byte(`<import xmlns="http://schemas.xmlsoap.org/wsdl/" location="http://a.test/"/>`)
	return docs
}

// What is made of a document while it comes, in pieces of any size, is octet for
// octet what is made of it as a whole.
func TestReading(t *testing.T) {
	for name, doc := range known(t) {
		t.Run(name, func(t *testing.T) {
			want, err := Rewrite(nil, doc, elsewhere)
			if err != nil {
				t.Fatal(err)
			}
			for piece := 1; piece <= len(doc)+1; piece++ {
				if got, _, err := streamed(doc, piece, nil, elsewhere); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("in pieces of %d: %v, got\n%s\nwant\n%s", piece, err, got, want)
				}
			}
		})
	}
}

// TestReading for the published descriptions, which are large: no more of one is
// kept back than a piece, and what the scanner holds.
func TestReadingCorpus(t *testing.T) {
	for name, doc := range corpus(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			doc, _, err := xmlstream.DecodeBytes(doc, "")
			if err != nil {
				t.Fatal(err)
			}
			want, err := Rewrite(nil, doc, elsewhere)
			if err != nil {
				t.Fatal(err)
			}
			pieces := []int{61, 1000, 4097, 16 << 10, 64 << 10, len(doc)}
			if len(doc) < 200<<10 {
				pieces = append(pieces, 1, 2, 7)
			}
			if len(doc) < 30<<10 {
				for n := range 40 {
					pieces = append(pieces, n+1)
				}
			}
			for _, piece := range pieces {
				got, held, err := streamed(doc, piece, nil, elsewhere)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("in pieces of %d: other octets, or %v", piece, err)
				}
				if most := piece + 64<<10; held > most {
					t.Errorf("in pieces of %d: %d octets were kept back, want at most %d", piece, held, most)
				}
			}
		})
	}
}

// Of a document that is not good a part may go out, but never one that could be
// taken for the whole.
func TestReadingRefuses(t *testing.T) {
	cut := errors.New("cut")
	for name, doc := range known(t) {
		t.Run(name, func(t *testing.T) {
			want, err := Rewrite(nil, doc, elsewhere)
			if err != nil {
				t.Fatal(err)
			}
			bad := map[string][]byte{}
			for _, more := range []string{"<a/>", "x", "</a>", "<!--", "<!DOCTYPE a>", "\x00"} {
				bad["then "+more] = append(slices.Clone(doc), more...)
			}
			end := bytes.LastIndex(doc, []byte("</"))
			for n := 0; n < len(doc); n += 1 + n/40 {
				bad[fmt.Sprintf("cut at %d", n)] = doc[:n]
				if n < end {
					bad[fmt.Sprintf("spoiled at %d", n)] = slices.Concat(doc[:n], []byte("\x01"), doc[n+1:])
				}
			}
			for what, b := range bad {
				for _, fail := range []error{nil, cut} {
					got, _, err := streamed(b, 7, fail, elsewhere)
					if what[:3] == "cut" && len(b) > end && fail == nil && err == nil {
						continue // but for something behind its end, it was all there
					}
					if err == nil {
						t.Fatalf("%s: no error", what)
					}
					if !bytes.HasPrefix(want, got) {
						t.Fatalf("%s: got\n%s\nwhich is not how it begins", what, got)
					}
					if walk(got, reader(func(Ref) {})) == nil {
						t.Fatalf("%s: what went out is a document of its own:\n%s", what, got)
					}
				}
			}
		})
	}
}

// However an address is written, none of it goes out before it is known.
func TestReadingHolds(t *testing.T) {
	const before, address = `<a:EndpointReference xmlns:a="http://www.w3.org/2005/08/addressing">`, "<a:Address>\n http://node.test<![CDATA[/svc]]></a:Address>"
	doc, held := []byte(before+address), 0
	var r *Reading
	r = NewReading(&dripping{doc: doc, piece: 1, fail: errors.New("later"), taken: func(known [][]byte, _ int) {
		switch n := r.Part(known).Len(); {
		case n > len(before) && n < len(doc):
			t.Fatalf("%q went out", doc[:n])
		case n == len(before):
			held++
		}
	}})
	if err := r.Run(); err == nil {
		t.Error("no error")
	}
	if held < len(address) || r.Part(nil).Len() != len(doc) {
		t.Errorf("held for %d octets; %d of %d at last", held, r.Part(nil).Len(), len(doc))
	}
}

// A document says the same and is rewritten alike, in whatever pieces it comes;
// what is refused is refused in any.
func FuzzReading(f *testing.F) {
	for _, doc := range known(f) {
		f.Add(doc, 3)
	}
	f.Add([]byte(`<a:EndpointReference xmlns:a="http://www.w3.org/2005/08/addressing"><a:Address> x<b/></a:Address></a:EndpointReference>`), 1)
	f.Fuzz(func(t *testing.T, doc []byte, piece int) {
		want, failed := Rewrite(nil, doc, elsewhere)
		got, _, err := streamed(doc, 1+piece&0xfff, nil, elsewhere)
		switch {
		case (err == nil) != (failed == nil):
			t.Fatalf("whole: %v, in pieces: %v", failed, err)
		case err == nil && !bytes.Equal(got, want):
			t.Fatalf("got %q, want %q", got, want)
		case err != nil && walk(got, reader(func(Ref) {})) == nil:
			t.Fatalf("of what is refused, %q went out", got)
		}
		if err != nil {
			return
		}
		r := NewReading(&dripping{doc: doc, piece: 1 + piece&0xfff, taken: func([][]byte, int) {}})
		if err := r.Run(); err != nil {
			t.Fatal(err)
		}
		d, _ := Parse(doc)
		if e := r.Document(doc); e.Kind != d.Kind || !slices.Equal(e.Refs, d.Refs) || !slices.Equal(e.places, d.places) {
			t.Fatalf("in pieces %v %v, as a whole %v %v", e.Kind, e.Refs, d.Kind, d.Refs)
		}
	})
}
