package xmlstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// dump renders what the scanner says, a line for each token and attribute, and
// at last how the document ended.
func dump(s *Scanner) string {
	var out strings.Builder
	for {
		k, err := s.Next()
		if err == io.EOF {
			out.WriteString("eof\n")
			return out.String()
		}
		if err != nil {
			fmt.Fprintf(&out, "error %v\n", err)
			return out.String()
		}
		writeToken(&out, s, k)
	}
}

// writeToken renders the current token, which is of kind k.
func writeToken(out *strings.Builder, s *Scanner, k Kind) {
	fmt.Fprintf(out, "%v %d-%d depth %d", k, s.Offset(), s.InputOffset(), s.Depth())
	switch k {
	case Start, End:
		fmt.Fprintf(out, " %s %v", s.Path(), s.Name())
		if s.SelfClosing() {
			out.WriteString(" self-closing")
		}
	case ProcInst:
		fmt.Fprintf(out, " %v %q", s.Name(), s.Text())
	case Text, CDATA:
		fmt.Fprintf(out, " %q", s.AppendText(nil))
	default:
		fmt.Fprintf(out, " %q", s.Text())
	}
	if s.Partial() {
		out.WriteString(" partial")
	}
	out.WriteByte('\n')
	attrs := s.Attrs()
	for i := range attrs {
		a := &attrs[i]
		kind := "attr"
		if a.IsNamespace() {
			kind = "xmlns"
		}
		fmt.Fprintf(out, "  %s %d %s:%v %c%s%c = %q\n", kind, a.Offset, a.Name.Prefix, a.Name, a.Quote, a.Raw, a.Quote, a.Value())
	}
}

// source is one way to give a scanner a document.
type source struct {
	name  string
	reset func(s *Scanner, doc []byte)
}

// sources are all the ways that must make no difference.
var sources = []source{
	{"bytes", func(s *Scanner, doc []byte) { s.ResetBytes(doc) }},
	{"whole", func(s *Scanner, doc []byte) { s.Reset(bytes.NewReader(doc)) }},
	{"one by one", func(s *Scanner, doc []byte) { s.Reset(iotest.OneByteReader(bytes.NewReader(doc))) }},
	{"data with EOF", func(s *Scanner, doc []byte) { s.Reset(iotest.DataErrReader(bytes.NewReader(doc))) }},
	{"random 1", func(s *Scanner, doc []byte) { s.Reset(newChunks(doc, 1)) }},
	{"random 2", func(s *Scanner, doc []byte) { s.Reset(newChunks(doc, 2)) }},
}

// chunks is a reader of random, also empty, reads.
type chunks struct {
	rest []byte
	rnd  *rand.Rand
}

func newChunks(doc []byte, seed uint64) *chunks {
	return &chunks{doc, rand.New(rand.NewPCG(seed, uint64(len(doc))))}
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.rnd.IntN(40))], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// scanner returns one with small pieces, if piece is not 0.
func scanner(lim Limits, piece int) *Scanner {
	s := NewScanner(lim)
	if piece != 0 {
		s.piece = piece
	}
	return s
}

// everyWay dumps doc from every source and with a scanner that has been used
// before, and fails t unless they agree.
func everyWay(t *testing.T, doc []byte, lim Limits, piece int) string {
	t.Helper()
	want := ""
	used := scanner(lim, piece)
	for _, src := range sources {
		s := scanner(lim, piece)
		src.reset(s, doc)
		got := dump(s)
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("Next over %s: got\n%s\nwant, as over %s,\n%s", src.name, got, sources[0].name, want)
		}
		src.reset(used, doc)
		if got := dump(used); got != want {
			t.Fatalf("Next over %s after a Reset: got\n%s\nwant\n%s", src.name, got, want)
		}
	}
	return want
}

// result scans doc to its end and returns the error, nil for io.EOF.
func result(doc string, lim Limits) error {
	s := NewScanner(lim)
	s.ResetBytes([]byte(doc))
	return drain(s)
}

func drain(s *Scanner) error {
	for {
		if _, err := s.Next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

var errBroken = errors.New("the line is dead")

// broken delivers doc and then errBroken instead of io.EOF.
func broken(doc []byte) io.Reader {
	return io.MultiReader(iotest.OneByteReader(bytes.NewReader(doc)), iotest.ErrReader(errBroken))
}
