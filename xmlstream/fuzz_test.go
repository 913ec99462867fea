package xmlstream

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"soapway/internal/golden"
)

func seed(f *testing.F, add func(doc []byte)) {
	for _, c := range golden.Glob(f, "testdata/*.txtar") {
		add(c.File("in.xml"))
	}
	for _, tt := range cases {
		add([]byte(tt.doc))
	}
	add(message)
}

// FuzzScan checks what must hold for any input: any chunking gives the same
// events; short pieces and long ones have the same content; and what is
// accepted has an end for each start and tokens that are the document.
func FuzzScan(f *testing.F) {
	seed(f, func(doc []byte) { f.Add(doc, uint64(1)) })
	f.Fuzz(func(t *testing.T, doc []byte, rnd uint64) {
		var content, fault []string
		for _, piece := range []int{pieceSize, 16} {
			s := scanner(Limits{}, piece)
			s.ResetBytes(doc)
			want := dump(s)
			for name, r := range map[string]io.Reader{
				"one by one": iotest.OneByteReader(bytes.NewReader(doc)),
				"random":     newChunks(doc, rnd),
				"with EOF":   iotest.DataErrReader(newChunks(doc, rnd+1)),
			} {
				s.Reset(r)
				if got := dump(s); got != want {
					t.Fatalf("Next in pieces of %d, %s: got\n%s\nwant\n%s", piece, name, got, want)
				}
			}
			c, err := checkScan(t, doc, piece)
			content = append(content, c)
			fault = append(fault, err)
		}
		if fault[0] != fault[1] || fault[0] == "" && content[0] != content[1] {
			t.Fatalf("by short pieces\n%s%s\nby long pieces\n%s%s", content[1], fault[1], content[0], fault[0])
		}
	})
}

// checkScan scans doc over a reader and returns its content, without regard to
// pieces, and its fault, if it has one.
func checkScan(t *testing.T, doc []byte, piece int) (content, fault string) {
	s := scanner(Limits{}, piece)
	s.Reset(newChunks(doc, 7))
	var raw []byte
	var out strings.Builder
	starts, ends := 0, 0
	first := int64(0)
	if bytes.HasPrefix(doc, []byte("\uFEFF")) {
		first = 3
	}
	at := first
	partial := false
	for {
		k, err := s.Next()
		if err == io.EOF {
			if starts != ends || starts == 0 || partial {
				t.Fatalf("accepted with %d starts, %d ends, partial %v", starts, ends, partial)
			}
			if !bytes.Equal(raw, doc[first:]) {
				t.Fatalf("the tokens are %q, the document %q", raw, doc)
			}
			return out.String(), ""
		}
		if err != nil {
			se, ok := errors.AsType[*SyntaxError](err)
			if !ok || se.Offset < 0 || se.Offset > int64(len(doc)) || se.Err == nil || se.Line < 1 || se.Column < 1 {
				t.Fatalf("bad error %#v", err)
			}
			return out.String(), err.Error()
		}
		if s.Offset() != at || s.InputOffset() != at+int64(len(s.Raw())) {
			t.Fatalf("token at %d-%d with %d octets, want it at %d", s.Offset(), s.InputOffset(), len(s.Raw()), at)
		}
		// A piece is longer only for one reference or target that is.
		long := k == Text && s.Raw()[0] == '&' || k == ProcInst
		if len(s.Raw()) == 0 && k != End || len(s.Raw()) > piece && s.Partial() && !long {
			t.Fatalf("%v of %d octets", k, len(s.Raw()))
		}
		at = s.InputOffset()
		raw = append(raw, s.Raw()...)
		if !partial {
			out.WriteString("\n" + k.String() + " ")
		}
		partial = s.Partial()
		switch k {
		case Start:
			starts++
			out.WriteString(s.Name().String())
			attrs := s.Attrs()
			for i := range attrs {
				out.WriteString(" " + attrs[i].Name.String() + "=" + attrs[i].Value())
			}
		case End:
			ends++
			out.WriteString(s.Name().String())
		case Text, CDATA:
			out.Write(s.AppendText(nil))
		default:
			out.Write(s.Text())
		}
	}
}

// FuzzStdlib compares with encoding/xml, which checks less: what we accept it
// must accept, and report the same names, values and text. Known differences,
// which are left out: it knows the names of the Fourth Edition, versions other
// than 1.0 as errors, and no rules about namespaces.
func FuzzStdlib(f *testing.F) {
	seed(f, func(doc []byte) { f.Add(doc) })
	f.Add([]byte("<p:a xmlns:p='u\nv' p:b=''/>"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		s := NewScanner(Limits{})
		s.ResetBytes(doc)
		want, ok := ours(s)
		if !ok {
			return
		}
		got, err := theirs(doc)
		if err != nil {
			t.Fatalf("accepted %q, which encoding/xml refuses: %v", doc, err)
		}
		if got != want {
			t.Fatalf("%q: got\n%s\nencoding/xml has\n%s", doc, want, got)
		}
	})
}

var version10 = regexp.MustCompile(`^\s*version\s*=\s*["']1\.0["']`)

// ours renders names, attributes and text; ok is false if the document is
// refused, or has what encoding/xml does not know.
func ours(s *Scanner) (_ string, ok bool) {
	var out, text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out.WriteString("text " + text.String() + "\n")
			text.Reset()
		}
	}
	for {
		k, err := s.Next()
		if err == io.EOF {
			return out.String(), true
		}
		if err != nil {
			return "", false
		}
		switch k {
		case Declaration:
			if !version10.Match(s.Text()) {
				return "", false
			}
		case Start:
			flush()
			out.WriteString("start " + blanks(s.Name().String()))
			attrs := s.Attrs()
			for i := range attrs {
				a := &attrs[i]
				if !ascii(a.Name.Local) || !ascii(a.Name.Prefix) {
					return "", false
				}
				name := blanks(a.Name.String())
				if a.IsNamespace() {
					name = "xmlns:" + string(a.Name.Local)
				}
				out.WriteString(" " + name + "=" + blanks(a.Value()))
			}
			out.WriteString("\n")
			if n := s.Name(); !ascii(n.Local) || !ascii(n.Prefix) {
				return "", false
			}
		case End:
			flush()
			out.WriteString("end " + blanks(s.Name().String()) + "\n")
		case ProcInst:
			if !ascii(s.Name().Local) {
				return "", false
			}
		case Text, CDATA:
			if s.Depth() > 0 {
				text.Write(s.AppendText(nil))
			}
		}
	}
}

func theirs(doc []byte) (string, error) {
	d := xml.NewDecoder(bytes.NewReader(doc))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var out, text strings.Builder
	depth := 0
	flush := func() {
		if text.Len() > 0 {
			out.WriteString("text " + text.String() + "\n")
			text.Reset()
		}
	}
	name := func(n xml.Name) string {
		if n.Space == "" {
			return n.Local
		}
		return "{" + blanks(n.Space) + "}" + n.Local
	}
	attrName := func(n xml.Name) string {
		if n.Space == "xmlns" || n.Space == "" && n.Local == "xmlns" {
			return "xmlns:" + n.Local
		}
		return name(n)
	}
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			depth++
			flush()
			out.WriteString("start " + name(tok.Name))
			for _, a := range tok.Attr {
				out.WriteString(" " + attrName(a.Name) + "=" + blanks(a.Value))
			}
			out.WriteString("\n")
		case xml.EndElement:
			depth--
			flush()
			out.WriteString("end " + name(tok.Name) + "\n")
		case xml.CharData:
			if depth > 0 {
				text.Write(tok)
			}
		}
	}
}

// blanks hides that encoding/xml does not normalize values.
func blanks(v string) string { return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(v) }

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// FuzzDecode checks that a Reader delivers in any chunking what DecodeBytes
// does, and nothing but UTF-8 once it converts.
func FuzzDecode(f *testing.F) {
	labels := []string{"", "utf-8", "utf-16", "iso-8859-1", "windows-1252", "us-ascii", "shift_jis", "euc-jp", "iso-2022-jp", "gb18030", "big5", "euc-kr", "hz-gb-2312", "x"}
	for i := range labels {
		f.Add([]byte("<?xml version='1.0' encoding='koi8-r'?><a>\xC1\xA1\x81\x30</a>"), uint8(i), uint64(i))
		f.Add([]byte("\xFF\xFE<\x00a\x00/\x00>\x00"), uint8(i), uint64(i))
		f.Add([]byte("<a>\x1B$B\x21\x22\x1B(B~{VPND~}</a>"), uint8(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, doc []byte, label uint8, rnd uint64) {
		name := labels[int(label)%len(labels)]
		want, charset, wantErr := DecodeBytes(doc, name)
		r, err := NewReader(newChunks(doc, rnd), name)
		var got []byte
		if err == nil {
			got, err = io.ReadAll(r)
		}
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("Reader(%q, %s): got %v, want %v", doc, name, err, wantErr)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(got, want) || r.Charset() != charset {
			t.Fatalf("Reader(%q, %s): got %q in %s, want %q in %s", doc, name, got, r.Charset(), want, charset)
		}
		if r.Converted() && !utf8.Valid(got) || !r.Converted() && !bytes.Equal(got, doc) {
			t.Fatalf("Reader(%q, %s): got %q", doc, name, got)
		}
		if s := strings.ToLower(charset); strings.ContainsRune(string(got), utf8.RuneError) && r.Converted() && s != gb18030Name && !strings.HasPrefix(s, "utf-16") {
			t.Fatalf("Reader(%q, %s): replaced octets: %q", doc, name, got)
		}
	})
}

// FuzzEscape checks that escaped text scans, and means the same.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a<b>&'\"", "\r\n\t ]]>", "\x00\x1F\x7F", "\uFFFE\uFFFF\uFFFD", "\xFF\xC3", "\u20AC\U0001F600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := strings.Map(func(r rune) rune {
			if !isChar(r) {
				return '\uFFFD'
			}
			return r
		}, text)
		doc := append([]byte("<a b=\""), AppendEscapedAttr(nil, text)...)
		doc = append(append(append(doc, "\">"...), AppendEscapedText(nil, text)...), "</a>"...)
		s := NewScanner(Limits{})
		s.ResetBytes(doc)
		if k, err := s.Next(); k != Start {
			t.Fatalf("Next(%q): %v", doc, err)
		}
		attrs := s.Attrs()
		if got := attrs[0].Value(); got != want {
			t.Errorf("AppendEscapedAttr(%q): reads as %q, want %q", text, got, want)
		}
		var got []byte
		for {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("Next(%q): %v", doc, err)
			}
			if k == Text {
				got = s.AppendText(got)
			}
		}
		if string(got) != want {
			t.Errorf("AppendEscapedText(%q): reads as %q, want %q", text, got, want)
		}
	})
}
