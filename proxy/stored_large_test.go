package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// largeMessages are messages of some 100 KiB, of every form that a route may have
// to read to the end.
func largeMessages() map[string]*Exchange {
	long := strings.Repeat("some content, ", 8000)
	body := func(env string) string { return strings.Replace(env, ">x<", ">"+long+"<", 1) }
	asked := repeating([]string{"urn:1"}, "", "", "<o><id>7</id>"+long+"</o>")
	pack := func(fields, root string) string { return string(packageAround(fields, root, 100_000).bytes()) }
	after := &shape{line: "\r\n", fields: fields11, root: []byte(body(env11))}
	in12 := repeating([]string{"urn:2"}, "", "", "<o><id>8</id></o>")
	return map[string]*Exchange{
		"1.1":                 exchange("text/xml; charset=utf-8", body(env11), "SOAPAction", `"urn:a"`),
		"1.2, with ids":       exchange("application/soap+xml", asked),
		"loose":               exchange("text/xml", strings.Replace(body(env11), "<soap:Body>", "<soap:Body  a = 'b' >", 1)),
		"to":                  exchange("text/xml", strings.Replace(withTo, "</soap:Body>", "<long>"+long+"</long></soap:Body>", 1)),
		"signed":              exchange("text/xml", strings.Replace(body(env11), "<soap:Body>", `<soap:Header><w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"/></w:Security></soap:Header><soap:Body  a = 'b'>`, 1)),
		"latin 1":             exchange("text/xml; charset=iso-8859-1", strings.Replace(body(env11), "some content", "some c\xf6ntent", 1)),
		"parts before":        exchange(relatedType, pack(fields11, env11)),
		"parts before, ids":   exchange(relatedType, pack(fields12, in12)),
		"large root":          exchange(relatedType, string(after.bytes())),
		"large root, latin 1": exchange(relatedType, strings.Replace(string(after.bytes()), "type=\"text/xml\"", "type=\"text/xml\"; charset=iso-8859-1", 1)),
		"empty Body":          exchange("text/xml", `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body/><long>`+strings.Repeat("<x/>", 20000)+`</long></soap:Envelope>`, idempotencyKey, "k"),
		"large header":        exchange("text/xml", `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Header><long>`+strings.Repeat("<x/>", 20000)+`</long></soap:Header><soap:Body><x/></soap:Body></soap:Envelope>`),
	}
}

// TestStoredLargeIsTheSame: what is stored does not depend on whether the message
// was in memory or went by in pieces: octets, fields, key and identity.
func TestStoredLargeIsTheSame(t *testing.T) {
	routes := map[string]Route{
		"plain":     {},
		"dedup":     {Dedup: &Dedup{Window: time.Hour}},
		"envelope":  {Normalize: soapcodec.Envelope, Dedup: &Dedup{}},
		"canonical": {Normalize: soapcodec.Canonical, Dedup: &Dedup{}},
		"to 1.2":    {Translate: soapcodec.V12, Dedup: &Dedup{}},
		"add":       {Add: []byte(`<x:a xmlns:x="urn:x"/>`), Dedup: &Dedup{}},
		"keys": {
			OrderBy: Key{Source: KeyBody, Path: []soapcodec.Step{step("", "o"), step("", "id")}},
			Dedup:   &Dedup{By: Key{Source: KeyBody, Path: []soapcodec.Step{step("", "o"), step("", "id")}}},
		},
	}
	store := func(r Route, ex *Exchange, buffer int64, unsure bool) (*Stored, got) {
		s := &shelf{}
		r.Limits = Limits{Buffer: buffer, XML: xmlstream.Limits{}}
		h := storing(t, s, r)
		again := *ex
		b, err := readSeeker(ex)
		if err != nil {
			t.Fatal(err)
		}
		again.Body = strings.NewReader(b)
		if again.Header = ex.Header.Clone(); unsure {
			again.Length = -1
		}
		g := serve(t, h, &again)
		if len(s.kept) == 0 {
			return nil, g
		}
		return s.kept[0], g
	}
	for name, ex := range largeMessages() {
		for route, r := range routes {
			t.Run(name+", "+route, func(t *testing.T) {
				whole, want := store(r, ex, 1<<20, false)
				for _, unsure := range []bool{false, true} {
					large, g := store(r, ex, 48<<10, unsure)
					if name == "large header" && g.Status == 500 && strings.Contains(g.body, "larger than what may be held") {
						continue // where the head must be known first
					}
					if g.Status != want.Status || (whole == nil) != (large == nil) {
						t.Fatalf("got %d %s\nwant %d %s", g.Status, g.body, want.Status, want.body)
					}
					if whole == nil {
						continue
					}
					if large.Blob == nil || whole.Blob != nil {
						t.Fatalf("in a file: got %v and %v, want that of the large one", whole.Blob != nil, large.Blob != nil)
					}
					if string(large.octets()) != string(whole.Body) {
						t.Errorf("%d octets, want the %d of the message in memory", len(large.octets()), len(whole.Body))
					}
					if d := cmp.Diff(facts(whole), facts(large)); d != "" {
						t.Errorf("stored otherwise (-in memory +in a file):\n%s", d)
					}
				}
			})
		}
	}
}

// readSeeker gives the body of an exchange and leaves it to be read again.
func readSeeker(ex *Exchange) (string, error) {
	r := ex.Body.(*strings.Reader)
	b := make([]byte, r.Size())
	_, err := r.ReadAt(b, 0)
	return string(b), err
}

// facts are those of a stored message that two of the same content share.
func facts(m *Stored) string {
	id := "none"
	if m.Identity != nil {
		id = fmt.Sprintf("%x %x", m.Identity.Key, m.Identity.Sum)
	}
	return fmt.Sprintf("%s %s %s\n%s\n%s", m.Lane, m.Operation, m.Route, m.Meta, id)
}

// TestDeliverLargeIsTheSame: a node gets the same of a message in a file as of one
// in memory, whatever the route writes into it for each try.
func TestDeliverLargeIsTheSame(t *testing.T) {
	for name, ex := range largeMessages() {
		for route, r := range map[string]Route{
			"plain": {}, "mark": {Mark: true}, "to": {WSATo: true},
		} {
			t.Run(name+", "+route, func(t *testing.T) {
				s := &shelf{}
				r.Dedup = nil
				h := storing(t, s, r)
				b, err := readSeeker(ex)
				if err != nil {
					t.Fatal(err)
				}
				again := *ex
				again.Body, again.Header = strings.NewReader(b), ex.Header.Clone()
				if g := serve(t, h, &again); g.Status != 202 {
					t.Fatalf("not stored: %d %s", g.Status, g.body)
				}
				sent := func(m *Stored) string {
					n := newNode("http://node.test/x")
					h := storing(t, s, r, n)
					if d := h.Deliver(context.Background(), m, Try{Attempt: 2, PossibleDuplicate: true}); d.Verdict != VerdictDelivered {
						t.Fatalf("Deliver: %+v", d)
					}
					return n.last(t).body
				}
				whole := s.kept[0]
				large := *whole
				large.Body, large.Blob = nil, octetsBlob(whole.Body)
				if a, b := sent(whole), sent(&large); a != b || len(a) < len(whole.Body) {
					t.Errorf("%d octets from memory, %d from a file, which differ", len(a), len(b))
				}
			})
		}
	}
}
