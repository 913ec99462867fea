package soapcodec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestStrict has for each rule about the envelope a message that breaks it, and
// some that break none. Without Strict all of them are taken.
func TestStrict(t *testing.T) {
	const none = strictRule(-1)
	header := func(open, block string) string {
		return open + "<s:Header>" + block + "</s:Header><s:Body><m:a xmlns:m='urn:m'/></s:Body>" + shut
	}
	body := func(open, content string) string { return open + "<s:Body>" + content + "</s:Body>" + shut }
	tests := []struct {
		rule strictRule
		doc  string
	}{
		{none, body(open11, "<m:a xmlns:m='urn:m' b='1'/><m:b xmlns:m='urn:m'/>")},
		{none, body(open12, "<m:a xmlns:m='urn:m' b='1'><m:c s:encodingStyle='urn:e'/></m:a>")},
		{none, header(open11, "<m:h xmlns:m='urn:m' s:mustUnderstand='0' s:actor='urn:x'/>")},
		{none, header(open12, "<m:h xmlns:m='urn:m' s:mustUnderstand='false'/>")},
		{none, "<?xml version='1.0'?><!-- c -->" + open11 + "<s:Body><!-- c --></s:Body>" + shut},
		{rulePI, body(open11, "<?p i?>")},
		{rulePI, body(open12, "<?p i?>")},
		{rulePI, "<?p i?>" + body(open11, "")},
		{ruleFrameAttribute, open11 + "<s:Body s:x='1'/>" + shut},
		{ruleFrameAttribute, open12 + "<s:Header s:mustUnderstand='1'/><s:Body/>" + shut},
		{ruleFrameUnqualified, open12 + "<s:Body Id='b'/>" + shut},
		{ruleFrameUnqualified, open11 + "<s:Body Id='b'/>" + shut},
		{ruleStyleOnSOAP, open11 + "<s:Body s:encodingStyle=''/>" + shut},
		{ruleStyleOnSOAP, body(open12, "<s:Fault s:encodingStyle='urn:e'/>")},
		{ruleStyleOnBodyChild, body(open11, "<m:a xmlns:m='urn:m' s:encodingStyle='urn:e'/>")},
		{ruleStyleOnBodyChild, body(open12, "<m:a xmlns:m='urn:m' s:encodingStyle='urn:e'/>")},
		{ruleMustUnderstand, header(open11, "<m:h xmlns:m='urn:m' s:mustUnderstand='true'/>")},
		{ruleBlockUnqualified, header(open11, "<h/>")},
		{ruleBodyChildUnqualified, body(open11, "<a/>")},
		{ruleBodyChildUnqualified, body(open12, "<a/>")},
		{ruleBodyChildren, body(open12, "<m:a xmlns:m='urn:m'/><m:a xmlns:m='urn:m'/>")},
		{ruleTrailer, open11 + "<s:Body/><m:a xmlns:m='urn:m'/>" + shut},
		{ruleArrayType, body(open11, "<m:a xmlns:m='urn:m'><m:b e:arrayType='m:x[2]' xmlns:e='"+nsEncoding11+"'/></m:a>")},
	}
	seen := map[strictRule]bool{}
	for _, tt := range tests {
		seen[tt.rule] = true
		if _, err := Decode([]byte(tt.doc), Options{}); err != nil {
			t.Errorf("Decode(%q): got %v, want nil", tt.doc, err)
		}
		d := NewDecoder(Options{Strict: true})
		for _, r := range readers {
			r.reset(d, []byte(tt.doc))
			err := d.Finish()
			var broken ruleError
			switch {
			case tt.rule == none:
				if err != nil {
					t.Errorf("strict over %s, %q: got %v, want nil", r.name, tt.doc, err)
				}
			case !errors.As(err, &broken) || broken.rule != tt.rule:
				t.Errorf("strict over %s, %q: got %v, want %s", r.name, tt.doc, err, strictTable[tt.rule].ID)
			case !slices.Contains(strictTable[tt.rule].Versions, d.Facts().Version) && d.Facts().Version != V0:
				t.Errorf("%s is not a rule of SOAP %v", strictTable[tt.rule].ID, d.Facts().Version)
			}
		}
		if out, err := streamWith(Options{Strict: true}, iotest.OneByteReader(bytes.NewReader([]byte(tt.doc))), []byte(tt.doc)); tt.rule == none && (err != nil || string(out) != tt.doc) {
			t.Errorf("strict changes %q to %q, %v", tt.doc, out, err)
		}
	}
	for i, r := range strictTable {
		if r.Where == "envelope" && !seen[strictRule(i)] {
			t.Errorf("no message breaks %s", r.ID)
		}
	}
}

func TestStrictHead(t *testing.T) {
	const none = strictRule(-1)
	quoted := []string{`"urn:a"`}
	tests := []struct {
		rule strictRule
		head StrictHead
	}{
		{none, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}, SOAPAction: quoted}},
		{none, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}, SOAPAction: []string{` "" `}, Charset: "utf-16le"}},
		{none, StrictHead{Version: V12, ContentType: ContentType{Type: "application/soap+xml"}}},
		{none, StrictHead{Version: V12, ContentType: ContentType{Type: "multipart/related"}}},
		{none, StrictHead{Version: V11, Framed: true}},
		{ruleType11, StrictHead{Version: V11, ContentType: ContentType{Type: "application/soap+xml"}, SOAPAction: quoted}},
		{ruleType11, StrictHead{Version: V11, SOAPAction: quoted}},
		{ruleType12, StrictHead{Version: V12, ContentType: ContentType{Type: "text/xml"}}},
		{ruleAction, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}}},
		{ruleActionQuoted, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}, SOAPAction: []string{"urn:a"}}},
		{ruleActionQuoted, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}, SOAPAction: []string{""}}},
		{ruleActionQuoted, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}, SOAPAction: []string{`"`}}},
		{ruleActionQuoted, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}, SOAPAction: []string{`"a", "b"`}}},
		{ruleActionQuoted, StrictHead{Version: V11, ContentType: ContentType{Type: "text/xml"}, SOAPAction: []string{`"a"`, `"b"`}}},
		{ruleCharset, StrictHead{Version: V11, Framed: true, Charset: "iso-8859-1"}},
	}
	for _, tt := range tests {
		h := tt.head
		h.Agrees = true
		if h.Charset == "" {
			h.Charset = "utf-8"
		}
		rule, broken := h.broken()
		if broken != (tt.rule != none) || broken && rule != tt.rule {
			t.Errorf("Check(%+v): got %v, %t, want %v", h, rule, broken, tt.rule)
		}
		if f := h.Check(); (f != nil) != broken {
			t.Errorf("Check(%+v): got %v", h, f)
		}
		h.Agrees = false
		if rule, _ := h.broken(); tt.rule == none && rule != ruleLabels {
			t.Errorf("Check(%+v): got %v, want %v", h, rule, ruleLabels)
		}
	}
}

// TestStrictRulesAreDocumented: the table of the documentation is that of the
// code.
func TestStrictRulesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/specifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| rule | SOAP | about | what must be |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want strings.Builder
	for _, r := range StrictRules() {
		versions := make([]string, len(r.Versions))
		for i, v := range r.Versions {
			versions[i] = v.String()
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", r.ID, strings.Join(versions, ", "), r.Where, r.What)
	}
	if got := strings.TrimSpace(table) + "\n"; got != want.String() {
		t.Errorf("docs/specifications.md has\n%s, want\n%s", got, want.String())
	}
}
