package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/xmlstream"
)

const (
	wsse    = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
	trust13 = "http://docs.oasis-open.org/ws-sx/ws-trust/200512"
)

// tested hides card in urn:c, pin in any namespace and key in none.
var tested = New(Name{Space: "urn:c", Local: "card"}, Name{Local: "pin", AnySpace: true}, Name{Local: "key"})

var documents = []struct {
	name, doc, want string
	hidden          int
}{
	{"nothing", `<a b="1">x<c/></a>`, `<a b="1">x<c/></a>`, 0},
	{"content", `<a><c:card xmlns:c="urn:c">4111<x><y/></x></c:card> t</a>`, `<a><c:card xmlns:c="urn:c">***</c:card> t</a>`, 1},
	{"other prefix", `<card xmlns="urn:c">1</card>`, `<card xmlns="urn:c">***</card>`, 1},
	{"other namespace", `<card xmlns="urn:d">1</card>`, `<card xmlns="urn:d">1</card>`, 0},
	{"any namespace", `<a xmlns:d="urn:d"><pin>1</pin><d:pin>2</d:pin></a>`, `<a xmlns:d="urn:d"><pin>***</pin><d:pin>***</d:pin></a>`, 2},
	{"nested in itself", `<pin><pin>1</pin>2</pin>`, `<pin>***</pin>`, 1},
	{"one inside another", `<pin><key>1</key></pin>`, `<pin>***</pin>`, 1},
	{"self-closing", `<a><pin/><pin a='1' /></a>`, `<a><pin/><pin a='***' /></a>`, 2},
	{"empty", `<pin></pin>`, `<pin>***</pin>`, 1},
	{"attributes of it", `<pin a="1" xmlns:x="urn:x" x:b='>2"' >3</pin>`, `<pin a="***" xmlns:x="urn:x" x:b='***' >***</pin>`, 1},
	{"attribute by name", `<a key = "1" x:card="2" xmlns:x="urn:c" pin='3' other="key"/>`, `<a key = "***" x:card="***" xmlns:x="urn:c" pin='***' other="key"/>`, 3},
	{"attribute of another namespace", `<a x:key="1" xmlns:x="urn:x"/>`, `<a x:key="1" xmlns:x="urn:x"/>`, 0},
	{"all kinds of content", `<pin>&lt;<![CDATA[</pin>]]><!-- </pin> --><?pi </pin>?></pin><!-- pin -->`, `<pin>***</pin><!-- pin -->`, 1},
	{"declaration and space", "<?xml version='1.0'?>\r\n<a>\r\n <key>1</key>\t</a>\n", "<?xml version='1.0'?>\r\n<a>\r\n <key>***</key>\t</a>\n", 1},
	{"password", `<s:Password xmlns:s="` + wsse + `" Type="d">p</s:Password>`, `<s:Password xmlns:s="` + wsse + `" Type="***">***</s:Password>`, 1},
	{"password of a draft", `<Password xmlns="http://schemas.xmlsoap.org/ws/2002/12/secext">p</Password>`, `<Password xmlns="http://schemas.xmlsoap.org/ws/2002/12/secext">***</Password>`, 1},
	{"a Password of somebody else", `<Password>p</Password>`, `<Password>p</Password>`, 0},
	{"secret of WS-Trust", `<BinarySecret xmlns="` + trust13 + `">p</BinarySecret>`, `<BinarySecret xmlns="` + trust13 + `">***</BinarySecret>`, 1},
	{"long content", `<a><pin>` + strings.Repeat("x", 100_000) + `</pin>` + strings.Repeat("y", 100_000) + `</a>`, `<a><pin>***</pin>` + strings.Repeat("y", 100_000) + `</a>`, 1},
}

func TestDocument(t *testing.T) {
	for _, c := range documents {
		got := tested.Document([]byte(c.doc), "text/xml")
		if string(got.XML) != c.want || got.Hidden != c.hidden || got.Err != nil || got.Attachments != 0 {
			t.Errorf("%s: got %.300s, %d hidden, %v, want %.300s, %d", c.name, got.XML, got.Hidden, got.Err, c.want, c.hidden)
		}
		var out bytes.Buffer
		hidden, _, err := tested.Copy(&out, iotest.OneByteReader(strings.NewReader(c.doc)), "")
		if out.String() != c.want || hidden != c.hidden || err != nil {
			t.Errorf("%s, octet by octet: got %.300s, %d hidden, %v", c.name, &out, hidden, err)
		}
	}
}

// TestDocumentCharset: the charset is that of the field or of the document, the
// result is UTF-8.
func TestDocumentCharset(t *testing.T) {
	latin := []byte("<a>\xe4<pin>\xe4</pin></a>")
	if got := tested.Document(latin, `text/xml; charset=iso-8859-1`); string(got.XML) != "<a>ä<pin>***</pin></a>" || got.Err != nil {
		t.Errorf("got %q, %v", got.XML, got.Err)
	}
	var wide []byte
	for _, r := range "\ufeff<a><pin>1</pin></a>" {
		wide = append(wide, byte(r), byte(r>>8))
	}
	if got := tested.Document(wide, ""); !bytes.Contains(got.XML, []byte("<pin>***</pin>")) || got.Err != nil {
		t.Errorf("got %q, %v", got.XML, got.Err)
	}
}

// TestDocumentBroken: what is behind the fault is not shown, since it may be anything.
func TestDocumentBroken(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"text":             {"the pin is 4111", ""},
		"page":             {"<!DOCTYPE html><pin>4111</pin>", ""},
		"cut in it":        {"<a>1<pin>4111", "<a>1<pin>***"},
		"cut before":       {"<a>1<pin", "<a>1"},
		"end of something": {"<a>1</b><pin>4111</pin>", "<a>1"},
		"bad charset":      {"<a>1\xff<pin>4111</pin></a>", "<a>"},
		"no prefix":        {"<a>1<c:card>4111</c:card></a>", "<a>1"},
		"behind the end":   {"<a>1</a><pin>4111</pin>", "<a>1</a>"},
	} {
		got := tested.Document([]byte(c.doc), "")
		if got.Err == nil || !strings.HasPrefix(string(got.XML), c.want) || bytes.Contains(got.XML, []byte("4111")) {
			t.Errorf("%s: got %q, %v, want the start %q and an error", name, got.XML, got.Err, c.want)
		}
	}
}

const mixed = "--b\r\nContent-Type: application/octet-stream\r\nContent-ID: <att>\r\n\r\n4111\r\n" +
	"--b\r\nContent-Type: application/xop+xml; charset=utf-8; type=\"text/xml\"\r\nContent-ID: <root>\r\n%s\r\n%s\r\n" +
	"--b\r\nContent-ID: <att2>\r\n\r\n<pin>4111</pin>\r\n--b--\r\n"

const mixedType = `multipart/related; boundary=b; type="application/xop+xml"; start="<root>"; start-info="text/xml"`

// TestDocumentAttachments: only the root is shown.
func TestDocumentAttachments(t *testing.T) {
	for name, root := range map[string][2]string{
		"plain":  {"", "<a><pin>4111</pin></a>"},
		"base64": {"Content-Transfer-Encoding: base64\r\n", "PGE+PHBpbj40MTExPC9waW4+PC9hPg=="},
	} {
		doc := strings.Replace(strings.Replace(mixed, "%s", root[0], 1), "%s", root[1], 1)
		got := tested.Document([]byte(doc), mixedType)
		if string(got.XML) != "<a><pin>***</pin></a>" || got.Hidden != 1 || got.Attachments != 2 || got.Err != nil {
			t.Errorf("%s: got %q, %d hidden, %d attachments, %v", name, got.XML, got.Hidden, got.Attachments, got.Err)
		}
		got = tested.Document([]byte(doc[:len(doc)-20]), mixedType)
		if got.Err == nil || bytes.Contains(got.XML, []byte("4111")) {
			t.Errorf("%s, cut: got %q, %v", name, got.XML, got.Err)
		}
	}
	if got := tested.Document([]byte(mixed), "multipart/related"); got.Err == nil || len(got.XML) > 0 {
		t.Errorf("without a boundary: got %q, %v", got.XML, got.Err)
	}
}

// TestCopyErrors: those of reader and writer come out as they are.
func TestCopyErrors(t *testing.T) {
	mine := errors.New("mine")
	doc := "<a>" + strings.Repeat("x", 100_000)
	if _, _, err := tested.Copy(io.Discard, io.MultiReader(strings.NewReader(doc), iotest.ErrReader(mine)), ""); !errors.Is(err, mine) {
		t.Errorf("of the reader: got %v", err)
	}
	if _, _, err := tested.Copy(failing{mine}, strings.NewReader(doc), ""); !errors.Is(err, mine) {
		t.Errorf("of the writer: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestMasks(t *testing.T) {
	none := New()
	both := Join(none, tested, New(Name{Space: "urn:e", Local: "e"}))
	if none.Named() || !tested.Named() || !both.Named() {
		t.Error("Named tells what is always hidden, or not what is named")
	}
	if got := both.Document([]byte(`<a><pin>1</pin><e xmlns="urn:e">2</e></a>`), ""); got.Hidden != 2 {
		t.Errorf("joined: got %s", got.XML)
	}
	for _, c := range []struct {
		m    *Mask
		n    Name
		want bool
	}{
		{tested, Name{Space: "urn:c", Local: "card"}, true},
		{tested, Name{Space: "urn:d", Local: "card"}, false},
		{tested, Name{Local: "card", AnySpace: true}, true},
		{tested, Name{Space: "urn:d", Local: "pin"}, true},
		{tested, Name{Local: "key"}, true},
		{tested, Name{Space: "urn:d", Local: "key"}, false},
		{none, Name{Space: wsse, Local: "Password"}, true},
	} {
		if got := c.m.Reaches(c.n); got != c.want {
			t.Errorf("Reaches(%+v): got %t", c.n, got)
		}
	}
	for _, c := range []struct {
		m    *Mask
		doc  string
		want bool
	}{
		{none, "<html>503 busy", true},
		{none, "", true},
		{none, "your passWord is x", false},
		{none, "\xff", false},
		{tested, "busy", false},
	} {
		if got := c.m.Plain([]byte(c.doc)); got != c.want {
			t.Errorf("Plain(%q): got %t", c.doc, got)
		}
	}
	for name, want := range map[string]bool{
		"Authorization": true, "proxy-authorization": true, "X_API_Key": true, "Cookie": true, "X-Auth": true,
		"Content-Type": false, "SOAPAction": false, "X-Customer": false,
	} {
		if got := Field(name); got != want {
			t.Errorf("Field(%s): got %t", name, got)
		}
	}
}

// FuzzDocument: a masked document is as well-formed as it was, has the same
// elements but for those within hidden ones, is the same however it is read, is
// masked already, and has nothing of what was hidden.
func FuzzDocument(f *testing.F) {
	for _, c := range documents {
		f.Add([]byte(c.doc))
	}
	f.Add([]byte("<a>1<pin>4111"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		got := tested.Document(doc, "")
		var out bytes.Buffer
		hidden, _, err := tested.Copy(&out, iotest.OneByteReader(bytes.NewReader(doc)), "")
		if !bytes.Equal(out.Bytes(), got.XML) || hidden != got.Hidden || (err == nil) != (got.Err == nil) {
			if got.Err == nil {
				t.Fatalf("%q: octet by octet %q, %d, %v, else %q, %d, %v", doc, &out, hidden, err, got.XML, got.Hidden, got.Err)
			}
		}
		if got.Err != nil {
			return
		}
		again := tested.Document(got.XML, "utf-8")
		if again.Err != nil || !bytes.Equal(again.XML, got.XML) || again.Hidden != got.Hidden {
			t.Fatalf("%q: masked again %q, %v, else %q", doc, again.XML, again.Err, got.XML)
		}
		if diff := compare(got.XML); diff != "" {
			t.Fatalf("%q: %s in %q", doc, diff, got.XML)
		}
	})
}

// compare looks for hidden elements that have another content than ***.
func compare(doc []byte) string {
	s := xmlstream.NewScanner(limits)
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err != nil {
			return ""
		}
		if kind != xmlstream.Start {
			continue
		}
		whole := tested.hides(s.Name())
		for _, a := range s.Attrs() {
			if !a.IsNamespace() && (whole || tested.hides(a.Name)) && a.Value() != "***" {
				return "an attribute " + a.Value()
			}
		}
		if !whole || s.SelfClosing() {
			continue
		}
		if kind, _ := s.Next(); kind != xmlstream.Text || string(s.Raw()) != "***" {
			return "content " + string(s.Raw())
		}
		if kind, _ := s.Next(); kind != xmlstream.End {
			return "more content " + string(s.Raw())
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	doc := []byte("<a>" + strings.Repeat("<item><pin>1234</pin><name>some name</name><n>1</n></item>", 20_000) + "</a>")
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, _, err := tested.Copy(io.Discard, bytes.NewReader(doc), ""); err != nil {
			b.Fatal(err)
		}
	}
}
