package casetest

import (
	"bytes"
	"strings"
	"testing"
)

var namespaceChecks = checkTable{
	"13": {
		"must_not/drop unused-looking xmlns declarations": onAll(sameMessage),
		"must_not/rename prefixes":                        onAll(octetsKept),
		"must_not/rewrite QName-valued text":              onAll(hasText("unit", "codes:Kilo")),
	},
	"14": {
		"must_not/require a prefix": onAll(accepted),
		`must_not/emit <raw> or <plain> without xmlns="" inside a default namespace`: onAll(func(t *testing.T, r *run, o *outcome) {
			sameMessage(t, r, o)
			viaEnvelope(t, r, o)
		}),
		`must_not/add xmlns="" to elements that are qualified`: onAll(func(t *testing.T, _ *run, o *outcome) {
			if n, want := bytes.Count(o.sole(t).Body, []byte(`xmlns=""`)), bytes.Count(o.body, []byte(`xmlns=""`)); n != want {
				t.Errorf(`%d times xmlns="", sent %d`, n, want)
			}
		}),
	},
	"16": {
		"must_not/report an empty body":                   onAll(readAsStated),
		"must_not/inject gateway headers into inv:Header": onAll(octetsKept),
		"must_not/read anything from the comment": onAll(func(t *testing.T, r *run, o *outcome) {
			readAsStated(t, r, o) // the operation is that of the real Body
			viaEnvelope(t, r, o)
		}),
	},
	"17": {
		"must_not/forward a repaired name":          onAll(refused),
		"must_not/accept an unbound prefix":         all(on("unbound-prefix", refused), on("unbound-attr-prefix", refused)),
		"must_not/pick one of two equal attributes": on("same-expanded-attr", refused),
	},
	"51": {
		"facts/arrayType": onAll(func(t *testing.T, _ *run, o *outcome) {
			doc, err := document(o.sole(t).Body, "")
			if err != nil {
				t.Fatal(err)
			}
			stops := doc.named("stops")[0]
			v := stops.Attrs[qname{"http://schemas.xmlsoap.org/soap/encoding/", "arrayType"}]
			if v != "k:Stop[2]" || stops.Scope["k"] != "urn:depot:kinds" {
				t.Errorf("arrayType %q, k bound to %q", v, stops.Scope["k"])
			}
		}),
		"facts/links/#id0":                      multiRef("id0", "k:Plan"),
		"facts/links/#id1":                      multiRef("id1", "k:Stop"),
		"facts/links/#id2":                      multiRef("id2", "k:Stop"),
		"must_not/forward only the first child": onAll(octetsKept),
		"must_not/inline or resolve references": onAll(octetsKept),
		"must_not/treat id as xml:id": onAll(func(t *testing.T, r *run, o *outcome) {
			// xml:id values must be unique NCNames; plain id is no business of ours.
			r.f.http.reset()
			twice := bytes.ReplaceAll(o.body, []byte(`id="id2"`), []byte(`id="1 1"`))
			twice = bytes.ReplaceAll(twice, []byte(`id="id1"`), []byte(`id="1 1"`))
			post(t, r.f.g.addr["http"], o.target, o.fields, twice)
			octetsKept(t, r, &outcome{name: "same ids", doc: twice, calls: r.f.http.got()})
		}),
	},
	"52": {
		"facts/absent/f": onAll(func(t *testing.T, _ *run, o *outcome) {
			if doc, err := document(o.sole(t).Body, ""); err != nil || len(doc.named("p:f")) != 0 {
				t.Errorf("p:f is there (%v)", err)
			}
		}),
		"must_not/remove nil elements": onAll(sameMessage),
		"must_not/add xsi:nil to c":    onAll(octetsKept),
		"must_not/normalise 1 to true (unless the Body is unsigned and the rule is documented; infoset equality is the bar here)": onAll(octetsKept),
	},
}

// multiRef: the Body child of that id is there with its type and its order.
func multiRef(id, typ string) check {
	return onAll(func(t *testing.T, _ *run, o *outcome) {
		doc, err := document(o.sole(t).Body, "")
		if err != nil {
			t.Fatal(err)
		}
		kids := doc.Root.child(ns11, "Body").elements()
		at := int(id[2]-'0') + 1
		k := kids[at]
		if k.Attrs[qname{"", "id"}] != id || k.Attrs[qname{"http://www.w3.org/2001/XMLSchema-instance", "type"}] != typ {
			t.Errorf("Body child %d is %v", at, k.Attrs)
		}
	})
}

// viaEnvelope sends the message through normalize: envelope, which may change
// white space, comments and PIs directly in Envelope and Header only
// (SPEC.md §3.6, SOAP 1.2 Part 1 §2.7.2.1).
func viaEnvelope(t *testing.T, r *run, o *outcome) {
	t.Helper()
	r.f.http.reset()
	a := post(t, r.f.g.addr["http"], "/envelope/x", o.fields, o.body)
	calls := r.f.http.got()
	if a.Status != 200 || len(calls) != 1 {
		t.Fatalf("%s through normalize: envelope: %s", o.label(), a)
	}
	sameBelow(t, o.label()+" normalized", calls[0].Body, calls[0].Fields.get("Content-Type"), o.doc, o.fields.get("Content-Type"))
}

// betweenParts are the nodes that may change between the parts of an envelope.
func betweenParts(parent, kid *item) bool {
	ns := parent.Name.Space
	structural := (ns == ns11 || ns == ns12) && (parent.Name.Local == "Envelope" || parent.Name.Local == "Header")
	return structural && kid.Kind != 'e'
}

func sameBelow(t *testing.T, what string, got []byte, gotType string, want []byte, wantType string) {
	t.Helper()
	g, err := document(got, gotType)
	if err != nil {
		t.Fatalf("%s: %v: %q", what, err, got)
	}
	w, err := document(want, wantType)
	if err != nil {
		t.Fatalf("%s: the input: %v", what, err)
	}
	strip := func(root *item) string {
		for _, p := range []*item{root, root.child(root.Name.Space, "Header")} {
			if p != nil {
				p.Kids = p.elements()
			}
		}
		return dump(root, betweenParts)
	}
	if gd, wd := strip(g.Root), strip(w.Root); gd != wd {
		t.Errorf("%s: infosets differ\n--- got\n%s--- want\n%s", what, gd, wd)
	}
}

var syntaxChecks = checkTable{
	"18": {
		"to_backend/body": onAll(func(t *testing.T, r *run, o *outcome) {
			sameMessage(t, r, o)
			viaEnvelope(t, r, o)
		}),
		"must_not/literal ]]> in character data outside CDATA": onAll(func(t *testing.T, r *run, o *outcome) {
			sameMessage(t, r, o) // the oracle refuses a literal ]]>
			bad := bytes.ReplaceAll(o.body, []byte("x]]&gt;y"), []byte("x]]>y"))
			wantFault(t, post(t, r.f.g.addr["http"], o.target, o.fields, bad), "1.1", "Client", "NotWellFormed")
		}),
		"must_not/decode the &amp; that sits inside CDATA": onAll(hasText("p:t1", "<a>]]>&amp;")),
		"must_not/nest CDATA in CDATA":                     onAll(octetsKept),
	},
	"19": {
		"to_backend/body": on("", func(t *testing.T, r *run, o *outcome) {
			octetsKept(t, r, o)
			if !bytes.Contains(o.sole(t).Body, []byte("&#xD;")) {
				t.Errorf("CR left as something else: %q", o.calls[0].Body)
			}
		}),
		"must_not/substitute U+FFFD or '?'":                         all(onAll(neverAtBackend), without("?")),
		"must_not/strip the offending character and go on":          onVariants(refused),
		"must_not/join two surrogate references into one character": on("surrogate-pair-refs", refused),
	},
	"20": {
		"variant comments-inside/string_value(p:Op)": on("comments-inside", hasText("p:Op", "1234")),
		"variant comments-inside/preserve": on("comments-inside", func(t *testing.T, r *run, o *outcome) {
			octetsKept(t, r, o)
			viaEnvelope(t, r, o)
		}),
		"variant pi-in-payload/must_not/drop the PI silently": on("pi-in-payload", sameMessage),
		"facts/body_qname": onAll(readAsOp),
		"must_not/truncate the text at a comment (12 instead of 1234)": on("comments-inside", hasText("p:Op", "1234")),
		"must_not/remove comments below Body": on("comments-inside", func(t *testing.T, r *run, o *outcome) {
			sameMessage(t, r, o)
			viaEnvelope(t, r, o)
		}),
		"must_not/act on the PI": on("pi-in-payload", octetsKept),
	},
	"23": {
		"facts/body_qname":                   on("newline-no-decl", readAsStated),
		"variant newline-no-decl/body_qname": on("newline-no-decl", readAsStated),
		"must_not/trim the input before parsing in default mode": on("newline-then-decl", func(t *testing.T, r *run, o *outcome) {
			refused(t, r, o)
			for _, lead := range []string{" ", "\t", "\n", "\r\n", " " + bom, bom + " "} {
				a := post(t, r.f.g.addr["http"], o.target, o.fields, append([]byte(lead), bytes.TrimLeft(o.body, "\r\n")...))
				if wantFault(t, a, "1.1", "Client", "NotWellFormed"); a.Status == 200 {
					t.Errorf("%q before the declaration was taken", lead)
				}
			}
		}),
		"must_not/reject the undeclared form": on("newline-no-decl", accepted),
	},
	"24": {
		"variant comment/any_of/accept (SOAP 1.1 is silent; comment may be dropped)": on("comment", commentAfter),
		"variant comment/any_of/reject as in the other variants":                     on("comment", commentAfter),
		"must_not/answer before the end of the body was seen": on("whitespace", func(t *testing.T, r *run, o *outcome) {
			r.f.http.reset()
			c := dial(t, r.f.g.addr["http"])
			hd := appendHead(nil, "POST "+o.target+" HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, o.fields...))
			all := append(hd, chunked(o.body)...)
			last := len(all) - len("0\r\n\r\n")
			if err := c.send(all[:last]); err != nil {
				t.Fatal(err)
			}
			if !quiet(c, 300) || len(r.f.http.got()) != 0 {
				t.Fatal("something was answered or forwarded before the end of the body")
			}
			if err := c.send(all[last:]); err != nil {
				t.Fatal(err)
			}
			if a := c.answer(); a.Status != 200 {
				t.Errorf("got %s", a)
			}
		}),
		"must_not/forward the trailing bytes": onAll(func(t *testing.T, r *run, o *outcome) {
			if strings.HasPrefix(o.name, "nul") || o.name == "text" || o.name == "second-envelope" {
				refused(t, r, o)
			}
		}),
		"must_not/process the second envelope": on("second-envelope", refused),
	},
	"26": {
		"to_backend/body": onAll(func(t *testing.T, r *run, o *outcome) {
			sameMessage(t, r, o)
			viaEnvelope(t, r, o)
		}),
		"facts/text(code)":                       onAll(hasText("p:code", " A 1 ")),
		"facts/text(blank)":                      onAll(hasText("p:blank", "   ")),
		"must_not/indent or reformat below Body": onAll(viaEnvelope),
		"must_not/drop xml:space": onAll(func(t *testing.T, _ *run, o *outcome) {
			doc, err := document(o.sole(t).Body, "")
			if err != nil || doc.named("p:pre")[0].Attrs[qname{nsXML, "space"}] != "preserve" {
				t.Errorf("xml:space is gone (%v)", err)
			}
		}),
		"must_not/turn white-space-only text into an empty element": onAll(hasText("p:blank", "   ")),
	},
}

// onVariants checks every outcome but the base.
func onVariants(f func(t *testing.T, r *run, o *outcome)) check {
	return onAll(func(t *testing.T, r *run, o *outcome) {
		if o.name != "" {
			f(t, r, o)
		}
	})
}

// readAsOp: the Body's first element of case 20 is p:Op at the backend, and
// routing saw it too.
func readAsOp(t *testing.T, r *run, o *outcome) {
	t.Helper()
	doc, err := document(o.sole(t).Body, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := factOf(doc, nil, "", "body_qname"); got != "{urn:depot:parcel}Op" {
		t.Errorf("%s: operation %v", o.label(), got)
	}
}

// commentAfter: a comment after the envelope is well-formed (Misc*), so it is
// passed on untouched.
func commentAfter(t *testing.T, r *run, o *outcome) {
	t.Helper()
	accepted(t, r, o)
	octetsKept(t, r, o)
}
