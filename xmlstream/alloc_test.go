package xmlstream

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// message is what a usual request looks like: about 2 KB, a WS-Addressing
// header, a nested body with attributes, references and text.
var message = []byte(`<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:wsa="http://www.w3.org/2005/08/addressing" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <soapenv:Header>
    <wsa:Action soapenv:mustUnderstand="1">urn:example:orders/Place</wsa:Action>
    <wsa:MessageID>urn:uuid:0d9b6b52-7f5f-4a53-9f34-1c7b5f1f0a11</wsa:MessageID>
    <wsa:ReplyTo><wsa:Address>http://www.w3.org/2005/08/addressing/anonymous</wsa:Address></wsa:ReplyTo>
  </soapenv:Header>
  <soapenv:Body>
    <PlaceOrder xmlns="urn:example:orders" priority='high'>
` + strings.Repeat(`      <item sku="A-1000" count="3" xsi:type="Line"><name>Bolts &amp; nuts, M8</name><price currency="EUR">12.50</price><note/></item>
`, 10) + `      <remark>für Zürich</remark>
    </PlaceOrder>
  </soapenv:Body>
</soapenv:Envelope>
`)

// A good message costs no allocation, over bytes and over a reader, whatever
// is asked about it.
func TestAllocs(t *testing.T) {
	manyAttrs := "<a" + list(200, func(i int) string { return fmt.Sprintf(" a%d='v'", i) }) + "/>"
	manySpaces := "<a" + list(200, func(i int) string { return fmt.Sprintf(" xmlns:p%d='u%d' p%d:a=''", i, i, i) }) + "/>"
	docs := map[string][]byte{
		"message":         message,
		"many attributes": []byte(manyAttrs),
		"many namespaces": []byte(manySpaces),
		"long text":       []byte(root(strings.Repeat("0123456789&amp;\n", 20000))),
		"instruction":     []byte("<?a b?><a/><!--c-->"),
	}
	for name, doc := range docs {
		s := NewScanner(Limits{})
		var scrap []byte
		rest := bytes.NewReader(nil)
		scan := func(over string) {
			if over == "bytes" {
				s.ResetBytes(doc)
			} else {
				rest.Reset(doc)
				s.Reset(rest)
			}
			for {
				k, err := s.Next()
				if err == io.EOF {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				switch k {
				case Start, End:
					s.Name().Is("urn:example:orders", "item")
					attrs := s.Attrs()
					for i := range attrs {
						attrs[i].IsNamespace()
						scrap = attrs[i].AppendValue(scrap[:0])
					}
					s.Lookup([]byte("wsa"))
				case Text:
					scrap = s.AppendText(scrap[:0])
				}
			}
		}
		for _, over := range []string{"bytes", "a reader"} {
			if n := testing.AllocsPerRun(20, func() { scan(over) }); n != 0 {
				t.Errorf("%s over %s: %v allocations, want 0", name, over, n)
			}
		}
		if n := testing.AllocsPerRun(20, func() {
			s.ResetBytes(doc)
			if err := skipAll(s); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("Skip of %s: %v allocations, want 0", name, n)
		}
		if n := testing.AllocsPerRun(20, func() {
			s.ResetBytes(doc)
			for {
				if _, err := s.Seek(); err == io.EOF {
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}); n != 0 {
			t.Errorf("Seek in %s: %v allocations, want 0", name, n)
		}
	}
	r, rest := new(Reader), bytes.NewReader(nil)
	p := make([]byte, blockSize)
	if n := testing.AllocsPerRun(20, func() {
		rest.Reset(message)
		err := r.Reset(rest, "utf-8")
		for err == nil {
			_, err = r.Read(p)
		}
		if err != io.EOF {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Reader over UTF-8: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(20, func() { textStop(message, 0) }); n != 0 {
		t.Errorf("textStop: %v allocations, want 0", n)
	}
}

// Memory over a reader is bounded by the token, not by the document, and what
// a big token needed is given back at Reset.
func TestBoundedMemory(t *testing.T) {
	const size = 4 << 20
	s := NewScanner(Limits{Text: -1, Elements: -1})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, piece := range []string{"text ", "<!--c-->", "<b c='d' xmlns:p='u'/>", "]]", "\u20AC", "<![CDATA[]]>", "<?p x?>"} {
		s.Reset(&endless{before: "<a>", piece: piece, left: size / len(piece), after: "</a>"})
		if err := drain(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, around := range [][2]string{{"<a><!--", "--></a>"}, {"<a><![CDATA[", "]]></a>"}, {"<a><?p ", "?></a>"}} {
		s.Reset(&endless{before: around[0], piece: "0123456789abcdef", left: size / 16, after: around[1]})
		if err := drain(s); err != nil {
			t.Fatal(err)
		}
	}
	s.Reset(&endless{before: "", piece: " ", left: size, after: "<a/>"})
	if err := drain(s); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("scanning over a reader allocated %d octets", got)
	}

	huge := "<a b='" + strings.Repeat("v", 4<<20) + "'" + list(100_000, func(i int) string { return fmt.Sprintf(" a%d=''", i) }) + "/>"
	s = NewScanner(Limits{AttributeValue: -1, Attributes: -1})
	s.Reset(strings.NewReader(huge))
	if err := drain(s); err != nil {
		t.Fatal(err)
	}
	s.Reset(strings.NewReader("<a/>"))
	if cap(s.own) > keepBuffer || cap(s.attrs) > keepBuffer || cap(s.spans) > keepBuffer || cap(s.twins.slots) > keepBuffer {
		t.Errorf("Reset keeps buffers of %d, %d, %d, %d", cap(s.own), cap(s.attrs), cap(s.spans), cap(s.twins.slots))
	}
}

// endless is a long document that nobody has to store.
type endless struct {
	before, piece, after string
	left                 int
	rest                 string
	begun, ended         bool
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		switch {
		case e.rest != "":
		case !e.begun:
			e.begun, e.rest = true, e.before
		case e.left > 0:
			e.left--
			e.rest = e.piece
		case !e.ended:
			e.ended, e.rest = true, e.after
		default:
			return n, io.EOF
		}
		m := copy(p[n:], e.rest)
		n, e.rest = n+m, e.rest[m:]
	}
	return n, nil
}

func BenchmarkScan(b *testing.B) {
	text := []byte(root(strings.Repeat("TG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQsIGNvbnNlY3RldHVyIGFkaXBpc2NpbmcgZWxpdCwg\n", 13000)))
	items := []byte("<r>" + strings.Repeat(`<p:item xmlns:p="urn:p" id="1" p:kind='x'>some text &amp; more</p:item>`, 14000) + "</r>")
	for _, doc := range []struct {
		name string
		doc  []byte
	}{{"message", message}, {"base64", text}, {"items", items}} {
		b.Run(doc.name+"/bytes", func(b *testing.B) {
			s := NewScanner(Limits{})
			b.SetBytes(int64(len(doc.doc)))
			b.ReportAllocs()
			for b.Loop() {
				s.ResetBytes(doc.doc)
				if err := drain(s); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(doc.name+"/reader", func(b *testing.B) {
			s := NewScanner(Limits{})
			r := bytes.NewReader(nil)
			b.SetBytes(int64(len(doc.doc)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(doc.doc)
				s.Reset(r)
				if err := drain(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTextStop(b *testing.B) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 256)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		textStop(text, 0)
	}
}

func BenchmarkDecode(b *testing.B) {
	doc := bytes.Replace(message, []byte("UTF-8"), []byte("ISO-8859-1"), 1)
	doc = bytes.ReplaceAll(doc, []byte("ü"), []byte("\xFC"))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := DecodeBytes(doc, ""); err != nil {
			b.Fatal(err)
		}
	}
}
