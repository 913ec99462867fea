package casetest

import (
	"fmt"
	"strings"
	"testing"
)

// A fault is what the oracle reads from a faulty answer.
type fault struct {
	Version string // 1.1, 1.2
	Code    string // faultcode or Code/Value, expanded
	Reason  string
	Own     string // detail/{urn:soapway:fault}code: the gateway made it
	Header  *item
	Root    *item
	Detail  *item
}

var nsOf = map[string]string{"1.1": ns11, "1.2": ns12}

// readFault returns nil if the body is no envelope, or has no Fault in it.
func readFault(body []byte, contentType string) (*fault, error) {
	if len(body) == 0 {
		return nil, nil
	}
	doc, err := document(body, contentType)
	if err != nil {
		return nil, err
	}
	for version, ns := range nsOf {
		env := doc.Root
		fl := env.child(ns, "Body").child(ns, "Fault")
		if env.Name.Space != ns || fl == nil {
			continue
		}
		f := &fault{Version: version, Root: env, Header: env.child(ns, "Header")}
		if version == "1.1" {
			code := fl.child("", "faultcode")
			if code == nil || fl.child("", "faultstring") == nil {
				return nil, fmt.Errorf("fault without faultcode or faultstring")
			}
			f.Code, f.Reason = code.resolve(code.text()), fl.child("", "faultstring").text()
			f.Detail = fl.child("", "detail")
		} else {
			code := fl.child(ns, "Code").child(ns, "Value")
			text := fl.child(ns, "Reason").child(ns, "Text")
			if code == nil || text == nil || text.Attrs[qname{nsXML, "lang"}] == "" {
				return nil, fmt.Errorf("fault without Code/Value or Reason/Text with xml:lang")
			}
			f.Code, f.Reason = code.resolve(code.text()), text.text()
			f.Detail = fl.child(ns, "Detail")
		}
		if own := f.Detail.child("urn:soapway:fault", "code"); own != nil {
			f.Own = strings.TrimSpace(own.text())
		}
		return f, nil
	}
	return nil, nil
}

// leakedInternals is what no answer of the gateway may contain.
var leakedInternals = []string{"goroutine ", ".go:", "dial tcp", "127.0.0.1", "connection refused", "internal.test", "soapway/", "0xc0", "runtime."}

// ownFault requires a fault that the gateway made, in exact form: status,
// media type and version agree, a code is there, nothing internal is named.
func ownFault(t testing.TB, a *answer) *fault {
	t.Helper()
	f, err := readFault(a.Body, a.Fields.get("Content-Type"))
	if err != nil || f == nil {
		t.Fatalf("want a fault, got (%v) %s", err, a)
	}
	wantType := map[string]string{"1.1": "text/xml", "1.2": "application/soap+xml"}[f.Version]
	if mediaType(a.Fields.get("Content-Type")) != wantType {
		t.Errorf("a SOAP %s fault under Content-Type %q", f.Version, a.Fields.get("Content-Type"))
	}
	if f.Own == "" {
		t.Errorf("fault without detail/{urn:soapway:fault}code: %s", a.Body)
	}
	if f.Reason == "" {
		t.Error("fault without a reason")
	}
	for _, s := range leakedInternals {
		if strings.Contains(string(a.Body), s) {
			t.Errorf("the fault names internals (%q): %s", s, a.Body)
		}
	}
	return f
}

// wantFault checks status, version, code and own code of the gateway's answer.
// The generic codes are named as in SOAP 1.1 and translated: Client, Server.
func wantFault(t testing.TB, a *answer, version, code, own string) *fault {
	t.Helper()
	status := 500
	if version == "1.2" {
		switch code {
		case "Client":
			code, status = "Sender", 400
		case "Server":
			code = "Receiver"
		}
	}
	f := ownFault(t, a)
	if a.Status != status || f.Version != version || f.Code != (qname{nsOf[version], code}).String() {
		t.Errorf("got status %d, SOAP %s, code %s; want %d, %s, %s: %s", a.Status, f.Version, f.Code, status, version, code, a)
	}
	if own != "" && !strings.Contains(" "+own+" ", " "+f.Own+" ") {
		t.Errorf("got detail code %q, want %q; reason %q", f.Own, own, f.Reason)
	}
	return f
}

// wantBare checks an answer that must carry no envelope.
func wantBare(t testing.TB, a *answer, status int) {
	t.Helper()
	if a.Status != status {
		t.Errorf("got status %d, want %d: %s", a.Status, status, a)
	}
	if strings.Contains(string(a.Body), "nvelope") {
		t.Errorf("status %d must carry no envelope: %s", status, a.Body)
	}
	for _, s := range leakedInternals {
		if strings.Contains(string(a.Body), s) {
			t.Errorf("the answer names internals (%q): %s", s, a.Body)
		}
	}
}
