package casetest

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// caseChecks holds, for each case, the expectations that only prose states,
// each as an assertion. The keys are paths of leaves in the case's expect (see
// flatten). Entries are in checks_NN_test.go, by kind.
var caseChecks = merge(charsetChecks, mediaTypeChecks, parcelChecks, namespaceChecks, syntaxChecks, securityChecks, envelopeChecks, faultChecks, httpChecks, limitChecks, framedChecks, queueChecks, sessionChecks, signatureChecks, messagingChecks, wsdlChecks)

// drivers are for cases that need more than one POST per variant.
var drivers = map[string]driver{
	"29": drive29, "31": drive31, "35": drive35, "38": drive38, "39": drive39, "40": drive40, "41": drive41,
	"43": drive43, "44": drive44, "45": drive45, "48": drive48, "53": drive53, "55": drive55, "56": drive56, "58": drive58,
}

type checkTable = map[string]map[string]check

func merge(tables ...checkTable) checkTable {
	all := checkTable{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

// on checks one outcome.
func on(name string, f func(t *testing.T, r *run, o *outcome)) check {
	return func(t *testing.T, r *run) {
		o := r.by[name]
		if o == nil {
			t.Fatalf("no exchange %q", name)
		}
		f(t, r, o)
	}
}

// onAll checks every outcome.
func onAll(f func(t *testing.T, r *run, o *outcome)) check {
	return func(t *testing.T, r *run) {
		if len(r.list) == 0 {
			t.Fatal("no exchange")
		}
		for _, o := range r.list {
			f(t, r, o)
		}
	}
}

// all needs every check.
func all(checks ...check) check {
	return func(t *testing.T, r *run) {
		for _, c := range checks {
			c(t, r)
		}
	}
}

// octetsKept: normalize: keep leaves UTF-8 octets untouched (SPEC.md §3.6).
func octetsKept(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	if c := o.sole(t); !bytes.Equal(c.Body, o.doc) {
		t.Errorf("%s: the backend got %.600q, want %.600q", o.label(), c.Body, o.doc)
	}
}

// sameMessage: equal infosets at the backend, and the octets too if the
// message came as UTF-8.
func sameMessage(t *testing.T, r *run, o *outcome) {
	t.Helper()
	c := o.sole(t)
	sameInfoset(t, o.label(), c.Body, c.Fields.get("Content-Type"), o.doc, o.fields.get("Content-Type"))
	if _, cs, _, _ := decodeText(o.doc, labelOf(o.fields.get("Content-Type"))); cs == "utf-8" {
		octetsKept(t, r, o)
	}
}

// labelsAgree: charset parameter, declaration and octets say the same.
func labelsAgree(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	c := o.sole(t)
	_, cs, agree, err := decodeText(c.Body, labelOf(c.Fields.get("Content-Type")))
	if err != nil || !agree {
		t.Errorf("%s: Content-Type %q over %.120q: charset %s, labels agree: %v, %v", o.label(), c.Fields.get("Content-Type"), c.Body, cs, agree, err)
	}
	if cs != "utf-8" {
		t.Errorf("%s: left as %s, want UTF-8 (SPEC.md §3.6)", o.label(), cs)
	}
}

// lengthExact: one Content-Length with the octets that were sent. The recorder
// itself has read exactly that many and found the next request after them.
func lengthExact(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	c := o.sole(t)
	cl := c.Fields.all("Content-Length")
	if len(cl) != 1 || cl[0] != strconv.Itoa(len(c.Body)) || c.Fields.has("Transfer-Encoding") {
		t.Errorf("%s: Content-Length %q, Transfer-Encoding %q over %d octets", o.label(), cl, c.Fields.all("Transfer-Encoding"), len(c.Body))
	}
}

// neverAtBackend: no octet of a refused message reached a backend.
func neverAtBackend(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	if o.a.Status >= 400 && len(o.calls) > 0 {
		t.Errorf("%s: refused with %d, but the backend got %s %.300q", o.label(), o.a.Status, o.calls[0].Line, o.calls[0].Body)
	}
}

// refused: the message was answered by a fault of our own and not forwarded.
func refused(t *testing.T, r *run, o *outcome) {
	t.Helper()
	ownFault(t, o.a)
	neverAtBackend(t, r, o)
	if o.a.Status < 400 {
		t.Errorf("%s: accepted", o.label())
	}
}

// without: no octet of the forwarded body decodes to one of these.
func without(bad ...string) check {
	return onAll(func(t *testing.T, _ *run, o *outcome) {
		for _, c := range o.calls {
			text, _, _, err := decodeText(c.Body, labelOf(c.Fields.get("Content-Type")))
			if err != nil {
				t.Errorf("%s: %v", o.label(), err)
			}
			for _, s := range bad {
				if strings.Contains(text, s) {
					t.Errorf("%s: %q in the forwarded body %q", o.label(), s, text)
				}
			}
		}
	})
}

// hasText: an element of that written name holds exactly that text at the
// backend.
func hasText(name, want string) func(t *testing.T, r *run, o *outcome) {
	return func(t *testing.T, _ *run, o *outcome) {
		t.Helper()
		c := o.sole(t)
		doc, err := document(c.Body, c.Fields.get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		list := doc.named(name)
		if len(list) != 1 || list[0].text() != want {
			t.Errorf("%s: %d times %s in %q, want %q in one", o.label(), len(list), name, doc.Root.text(), want)
		}
	}
}

// fieldKept: the header field reached the backend with the same values, or is
// still absent.
func fieldKept(name string) func(t *testing.T, r *run, o *outcome) {
	return func(t *testing.T, _ *run, o *outcome) {
		t.Helper()
		got, want := o.sole(t).Fields.all(name), o.fields.all(name)
		if strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) {
			t.Errorf("%s: %s is %q at the backend, sent %q", o.label(), name, got, want)
		}
	}
}

// factRoute posts the message to the route that demands its operation, action
// and version, and says whether the gateway found them there.
func (r *run) factRoute(t testing.TB, name string, f fields, body []byte) *answer {
	t.Helper()
	route := strings.TrimSuffix("fact-"+r.ID+"-"+name, "-")
	if _, ok := r.f.factRoutes[route]; !ok {
		t.Fatalf("no route %s", route)
	}
	r.f.http.reset()
	return post(t, r.f.g.addr["http"], "/facts/"+route, f, body)
}

// readAsStated: the gateway itself found the operation, action and version
// that the case states, since a route that demands them took the message.
func readAsStated(t *testing.T, r *run, o *outcome) {
	t.Helper()
	if a := r.factRoute(t, o.name, o.fields, o.body); a.Status != 200 {
		t.Errorf("%s: the route for the stated facts answered %s", o.label(), a)
	}
}

// TestFactsRoute lets the gateway show what it read of every accepted message.
func TestFactsRoute(t *testing.T) {
	for _, c := range needCases(t) {
		if _, later := notYet[c.ID]; later {
			continue
		}
		r := &run{testCase: c, f: shared(t)}
		for _, v := range append([]variant{{"", object{}}}, c.variants()...) {
			if _, ok := c.demandable(v); !ok || c.doc["wire_file"] != nil || c.ID == "55" {
				continue
			}
			t.Run(strings.TrimSuffix(c.ID+"-"+v.Name, "-"), func(t *testing.T) {
				readAsStated(t, r, r.message(t, "/facts", v))
			})
		}
	}
}
