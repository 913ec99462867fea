package xmlstream

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/internal/golden"
)

// TestScan runs every testdata/*.txtar: the comment says what the case is
// about, in.xml is the document, want is the token stream. A section piece
// makes the longest piece of text that long. Accept a changed output with
//
//	go test ./xmlstream -run TestScan -update
func TestScan(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		piece, err := strconv.Atoi("0" + strings.TrimSpace(string(c.File("piece"))))
		if err != nil {
			t.Fatal(err)
		}
		c.Check(t, "want", everyWay(t, c.File("in.xml"), Limits{}, piece))
	})
}

// root wraps content in an element, so that tables show only what matters.
func root(content string) string { return "<r>" + content + "</r>" }

// cases is the table of well-formedness: every document is scanned in every
// way, with long and with short pieces, and whatever it holds is also put in
// the middle of a longer one by the fuzz targets.
var cases = []struct {
	doc  string
	want error // nil: accepted
	at   int   // offset of the fault
}{
	// The document as a whole (XML 1.0 §2.1, §2.8).
	{"<a/>", nil, 0},
	{"<a></a>", nil, 0},
	{" \t\r\n<a/>\n ", nil, 0},
	{"\uFEFF<a/>", nil, 0},
	{"\uFEFF<?xml version='1.0'?><a/>", nil, 0},
	{"\uFEFF\uFEFF<a/>", ErrMalformed, 3},
	{"<a/>\uFEFF", ErrMalformed, 4},
	{"", ErrTruncated, 0},
	{"  ", ErrTruncated, 2},
	{"\uFEFF", ErrTruncated, 3},
	{"\xEF\xBB", ErrTruncated, 2},
	{"<!--x-->", ErrTruncated, 8},
	{"x<a/>", ErrMalformed, 0},
	{"<a/>x", ErrMalformed, 4},
	{"<a/>&#32;", ErrMalformed, 4},
	{"<a/><![CDATA[]]>", ErrMalformed, 4},
	{"<a/><b/>", ErrMalformed, 4},
	{"<a></a></a>", ErrMismatch, 7},
	{"</a>", ErrMismatch, 0},
	{"<a><b></a></b>", ErrMismatch, 6},
	{"<a></b>", ErrMismatch, 3},
	{"<a></aa>", ErrMismatch, 3},
	{"<aa></a>", ErrMismatch, 4},
	{"<a></A>", ErrMismatch, 3},
	{"<x:a xmlns:x='u' xmlns:y='u'></y:a>", ErrMismatch, 29},
	{"<a>", ErrTruncated, 3},
	{"<a>x", ErrTruncated, 4},
	{"<a", ErrTruncated, 2},
	{"<", ErrTruncated, 1},
	{"<a><", ErrTruncated, 4},
	{"<a></", ErrTruncated, 5},
	{"<a></a", ErrTruncated, 6},
	{"<a/", ErrTruncated, 3},
	{"<a/><!--", ErrTruncated, 8},
	{"<!--a--><?b?><a/><!--c--><?d?>", nil, 0},
	{"\x00<a/>", ErrMalformed, 0},
	{"<a/>\x00", ErrMalformed, 4},

	// DOCTYPE.
	{"<!DOCTYPE a><a/>", ErrDoctype, 0},
	{"<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", ErrDoctype, 0},
	{"<?xml version='1.0'?>\n<!DOCTYPE a SYSTEM 'x'>", ErrDoctype, 22},
	{"<!DOCTYPE", ErrDoctype, 0},
	{"<a><!DOCTYPE a></a>", ErrDoctype, 3},
	{"<a/><!DOCTYPE a>", ErrDoctype, 4},
	{"<!DOCTYP a><a/>", ErrMalformed, 8},
	{"<!doctype a><a/>", ErrMalformed, 2},
	{"<!DOCT", ErrTruncated, 6},
	{"<!ELEMENT a ANY><a/>", ErrMalformed, 2},
	{"<!>", ErrMalformed, 2},
	{"<!", ErrTruncated, 2},

	// The XML declaration (XML 1.0 §2.8, §2.9, §4.3.3).
	{"<?xml version='1.0'?><a/>", nil, 0},
	{"<?xml version=\"1.0\" ?><a/>", nil, 0},
	{"<?xml\tversion\n=\r\"1.0\"\n\tencoding =\n'UTF-8'  standalone= \"yes\"\r?><a/>", nil, 0},
	{"<?xml version='1.0' standalone='no'?><a/>", nil, 0},
	{"<?xml version='1.1'?><a/>", nil, 0},
	{"<?xml version='1.234'?><a/>", nil, 0},
	{"<?xml version='2.0'?><a/>", ErrMalformed, 15},
	{"<?xml version='1.'?><a/>", ErrMalformed, 15},
	{"<?xml version='1'?><a/>", ErrMalformed, 15},
	{"<?xml version='1.0a'?><a/>", ErrMalformed, 15},
	{"<?xml version=''?><a/>", ErrMalformed, 15},
	{"<?xml version=' 1.0'?><a/>", ErrMalformed, 15},
	{"<?xml version='1.0\"?><a/>", ErrMalformed, 18},
	{"<?xml version=1.0?><a/>", ErrMalformed, 14},
	{"<?xml version'1.0'?><a/>", ErrMalformed, 13},
	{"<?xml Version='1.0'?><a/>", ErrMalformed, 6},
	{"<?xml ?><a/>", ErrMalformed, 6},
	{"<?xml?><a/>", ErrMalformed, 5},
	{"<?xml encoding='UTF-8'?><a/>", ErrMalformed, 6},
	{"<?xml encoding='UTF-8' version='1.0'?><a/>", ErrMalformed, 6},
	{"<?xml version='1.0' standalone='yes' encoding='UTF-8'?><a/>", ErrMalformed, 37},
	{"<?xml version='1.0'encoding='UTF-8'?><a/>", ErrMalformed, 19},
	{"<?xml version='1.0' encoding='UTF-8'standalone='yes'?><a/>", ErrMalformed, 36},
	{"<?xml version='1.0' version='1.0'?><a/>", ErrMalformed, 20},
	{"<?xml version='1.0' encoding='UTF-8' encoding='UTF-8'?><a/>", ErrMalformed, 37},
	{"<?xml version='1.0' standalone='yes' standalone='yes'?><a/>", ErrMalformed, 37},
	{"<?xml version='1.0' standalone='YES'?><a/>", ErrMalformed, 32},
	{"<?xml version='1.0' standalone=''?><a/>", ErrMalformed, 32},
	{"<?xml version='1.0' encoding=''?><a/>", ErrMalformed, 30},
	{"<?xml version='1.0' encoding='8859'?><a/>", ErrMalformed, 30},
	{"<?xml version='1.0' encoding='_x'?><a/>", ErrMalformed, 30},
	{"<?xml version='1.0' encoding='a:b'?><a/>", ErrMalformed, 31},
	{"<?xml version='1.0' encoding='a b'?><a/>", ErrMalformed, 31},
	{"<?xml version='1.0' encoding='a.b-c_9'?><a/>", nil, 0},
	{"<?xml version='1.0' other='x'?><a/>", ErrMalformed, 20},
	{"<?xml version='1.0'>", ErrMalformed, 19},
	{"<?xml version='1.0'? ><a/>", ErrMalformed, 20},
	{"<?xml version='1.0'", ErrTruncated, 19},
	{"<?xml version='1.0'?", ErrTruncated, 20},
	{"<?xml", ErrTruncated, 5},
	{" <?xml version='1.0'?><a/>", ErrMalformed, 1},
	{"<!----><?xml version='1.0'?><a/>", ErrMalformed, 7},
	{"<a><?xml version='1.0'?></a>", ErrMalformed, 3},
	{"<a/><?xml version='1.0'?>", ErrMalformed, 4},
	{"<?xml version='1.0'?><?xml version='1.0'?><a/>", ErrMalformed, 21},
	{"<?XML version='1.0'?><a/>", ErrMalformed, 2},
	{"<a><?xMl?></a>", ErrMalformed, 5},
	{"<?xml-stylesheet href='x'?><a/>", nil, 0},
	{"<?xmlx?><a/>", nil, 0},

	// Tags (XML 1.0 §3.1).
	{"<a b='c'/>", nil, 0},
	{"<a b='c' />", nil, 0},
	{"<a\tb\n=\r'c'\r\n></a\t\r\n >", nil, 0},
	{"<a b=\"'\" c='\"'/>", nil, 0},
	{"<a b=''/>", nil, 0},
	{"<a b='>'/>", nil, 0},
	{"<a b='/>'/>", nil, 0},
	{"<a b/>", ErrMalformed, 4},
	{"<a b>", ErrMalformed, 4},
	{"<a b=c/>", ErrMalformed, 5},
	{"<a b='c'd='e'/>", ErrMalformed, 8},
	{"<a b='c'\"/>", ErrMalformed, 8},
	{"<a b='c' b='d'/>", ErrDuplicate, 9},
	{"<a b='c' c='' d='' b='d'/>", ErrDuplicate, 19},
	{"<a b='<'/>", ErrMalformed, 6},
	{"<a b='c", ErrTruncated, 7},
	{"<a b='c>", ErrTruncated, 8},
	{"<a b='c\">", ErrTruncated, 9},
	{"<a b='", ErrTruncated, 6},
	{"<a b=", ErrTruncated, 5},
	{"<a b", ErrTruncated, 4},
	{"<a ", ErrTruncated, 3},
	{"<a / >", ErrMalformed, 4},
	{"<a//>", ErrMalformed, 3},
	{"< a/>", ErrMalformed, 1},
	{"<>", ErrMalformed, 1},
	{"<1/>", ErrMalformed, 1},
	{"<-a/>", ErrMalformed, 1},
	{"<.a/>", ErrMalformed, 1},
	{"<a><</a>", ErrMalformed, 4},
	{"<a+b/>", ErrMalformed, 2},
	{"<a 1='b'/>", ErrMalformed, 3},
	{"<a <b/>", ErrMalformed, 3},
	{"<a></a b='c'>", ErrMalformed, 7},
	{"<a></a/>", ErrMalformed, 6},
	{"<a></ a>", ErrMalformed, 5},
	{"<a></>", ErrMalformed, 5},
	{"<a></1>", ErrMalformed, 5},
	{"<a b='\x01'/>", ErrCharacter, 6},
	{"<a b='\x7F\u0085'/>", nil, 0},
	{"<a\u00A0b='c'/>", ErrMalformed, 2},
	{"<a\x00/>", ErrMalformed, 2},

	// Names, Fifth Edition (XML 1.0 §2.3).
	{"<_/>", nil, 0},
	{"<a-.9_\u00B7/>", nil, 0},
	{"<\u00C0\u02FF\u0370\u037D\u037F\u1FFF\u200C\u200D\u2070\u218F\u2C00\u2FEF\u3001\uD7FF\uF900\uFDCF\uFDF0\uFFFD\U00010000\U000EFFFF/>", nil, 0},
	{"<a\u0300\u036F\u203F\u2040/>", nil, 0},
	{"<\u00B7a/>", ErrMalformed, 1},
	{"<\u0300a/>", ErrMalformed, 1},
	{"<\u203Fa/>", ErrMalformed, 1},
	{"<a\u00D7/>", ErrMalformed, 2},
	{"<a\u00F7/>", ErrMalformed, 2},
	{"<a\u037E/>", ErrMalformed, 2},
	{"<a\u2000/>", ErrMalformed, 2},
	{"<a\u206F/>", ErrMalformed, 2},
	{"<a\u2190/>", ErrMalformed, 2},
	{"<a\u2FF0/>", ErrMalformed, 2},
	{"<a\u3000/>", ErrMalformed, 2},
	{"<a\uE000/>", ErrMalformed, 2},
	{"<a\uFDD0/>", ErrMalformed, 2},
	{"<a\uFDEF/>", ErrMalformed, 2},
	{"<a\U000F0000/>", ErrMalformed, 2},
	{"<a\xFF/>", ErrCharset, 2},
	{"<a\uFFFE/>", ErrCharacter, 2},
	{"<a \u0300='b'/>", ErrMalformed, 3},
	{"<\u00E9></\u00E9>", nil, 0},
	{"<\u00E9></\u00E8>", ErrMismatch, 4},

	// Character data (XML 1.0 §2.4, §2.2).
	{root("]"), nil, 0},
	{root("]]"), nil, 0},
	{root("]]&gt;"), nil, 0},
	{root("] ]>"), nil, 0},
	{root("]]>"), ErrMalformed, 3},
	{root("]]]]>"), ErrMalformed, 5},
	{root("x]]>y"), ErrMalformed, 4},
	{root(">"), nil, 0},
	{root("'\""), nil, 0},
	{root("\t\n\r"), nil, 0},
	{root("\x1F"), ErrCharacter, 3},
	{root("\x00"), ErrCharacter, 3},
	{root("\x0B"), ErrCharacter, 3},
	{root("\x7F\u0080\u009F"), nil, 0},
	{root("\u0800\uD7FF\uE000\uFFFD\U00010000\U0010FFFF\uFDD0\U0001FFFE"), nil, 0},
	{root("\uFFFE"), ErrCharacter, 3},
	{root("x\uFFFF"), ErrCharacter, 4},
	{root("\xED\xA0\x80"), ErrCharset, 3},     // surrogate
	{root("\xC0\x80"), ErrCharset, 3},         // overlong
	{root("\xC1\xBF"), ErrCharset, 3},         // overlong
	{root("\xE0\x9F\xBF"), ErrCharset, 3},     // overlong
	{root("\xF0\x8F\xBF\xBF"), ErrCharset, 3}, // overlong
	{root("\xF4\x90\x80\x80"), ErrCharset, 3}, // beyond Unicode
	{root("\xF5\x80\x80\x80"), ErrCharset, 3},
	{root("\x80"), ErrCharset, 3},
	{root("\xC3"), ErrCharset, 3},
	{root("\xE2\x82"), ErrCharset, 3},
	{root("\xF0\x9F\x98"), ErrCharset, 3},
	{"<r>\xF0\x9F\x98", ErrTruncated, 6},

	// References (XML 1.0 §4.1, §4.6).
	{root("&lt;&gt;&amp;&apos;&quot;"), nil, 0},
	{root("&#9;&#10;&#13;&#x20;&#xD7FF;&#xe000;&#xFffD;&#x10000;&#x10FFFF;"), nil, 0},
	{root("&#0000000000000000000065;"), nil, 0},
	{root("&#0;"), ErrCharacter, 3},
	{root("&#8;"), ErrCharacter, 3},
	{root("&#x1F;"), ErrCharacter, 3},
	{root("&#xD800;"), ErrCharacter, 3},
	{root("&#xDFFF;"), ErrCharacter, 3},
	{root("&#xFFFE;"), ErrCharacter, 3},
	{root("&#xFFFF;"), ErrCharacter, 3},
	{root("&#x110000;"), ErrCharacter, 3},
	{root("&#4294967361;"), ErrCharacter, 3},
	{root("&#99999999999999999999;"), ErrCharacter, 3},
	{root("&#;"), ErrReference, 3},
	{root("&#x;"), ErrReference, 3},
	{root("&#X41;"), ErrReference, 3},
	{root("&#4A;"), ErrReference, 3},
	{root("&#x4G;"), ErrReference, 3},
	{root("&#65 ;"), ErrReference, 3},
	{root("&#65"), ErrReference, 3},
	{root("&#-65;"), ErrReference, 3},
	{root("& x"), ErrReference, 3},
	{root("&;"), ErrReference, 3},
	{root("&"), ErrReference, 3},
	{root("&lt"), ErrReference, 3},
	{root("&lt ;"), ErrReference, 3},
	{root("&LT;"), ErrReference, 3},
	{root("&nbsp;"), ErrReference, 3},
	{root("&ltx;"), ErrReference, 3},
	{root("&averyveryverylongname;"), ErrReference, 3},
	{root("&a:b;"), ErrReference, 3},
	{root("AT&T"), ErrReference, 5},
	{"<r>&am", ErrTruncated, 6},
	{"<r>&#6", ErrTruncated, 6},
	{"<a b='&lt;&#9;'/>", nil, 0},
	{"<a b='&x;'/>", ErrReference, 6},
	{"<a b='&lt'/>", ErrReference, 6},
	{"<a b='&#0;'/>", ErrCharacter, 6},

	// CDATA sections (XML 1.0 §2.7).
	{root("<![CDATA[]]>"), nil, 0},
	{root("<![CDATA[<&]]]]>"), nil, 0},
	{root("<![CDATA[<![CDATA[]]>"), nil, 0},
	{root("<![CDATA[\u20AC]]>"), nil, 0},
	{root("<![CDATA[]]>]]>"), ErrMalformed, 15},
	{root("<![CDATA[\x01]]>"), ErrCharacter, 12},
	{root("<![CDATA[\xFF]]>"), ErrCharset, 12},
	{root("<![CDATA[\uFFFF]]>"), ErrCharacter, 12},
	{root("<![cdata[]]>"), ErrMalformed, 6},
	{root("<![CDATA []]>"), ErrMalformed, 11},
	{root("<![CDATA[]] >"), ErrTruncated, 20},
	{"<![CDATA[]]><a/>", ErrMalformed, 0},

	// Comments (XML 1.0 §2.5).
	{root("<!---->"), nil, 0},
	{root("<!-- - -- -->"), ErrMalformed, 10},
	{root("<!-- - <&]]> ? -->"), nil, 0},
	{root("<!----->"), ErrMalformed, 7},
	{root("<!--->"), ErrTruncated, 13},
	{root("<!-->"), ErrTruncated, 12},
	{root("<!- -->"), ErrMalformed, 6},
	{root("<!--\x01-->"), ErrCharacter, 7},
	{root("<!--\u20AC-->"), nil, 0},
	{root("<!--\xFF-->"), ErrCharset, 7},

	// Processing instructions (XML 1.0 §2.6, Namespaces §7).
	{root("<?a?>"), nil, 0},
	{root("<?a ?>"), nil, 0},
	{root("<?a b?c>d?>"), nil, 0},
	{root("<?a ??>"), nil, 0},
	{root("<?a -- <&?>"), nil, 0},
	{root("<??>"), ErrMalformed, 5},
	{root("<? a?>"), ErrMalformed, 5},
	{root("<?a+?>"), ErrMalformed, 6},
	{root("<?a?b?>"), ErrMalformed, 7},
	{root("<?a b>"), ErrTruncated, 13},
	{root("<?a:b?>"), ErrNamespace, 6},
	{root("<?a \x01?>"), ErrCharacter, 7},
	{root("<?a \xFF?>"), ErrCharset, 7},
	{root("<?\u00E9 x?>"), nil, 0},

	// Namespaces in XML 1.0.
	{"<a xmlns='u'/>", nil, 0},
	{"<a xmlns=''/>", nil, 0},
	{"<p:a xmlns:p='u' p:b=''/>", nil, 0},
	{"<a xmlns='u'><b xmlns=''/></a>", nil, 0},
	{"<a xmlns:p='not a uri at all'/>", nil, 0},
	{"<a xml:lang='x' xml:space='y'/>", nil, 0},
	{"<xml:a/>", nil, 0},
	{"<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>", nil, 0},
	{"<a xmlns:xml='http://www.w3.org/XML/1998/&#110;amespace'/>", nil, 0},
	{"<a xmlns:xmlfoo='u'/>", nil, 0},
	{"<xmlns/>", nil, 0},
	{"<a b='' p:b='' xmlns:p='u' xmlns='u'/>", nil, 0},
	{"<p:a/>", ErrNamespace, 1},
	{"<a p:b=''/>", ErrNamespace, 3},
	{"<a><b xmlns:p='u'/><p:c/></a>", ErrNamespace, 20},
	{"<a xmlns:p=''/>", ErrNamespace, 3},
	{"<a xmlns:xml='u'/>", ErrNamespace, 3},
	{"<a xmlns:xml=''/>", ErrNamespace, 3},
	{"<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", ErrNamespace, 3},
	{"<a xmlns='http://www.w3.org/XML/1998/namespace'/>", ErrNamespace, 3},
	{"<a xmlns:p='http://www.w3.org/XML/1998/&#110;amespace'/>", ErrNamespace, 3},
	{"<a xmlns:xmlns='u'/>", ErrNamespace, 3},
	{"<a xmlns:xmlns='http://www.w3.org/2000/xmlns/'/>", ErrNamespace, 3},
	{"<a xmlns:p='http://www.w3.org/2000/xmlns/'/>", ErrNamespace, 3},
	{"<a xmlns='http://www.w3.org/2000/xmlns/'/>", ErrNamespace, 3},
	{"<xmlns:a/>", ErrNamespace, 1},
	{"<xmlns:a xmlns:xmlns='u'/>", ErrNamespace, 9},
	{"<a xmlns:p='u' xmlns:p='u'/>", ErrDuplicate, 15},
	{"<a xmlns='u' xmlns='v'/>", ErrDuplicate, 13},
	{"<a xmlns:p='u' xmlns:q='u' p:b='' q:b=''/>", ErrNamespace, 34},
	{"<a xmlns:p='u' xmlns:q='&#117;' p:b='' q:b=''/>", ErrNamespace, 39},
	{"<a xmlns:p='u' xmlns:q='v' p:b='' q:b=''/>", nil, 0},
	{"<a xmlns:p='u v' xmlns:q='u\nv' p:b='' q:b=''/>", ErrNamespace, 38},
	{"<a p:b='' xmlns:p='u'/>", nil, 0},
	{"<a:/>", ErrNamespace, 2},
	{"<:a/>", ErrNamespace, 1},
	{"<:/>", ErrNamespace, 1},
	{"<a:b:c xmlns:a='u'/>", ErrNamespace, 4},
	{"<a::b/>", ErrNamespace, 3},
	{"<a:1/>", ErrNamespace, 3},
	{"<a:-b/>", ErrNamespace, 3},
	{"<a:\u0300b/>", ErrNamespace, 3},
	{"<a b:=''/>", ErrNamespace, 4},
	{"<a xmlns:=''/>", ErrNamespace, 8},
	{"<a :b=''/>", ErrNamespace, 3},
}

func TestCases(t *testing.T) {
	for _, tt := range cases {
		t.Run(fmt.Sprintf("%.60q", tt.doc), func(t *testing.T) {
			everyWay(t, []byte(tt.doc), Limits{}, 0)
			everyWay(t, []byte(tt.doc), Limits{}, 16)
			err := result(tt.doc, Limits{})
			if !errors.Is(err, tt.want) {
				t.Fatalf("Next(%q): got %v, want %v", tt.doc, err, tt.want)
			}
			if tt.want == nil {
				return
			}
			se, ok := errors.AsType[*SyntaxError](err)
			if !ok {
				t.Fatalf("Next(%q): got %T, want *SyntaxError", tt.doc, err)
			}
			if se.Offset != int64(tt.at) {
				t.Errorf("Next(%q): fault at %d, want %d: %v", tt.doc, se.Offset, tt.at, err)
			}
		})
	}
}

// A document that outgrows every buffer is the same over all sources too, its
// offsets and the place of its fault included.
func TestLarge(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("<?xml version='1.0'?>\n<r xmlns:q='v'>")
	for i := range 80 {
		fmt.Fprintf(&doc, "<e%d a='%s' q:b='&lt;'>text %s\r\n<p:f xmlns:p='u%d'/><!--%d--></e%d>\n", i, strings.Repeat("v", i), strings.Repeat("\u20AC", i), i, i, i)
	}
	doc.WriteString("<![CDATA[" + strings.Repeat("0123456789]]\r\n", 2500) + "]]>")
	doc.WriteString("<?p " + strings.Repeat("0123456789?\r\n", 3000) + "?>")
	text := strings.Repeat("0123456789 &amp; \u20AC \r\n", 2500)
	for _, end := range []string{"</r>\n", "</r>\n<!--", "&"} {
		for _, piece := range []int{0, 1000} {
			everyWay(t, []byte(doc.String()+text+end), Limits{}, piece)
		}
	}
}

// textStop finds each special octet at each place of a word.
func TestTextStop(t *testing.T) {
	for c := range 256 {
		for at := range 40 {
			for n := at; n < 40; n++ {
				b := []byte(strings.Repeat("x", n+1))
				b[at] = byte(c)
				if n > at {
					b[n] = '<'
				}
				want := 0
				for want < len(b) && class[b[want]]&stopText == 0 {
					want++
				}
				for _, from := range []int{0, 3} {
					if from > want {
						continue
					}
					if got := textStop(b, from); got != want {
						t.Fatalf("textStop(%q, %d): got %d, want %d", b, from, got, want)
					}
				}
			}
		}
	}
	for c := range 256 {
		special := c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c >= 0x80 || c == '<' || c == '&' || c == ']'
		if got := class[c]&stopText != 0; got != special {
			t.Errorf("class of %#x: stops text %v, want %v", c, got, special)
		}
	}
}

// A scanner that was let go of keeps no document alive.
func TestResetLetsGo(t *testing.T) {
	s := NewScanner(Limits{})
	s.ResetBytes([]byte("<a b='c' d='e'><f g='h'/></a>"))
	if err := drain(s); err != nil {
		t.Fatal(err)
	}
	s.ResetBytes(nil)
	for _, a := range s.attrs[:cap(s.attrs)] {
		if a.Raw != nil || a.Name.Local != nil {
			t.Errorf("after ResetBytes(nil): attribute %q", a.Name.Local)
		}
	}
	if s.buf != nil {
		t.Error("after ResetBytes(nil): the document is still there")
	}
}

// A reader's error comes out as it went in, at every place of every document,
// unless the document is at fault before.
func TestReaderError(t *testing.T) {
	for _, tt := range cases {
		for n := range len(tt.doc) + 1 {
			whole := NewScanner(Limits{})
			whole.ResetBytes([]byte(tt.doc))
			want := dump(whole)
			cut := NewScanner(Limits{})
			cut.Reset(broken([]byte(tt.doc[:n])))
			got := dump(cut)
			if got == want {
				// All of the fault was there.
				if _, err := cut.Next(); !errors.As(err, new(*SyntaxError)) {
					t.Errorf("Next(%q, cut at %d): got %v, want a *SyntaxError", tt.doc, n, err)
				}
				continue
			}
			if _, err := cut.Next(); err != errBroken {
				t.Errorf("Next(%q, cut at %d): got %v, want the reader's error", tt.doc, n, err)
			}
			if events := strings.TrimSuffix(got, "error "+errBroken.Error()+"\n"); !strings.HasPrefix(want, events) {
				t.Errorf("Next(%q, cut at %d): got\n%s\nwant a beginning of\n%s", tt.doc, n, got, want)
			}
		}
	}
}

func TestUnexpectedEOFPasses(t *testing.T) {
	s := NewScanner(Limits{})
	s.Reset(io.MultiReader(strings.NewReader("<a>"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if err := drain(s); err != io.ErrUnexpectedEOF {
		t.Errorf("Next: got %v, want io.ErrUnexpectedEOF", err)
	}
}

func TestIdleReader(t *testing.T) {
	s := NewScanner(Limits{})
	s.Reset(idle{})
	if err := drain(s); err != io.ErrNoProgress {
		t.Errorf("Next: got %v, want io.ErrNoProgress", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestImpossibleReader(t *testing.T) {
	for _, n := range []impossible{-1, 1 << 30} {
		s := NewScanner(Limits{})
		s.Reset(n)
		if err := drain(s); err != errReadCount {
			t.Errorf("Next over a Read of %d: got %v, want %v", int(n), err, errReadCount)
		}
	}
}

type impossible int

func (n impossible) Read([]byte) (int, error) { return int(n), nil }

// Errors and the end are final, and leave nothing of a token behind.
func TestSticky(t *testing.T) {
	for _, doc := range []string{"<a b='c'/>", "<a b='c'><d e='f' e='g'>"} {
		s := NewScanner(Limits{})
		s.ResetBytes([]byte(doc))
		first := drain(s)
		for range 3 {
			k, err := s.Next()
			if first == nil && err != io.EOF || first != nil && err != first {
				t.Errorf("Next(%q) again: got %v, want %v", doc, err, first)
			}
			if k != 0 || len(s.Raw()) != 0 || len(s.Text()) != 0 || len(s.Attrs()) != 0 || s.Partial() || s.SelfClosing() || s.Name().Local != nil {
				t.Errorf("after the end of %q: got a token %v %q", doc, k, s.Raw())
			}
		}
	}
}
