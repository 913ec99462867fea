package casetest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// A wsdlFront is a gateway that reaches the backend of case 48 under the name
// that its WSDL has, through a proxy that stands for that backend.
type wsdlFront struct {
	g       *gateway
	backend *backend
}

func startWSDLFront(t testing.TB, doc []byte, extra string) *wsdlFront {
	t.Helper()
	b := listenHTTP(t)
	b.answerWith(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, doc))
	return &wsdlFront{backend: b, g: start(t, httpOnly+fmt.Sprintf(`
backends:
  depot: {nodes: ["http://backend.depot.test:8080"], proxy: "http://%s"}
routes:
  - {name: depot, match: {path: "/depot/*"}, backend: depot, soap: {strict: true}}
  - {name: plain, match: {path: "/plain/*"}, backend: depot, wsdl: off}
%s`, b.addr, extra), b)}
}

func (w *wsdlFront) get(t testing.TB, method, target string, f fields) *answer {
	t.Helper()
	c := dial(t, w.g.addr["http"])
	if err := c.send(appendHead(nil, method+" "+target+" HTTP/1.1", f)); err != nil {
		t.Fatal(err)
	}
	return c.answerTo(method)
}

const trustLoopback = "trusted_proxies: [127.0.0.1/32]\n"

func drive48(t *testing.T, r *run) {
	front := startWSDLFront(t, r.file(t, "response.bin"), trustLoopback)
	f := fields{{"Host", "gw.depot.test"}, {"X-Forwarded-Proto", "https"}, {"X-Forwarded-Host", "gw.depot.test"}}
	o := &outcome{target: "/depot/parcel?wsdl", fields: f}
	o.a = front.get(t, "GET", o.target, f)
	o.calls = front.backend.got()
	r.add(o)
}

// described checks the value of the address of a port, or of an attribute of the root.
func described(name, want string) check {
	return func(t *testing.T, r *run) {
		o := r.list[0]
		doc := string(o.a.Body)
		at := fmt.Sprintf("name=%q", name)
		if strings.HasPrefix(want, name+"=") {
			if !strings.Contains(doc, want) {
				t.Errorf("%s is not in %s", want, doc)
			}
			return
		}
		_, rest, ok := strings.Cut(doc, at)
		_, rest, found := strings.Cut(rest, `location="`)
		got, _, _ := strings.Cut(rest, `"`)
		if !ok || !found || got != want {
			t.Errorf("port %s is at %q, want %q", name, got, want)
		}
	}
}

var wsdlChecks = checkTable{"48": {
	"verdict": func(t *testing.T, r *run) { r.list[0].sole(t) },
	"facts/not_a_soap_message": func(t *testing.T, r *run) { // on a route that is strict about messages
		if a := r.list[0].a; a.Status != 200 || !bytes.Contains(a.Body, []byte("definitions")) {
			t.Errorf("got %s", a)
		}
	},
	"to_client/body": func(t *testing.T, r *run) {
		want := r.file(t, "response.bin")
		for _, p := range []string{"parcel", "parcel12"} {
			old := []byte(`location="http://backend.depot.test:8080/` + p + `"`)
			if bytes.Count(want, old) != 1 {
				t.Fatalf("%s is not in the document once", old)
			}
			want = bytes.Replace(want, old, []byte(`location="https://gw.depot.test/depot/`+p+`"`), 1)
		}
		if got := r.list[0].a.Body; !bytes.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	},
	"to_client/rewritten/P11":             described("P11", "https://gw.depot.test/depot/parcel"),
	"to_client/rewritten/P12":             described("P12", "https://gw.depot.test/depot/parcel12"),
	"to_client/unchanged/Mail":            described("Mail", "mailto:dock@depot.test"),
	"to_client/unchanged/Other":           described("Other", "http://partner.example.test/x"),
	"to_client/unchanged/targetNamespace": described("targetNamespace", `targetNamespace="http://backend.depot.test:8080/parcel"`),
	"to_client/unchanged/xmlns:t":         described("xmlns:t", `xmlns:t="http://backend.depot.test:8080/parcel"`),
	"to_client/unchanged/documentation text": func(t *testing.T, r *run) {
		if !bytes.Contains(r.list[0].a.Body, []byte("Old entry was http://backend.depot.test:8080/parcel<")) {
			t.Errorf("got %s", r.list[0].a.Body)
		}
	},
	"rewriting_off": func(t *testing.T, r *run) {
		front := startWSDLFront(t, r.file(t, "response.bin"), trustLoopback)
		if a := front.get(t, "GET", "/plain/parcel?wsdl", fields{{"Host", "gw.depot.test"}}); a.Status != 200 || !bytes.Equal(a.Body, r.file(t, "response.bin")) {
			t.Errorf("got %s", a)
		}
	},
	"public_url_source": func(t *testing.T, r *run) {
		doc := r.file(t, "response.bin")
		for _, tt := range []struct {
			name, extra string
			fields      fields
			want        string
		}{
			{"configured", trustLoopback + "public_url: https://soap.depot.test/in\n", fields{{"X-Forwarded-Host", "other.test"}}, "https://soap.depot.test/in"},
			{"forwarded", trustLoopback, fields{{"X-Forwarded-Proto", "https"}, {"X-Forwarded-Host", "gw.depot.test:8443"}, {"X-Forwarded-Port", "443"}}, "https://gw.depot.test:8443"},
			{"host", "", nil, "http://gw.depot.test"},
		} {
			front := startWSDLFront(t, doc, tt.extra)
			a := front.get(t, "GET", "/depot/parcel?wsdl", append(fields{{"Host", "gw.depot.test"}}, tt.fields...))
			if !bytes.Contains(a.Body, []byte(`location="`+tt.want+`/depot/parcel"`)) {
				t.Errorf("%s: %s is not in %s", tt.name, tt.want, a)
			}
		}
	},
	"must_not/parse it as a SOAP envelope and fault": func(t *testing.T, r *run) {
		if a := r.list[0].a; a.Status != 200 || bytes.Contains(a.Body, []byte("Fault")) {
			t.Errorf("got %s", a)
		}
	},
	"must_not/require POST or SOAPAction": func(t *testing.T, r *run) {
		front := startWSDLFront(t, r.file(t, "response.bin"), "")
		a := front.get(t, "HEAD", "/depot/parcel?WSDL", fields{{"Host", "gw.depot.test"}})
		if a.Status != 200 || len(a.Body) != 0 {
			t.Errorf("HEAD: %s", a)
		}
	},
	"must_not/replace in namespace names or text": func(t *testing.T, r *run) {
		if n := bytes.Count(r.list[0].a.Body, []byte("http://backend.depot.test:8080/parcel")); n != 3 {
			t.Errorf("the name of the backend is in the answer %d times, want 3: two namespaces and the documentation", n)
		}
	},
	"must_not/trust X-Forwarded-* from an untrusted peer": func(t *testing.T, r *run) {
		front := startWSDLFront(t, r.file(t, "response.bin"), "")
		a := front.get(t, "GET", "/depot/parcel?wsdl", r.list[0].fields)
		if !bytes.Contains(a.Body, []byte(`location="http://gw.depot.test/depot/parcel"`)) {
			t.Errorf("got %s", a)
		}
	},
	"must_not/serve a stale Content-Length": func(t *testing.T, r *run) {
		a := r.list[0].a
		if n, err := strconv.Atoi(a.Fields.get("Content-Length")); err != nil || n != len(a.Body) || n == len(r.file(t, "response.bin")) {
			t.Errorf("Content-Length %s for %d octets", a.Fields.get("Content-Length"), len(a.Body))
		}
	},
}}
