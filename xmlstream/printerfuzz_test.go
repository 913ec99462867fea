package xmlstream

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// FuzzPrinter makes calls as the input says, good ones and bad ones, raw tokens
// of a second document among them. Whatever they are, the result is an error or
// a document that scans to the same events, in both forms of the printer.
func FuzzPrinter(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte("\x00\x01\x02\x0A\x0A\x0A\x0A\x0A\x0A\x0A\x01\x01"), []byte(c.doc))
	}
	f.Add([]byte{0, 1, 1, 2, 0, 9, 0, 9, 9, 9, 1, 1}, message)
	f.Add([]byte{0, 0, 3, 1, 9, 4, 5, 5, 8, 7, 6, 0, 13, 4, 2, 1, 2, 8, 4, 4, 1}, []byte("<a xmlns='u'><!--0123456789abcdef0123--></a>"))
	f.Fuzz(func(t *testing.T, calls, doc []byte) { checkPrinter(t, calls, doc) })
}

// TestPrinterRandom is FuzzPrinter for calls that are mostly good, so that long
// documents come about.
func TestPrinterRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	long := 0
	for i := range 1500 {
		calls := make([]byte, rnd.IntN(200))
		for k := range calls {
			calls[k] = byte(rnd.IntN(224))
		}
		doc := message
		if i%2 > 0 {
			doc = []byte(cases[rnd.IntN(len(cases))].doc)
		}
		// What is open at the end is closed, or the call is refused.
		if checkPrinter(t, append(calls, 255), doc) > 100 {
			long++
		}
	}
	if long < 75 {
		t.Errorf("only %d long documents: the calls are too bad", long)
	}
}

// checkPrinter returns how long the document is; 0 if it was refused.
func checkPrinter(t *testing.T, calls, doc []byte) int {
	p := NewPrinter()
	p.ResetBytes(nil)
	rec := &recorder{p: p}
	rec.run(calls, doc)
	got, err := p.Bytes()
	var out bytes.Buffer
	p.Reset(&out)
	(&recorder{p: p}).run(calls, doc)
	if again := p.Finish(); fmt.Sprint(again) != fmt.Sprint(err) {
		t.Fatalf("to a writer: %v, appended: %v", again, err)
	}
	if err != nil {
		if len(got) > 0 {
			t.Fatalf("Bytes: %q with %v", got, err)
		}
		return 0
	}
	if out.String() != string(got) {
		t.Fatalf("to a writer: %q, appended: %q", out.String(), got)
	}
	s := NewScanner(Limits{-1, -1, -1, -1, -1, -1, -1})
	s.ResetBytes(got)
	back := &events{}
	for {
		_, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("wrote %q: %v", got, err)
		}
		back.token(s)
	}
	if want := rec.events.String(); back.String() != want {
		t.Fatalf("wrote %q: reads as\n%s\nwant\n%s", got, back.String(), want)
	}
	return len(got)
}

// events are what a reader learns from a document, text put together, attributes
// in any order, text outside the root element left out.
type events struct {
	out   strings.Builder
	text  []byte
	attrs []string
	begun bool // a start tag may get attributes
	going bool
	depth int
}

func (e *events) String() string {
	e.flush()
	return e.out.String()
}

func (e *events) flush() {
	if e.begun {
		slices.Sort(e.attrs)
		fmt.Fprintf(&e.out, "%q\n", e.attrs)
		e.begun, e.attrs = false, nil
	}
	if len(e.text) > 0 {
		fmt.Fprintf(&e.out, "text %q\n", e.text)
		e.text = nil
	}
}

func (e *events) start(name string) {
	e.flush()
	e.out.WriteString("start " + name + " ")
	e.begun = true
	e.depth++
}

func (e *events) attr(name, value string) { e.attrs = append(e.attrs, name+"="+value) }

func (e *events) end() {
	e.flush()
	e.out.WriteString("end\n")
	e.depth--
}

func (e *events) chars(text string) {
	if text != "" && e.depth > 0 {
		if e.begun {
			e.flush()
		}
		e.text = append(e.text, text...)
	}
}

func expanded(local, space string) string {
	return Name{Local: []byte(local), Space: []byte(space)}.String()
}

// token takes the current token of s.
func (e *events) token(s *Scanner) {
	switch k := s.kind; k {
	case Start:
		e.start(s.Name().String())
		attrs := s.Attrs()
		for i := range attrs {
			if a := &attrs[i]; !a.IsNamespace() {
				e.attr(a.Name.String(), a.Value())
			}
		}
	case End:
		e.end()
	case Text, CDATA:
		e.chars(string(s.AppendText(nil)))
	case Comment, ProcInst:
		if !e.going {
			e.flush()
			e.out.WriteString(k.String() + " " + s.Name().String() + " ")
		}
		e.out.Write(appendText(nil, s.Text(), false))
		if e.going = s.Partial(); !e.going {
			e.out.WriteString("\n")
		}
	}
}

// recorder makes the calls and notes what they should mean.
type recorder struct {
	p      *Printer
	events events
}

var (
	fuzzPrefixes = []string{"", "p", "q", "ns1", "xml", "xmlns", "1"}
	fuzzLocals   = []string{"a", "b", "id", "xmlns", "é", "x:y", ""}
	fuzzSpaces   = []string{"", "u", "v", xmlSpace, "a&\"\n<b", xmlnsSpace, "\xFF"}
	fuzzTexts    = []string{"", "x", "]", "]]", ">", "]]>", "\n", " ", " \t<&>\"", "é\U0001F600", "\r", "é\U0001F600", "-", "--", "?>", "\x01", "\xC3"}
)

// sensible reports whether a call is not refused whatever it says, for a closer
// look at those that work.
func (r *recorder) sensible(call int, s *Scanner) bool {
	p := r.p
	ended := len(p.open) > 0 && p.open[len(p.open)-1].ended
	switch call {
	case 0:
		return p.going == 0 && !ended && (len(p.open) > 0 || !p.rooted)
	case 1:
		return p.going == 0 && len(p.open) > 1
	case 2:
		return p.tag >= 0 && len(p.attrs) == 0
	case 3:
		return p.tag >= 0 && !p.attributed && len(p.scope.bindings) == p.open[len(p.open)-1].mark
	case 4, 5, 13:
		return p.going == 0 && !ended && len(p.open) > 0
	case 6, 7:
		return p.going == 0 && !ended
	case 8:
		return !p.begun
	case 9:
		k, err := s.Next()
		switch {
		case err != nil, p.going != 0 && p.going != k:
			return false
		case k == Declaration:
			return !p.begun
		case k == End:
			return len(p.open) > 1 && p.open[len(p.open)-1].copied == s.Depth()
		case k == Start:
			return !ended && (len(p.open) > 0 || !p.rooted)
		case k == Text || k == CDATA:
			return !ended && len(p.open) > 0
		}
		return !ended && (p.going != 0 || s.Raw()[0] == '<')
	case 11:
		return p.going == 0 && !ended && len(p.open) > 0
	}
	return true
}

func (r *recorder) run(calls, doc []byte) {
	s := scanner(Limits{}, 16)
	s.ResetBytes(doc)
	next := func(n, good int) int {
		if len(calls) == 0 {
			return 0
		}
		c := int(calls[0])
		calls = calls[1:]
		if c < 224 {
			n = good
		}
		return c % n
	}
	of := func(list []string, good int) string { return list[next(len(list), good)] }
	p, e := r.p, &r.events
	for len(calls) > 0 && p.Err() == nil {
		reckless := calls[0] >= 224
		c := next(16, 14)
		if !reckless && !r.sensible(c, s) {
			continue
		}
		switch c {
		case 0:
			prefix, local, space := of(fuzzPrefixes, 4), of(fuzzLocals, 3), of(fuzzSpaces, 3)
			if space == "" && !reckless {
				prefix = ""
			}
			p.Start(prefix, local, space)
			e.start(expanded(local, space))
		case 1, 14, 15:
			for c > 1 && p.Depth() > 1 { // all but one
				p.End()
				e.end()
				if p.Err() != nil {
					return
				}
			}
			p.End()
			e.end()
		case 2:
			prefix, local, space, value := of(fuzzPrefixes, 4), of(fuzzLocals, 3), of(fuzzSpaces, 3), of(fuzzTexts, 10)
			if space == "" && !reckless {
				prefix = ""
			}
			p.Attr(prefix, local, space, value)
			e.attr(expanded(local, space), value)
		case 3:
			prefix, space := of(fuzzPrefixes, 4), of(fuzzSpaces, 3)
			if !reckless {
				prefix, space = "r", "v"
			}
			p.Namespace(prefix, space)
		case 4:
			text := of(fuzzTexts, 10)
			p.Text(text)
			e.chars(text)
		case 5:
			text := of(fuzzTexts, 10)
			p.CDATA(text)
			e.chars(text)
		case 6:
			text := of(fuzzTexts, 10)
			p.Comment(text)
			e.flush()
			fmt.Fprintf(&e.out, "comment  %s\n", text)
		case 7:
			target, data := of(fuzzLocals, 3), of(fuzzTexts, 6)
			p.ProcInst(target, data)
			e.flush()
			fmt.Fprintf(&e.out, "procinst %s %s\n", target, data)
		case 8:
			p.Declaration()
		case 9:
			if reckless {
				_, _ = s.Next()
			}
			if s.kind != 0 {
				p.Raw(s)
				e.token(s)
			}
		case 10:
			_, _ = s.Next() // left out
		case 11:
			if s.kind == Start {
				depth := s.Depth()
				// The events are those of a scanner that goes the same way.
				twin := scanner(Limits{}, 16)
				twin.ResetBytes(doc)
				for twin.kind == 0 || twin.InputOffset() != s.InputOffset() {
					_, _ = twin.Next()
				}
				if p.RawElement(s) != nil {
					return
				}
				for {
					e.token(twin)
					if twin.kind == End && twin.Depth() == depth {
						break
					}
					_, _ = twin.Next()
				}
			}
		case 12:
			s.ResetBytes(doc)
		case 13:
			text := of(fuzzTexts, 10)
			p.TextBytes([]byte(text))
			e.chars(text)
		}
	}
}
