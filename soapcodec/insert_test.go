package soapcodec

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
)

const securityOpen = `<w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="` + nsSignature + `"><d:SignedInfo>`

const securityShut = `</d:SignedInfo></d:Signature></w:Security>`

// TestInsert: what becomes of a message with Add, Late and both, over all
// readers, as a whole and as a stream.
func TestInsert(t *testing.T) {
	const (
		add  = `<x:Add xmlns:x="urn:x"/>`
		wsa  = ` xmlns:a="` + nsAddressing + `"`
		old  = ` xmlns:a="` + nsAddressing2004 + `"`
		mark = `<gw:Delivery xmlns:gw="urn:soapway:delivery"><gw:Id>1</gw:Id></gw:Delivery>`
	)
	late := func(to string, mark string) Options { return Options{Late: &Late{To: to, Mark: []byte(mark)}} }
	both := Options{Add: []byte(add), Late: &Late{Mark: []byte(mark)}}
	tests := []struct {
		name     string
		opt      Options
		in, want string // want "" = CodeSigned
	}{
		{"no header", Options{Add: []byte(add)}, open11 + "<s:Body/>" + shut, open11 + "<s:Header>" + add + "</s:Header><s:Body/>" + shut},
		{"no header, default namespace", both, "<Envelope xmlns='" + NS12 + "'> <Body/></Envelope>", "<Envelope xmlns='" + NS12 + "'> <Header>" + add + mark + "</Header><Body/></Envelope>"},
		{"self-closing header", both, open11 + "<s:Header  /> <s:Body/>" + shut, open11 + "<s:Header  >" + add + mark + "</s:Header> <s:Body/>" + shut},
		{"empty header", both, open11 + "<s:Header></s:Header ><s:Body/>" + shut, open11 + "<s:Header>" + add + mark + "</s:Header ><s:Body/>" + shut},
		{"first and last", both, open11 + "<s:Header> <h xmlns='urn:h'/> </s:Header><s:Body/>" + shut, open11 + "<s:Header>" + add + " <h xmlns='urn:h'/> " + mark + "</s:Header><s:Body/>" + shut},
		{"a mark of the caller's", late("", mark), open11 + "<s:Header>" + mark + "</s:Header><s:Body/>" + shut, open11 + "<s:Header>" + mark + "</s:Header><s:Body/>" + shut},
		{"a mark for later", Options{LateMark: true}, open11 + "<s:Header>" + mark + "</s:Header><s:Body/>" + shut, open11 + "<s:Header></s:Header><s:Body/>" + shut},
		{
			"to", late("http://n/?a&b", ""), open11 + "<s:Header" + wsa + "><a:To x='1'> urn:<!-- c -->old<![CDATA[x]]> </a:To><a:To s:actor='urn:hop'>stays</a:To></s:Header><s:Body" + wsa + "><a:To>stays</a:To></s:Body>" + shut,
			open11 + "<s:Header" + wsa + "><a:To x='1'>http://n/?a&amp;b</a:To><a:To s:actor='urn:hop'>stays</a:To></s:Header><s:Body" + wsa + "><a:To>stays</a:To></s:Body>" + shut,
		},
		{"to of 2004", late("urn:n", ""), open12 + "<s:Header" + old + "><a:To></a:To><a:To/></s:Header><s:Body/>" + shut, open12 + "<s:Header" + old + "><a:To>urn:n</a:To><a:To/></s:Header><s:Body/>" + shut},
		{"no to", late("urn:n", ""), open11 + "<s:Body/>" + shut, open11 + "<s:Body/>" + shut},
		{"to for later", Options{LateTo: true}, open11 + "<s:Header" + wsa + "><a:To>x</a:To></s:Header><s:Body/>" + shut, open11 + "<s:Header" + wsa + "><a:To>x</a:To></s:Header><s:Body/>" + shut},
		{"signed, no to", Options{LateTo: true}, open11 + "<s:Header>" + securityOpen + securityShut + "</s:Header><s:Body/>" + shut, open11 + "<s:Header>" + securityOpen + securityShut + "</s:Header><s:Body/>" + shut},
		{"signed, to", Options{LateTo: true}, open11 + "<s:Header" + wsa + "><a:To>x</a:To>" + securityOpen + securityShut + "</s:Header><s:Body/>" + shut, ""},
		{"signed body", both, open11 + "<s:Header>" + securityOpen + "<d:Reference URI='#b'/>" + securityShut + "</s:Header><s:Body/>" + shut, open11 + "<s:Header>" + add + securityOpen + "<d:Reference URI='#b'/>" + securityShut + mark + "</s:Header><s:Body/>" + shut},
		{"signed document", Options{LateMark: true}, open11 + "<s:Header>" + securityOpen + "<d:Reference URI=''/>" + securityShut + "</s:Header><s:Body/>" + shut, ""},
		{"signed header", Options{Add: []byte(add)}, open11 + "<s:Header Id='h'>" + securityOpen + "<d:Reference URI='#h'/>" + securityShut + "</s:Header><s:Body/>" + shut, ""},
		{"translated", Options{Translate: V12, Add: []byte(add), Late: &Late{To: "urn:n", Mark: []byte(mark)}}, open11 + "<s:Header" + wsa + "><a:To s:actor='x'>y</a:To><a:To s:mustUnderstand='1'>z</a:To></s:Header><s:Body/>" + shut, open12 + "<s:Header" + wsa + ">" + add + "<a:To s:role='x'>y</a:To><a:To s:mustUnderstand='1'>urn:n</a:To>" + mark + "</s:Header><s:Body/>" + shut},
		{"normalized", Options{Normalize: Envelope, Translate: V12, Add: []byte(add)}, strings.Replace(open11, " xmlns", "\n\txmlns", 1) + " <s:Header \n/> <s:Body s:encodingStyle = ''  /> " + shut, open12 + "<s:Header>" + add + "</s:Header><s:Body/>" + shut},
		{"as a node", Options{Node: true, Translate: V12, Add: []byte(add)}, open11 + "<s:Header><h:A xmlns:h='urn:h' s:actor='http://schemas.xmlsoap.org/soap/actor/next' s:mustUnderstand='0'>s:x</h:A></s:Header><s:Body/>" + shut, open12 + "<s:Header>" + add + "</s:Header><s:Body/>" + shut},
	}
	for _, tt := range tests {
		for _, r := range readers {
			d := NewDecoder(tt.opt)
			r.reset(d, []byte(tt.in))
			err := d.Finish()
			if tt.want == "" {
				if e, ok := err.(*Error); !ok || e.Code != CodeSigned {
					t.Errorf("%s, over %s: got %v, want %s", tt.name, r.name, err, CodeSigned)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, over %s: got %v, want nil", tt.name, r.name, err)
				continue
			}
			edits := d.TakeEdits()
			checkEdits(t, []byte(tt.in), edits)
			if got := string(Apply(nil, []byte(tt.in), edits)); got != tt.want {
				t.Errorf("%s, over %s: got\n%s, want\n%s", tt.name, r.name, got, tt.want)
			}
		}
		if tt.want != "" {
			got, err := streamWith(tt.opt, iotest.OneByteReader(bytes.NewReader([]byte(tt.in))), []byte(tt.in))
			if err != nil || string(got) != tt.want {
				t.Errorf("%s, streaming: got\n%s, %v, want\n%s", tt.name, got, err, tt.want)
			}
			if _, err := Decode([]byte(tt.want), Options{}); err != nil {
				t.Errorf("%s: the result is no envelope: %v", tt.name, err)
			}
		}
	}
}

func TestHeaderBlockOf(t *testing.T) {
	good := []struct{ doc, want string }{
		{`<a xmlns="urn:a"/>`, `<a xmlns="urn:a"/>`},
		{"<?xml version='1.0'?>\n<!-- c -->\n<p:a xmlns:p='urn:a'>t<!-- d --></p:a>\n<!-- e -->", "<p:a xmlns:p='urn:a'>t<!-- d --></p:a>"},
		{"<p:a xmlns:p='urn:a'><b/></p:a>", `<p:a xmlns="" xmlns:p='urn:a'><b/></p:a>`},
		{"<p:a xmlns:p='urn:a' xmlns='urn:d'><b/></p:a>", "<p:a xmlns:p='urn:a' xmlns='urn:d'><b/></p:a>"},
		{"\xFF\xFE<\x00a\x00 \x00x\x00m\x00l\x00n\x00s\x00=\x00'\x00u\x00'\x00/\x00>\x00", "<a xmlns='u'/>"},
	}
	for _, tt := range good {
		got, err := HeaderBlockOf([]byte(tt.doc))
		if err != nil || string(got) != tt.want {
			t.Errorf("HeaderBlockOf(%q): got %q, %v, want %q", tt.doc, got, err, tt.want)
		}
	}
	bad := []struct{ doc, want string }{
		{"", "1:1"},
		{"<a/>", "1:1"},
		{"<p:a/>", "prefix"},
		{"<a xmlns='u'/><b/>", "1:15"},
		{"<a xmlns='u'>\n<?p i?></a>", "2:1"},
		{"<!DOCTYPE a><a xmlns='u'/>", "1:1"},
		{"text", "1:1"},
		{open11 + "<s:Body/>" + shut, "Envelope"},
		{"\xEF\xBB\xBF<a xmlns='u'>\xFF</a>", "1:"},
	}
	for _, tt := range bad {
		if got, err := HeaderBlockOf([]byte(tt.doc)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("HeaderBlockOf(%q): got %q, %v, want an error with %q", tt.doc, got, err, tt.want)
		}
	}
}

func TestDeliveryMark(t *testing.T) {
	got := string(DeliveryMark(Delivery{ID: "a&b", Attempt: 12, PossibleDuplicate: true}))
	want := `<gw:Delivery xmlns:gw="urn:soapway:delivery"><gw:Id>a&amp;b</gw:Id><gw:Attempt>12</gw:Attempt><gw:PossibleDuplicate>true</gw:PossibleDuplicate></gw:Delivery>`
	if got != want {
		t.Errorf("DeliveryMark: got\n%s, want\n%s", got, want)
	}
	if _, err := HeaderBlockOf(DeliveryMark(Delivery{ID: "1"})); err != nil {
		t.Errorf("DeliveryMark is no header block: %v", err)
	}
}
