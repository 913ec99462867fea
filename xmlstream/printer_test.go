package xmlstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// print runs f on a printer in both forms, which must agree, and returns the
// document.
func print(t *testing.T, f func(p *Printer)) (string, error) {
	t.Helper()
	p := NewPrinter()
	p.ResetBytes([]byte("before"))
	f(p)
	got, err := p.Bytes()
	var out bytes.Buffer
	p.Reset(&out)
	f(p)
	if again := p.Finish(); fmt.Sprint(again) != fmt.Sprint(err) {
		t.Fatalf("to a writer: %v, appended: %v", again, err)
	}
	doc, ok := strings.CutPrefix(string(got), "before")
	if !ok || err != nil && doc != "" {
		t.Fatalf("Bytes: got %q, %v", got, err)
	}
	if err == nil && out.String() != doc {
		t.Fatalf("to a writer: %q, appended: %q", out.String(), doc)
	}
	return doc, err
}

func TestPrinter(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    func(p *Printer)
		want string
	}{
		{"empty element", func(p *Printer) { p.Start("", "a", ""); p.End() }, `<a/>`},
		{
			"declaration", func(p *Printer) { p.Declaration(); p.Text("\n"); p.Start("", "a", ""); p.End(); p.Text(" ") },
			"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a/> ",
		},
		{
			"text", func(p *Printer) { p.Start("", "a", ""); p.Text("<&>\r\n\t\"'é]]>"); p.TextBytes([]byte("x")); p.End() },
			"<a>&lt;&amp;&gt;&#13;\n\t\"'é]]&gt;x</a>",
		},
		{"no text", func(p *Printer) { p.Start("", "a", ""); p.Text(""); p.Attr("", "b", "", ""); p.End() }, `<a b=""/>`},
		{
			"value", func(p *Printer) { p.Start("", "a", ""); p.Attr("", "b", "", "<&>\r\n\t\"'é"); p.End() },
			"<a b=\"&lt;&amp;&gt;&#13;&#10;&#9;&quot;'é\"/>",
		},
		{"sections", func(p *Printer) {
			p.Start("", "a", "")
			p.CDATA("<&>")
			p.CDATA("]]>")
			p.CDATA("\r")
			p.CDATA("")
			p.CDATA("]>")
			p.End()
		}, `<a><![CDATA[<&>]]><![CDATA[]]]]><![CDATA[>]]><![CDATA[]]>&#13;<![CDATA[]]><![CDATA[]]><![CDATA[]>]]></a>`},
		{"others", func(p *Printer) {
			p.Comment(" <&> - ")
			p.ProcInst("t", "")
			p.Start("", "a", "")
			p.ProcInst("xml-stylesheet", "href='?' ?")
			p.End()
			p.Comment("")
		}, `<!-- <&> - --><?t?><a><?xml-stylesheet href='?' ??></a><!---->`},
		{"prefix", func(p *Printer) {
			p.Start("p", "a", "u")
			p.Start("p", "b", "u")
			p.Start("p", "c", "v")
			p.End()
			p.Start("", "d", "")
			p.End()
			p.End()
			p.End()
		}, `<p:a xmlns:p="u"><p:b><p:c xmlns:p="v"/><d/></p:b></p:a>`},
		{"default", func(p *Printer) {
			p.Start("", "a", "u")
			p.Start("", "b", "u")
			p.End()
			p.Start("", "b", "")
			p.Start("", "c", "u")
			p.End()
			p.End()
			p.End()
		}, `<a xmlns="u"><b/><b xmlns=""><c xmlns="u"/></b></a>`},
		{"attributes", func(p *Printer) {
			p.Start("p", "a", "u")
			p.Attr("", "x", "", "1")  // none
			p.Attr("p", "x", "u", "") // bound
			p.Attr("", "y", "u", "")  // found
			p.Attr("q", "x", "v", "") // free
			p.Attr("p", "z", "v", "") // taken: found
			p.Attr("p", "x", "w", "") // taken: made up
			p.Attr("", "x", "w2", "") // made up
			p.Attr("q", "lang", xmlSpace, "")
			p.Attr("", "id", xmlSpace, "")
			p.End()
		}, `<p:a xmlns:p="u" x="1" p:x="" p:y="" xmlns:q="v" q:x="" q:z="" xmlns:ns1="w" ns1:x="" xmlns:ns2="w2" ns2:x="" xml:lang="" xml:id=""/>`},
		{"default is no prefix of attributes", func(p *Printer) {
			p.Start("", "a", "u")
			p.Attr("", "b", "u", "")
			p.End()
		}, `<a xmlns="u" xmlns:ns1="u" ns1:b=""/>`},
		{"hidden prefix", func(p *Printer) {
			p.Start("p", "a", "u")
			p.Start("p", "b", "v")
			p.Attr("", "c", "u", "")
			p.End()
			p.Start("ns1", "b", "v")
			p.Attr("", "c", "w", "")
			p.End()
			p.End()
		}, `<p:a xmlns:p="u"><p:b xmlns:p="v" xmlns:ns1="u" ns1:c=""/><ns1:b xmlns:ns1="v" xmlns:ns2="w" ns2:c=""/></p:a>`},
		{"xml element", func(p *Printer) { p.Start("q", "a", xmlSpace); p.End() }, `<xml:a/>`},
		{"namespaces", func(p *Printer) {
			p.Start("", "a", "")
			p.Namespace("p", "u")
			p.Namespace("p", "u")
			p.Namespace("xml", xmlSpace)
			p.Namespace("", "")
			p.Attr("p", "t", "u", "p:x")
			p.Start("", "b", "u")
			p.Namespace("", "u")
			p.Namespace("p", "v&\n")
			p.End()
			p.Start("p", "b", "u")
			p.Namespace("", "d")
			p.End()
			p.End()
		}, `<a xmlns:p="u" p:t="p:x"><b xmlns="u" xmlns:p="v&amp;&#10;"/><p:b xmlns="d"/></a>`},
	} {
		got, err := print(t, tt.f)
		if err != nil || got != tt.want {
			t.Errorf("%s: got\n%s %v\nwant\n%s", tt.name, got, err, tt.want)
			continue
		}
		if err := result(got, Limits{}); err != nil {
			t.Errorf("%s: scanned: %v", tt.name, err)
		}
	}
}

// What XML can't say is refused, with the reason and the place.
func TestPrinterErrors(t *testing.T) {
	in := func(f func(p *Printer)) func(p *Printer) {
		return func(p *Printer) { p.Start("", "a", ""); f(p); p.End() }
	}
	for _, tt := range []struct {
		name   string
		f      func(p *Printer)
		reason error
	}{
		{"nothing", func(*Printer) {}, ErrTruncated},
		{"no root", func(p *Printer) { p.Comment("") }, ErrTruncated},
		{"open", func(p *Printer) { p.Start("", "a", "") }, ErrTruncated},
		{"second root", func(p *Printer) { p.Start("", "a", ""); p.End(); p.Start("", "a", "") }, errSecondRoot},
		{"stray end", func(p *Printer) { p.End() }, errStrayEnd},
		{"late declaration", func(p *Printer) { p.Comment(""); p.Declaration() }, errPlacement},
		{"declaration in content", in(func(p *Printer) { p.Declaration() }), errPlacement},
		{"text outside", func(p *Printer) { p.Text("x") }, errOutside},
		{"return outside", func(p *Printer) { p.Text("\r") }, errReturn},
		{"section outside", func(p *Printer) { p.CDATA(" ") }, errOutside},
		{"attribute outside", func(p *Printer) { p.Attr("", "a", "", "") }, errLate},
		{"late attribute", in(func(p *Printer) { p.Text("x"); p.Attr("", "a", "", "") }), errLate},
		{"attribute twice", in(func(p *Printer) { p.Attr("", "b", "", ""); p.Attr("", "b", "", "") }), ErrDuplicate},
		{"attribute twice by two prefixes", in(func(p *Printer) {
			p.Namespace("p", "u")
			p.Namespace("q", "u")
			p.Attr("p", "b", "u", "")
			p.Attr("q", "b", "u", "")
			p.Text("x")
		}), ErrDuplicate},
		{"xmlns attribute", in(func(p *Printer) { p.Attr("", "xmlns", "", "u") }), errXMLNSPrefix},
		{"xmlns:p attribute", in(func(p *Printer) { p.Attr("xmlns", "p", xmlnsSpace, "u") }), errXMLNSPrefix},
		{"xmlns namespace", in(func(p *Printer) { p.Attr("p", "p", xmlnsSpace, "u") }), errXMLNSSpace},
		{"xml for another", func(p *Printer) { p.Start("xml", "a", "u") }, errXMLPrefix},
		{"another for xml", in(func(p *Printer) { p.Namespace("p", xmlSpace) }), errXMLPrefix},
		{"xml as default", in(func(p *Printer) { p.Namespace("", xmlSpace) }), errXMLPrefix},
		{"unbound prefix", func(p *Printer) { p.Start("p", "a", "") }, errNoSpace},
		{"unbound prefix of an attribute", in(func(p *Printer) { p.Attr("p", "a", "", "") }), errNoSpace},
		{"undeclared prefix", in(func(p *Printer) { p.Namespace("p", "") }), errNoSpace},
		{"late namespace", in(func(p *Printer) { p.Attr("", "b", "", ""); p.Namespace("p", "u") }), errLateSpace},
		{"namespace in content", in(func(p *Printer) { p.Text("x"); p.Namespace("p", "u") }), errLateSpace},
		{"default of an element in none", in(func(p *Printer) { p.Namespace("", "u") }), errOtherSpace},
		{"prefix of the element", in(func(p *Printer) { p.Start("p", "b", "u"); p.Namespace("p", "v"); p.End() }), errOtherSpace},
		{"prefix declared twice", in(func(p *Printer) { p.Namespace("p", "u"); p.Namespace("p", "v") }), errOtherSpace},
		{"name", func(p *Printer) { p.Start("", "1", "") }, errName},
		{"no name", func(p *Printer) { p.Start("", "", "") }, errName},
		{"colon", func(p *Printer) { p.Start("", "a:b", "") }, errName},
		{"prefix with a blank", func(p *Printer) { p.Start("p ", "a", "u") }, errName},
		{"name that is not UTF-8", func(p *Printer) { p.Start("", "a\xFF", "") }, errName},
		{"control", in(func(p *Printer) { p.Text("\x00") }), ErrCharacter},
		{"control in a value", in(func(p *Printer) { p.Attr("", "b", "", "\x1F") }), ErrCharacter},
		{"U+FFFF in a section", in(func(p *Printer) { p.CDATA("\uFFFF") }), ErrCharacter},
		{"no UTF-8", in(func(p *Printer) { p.Text("\xC3") }), errUTF8},
		{"no UTF-8 in a namespace", func(p *Printer) { p.Start("", "a", "\xFF") }, errUTF8},
		{"hyphens", in(func(p *Printer) { p.Comment("--") }), errHyphens},
		{"hyphen at the end", in(func(p *Printer) { p.Comment("-") }), errHyphens},
		{"return in a comment", in(func(p *Printer) { p.Comment("\r") }), errReturn},
		{"target", in(func(p *Printer) { p.ProcInst("XmL", "") }), errTarget},
		{"no target", in(func(p *Printer) { p.ProcInst("", "") }), errName},
		{"end of an instruction", in(func(p *Printer) { p.ProcInst("t", "?>") }), errPI},
		{"blank before data", in(func(p *Printer) { p.ProcInst("t", " x") }), errPI},
		{"no token", in(func(p *Printer) { p.Raw(NewScanner(Limits{})) }), errNoToken},
	} {
		got, err := print(t, tt.f)
		pe, ok := errors.AsType[*PrintError](err)
		if !ok || pe.Err != tt.reason || errors.Unwrap(err) != tt.reason {
			t.Errorf("%s: got %q, %v, want %v", tt.name, got, err, tt.reason)
		}
	}

	p := NewPrinter()
	p.Start("", "a", "")
	p.Start("p", strings.Repeat("b", 200), "u")
	p.Text("\x01")
	if got := p.Err().Error(); !strings.HasPrefix(got, `xmlstream: print in "…bbb`) || len(got) > 200 {
		t.Errorf("Error: got %s", got)
	}
	p.Text("x")
	if p.Depth() != 2 || p.Finish() != p.Err() {
		t.Errorf("the first error is not the last: %v", p.Finish())
	}

	p.Reset(failing{})
	p.Start("", "a", "")
	p.Text(strings.Repeat("x", 3*printBlock))
	if p.Err() != errBroken {
		t.Errorf("a broken writer: got %v", p.Err())
	}
}

// Long text is cut between characters only, and into calls of a bounded size.
func TestPrinterLong(t *testing.T) {
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("é\U0001F600]]>", 20_000)
		got, err := print(t, func(p *Printer) {
			p.Start("", "a", "")
			p.Text(text)
			p.CDATA(text)
			p.Comment(text)
			p.End()
		})
		if err != nil {
			t.Fatal(err)
		}
		var back []byte
		s := NewScanner(Limits{})
		s.ResetBytes([]byte(got))
		for {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch k {
			case Text, CDATA:
				back = s.AppendText(back)
			case Comment:
				back = append(back, s.Text()...)
			}
		}
		if string(back) != text+text+text {
			t.Errorf("long text comes back as %d octets, want %d", len(back), 3*len(text))
		}
	}
	p := NewPrinter()
	largest := largest(0)
	p.Reset(&largest)
	p.Start("", "a", "")
	p.Text(strings.Repeat("<", 1<<20))
	p.End()
	if err := p.Finish(); err != nil || largest > 8*printBlock {
		t.Errorf("a call of %d octets, %v", largest, err)
	}
}

type largest int

func (l *largest) Write(b []byte) (int, error) {
	*l = max(*l, largest(len(b)))
	return len(b), nil
}

// Raw copies whole documents as they are.
func TestPrinterRaw(t *testing.T) {
	for _, tt := range cases {
		if result(tt.doc, Limits{}) != nil {
			continue
		}
		for _, piece := range []int{pieceSize, 16} {
			got, err := print(t, func(p *Printer) {
				s := scanner(Limits{}, piece)
				s.ResetBytes([]byte(tt.doc))
				for {
					if _, err := s.Next(); err != nil {
						return
					}
					p.Raw(s)
				}
			})
			if want := strings.TrimPrefix(tt.doc, "\uFEFF"); err != nil || got != want {
				t.Errorf("Raw: got %s, %v, want %s", got, err, want)
			}
		}
	}
}

// An element that is copied elsewhere keeps its octets and all bindings.
func TestPrinterRawElement(t *testing.T) {
	const doc = `<a xmlns="d" xmlns:p='u&amp;"' xmlns:q="v"><b><p:c  q:t='q:x' ><i xmlns=""/><p:e / ></p:c ></b></a>`
	for _, tt := range []struct{ doc, want string }{
		{doc: strings.Replace(doc, "/ >", "/>", 1), want: `<x xmlns="o" xmlns:q="v"><p:c xmlns="d" xmlns:p="u&amp;&quot;"  q:t='q:x' ><i xmlns=""/><p:e /></p:c ></x>`},
		{doc: `<a><p:c xmlns:p="u"><i/></p:c></a>`, want: `<x xmlns="o" xmlns:q="v"><p:c xmlns="" xmlns:p="u"><i/></p:c></x>`},
		{doc: `<a xmlns="o" xmlns:r="r" xmlns:q="w"><b xmlns:q="v"><c  xmlns:r="s"/></b></a>`, want: `<x xmlns="o" xmlns:q="v"><c  xmlns:r="s"/></x>`},
	} {
		got, err := print(t, func(p *Printer) {
			s := NewScanner(Limits{})
			s.ResetBytes([]byte(tt.doc))
			for {
				k, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				if k == Start && string(s.Name().Local) == "c" {
					break
				}
			}
			p.Start("", "x", "o")
			p.Namespace("q", "v")
			if err := p.RawElement(s); err != nil {
				t.Fatal(err)
			}
			p.End()
		})
		if err != nil || got != tt.want {
			t.Errorf("RawElement: got\n%s %v\nwant\n%s", got, err, tt.want)
		}
	}
}

// Tokens that are left out, or put together from anywhere, make no document
// that says something else.
func TestPrinterRawMixed(t *testing.T) {
	// next returns a scanner at the nth token of doc.
	next := func(doc string, n int) *Scanner {
		s := scanner(Limits{}, 16)
		s.ResetBytes([]byte(doc))
		for range n {
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	in := func(f func(p *Printer)) func(p *Printer) {
		return func(p *Printer) { p.Start("", "a", ""); f(p); p.End() }
	}
	for _, tt := range []struct {
		name, want string
		f          func(p *Printer)
		reason     error
	}{
		{"brackets", `<a>]]&gt;</a>`, in(func(p *Printer) {
			p.Raw(next("<a>]]</a>", 2))
			p.Raw(next("<a>></a>", 2))
		}), nil},
		{"brackets apart", `<a>]]&gt;]]&gt;]]]&gt;</a>`, in(func(p *Printer) {
			p.Raw(next("<a>]</a>", 2))
			p.Raw(next("<a>]></a>", 2))
			p.Raw(next("<a>]</a>", 2))
			p.Raw(next("<a>]</a>", 2))
			p.Raw(next("<a>></a>", 2))
			p.Text("]]")
			p.Raw(next("<a>]></a>", 2))
		}), nil},
		{"line ends", "<a>\r&#10;x\r&#10;y\r<!---->\n</a>", in(func(p *Printer) {
			p.Raw(next("<a>\r</a>", 2))
			p.Raw(next("<a>\nx\r</a>", 2))
			p.Text("\ny")
			p.Raw(next("<a>\r</a>", 2))
			p.Comment("")
			p.Raw(next("<a>\n</a>", 2))
		}), nil},
		{"ended by another", `<a><b/></a>`, in(func(p *Printer) { p.Raw(next("<b/>", 1)); p.End() }), nil},
		{"end of another", `<a><b x=""></b ></a>`, in(func(p *Printer) {
			p.Start("", "b", "")
			p.Attr("", "x", "", "")
			p.Raw(next("<b></b >", 2))
		}), nil},
		{"empty end of another", `<a><b/></a>`, in(func(p *Printer) { p.Start("", "b", ""); p.Raw(next("<b/>", 2)) }), nil},
		{"content in an empty element", "", in(func(p *Printer) { p.Raw(next("<b/>", 1)); p.Text("x") }), errEnded},
		{"other end", "", in(func(p *Printer) { p.Raw(next("<b></b>", 2)) }), ErrMismatch},
		{"end without a start", "", func(p *Printer) { p.Raw(next("<b></b>", 2)) }, errStrayEnd},
		{"second root", "", in(func(p *Printer) { p.End(); p.Raw(next("<b/>", 1)) }), errSecondRoot},
		{"text outside", "", func(p *Printer) { p.Raw(next("<b>x</b>", 2)) }, errOutside},
		{"section outside", "", func(p *Printer) { p.Raw(next("<b><![CDATA[]]></b>", 2)) }, errOutside},
		{"late declaration", "", in(func(p *Printer) { p.Raw(next("<?xml version='1.0'?><b/>", 1)) }), errPlacement},
		{"first piece only", "", in(func(p *Printer) { p.Raw(next("<!--0123456789abcdef--><b/>", 1)) }), errPiece},
		{"last piece only", "", in(func(p *Printer) { p.Raw(next("<!--0123456789abcdef--><b/>", 2)) }), errNoPiece},
		{"what looks like a first piece", "", in(func(p *Printer) { p.Raw(next("<b><![CDATA[0123456<!-- -->-->]]></b>", 3)) }), errNoPiece},
		{"a blank piece of an instruction", "", in(func(p *Printer) { p.Raw(next("<?t                     x?><b/>", 2)) }), errNoPiece},
		{"pieces of two kinds", "", in(func(p *Printer) {
			p.Raw(next("<!--0123456789abcdef--><b/>", 1))
			p.Raw(next("<?t 0123456789abcdef?><b/>", 2))
		}), errNoPiece},
	} {
		got, err := print(t, tt.f)
		pe, _ := errors.AsType[*PrintError](err)
		if got != tt.want || (err == nil) != (tt.reason == nil) || err != nil && pe.Err != tt.reason {
			t.Errorf("%s: got %s, %v, want %s, %v", tt.name, got, err, tt.want, tt.reason)
		}
		if err == nil {
			if err := result(got, Limits{}); err != nil {
				t.Errorf("%s: scanned: %v", tt.name, err)
			}
		}
	}

	// A child of another document under a parent that Raw wrote.
	s := next(`<p:a xmlns:p="u"><p:b/></p:a>`, 1)
	got, err := print(t, func(p *Printer) {
		s.ResetBytes([]byte(`<p:a xmlns:p="u"><p:b/></p:a>`))
		_, _ = s.Next()
		p.Raw(s)
		s.ResetBytes([]byte(`<p:a xmlns:p="v" xmlns:q="w"><q:b p:c=""/></p:a>`))
		_, _ = s.Next()
		_, _ = s.Next()
		p.Raw(s)
		p.End()
		p.End()
	})
	if want := `<p:a xmlns:p="u"><q:b xmlns:p="v" xmlns:q="w" p:c=""/></p:a>`; err != nil || got != want {
		t.Errorf("Raw of another document: got %s, %v, want %s", got, err, want)
	}
}

// The work does not explode with the number of attributes and declarations.
func TestPrinterHostile(t *testing.T) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i*7919%len(names))
	}
	got, err := print(t, func(p *Printer) {
		p.Start("", "a", "")
		for _, n := range names {
			p.Namespace(n, n)
		}
		for _, n := range names {
			p.Attr(n, "x", n, "")
			p.Attr("", n, "", "")
		}
		for _, n := range names {
			p.Start(n, "b", n)
		}
		for range names {
			p.End()
		}
		p.End()
	})
	if err != nil || strings.Count(got, "xmlns") != len(names) {
		t.Fatalf("%d declarations, %v", strings.Count(got, "xmlns"), err)
	}
	s := NewScanner(Limits{-1, -1, -1, -1, -1, -1, -1})
	again, err := print(t, func(p *Printer) {
		s.ResetBytes([]byte(got))
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		p.Start("", "x", "u")
		if err := p.RawElement(s); err != nil {
			t.Fatal(err)
		}
		p.End()
	})
	if err != nil || len(again) < len(got) {
		t.Errorf("copied: %d octets of %d, %v", len(again), len(got), err)
	}
}

// A document costs no allocation once the buffers have grown.
func TestPrinterAllocs(t *testing.T) {
	p := NewPrinter()
	s := NewScanner(Limits{})
	n := new(counter)
	room := make([]byte, 0, 64<<10)
	octets := []byte("12.50 & more")
	write := func() {
		p.Declaration()
		p.Start("soap", "Envelope", "http://schemas.xmlsoap.org/soap/envelope/")
		p.Namespace("xsi", "http://www.w3.org/2001/XMLSchema-instance")
		for range 20 {
			p.Start("", "item", "urn:example:orders")
			p.Attr("", "sku", "", "A-1000")
			p.Attr("xsi", "type", "http://www.w3.org/2001/XMLSchema-instance", "Line")
			p.Text("Bolts & nuts für Zürich")
			p.TextBytes(octets)
			p.CDATA("<&>]]>")
			p.Comment("c")
			p.ProcInst("t", "d")
			p.End()
		}
		s.ResetBytes(message)
		for {
			k, err := s.Next()
			if err == io.EOF {
				break
			}
			if k != Declaration {
				p.Raw(s)
			}
		}
		p.End()
	}
	for name, run := range map[string]func(){
		"appended":    func() { p.ResetBytes(room); write() },
		"to a writer": func() { p.Reset(n); write() },
	} {
		if got := testing.AllocsPerRun(20, func() {
			run()
			if err := p.Finish(); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
}
