package casetest

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

const bom = "\xEF\xBB\xBF"

var charsetChecks = checkTable{
	"01": {
		"facts/action": onAll(readAsStated),
		"to_backend/bom": onAll(func(t *testing.T, r *run, o *outcome) {
			octetsKept(t, r, o) // SPEC.md §3.6: UTF-8 stays as it is, BOM included
		}),
		"to_backend/content_length": onAll(lengthExact),
		"must_not/treat U+FEFF as character data or as 'text before the declaration'": onAll(func(t *testing.T, r *run, o *outcome) {
			sameMessage(t, r, o)
			for _, shape := range []string{"utf-8", ""} { // the BOM decides with and without a label
				f := o.fields.without("Content-Type")
				ct := "text/xml"
				if shape != "" {
					ct += "; charset=" + shape
				}
				if a := post(t, r.f.g.addr["http"], o.target, append(f, field{"Content-Type", ct}), o.body); a.Status != 200 {
					t.Errorf("charset %q: %s", shape, a)
				}
			}
		}),
		"must_not/emit two BOMs": without("\uFEFF"),
		"must_not/drop only part of the BOM": onAll(func(t *testing.T, _ *run, o *outcome) {
			b := o.sole(t).Body
			if !bytes.HasPrefix(b, []byte(bom+"<?xml")) && !bytes.HasPrefix(b, []byte("<?xml")) {
				t.Errorf("body begins with % x", b[:8])
			}
		}),
	},
	"02": {
		"to_backend/labels":                       onAll(labelsAgree),
		"must_not/U+FFFD in the output":           without("\uFFFD"),
		"must_not/a BOM anywhere but at offset 0": without("\uFEFF"),
		"must_not/unpaired surrogates (CESU-style 6-byte output)": onAll(func(t *testing.T, r *run, o *outcome) {
			b := o.sole(t).Body
			if !utf8.Valid(b) || !bytes.Contains(b, []byte("\U0001F4E6")) {
				t.Errorf("not the four octets of U+1F4E6: %q", b)
			}
			splitEverywhere(t, r, o)
		}),
	},
	"03": {
		"to_backend/labels":         onAll(labelsAgree),
		"to_backend/content_length": onAll(lengthExact),
		"must_not/replace undecodable bytes with U+FFFD": all(without("\uFFFD"), onAll(func(t *testing.T, r *run, o *outcome) {
			// The same octets under the label that they break are a fault.
			r.f.http.reset()
			f := o.fields.with("Content-Type", "text/xml; charset=utf-8")
			a := post(t, r.f.g.addr["http"], o.target, f, o.body)
			wantFault(t, a, "1.1", "Client", "Charset")
			if n := len(r.f.http.got()); n != 0 {
				t.Errorf("undecodable octets reached the backend: %d requests", n)
			}
		})),
		"must_not/guess per byte": onAll(hasText("p:name", "Café Brûlé")),
		"must_not/forward Latin-1 bytes labelled UTF-8 in Content-Type": onAll(labelsAgree),
	},
	"05": {
		"to_backend/labels":         onAll(labelsAgree),
		"to_backend/content_length": onAll(lengthExact),
		"must_not/U+0080, U+0093, U+0094, U+0085 or U+008A in the output": without("\u0080", "\u0093", "\u0094", "\u0085", "\u008a"),
		"must_not/U+FFFD": without("\uFFFD"),
		"must_not/decode as UTF-8 and stop half way with a 200": onAll(func(t *testing.T, r *run, o *outcome) {
			hasText("p:memo", "“fragile”… Š")(t, r, o)
			if o.a.Status != 200 {
				t.Errorf("got %s", o.a)
			}
		}),
	},
}

// splitEverywhere sends the message again in two TCP segments for each cut,
// which puts every border inside a character once.
func splitEverywhere(t *testing.T, r *run, o *outcome) {
	t.Helper()
	r.f.http.reset()
	octets := request(o.target, o.fields, o.body)
	c := dial(t, r.f.g.addr["http"])
	_ = c.SetNoDelay(true)
	start := bytes.Index(octets, []byte("\r\n\r\n"))
	cuts := 0
	for cut := start; cut < len(octets); cut += 7 { // 7 is odd: both halves of a UTF-16 unit
		if err := c.send(octets[:cut], octets[cut:]); err != nil {
			t.Fatal(err)
		}
		if a := c.answer(); a.Status != 200 {
			t.Fatalf("cut at %d: %s", cut, a)
		}
		cuts++
	}
	calls := r.f.http.got()
	if len(calls) != cuts {
		t.Fatalf("the backend got %d messages of %d", len(calls), cuts)
	}
	for i, c := range calls {
		if !bytes.Equal(c.Body, o.calls[0].Body) {
			t.Errorf("message %d differs: %q", i, c.Body)
		}
	}
}

func TestCharsets(t *testing.T) {
	f := shared(t)
	doc := func(decl string) string {
		return decl + `<e:Envelope xmlns:e="` + ns11 + `"><e:Body><t:x xmlns:t="urn:t">Ž€</t:x></e:Body></e:Envelope>`
	}
	utf16 := func(s string, big, mark bool) (b []byte) {
		put := func(u rune) {
			if big {
				b = append(b, byte(u>>8), byte(u))
			} else {
				b = append(b, byte(u), byte(u>>8))
			}
		}
		if mark {
			put(0xFEFF)
		}
		for _, r := range s {
			put(r)
		}
		return b
	}
	latin9 := strings.NewReplacer("Ž", "\xB4", "€", "\xA4")
	for _, c := range []struct {
		name, ctype string
		body        []byte
		fails       bool
	}{
		{"utf-8 without any label", "text/xml", []byte(doc("")), false},
		{"no content type at all", "", []byte(doc("")), false},
		{"application/xml", "application/xml", []byte(doc(`<?xml version="1.0"?>`)), false},
		{"utf-8 bom, wrong label", "text/xml; charset=iso-8859-1", []byte(bom + doc(`<?xml version="1.0" encoding="utf-16"?>`)), false},
		{"utf-16be with bom", "text/xml; charset=utf-16", utf16(doc(`<?xml version="1.0" encoding="UTF-16"?>`), true, true), false},
		{"utf-16be by label, no bom", "text/xml; charset=utf-16be", utf16(doc(`<?xml version="1.0"?>`), true, false), false},
		{"utf-16le bom, wrong label", "text/xml; charset=utf-8", utf16(doc(`<?xml version="1.0"?>`), false, true), false},
		{"iso-8859-15 by label", "text/xml; charset=ISO-8859-15", []byte(latin9.Replace(doc(`<?xml version='1.0' encoding='utf-8' standalone='yes' ?>`))), false},
		{"iso-8859-15 by declaration", "text/xml", []byte(latin9.Replace(doc(`<?xml version="1.0" encoding='ISO-8859-15'?>`))), false},
		{"unknown label", "text/xml; charset=klingon", []byte(doc("")), true},
		{"unknown declaration", "text/xml", []byte(doc(`<?xml version="1.0" encoding="x-none"?>`)), true},
		{"label beats an unknown declaration", "text/xml; charset=utf-8", []byte(doc(`<?xml version="1.0" encoding="x-none"?>`)), false},
		{"odd utf-16", "text/xml; charset=utf-16", append(utf16(doc(""), true, true), 0), true},
		{"lone surrogate", "text/xml; charset=utf-16", append(utf16(`<a>`, true, true), 0xD8, 0x3D, 0, '<'), true},
		{"utf-8 cut inside a character", "text/xml", []byte(doc("") + "\xE2\x82"), true},
		{"octet that windows-1252 does not define", "text/xml; charset=windows-1252", []byte(doc("") + "\x81"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.http.reset()
			fl := fields{{"SOAPAction", `""`}}
			if c.ctype != "" {
				fl = append(fl, field{"Content-Type", c.ctype})
			}
			a := post(t, f.g.addr["http"], "/depot/x", fl, c.body)
			calls := f.http.got()
			if c.fails {
				wantFault(t, a, "1.1", "Client", "Charset NotWellFormed")
				if len(calls) != 0 {
					t.Errorf("forwarded %q", calls[0].Body)
				}
				return
			}
			if a.Status != 200 || len(calls) != 1 {
				t.Fatalf("got %s", a)
			}
			o := &outcome{name: c.name, fields: fl, doc: c.body, calls: calls, a: a}
			hasText("t:x", "Ž€")(t, nil, o)
			_, cs, agree, err := decodeText(calls[0].Body, labelOf(calls[0].Fields.get("Content-Type")))
			if cs != "utf-8" || err != nil {
				t.Errorf("left as %s (%v)", cs, err)
			}
			if in, _, _, _ := decodeText(c.body, labelOf(c.ctype)); in != string(c.body) && !bytes.HasPrefix(c.body, []byte(bom)) && !agree {
				t.Errorf("converted, but the labels do not agree: %q %.80q", calls[0].Fields.get("Content-Type"), calls[0].Body)
			}
			if c.ctype == "" && calls[0].Fields.has("Content-Type") {
				t.Errorf("a Content-Type was added: %q", calls[0].Fields.get("Content-Type"))
			}
		})
	}
}
