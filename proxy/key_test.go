package proxy

import (
	"strings"
	"testing"

	"soapway/soapcodec"
)

func step(space, local string) soapcodec.Step {
	return soapcodec.Step{Name: soapcodec.QName{Space: space, Local: local}}
}

// TestLane: messages with the same key share a lane, those without it another.
func TestLane(t *testing.T) {
	const doc = `<s:Envelope xmlns:s="` + soapcodec.NS11 + `" xmlns:o="urn:o"><s:Header><o:Customer> 4&#x37;11 </o:Customer></s:Header>` +
		`<s:Body><o:Order><o:Id>A7</o:Id></o:Order></s:Body></s:Envelope>`
	tests := []struct {
		name string
		key  Key
		want string
	}{
		{"none", Key{}, ""},
		{"route", Key{Source: KeyRoute}, "route"},
		{"field", Key{Source: KeyHTTP, Field: "x-customer"}, "7"},
		{"field of several lines", Key{Source: KeyHTTP, Field: "X-Twice"}, "1, 2"},
		{"field that is not there", Key{Source: KeyHTTP, Field: "X-Other"}, NoKey},
		{"block", Key{Source: KeyHeader, Path: []soapcodec.Step{step("urn:o", "Customer")}}, "4711"},
		{"block that is not there", Key{Source: KeyHeader, Path: []soapcodec.Step{step("urn:x", "Customer")}}, NoKey},
		{"element", Key{Source: KeyBody, Path: []soapcodec.Step{step("urn:o", "Order"), step("urn:o", "Id")}}, "A7"},
		{"element that is not there", Key{Source: KeyBody, Path: []soapcodec.Step{step("urn:o", "Id")}}, NoKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &shelf{}
			ex := exchange("text/xml", doc, "SOAPAction", `""`, "X-Customer", " 7 ")
			ex.Header.Add("X-Twice", "1")
			ex.Header.Add("X-Twice", "2")
			if g := serve(t, storing(t, s, Route{OrderBy: tt.key}), ex); g.Status != 202 {
				t.Fatalf("not stored: %d %s", g.Status, g.body)
			}
			if got := s.kept[0].Lane; got != tt.want {
				t.Errorf("Lane: got %q, want %q", got, tt.want)
			}
		})
	}
}

// A key is not cut: two messages would get the same.
func TestLongKey(t *testing.T) {
	body := func(key string) string {
		return `<s:Envelope xmlns:s="` + soapcodec.NS11 + `"><s:Body><k>` + key + `</k></s:Body></s:Envelope>`
	}
	long := strings.Repeat("k", soapcodec.MaxKey)
	for _, key := range []Key{{Source: KeyHTTP, Field: "X-K"}, {Source: KeyBody, Path: []soapcodec.Step{step("", "k")}}} {
		s := &shelf{}
		h := storing(t, s, Route{OrderBy: key})
		if g := serve(t, h, exchange("text/xml", body(long), "X-K", long)); g.Status != 202 || s.kept[0].Lane != long {
			t.Errorf("the longest key: got %d", g.Status)
		}
		g := serve(t, h, exchange("text/xml", body(long+"k"), "X-K", long+"k"))
		if g.Status != 500 || g.Code != soapcodec.CodeLimit || len(s.kept) != 1 {
			t.Errorf("a longer key: got %d %s, want a fault %s and nothing stored", g.Status, g.Code, soapcodec.CodeLimit)
		}
	}
}

func TestKeyOptions(t *testing.T) {
	for _, k := range []Key{
		{Source: KeyHTTP},
		{Source: KeyHTTP, Field: "two words"},
		{Source: KeyHTTP, Field: "authorization"},
		{Source: KeyHTTP, Field: "Cookie"},
		{Source: KeyHeader},
		{Source: KeyHeader, Path: []soapcodec.Step{step("", "a"), step("", "b")}},
		{Source: KeyBody},
	} {
		_, err := Compile(TableOptions{Routes: []Route{{Name: "r", Backend: &Backend{Nodes: []Node{newNode("http://n")}}, OrderBy: k}}})
		if err == nil || !strings.Contains(err.Error(), "OrderBy") {
			t.Errorf("Compile with order by %+v: got %v, want an error about OrderBy", k, err)
		}
	}
}
