package soapcodec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/xmlstream"
)

var partLetters = [...]string{Preamble: "P", Delimiter: "D", PartHeader: "H", PartContent: "C", CloseDelimiter: "E", Epilogue: "T"}

// pieces runs the splitter, joins the pieces of one kind that follow each other,
// and checks that all of them together are the input.
func pieces(t testing.TB, s *splitter, doc []byte) (string, error) {
	t.Helper()
	var out strings.Builder
	var all []byte
	last := PartKind(99)
	var run []byte
	flush := func() {
		if last != 99 {
			fmt.Fprintf(&out, "%s%q ", partLetters[last], run)
		}
		run = nil
	}
	for {
		kind, err := s.next()
		if err != nil {
			flush()
			if err == io.EOF {
				if !bytes.Equal(all, doc) {
					t.Fatalf("the pieces are %q, want %q", all, doc)
				}
				return strings.TrimSpace(out.String()), nil
			}
			if !bytes.HasPrefix(doc, all) {
				t.Fatalf("the pieces are %q of %q", all, doc)
			}
			return strings.TrimSpace(out.String()), err
		}
		if len(s.raw()) == 0 {
			t.Fatalf("an empty piece of kind %d behind %q", kind, all)
		}
		if s.offset() != int64(len(all)) || s.inputOffset() != int64(len(all)+len(s.raw())) {
			t.Fatalf("offsets %d and %d of %q behind %d octets", s.offset(), s.inputOffset(), s.raw(), len(all))
		}
		if kind != last || kind == Delimiter || kind == PartHeader {
			flush()
		}
		last = kind
		run = append(run, s.raw()...)
		all = append(all, s.raw()...)
	}
}

// split reads doc in place, byte by byte and in pieces of random size, and wants
// the same of each.
func split(t testing.TB, doc []byte, boundary string) (string, error) {
	t.Helper()
	s := &splitter{maxParts: 100, maxHeader: 1000}
	s.resetBytes(doc, boundary)
	want, wantErr := pieces(t, s, doc)
	rng := rand.New(rand.NewPCG(uint64(len(doc)), 7))
	for name, r := range map[string]io.Reader{
		"one byte": iotest.OneByteReader(bytes.NewReader(doc)),
		"half":     iotest.HalfReader(bytes.NewReader(doc)),
		"data err": iotest.DataErrReader(bytes.NewReader(doc)),
		"random":   &randomReader{rng, doc},
	} {
		s.reset(r, boundary)
		got, err := pieces(t, s, doc)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || got != want && err == nil {
			t.Fatalf("%s: got %s, %v, want %s, %v", name, got, err, want, wantErr)
		}
		if _, again := s.next(); (err == nil) != (again == io.EOF) || err != nil && again != err {
			t.Fatalf("%s: the error %v is not sticky: %v", name, err, again)
		}
	}
	return want, wantErr
}

type randomReader struct {
	rng  *rand.Rand
	data []byte
}

func (r *randomReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+r.rng.IntN(9))], r.data)
	r.data = r.data[n:]
	return n, nil
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, doc, want string
		err             error
	}{
		{name: "plain", doc: "--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n", want: `D"--b\r\n" H"A: 1\r\n\r\n" C"x" E"\r\n--b--\r\n"`},
		{name: "LF", doc: "--b\nA: 1\n\nx\n--b\n\ny\n--b--\n", want: `D"--b\n" H"A: 1\n\n" C"x" D"\n--b\n" H"\n" C"y" E"\n--b--\n"`},
		{name: "LF, a CR before is content", doc: "--b\n\nx\r\n--b--", want: `D"--b\n" H"\n" C"x\r" E"\n--b--"`},
		{name: "preamble and epilogue", doc: "pre\r\n--b\r\n\r\nx\r\n--b--\r\nepi", want: `P"pre" D"\r\n--b\r\n" H"\r\n" C"x" E"\r\n--b--\r\n" T"epi"`},
		{name: "empty preamble line", doc: "\r\n--b\r\n\r\nx\r\n--b--", want: `D"\r\n--b\r\n" H"\r\n" C"x" E"\r\n--b--"`},
		{name: "padding", doc: "--b \t\r\n\r\nx\r\n--b\t\r\n\r\ny\r\n--b-- \t\r\n", want: `D"--b \t\r\n" H"\r\n" C"x" D"\r\n--b\t\r\n" H"\r\n" C"y" E"\r\n--b-- \t\r\n"`},
		{name: "padding at the end", doc: "--b\r\n\r\nx\r\n--b-- ", want: `D"--b\r\n" H"\r\n" C"x" E"\r\n--b-- "`},
		{name: "empty part", doc: "--b\r\n\r\n--b\r\n\r\n\r\n--b--", want: `D"--b\r\n" H"\r\n" D"--b\r\n" H"\r\n" E"\r\n--b--"`},
		{name: "line breaks are content", doc: "--b\r\n\r\n\r\nx\n\r\r\n\r\n--b--", want: `D"--b\r\n" H"\r\n" C"\r\nx\n\r\r\n" E"\r\n--b--"`},
		{name: "nearly a boundary", doc: "--b\r\n\r\n\r\n--\r\n-b\r\n--c --b\r\n --b\r\n--b--", want: `D"--b\r\n" H"\r\n" C"\r\n--\r\n-b\r\n--c --b\r\n --b" E"\r\n--b--"`},
		{name: "boundary in the middle of a line", doc: "--b\r\n\r\nx--b--\r\n--b--", want: `D"--b\r\n" H"\r\n" C"x--b--" E"\r\n--b--"`},
		{name: "folded field, LF in it", doc: "--b\r\nA: 1;\n  b\r\n\r\nx\r\n--b--", want: `D"--b\r\n" H"A: 1;\n  b\r\n\r\n" C"x" E"\r\n--b--"`},
		{name: "no parts", doc: "--b--", want: `E"--b--"`},
		{name: "CR LF CR", doc: "--b\r\n\r\nx\r\r\n--b--", want: `D"--b\r\n" H"\r\n" C"x\r" E"\r\n--b--"`},

		{name: "empty", doc: "", err: errNoClose},
		{name: "preamble alone", doc: "text text text text", err: errNoClose},
		{name: "no close", doc: "--b\r\n\r\nx", err: errNoClose},
		{name: "no close, line break", doc: "--b\r\n\r\nx\r\n", err: errNoClose},
		{name: "half a close", doc: "--b\r\n\r\nx\r\n--b-", err: errNoClose},
		{name: "half a delimiter", doc: "--b\r\n\r\nx\r\n--b", err: errNoClose},
		{name: "half a line break", doc: "--b\r\n\r\nx\r\n--b\r", err: errNoClose},
		{name: "half a line break at the end", doc: "--b\r\n\r\nx\r\n--b--\r", err: errNoClose},
		{name: "cut in the fields", doc: "--b\r\nA: 1\r\n", err: errNoClose},
		{name: "a longer boundary", doc: "--b\r\n\r\nx\r\n--bb\r\n--b--", err: errAmbiguous},
		{name: "a longer boundary in the preamble", doc: "--bb\r\n--b\r\n\r\nx\r\n--b--", err: errAmbiguous},
		{name: "one dash behind", doc: "--b\r\n\r\nx\r\n--b-x\r\n--b--", err: errAmbiguous},
		{name: "text behind the padding", doc: "--b\r\n\r\nx\r\n--b x\r\n--b--", err: errAmbiguous},
		{name: "text behind the close", doc: "--b\r\n\r\nx\r\n--b--x", err: errAmbiguous},
		{name: "three dashes behind", doc: "--b\r\n\r\nx\r\n--b---", err: errAmbiguous},
		{name: "CR alone behind", doc: "--b\r\n\r\nx\r\n--b\rx\r\n--b--", err: errAmbiguous},
		{name: "LF among CRLF", doc: "--b\r\n\r\nx\n--b\r\n\r\ny\r\n--b--", err: errMixedLines},
		{name: "LF alone at the content's start", doc: "--b\r\n\r\n\n--b--", err: errMixedLines},
		{name: "LF close among CRLF", doc: "--b\r\n\r\nx\n--b--", err: errMixedLines},
		{name: "CRLF among LF", doc: "--b\n\nx\n--b\r\n\ny\n--b--", err: errMixedLines},
		{name: "mixed around the first line", doc: "\n--b\r\n\r\nx\r\n--b--", err: errMixedLines},
		{name: "mixed around the first line, other way", doc: "p\r\n--b\n\nx\n--b--", err: errMixedLines},
		{name: "a part behind the close", doc: "--b\r\n\r\nx\r\n--b--\r\n--b\r\n\r\ny\r\n--b--", err: errLateLine},
		{name: "a part in the epilogue", doc: "--b\r\n\r\nx\r\n--b--\r\ntext\r\n--b\r\n\r\ny", err: errLateLine},
		{name: "delimiter in the fields", doc: "--b\r\nA: 1\r\n--b--", err: errNoClose},
		{name: "delimiter line in the fields", doc: "--b\r\nA: 1\r\n--b\r\n\r\nx\r\n--b--", err: errNoBlank},
		{name: "delimiter at once behind a delimiter", doc: "--b\r\n--b\r\n\r\nx\r\n--b--", err: errNoBlank},
		{name: "many parts", doc: strings.Repeat("--b\r\n\r\n", 101) + "--b--", err: xmlstream.ErrLimit},
		{name: "long header", doc: "--b\r\nA: " + strings.Repeat("x", 1000) + "\r\n\r\nx\r\n--b--", err: xmlstream.ErrLimit},
		{name: "header without an end", doc: "--b\r\n" + strings.Repeat("A: x\r\n", 400), err: xmlstream.ErrLimit},
		{name: "line without an end", doc: "--b\r\n" + strings.Repeat("A", 400_000), err: xmlstream.ErrLimit},
		{name: "padding without an end", doc: "--b" + strings.Repeat(" ", 2000), err: xmlstream.ErrLimit},
	} {
		got, err := split(t, []byte(c.doc), "b")
		if !errors.Is(err, c.err) || c.err == nil && got != c.want {
			t.Errorf("%s: got %s, %v, want %s, %v", c.name, got, err, c.want, c.err)
		}
		if e, ok := errors.AsType[*Error](err); c.err != nil && (!ok || e.Code != CodePackage && e.Code != CodeLimit) {
			t.Errorf("%s: got %v, want an *Error", c.name, err)
		}
	}
}

// TestSplitReaderErrors: errors of the reader pass through untouched, wherever
// they come, and a reader that gives nothing does not hang it.
func TestSplitReaderErrors(t *testing.T) {
	doc := "pre\r\n--b\r\nA: 1\r\n\r\nxyz\r\n--b--\r\nepi"
	boom := errors.New("boom")
	for i := range len(doc) {
		s := new(splitter)
		s.reset(io.MultiReader(strings.NewReader(doc[:i]), iotest.ErrReader(boom)), "b")
		if _, err := pieces(t, s, []byte(doc)); err != boom {
			t.Errorf("cut at %d: got %v", i, err)
		}
	}
	s := new(splitter)
	s.reset(idle{}, "b")
	if _, err := s.next(); err != io.ErrNoProgress {
		t.Errorf("an idle reader: got %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// TestSplitFloods: time and memory are linear in what comes, whatever it is.
func TestSplitFloods(t *testing.T) {
	const n = 8 << 20
	for name, part := range map[string]string{
		"preamble":               "x",
		"boundaries nearly":      "\r\n--0123456789abcdef0123456789abcdef0123456789abcdef01234567890123456x",
		"line feeds":             "\n",
		"dashes":                 "-",
		"line feeds and dashes":  "\n--",
		"half boundaries":        "\n--0123",
		"carriage returns":       "\r",
		"CRLF and dashes, twice": "\r\n\r\n--",
	} {
		s := new(splitter)
		s.reset(io.LimitReader(&repeated{text: part}, n), "0123456789abcdef0123456789abcdef0123456789abcdef0123456789012345z")
		var all int64
		for {
			_, err := s.next()
			if errors.Is(err, errNoClose) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all += int64(len(s.raw()))
		}
		if all < n-100 || len(s.own) > 2*splitWindow {
			t.Errorf("%s: got %d of %d octets with a buffer of %d", name, all, n, len(s.own))
		}
	}
}

type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.text[r.at:])
		n += k
		r.at = (r.at + k) % len(r.text)
	}
	return n, nil
}

func TestSplitAllocs(t *testing.T) {
	doc := []byte("--b\r\nA: 1\r\n\r\n" + strings.Repeat("x", 200_000) + "\r\n--b--")
	s := new(splitter)
	r := bytes.NewReader(doc)
	got := testing.AllocsPerRun(20, func() {
		r.Reset(doc)
		s.reset(r, "b")
		for {
			if _, err := s.next(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations a message, want none", got)
	}
}

// FuzzSplit: any chunking gives the same pieces, which are the input, and what
// is accepted has the parts that mime/multipart sees in it, as far as that
// accepts it too.
func FuzzSplit(f *testing.F) {
	for _, doc := range []string{
		"--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n", "--b\nA: 1\n\nx\r\n--b\n\ny\n--b--\n", "p\r\n--b \r\n\r\n\r\n--b--", "\r\n--b\r\n\r\n--b\r\n\r\n--b--\r\nt\r\n--b",
		"--b\r\n\r\nx\n--b\r\n--b--", "--b-\r\n--b--", "--b\r\n--b\r\n--b--\r\n", "--b\r\nA: 1\r\n B\r\n\r\n\r\n--bb\r\n--b--",
	} {
		f.Add([]byte(doc), "b")
	}
	f.Fuzz(func(t *testing.T, doc []byte, boundary string) {
		if !isBoundary(boundary, true) || strings.HasPrefix(boundary, "-") || len(doc) > 10_000 {
			return
		}
		if _, err := split(t, doc, boundary); err != nil {
			return
		}
		want, err := mimeParts(doc, boundary)
		if err != nil {
			return // mime/multipart is stricter about fields
		}
		var got [][]byte
		s := &splitter{}
		s.resetBytes(doc, boundary)
		for {
			kind, err := s.next()
			if err != nil {
				break
			}
			switch kind {
			case Delimiter:
				got = append(got, []byte{})
			case PartContent:
				got[len(got)-1] = append(got[len(got)-1], s.raw()...)
			}
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q: got parts %q, mime/multipart %q", doc, got, want)
		}
	})
}

func mimeParts(doc []byte, boundary string) (parts [][]byte, err error) {
	r := multipart.NewReader(bytes.NewReader(doc), boundary)
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, append([]byte{}, b...))
	}
}
