package soapcodec

import (
	"errors"
	"strings"
	"testing"
)

const ns2004 = nsAddressing2004

// endpointsOf decodes an envelope and reads its endpoints.
func endpointsOf(t testing.TB, doc string) (Endpoints, error) {
	t.Helper()
	d := NewDecoder(Options{})
	d.ResetBytes([]byte(doc))
	if err := d.Finish(); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return FindEndpoints([]byte(doc), d.Facts())
}

func header12(header string) string {
	return `<e:Envelope xmlns:e="` + NS12 + `" xmlns:a="` + nsAddressing + `" xmlns:q="urn:q"><e:Header>` + header + `</e:Header><e:Body/></e:Envelope>`
}

func TestFindEndpoints(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		reply, fault string // "-" for none named
		space        string
	}{
		{"none named", `<a:Action>x</a:Action>`, "-", "-", ""},
		{"reply", `<a:ReplyTo><a:Address> http://c/x </a:Address></a:ReplyTo>`, "http://c/x", "-", nsAddressing},
		{"split text", `<a:ReplyTo><a:Address>http://c/<!-- - -->a&amp;<![CDATA[b]]></a:Address></a:ReplyTo>`, "http://c/a&b", "-", nsAddressing},
		{"both", `<a:FaultTo><a:Address>http://f</a:Address></a:FaultTo><a:ReplyTo><a:Address>http://c</a:Address></a:ReplyTo>`, "http://c", "http://f", nsAddressing},
		{"for a role", `<a:ReplyTo e:role="` + NS12 + `/role/next"><a:Address>http://c</a:Address></a:ReplyTo>`, "-", "-", ""},
		{"draft", `<a:ReplyTo xmlns:a="` + ns2004 + `"><a:Address>http://c</a:Address></a:ReplyTo>`, "http://c", "-", ns2004},
		{"the later counts", `<o:FaultTo xmlns:o="` + ns2004 + `"><o:Address>http://f</o:Address></o:FaultTo><o:ReplyTo xmlns:o="` + ns2004 + `"><o:Address>http://old</o:Address></o:ReplyTo><a:ReplyTo><a:Address>http://c</a:Address></a:ReplyTo>`, "http://c", "-", nsAddressing},
		{"an address in a parameter", `<a:ReplyTo><a:ReferenceParameters><q:p><a:Address>http://evil</a:Address></q:p></a:ReferenceParameters><a:Address>http://c</a:Address></a:ReplyTo>`, "http://c", "-", nsAddressing},
		{"another's Address", `<a:ReplyTo><q:Address>http://evil</q:Address><a:Address>http://c</a:Address></a:ReplyTo>`, "http://c", "-", nsAddressing},
	} {
		e, err := endpointsOf(t, header12(tt.header))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		address := func(e *Endpoint) string {
			if e == nil {
				return "-"
			}
			return e.Address
		}
		if r, f := address(e.Reply), address(e.Fault); r != tt.reply || f != tt.fault || e.Namespace != tt.space {
			t.Errorf("%s: got %q, %q of %q, want %q, %q of %q", tt.name, r, f, e.Namespace, tt.reply, tt.fault, tt.space)
		}
	}
}

func TestEndpointsRefused(t *testing.T) {
	address := `<a:Address>http://c</a:Address>`
	parameter := func(xml string) string {
		return `<a:ReplyTo>` + address + `<a:ReferenceParameters>` + xml + `</a:ReferenceParameters></a:ReplyTo>`
	}
	for _, tt := range []struct {
		name, header string
		code         Code
	}{
		{"two", `<a:ReplyTo>` + address + `</a:ReplyTo><a:ReplyTo>` + address + `</a:ReplyTo>`, CodeInvalidCardinality},
		{"no address", `<a:ReplyTo/>`, CodeInvalidAddress},
		{"an empty one", `<a:FaultTo><a:Address> </a:Address></a:FaultTo>`, CodeInvalidAddress},
		{"two addresses", `<a:ReplyTo>` + address + address + `</a:ReplyTo>`, CodeInvalidAddress},
		{"addressing in a parameter", parameter(`<a:To>http://evil</a:To>`), CodeInvalidAddress},
		{"SOAP in a parameter", parameter(`<e:Body/>`), CodeInvalidAddress},
		{"not qualified", parameter(`<p/>`), CodeInvalidAddress},
		{"large", parameter(`<q:p>` + strings.Repeat("x", maxParameters) + `</q:p>`), CodeLimit},
	} {
		_, err := endpointsOf(t, header12(tt.header))
		var f *Fault
		if !errors.As(err, &f) || f.Code != tt.code {
			t.Errorf("%s: got %v, want a fault %s", tt.name, err, tt.code)
		}
	}
}

// TestParameters: each stands alone as a header block and keeps its meaning.
func TestParameters(t *testing.T) {
	for _, tt := range []struct{ name, header, want string }{
		{
			"marked, with the namespaces around it",
			`<a:ReplyTo><a:Address>http://c</a:Address><a:ReferenceParameters xmlns:v="urn:v"><q:p t="v:x">v:y</q:p></a:ReferenceParameters></a:ReplyTo>`,
			`<q:p xmlns:wsa="` + nsAddressing + `" wsa:IsReferenceParameter="true" xmlns:e="` + NS12 + `" xmlns:a="` + nsAddressing + `" xmlns:q="urn:q" xmlns:v="urn:v" t="v:x">v:y</q:p>`,
		},
		{
			"the prefix is taken",
			`<a:ReplyTo xmlns:wsa="urn:other"><a:Address>http://c</a:Address><a:ReferenceParameters><q:p/></a:ReferenceParameters></a:ReplyTo>`,
			`<q:p xmlns:wsa1="` + nsAddressing + `" wsa1:IsReferenceParameter="true" xmlns:e="` + NS12 + `" xmlns:a="` + nsAddressing + `" xmlns:q="urn:q" xmlns:wsa="urn:other"/>`,
		},
		{
			"marked already",
			`<a:ReplyTo><a:Address>http://c</a:Address><a:ReferenceParameters><q:p a:IsReferenceParameter="1"/></a:ReferenceParameters></a:ReplyTo>`,
			`<q:p xmlns:e="` + NS12 + `" xmlns:a="` + nsAddressing + `" xmlns:q="urn:q" a:IsReferenceParameter="1"/>`,
		},
		{
			"the draft has properties too, and no mark",
			`<o:ReplyTo xmlns:o="` + ns2004 + `"><o:Address>http://c</o:Address><o:ReferenceProperties><q:r/></o:ReferenceProperties><o:ReferenceParameters><q:p/></o:ReferenceParameters></o:ReplyTo>`,
			`<q:r xmlns:e="` + NS12 + `" xmlns:a="` + nsAddressing + `" xmlns:q="urn:q" xmlns:o="` + ns2004 + `"/>` +
				`<q:p xmlns:e="` + NS12 + `" xmlns:a="` + nsAddressing + `" xmlns:q="urn:q" xmlns:o="` + ns2004 + `"/>`,
		},
	} {
		e, err := endpointsOf(t, header12(tt.header))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got strings.Builder
		for _, p := range e.Reply.Parameters {
			got.WriteString(string(p.Block))
			if _, err := HeaderBlockOf(p.Block); err != nil {
				t.Errorf("%s: %s is no header block: %v", tt.name, p.Block, err)
			}
		}
		if got.String() != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got.String(), tt.want)
		}
	}
}

func TestAnswerBlocks(t *testing.T) {
	const blank = `<e:Envelope xmlns:e="` + NS11 + `" xmlns:a="` + nsAddressing + `"><e:Header>%</e:Header><e:Body/></e:Envelope>`
	e := &Endpoint{Address: "http://c/?a&b", Parameters: []Parameter{{QName{"urn:q", "p"}, []byte(`<q:p xmlns:q="urn:q"/>`)}}}
	wsa := func(space, local, text string) string {
		return `<wsa:` + local + ` xmlns:wsa="` + space + `">` + text + `</wsa:` + local + `>`
	}
	for _, tt := range []struct{ name, header, space, id, want string }{
		{"nothing there", ``, nsAddressing, "urn:1", wsa(nsAddressing, "To", "http://c/?a&amp;b") + wsa(nsAddressing, "RelatesTo", "urn:1") + `<q:p xmlns:q="urn:q"/>`},
		{"no id", ``, nsAddressing, "", wsa(nsAddressing, "To", "http://c/?a&amp;b") + wsa(nsAddressing, "RelatesTo", nsAddressing+"/unspecified") + `<q:p xmlns:q="urn:q"/>`},
		{"no id, draft", ``, ns2004, "", wsa(ns2004, "To", "http://c/?a&amp;b") + wsa(ns2004, "RelatesTo", ns2004+"/id/unspecified") + `<q:p xmlns:q="urn:q"/>`},
		{"all there", `<a:To>http://other</a:To><a:RelatesTo>urn:2</a:RelatesTo><q:p xmlns:q="urn:q"/>`, ns2004, "urn:1", ""},
		{"the answer's own specification", `<o:Action xmlns:o="` + ns2004 + `">x</o:Action><q:p xmlns:q="urn:q"/>`, nsAddressing, "urn:1", wsa(ns2004, "To", "http://c/?a&amp;b") + wsa(ns2004, "RelatesTo", "urn:1")},
		{"another relation", `<a:To>x</a:To><a:RelatesTo RelationshipType="urn:o">urn:2</a:RelatesTo><q:p xmlns:q="urn:q"/>`, nsAddressing, "urn:1", wsa(nsAddressing, "RelatesTo", "urn:1")},
	} {
		d := NewDecoder(Options{})
		d.ResetBytes([]byte(strings.Replace(blank, "%", tt.header, 1)))
		if err := d.Finish(); err != nil {
			t.Fatal(err)
		}
		if got := string(AnswerBlocks(d.Facts(), e, tt.space, tt.id)); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// FuzzFindEndpoints: what is read of a good envelope makes good header blocks.
func FuzzFindEndpoints(f *testing.F) {
	f.Add(header12(`<a:ReplyTo><a:Address>http://c</a:Address><a:ReferenceParameters xmlns="urn:d"><p v="1"><c/></p></a:ReferenceParameters></a:ReplyTo>`))
	f.Add(header12(`<ReplyTo xmlns="` + ns2004 + `"><Address>http://c</Address><ReferenceProperties><x xmlns="urn:x"/></ReferenceProperties></ReplyTo>`))
	f.Fuzz(func(t *testing.T, doc string) {
		d := NewDecoder(Options{})
		d.ResetBytes([]byte(doc))
		if d.Finish() != nil {
			return
		}
		e, err := FindEndpoints([]byte(doc), d.Facts())
		if err != nil {
			if _, ok := errors.AsType[*Fault](err); !ok {
				t.Fatalf("%q: %v", doc, err)
			}
			return
		}
		if e.Reply == nil {
			return
		}
		// As long as the decoder reads the same header it finds the same address.
		if got := d.Facts().ReplyTo; got != e.Reply.Address && e.Namespace == nsAddressing {
			t.Errorf("%q: got %q, the decoder %q", doc, e.Reply.Address, got)
		}
		for _, p := range e.Reply.Parameters {
			out := []byte(`<e:Envelope xmlns:e="` + NS12 + `"><e:Header>` + string(p.Block) + `</e:Header><e:Body/></e:Envelope>`)
			d.ResetBytes(out)
			if err := d.Finish(); err != nil && !strings.Contains(err.Error(), "mustUnderstand") && !strings.Contains(err.Error(), "relay") {
				t.Errorf("%q: a block of %q: %v", doc, out, err)
			}
		}
	})
}
