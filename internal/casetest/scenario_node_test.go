package casetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	next11 = "http://schemas.xmlsoap.org/soap/actor/next"
	next12 = "http://www.w3.org/2003/05/soap-envelope/role/next"
)

// block is one header block with the given attributes of the envelope's
// namespace.
func block(name, attrs string) string {
	return `<h:` + name + ` xmlns:h="urn:test:h" ` + attrs + `>` + name + `</h:` + name + `>`
}

// TestNode: with node: true the route acts in role next. Mandatory blocks that
// are aimed at it are faulted, others removed unless relay; blocks for others
// stay as they are (SPEC.md §3; SOAP 1.2 Part 1 §2.7).
func TestNode(t *testing.T) {
	f := shared(t)
	roles := map[string]string{"1.1": `e:actor="` + next11 + `"`, "1.2": `e:role="` + next12 + `"`}
	inBoth(t, func(t *testing.T, v string) {
		next := roles[v]
		other := strings.NewReplacer(next11, "urn:other", next12, "urn:other").Replace(next)
		build := func(body string, blocks ...string) []byte {
			return []byte(`<e:Envelope xmlns:e="` + nsOf[v] + `"><e:Header>` + strings.Join(blocks, "\n") + `</e:Header><e:Body>` + body + `</e:Body></e:Envelope>`)
		}
		for _, body := range []string{op, strings.Repeat("<x>0123456789</x>", 200000)} {
			kept := []string{block("mine", ""), block("must", `e:mustUnderstand="1"`), block("other", other+` e:mustUnderstand="1"`)}
			mixed := []string{kept[0], block("gone", next), kept[1], block("gone", next+` e:mustUnderstand="0"`), kept[2]}
			if v == "1.2" {
				relay := block("relay", next+` e:relay="true"`)
				mixed, kept = append(mixed, relay, block("gone", next+` e:relay="false"`)), append(kept, relay)
			}
			f.http.reset()
			a := post(t, f.g.addr["http"], "/node/x", typed(v), build(body, mixed...))
			calls := f.http.got()
			if a.Status != 200 || len(calls) != 1 {
				t.Fatalf("got %s", a)
			}
			got := string(calls[0].Body)
			if strings.Contains(got, "gone") {
				t.Errorf("a block for next was forwarded: %.900s", got)
			}
			at := 0
			for _, b := range kept {
				k := strings.Index(got[at:], b)
				if k < 0 {
					t.Fatalf("%s is missing, changed or out of order in %.900s", b, got)
				}
				at += k + len(b)
			}
			if !strings.HasSuffix(got, `<e:Body>`+body+`</e:Body></e:Envelope>`) {
				t.Errorf("the Body changed: %s", describe(calls[0].Body))
			}
			if _, err := document(calls[0].Body[:min(len(got), 1<<20)], ""); len(got) < 1<<20 && err != nil {
				t.Errorf("%v: %s", err, got)
			}

			f.http.reset() // two mandatory ones: both are named, nothing is sent
			a = exchange(t, f.g.addr["http"], request("/node/x", typed(v), build(body, block("gone", next), block("one", next+` e:mustUnderstand="1"`), kept[2], block("two", next+` e:mustUnderstand="1"`))))
			ft := wantFault(t, a, v, "MustUnderstand", "MustUnderstand")
			if len(f.http.got()) != 0 {
				t.Error("forwarded although a mandatory block was not understood")
			}
			if v == "1.2" {
				var names []string
				for _, b := range ft.Header.elements() {
					if b.Name == (qname{ns12, "NotUnderstood"}) {
						names = append(names, b.resolve(b.Attrs[qname{"", "qname"}]))
					}
				}
				if want := []string{"{urn:test:h}one", "{urn:test:h}two"}; !slices.Equal(names, want) {
					t.Errorf("NotUnderstood %v, want %v", names, want)
				}
			}
		}
	})
	// A relay judges none of them.
	f.http.reset()
	msg := []byte(`<e:Envelope xmlns:e="` + ns12 + `"><e:Header>` + block("one", roles["1.2"]+` e:mustUnderstand="true"`) + `</e:Header><e:Body/></e:Envelope>`)
	if a := post(t, f.g.addr["http"], "/depot/x", typed("1.2"), msg); a.Status != 200 || !bytes.Equal(joined(f.http.got()), msg) {
		t.Errorf("a relay: %s", a)
	}
}

// TestAccept: a route says which versions it takes; the others are a
// VersionMismatch in the caller's own version.
func TestAccept(t *testing.T) {
	f := shared(t)
	if a := post(t, f.g.addr["http"], "/only12/x", typed("1.2"), envelope("1.2", op)); a.Status != 200 {
		t.Errorf("1.2: %s", a)
	}
	f.http.reset()
	ft := wantFault(t, post(t, f.g.addr["http"], "/only12/x", typed("1.1"), envelope("1.1", op)), "1.1", "VersionMismatch", "VersionMismatch")
	if got := supported(ft.Header.child(ns12, "Upgrade")); !slices.Equal(got, []string{"{" + ns12 + "}Envelope"}) {
		t.Errorf("Upgrade names %v", got)
	}
	// the media type of the other version does not matter, the envelope decides
	wantFault(t, post(t, f.g.addr["http"], "/only12/x", typed("1.2"), envelope("1.1", op)), "1.1", "VersionMismatch", "VersionMismatch")
	if n := len(f.http.got()); n != 0 {
		t.Errorf("forwarded %d times", n)
	}
}

// TestLocation: a Location that names a node is mapped to what the caller
// knows, public_url first; anything else is left alone (SPEC.md §3).
func TestLocation(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf(`
public_url: "https://soap.example.test/gw"
routes:
  - {name: prefix, match: {path: "/pub/*"}, to: ["http://%[1]s/base"]}
  - {name: exact, match: {path: /one}, to: ["http://%[1]s/svc/One.asmx"]}
`, b.addr), b)
	for _, c := range []struct{ target, location, want string }{
		{"/pub/a", "http://" + b.addr + "/base/b?c=%2F", "https://soap.example.test/gw/pub/b?c=%2F"},
		{"/pub/a", "http://" + strings.ToUpper("localhost") + "/base/b", "http://LOCALHOST/base/b"},
		{"/pub/a", "/base/b", "/gw/pub/b"},
		{"/pub/a", "http://" + b.addr + "/elsewhere", ""},
		{"/pub/a", "https://partner.example.test/x", "https://partner.example.test/x"},
		{"/pub/a", "http://" + b.addr + "/basement", ""},
		{"/one", "http://" + b.addr + "/svc/One.asmx?x", "https://soap.example.test/gw/one?x"},
	} {
		for _, status := range []int{301, 302, 303, 307, 308, 201} {
			b.reset()
			reply := []byte(nil)
			if status == 201 {
				reply = envelope("1.1", op)
			}
			b.answerWith(response(status, fields{{"Location", c.location}, {"Content-Type", "text/xml"}}, reply))
			a := post(t, g.addr["http"], c.target, typed("1.1"), envelope("1.1", op))
			got := a.Fields.get("Location")
			if a.Status != status || c.want != "" && got != c.want || c.want == "" && (got == "" || strings.HasPrefix(got, "https://soap.example.test/gw/pub/ment")) {
				t.Errorf("%d %s: Location %q, want %q", status, c.location, got, c.want)
			}
			if len(b.got()) != 1 {
				t.Errorf("%d was followed", status)
			}
		}
	}
}
