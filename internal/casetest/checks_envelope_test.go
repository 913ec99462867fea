package casetest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

var envelopeChecks = checkTable{
	"27": {
		"facts/action": onAll(readAsStated),
		"to_client":    onAll(relayed),
		"must_not/fault because no operation element was found (unless the route dispatches on body QName only: then a Client fault is fine)": onAll(accepted),
		"must_not/treat as a zero-length HTTP body": onAll(func(t *testing.T, r *run, o *outcome) {
			octetsKept(t, r, o)
			if len(o.a.Body) == 0 {
				t.Error("the reply with an empty Body came as nothing")
			}
		}),
	},
	"29": {
		"to_client": onVariants(refused),
		"variant 11-on-12-only-route/route_config": on("11-on-12-only-route", func(t *testing.T, r *run, o *outcome) {
			refused(t, r, o)
			r.f.http.reset() // the same message is fine where 1.1 is accepted
			if a := post(t, r.f.g.addr["http"], "/depot/parcel", o.fields, o.body); a.Status != 200 {
				t.Errorf("on a route for both versions: %s", a)
			}
		}),
		"checks/Upgrade sits in Header, each SupportedEnvelope@qname uses a prefix declared in scope and resolves to {ns}Envelope": onVariants(func(t *testing.T, _ *run, o *outcome) {
			want := []string{"{" + ns11 + "}Envelope", "{" + ns12 + "}Envelope"}
			if o.name == "11-on-12-only-route" {
				want = want[1:]
			}
			f := ownFault(t, o.a)
			if got := supported(f.Header.child(ns12, "Upgrade")); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", o.label(), got, want)
			}
		}),
		"checks/Upgrade is not sent with mustUnderstand": onVariants(func(t *testing.T, _ *run, o *outcome) {
			f := ownFault(t, o.a)
			up := f.Header.child(ns12, "Upgrade")
			if up == nil {
				t.Fatalf("%s: no Upgrade in %s", o.label(), o.a.Body)
			}
			for name := range up.Attrs {
				if name.Local == "mustUnderstand" {
					t.Errorf("%s: Upgrade has %s", o.label(), name)
				}
			}
		}),
		"must_not/guess the version from Content-Type and go on": onAll(refused),
		"must_not/compare namespaces ignoring case, slashes or http/https": all(on("trailing-slash-ns", refused), func(t *testing.T, r *run) {
			for _, ns := range []string{strings.ToUpper(ns11), strings.TrimSuffix(ns11, "/"), "https" + ns11[4:], ns12 + "/", "https" + ns12[4:], " " + ns12, ns12 + "#"} {
				a := post(t, r.f.g.addr["http"], "/depot/parcel", xml12(), []byte(`<e:Envelope xmlns:e="`+ns+`"><e:Body/></e:Envelope>`))
				wantFault(t, a, "1.2", "VersionMismatch", "VersionMismatch")
			}
		}),
	},
	"30": {
		"must_not/unwrap or dispatch the inner message": onAll(octetsKept),
		"must_not/fault on the inner mustUnderstand block": onAll(func(t *testing.T, r *run, o *outcome) {
			accepted(t, r, o)
			r.f.http.reset() // a node does not look below Body either (SOAP 1.2 Part 1 §5.2.3)
			if a := post(t, r.f.g.addr["http"], "/node/parcel", o.fields, o.body); a.Status != 200 {
				t.Errorf("node: true: %s", a)
			}
			octetsKept(t, r, &outcome{name: "node", doc: o.doc, calls: r.f.http.got()})
		}),
		"must_not/switch the reply to SOAP 1.2": onAll(func(t *testing.T, r *run, o *outcome) {
			cut := bytes.Replace(o.body, []byte("</o:Envelope>"), nil, 1)
			wantFault(t, post(t, r.f.g.addr["http"], o.target, o.fields, cut), "1.1", "Client", "NotWellFormed Incomplete")
		}),
	},
	"31": {
		"facts/header": onAll(func(t *testing.T, r *run, o *outcome) {
			if !bytes.Contains(o.body, []byte("urn:depot:hop")) {
				t.Error("the input has no such block")
			}
			transparent(t, r, o)
		}),
		"verdict":                                             on("12-true", refused), // the variants say the rest
		"allowed_alternatives/0/then":                         onAll(transparent),
		"facts/gateway_understands":                           on("12-true", refused),
		"variant 12-false/to_backend":                         on("12-false", hopRemoved),
		"variant 12-relay/to_backend":                         on("12-relay", octetsKept),
		"variant 11-zero/to_backend":                          on("11-zero", hopRemoved),
		"variant 11-true/must_not/read 'true' as 0 and go on": on("11-true", refused),
		"must_not/process or forward the body before all mandatory blocks were checked": onAll(neverAtBackend),
	},
	"32": {
		"to_backend/body": onAll(sameMessage),
		"must_not/raise MustUnderstand": onAll(func(t *testing.T, r *run, o *outcome) {
			accepted(t, r, o)
			r.f.http.reset() // aimed at others: a node passes them too
			if a := post(t, r.f.g.addr["http"], "/node/parcel", o.fields, o.body); a.Status != 200 {
				t.Errorf("node: true: %s", a)
			}
			sameMessage(t, r, &outcome{name: "node", fields: o.fields, doc: o.doc, calls: r.f.http.got()})
		}),
		"must_not/strip the blocks or their attributes": onAll(octetsKept),
		"must_not/log the Security content": onAll(func(t *testing.T, r *run, o *outcome) {
			accepted(t, r, o)
			for _, s := range []string{"dock4", "UsernameToken"} {
				if strings.Contains(r.f.g.log.String()[r.logged:], s) {
					t.Errorf("the log holds %q", s)
				}
			}
		}),
	},
}

// drive29 sends one variant to a route that accepts SOAP 1.2 only.
func drive29(t *testing.T, r *run) {
	r.postVariant(t, "/depot", variant{"", object{}})
	for _, v := range r.variants() {
		if v.Name == "11-on-12-only-route" {
			r.postVariant(t, "/only12", v)
		} else {
			r.postVariant(t, "/depot", v)
		}
	}
}

// drive31 sends the variants to a route that acts as a SOAP node.
func drive31(t *testing.T, r *run) {
	for _, v := range r.variants() {
		r.postVariant(t, "/node", v)
	}
}

// transparent: the default route is a relay and no SOAP node, so each variant
// passes byte-identical (the case's own alternative).
func transparent(t *testing.T, r *run, o *outcome) {
	t.Helper()
	r.f.http.reset()
	a := post(t, r.f.g.addr["http"], "/depot/parcel", o.fields, o.body)
	if o.name == "12-bad-lexical" || o.name == "11-true" {
		return // not legal for any node: either answer is sound
	}
	if a.Status != 200 {
		t.Errorf("%s on a relay: %s", o.label(), a)
	}
	octetsKept(t, r, &outcome{name: o.name, doc: o.doc, calls: r.f.http.got()})
}

// hopRemoved: the message arrives without the Hop block and otherwise whole.
func hopRemoved(t *testing.T, r *run, o *outcome) {
	t.Helper()
	start, end := bytes.Index(o.doc, []byte("<g:Hop")), bytes.Index(o.doc, []byte("</g:Hop>"))+len("</g:Hop>")
	want := append(append([]byte(nil), o.doc[:start]...), o.doc[end:]...)
	got := o.sole(t).Body
	empty := bytes.ReplaceAll(want, []byte("<env:Header></env:Header>"), nil) // an empty Header may go too
	if !bytes.Equal(got, want) && !bytes.Equal(got, empty) {
		t.Errorf("%s: the backend got %s, want %s", o.label(), got, want)
	}
}

// relayed: status and octets of the backend's answer reached the client.
func relayed(t *testing.T, _ *run, o *outcome) {
	t.Helper()
	_, body, _ := bytes.Cut(o.reply, []byte("\r\n\r\n"))
	if want := string(o.reply[9:12]); !strings.HasPrefix(o.a.Line, "HTTP/1.1 "+want) || !bytes.Equal(o.a.Body, body) {
		t.Errorf("%s: got %s, want status %s and %q", o.label(), o.a, want, body)
	}
}
