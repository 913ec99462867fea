package soapcodec

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"soapway/xmlstream"
)

// What is kept of a received fault is bounded, however long it is, and is cut
// between characters; the fault itself is not refused for it.
func TestReceivedFaultBounded(t *testing.T) {
	long := "e" + strings.Repeat("é", 40_000)
	sub := strings.Repeat("<s:Subcode><s:Value>s:x</s:Value>", 40) + strings.Repeat("</s:Subcode>", 40)
	tests := []struct{ name, doc string }{
		{"1.1", open11 + "<s:Body><s:Fault><faultcode>s:" + long + "</faultcode><faultstring>" + long + "</faultstring><faultactor>" + long + "</faultactor></s:Fault></s:Body>" + shut},
		{"1.2", open12 + "<s:Body><s:Fault><s:Code><s:Value>s:" + long + "</s:Value>" + sub + "</s:Code><s:Reason><s:Text>" + long + "</s:Text></s:Reason><s:Node>" + long + "</s:Node></s:Fault></s:Body>" + shut},
	}
	d := NewDecoder(Options{})
	for _, tt := range tests {
		first := ""
		for _, r := range readers {
			r.reset(d, []byte(tt.doc))
			if err := d.Finish(); err != nil {
				t.Fatalf("%s over %s: got %v, want nil", tt.name, r.name, err)
			}
			f := d.Facts().Fault
			if n := len(f.Code.Local); n > maxFaultCode || n < maxFaultCode-8 || len(f.Reason) > maxFaultText || len(f.Reason) < maxFaultText-8 || len(f.Node)+len(f.Role) > maxFaultText {
				t.Errorf("%s over %s: got lengths %d, %d, %d, want them at their bounds", tt.name, r.name, n, len(f.Reason), len(f.Node)+len(f.Role))
			}
			if len(f.Subcodes) > maxSubcodes || !utf8.ValidString(f.Reason+f.Code.Local+f.Role+f.Node) {
				t.Errorf("%s over %s: got %d subcodes, and text %q", tt.name, r.name, len(f.Subcodes), f.Reason)
			}
			if first == "" {
				first = dump(d.Facts())
			} else if dump(d.Facts()) != first {
				t.Errorf("%s over %s: got other facts than over %s", tt.name, r.name, readers[0].name)
			}
		}
		if cap(d.text.buf) > 2*maxCollected {
			t.Errorf("%s: a buffer of %d octets stays with the decoder", tt.name, cap(d.text.buf))
		}
	}
}

func TestRoleBounded(t *testing.T) {
	doc := open12 + "<s:Header><h:h xmlns:h='h' s:role='" + strings.Repeat("r", 3*maxRole) + "'/></s:Header><s:Body/>" + shut
	f, err := Decode([]byte(doc), Options{})
	if err != nil || len(f.Headers[0].Role) != maxRole {
		t.Errorf("Decode: got %v, want a role of %d octets", err, maxRole)
	}
}

// A million blocks or names must be refused before they are all kept.
func TestHeadersBounded(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(open12 + "<s:Header>")
	for i := range maxHeaderBlocks {
		fmt.Fprintf(&doc, "<h:h%d xmlns:h='h' s:role='%s/role/next' s:mustUnderstand='1'/>", i, NS12)
	}
	doc.WriteString("</s:Header><s:Body/>" + shut)
	if f, err := Decode([]byte(doc.String()), Options{}); err != nil || len(f.Headers) != maxHeaderBlocks {
		t.Errorf("Decode of %d blocks: got %v, want nil", maxHeaderBlocks, err)
	}
	_, err := Decode([]byte(doc.String()), Options{Node: true})
	e, ok := err.(*Error)
	if !ok || len(e.NotUnderstood) != maxNotUnderstood {
		t.Fatalf("Decode as a node: got %v, want %d names", err, maxNotUnderstood)
	}
	if reason := e.Fault().Reason; len(reason) > 500 || !strings.Contains(reason, "61 more") {
		t.Errorf("Fault: got %q, want three names and how many more", reason)
	}
}

func TestErrorsForTheLog(t *testing.T) {
	_, err := Decode([]byte(open11+"<s:Body></s:Envelope>"), Options{})
	if got := err.Error(); !strings.HasPrefix(got, "soapcodec: NotWellFormed: ") || !errors.Is(err, xmlstream.ErrMismatch) {
		t.Errorf("Error: got %q, want the code, and the reason in the chain", got)
	}
	if got, want := (&Fault{Code: CodeBusy}).Error(), "soapcodec: fault Busy: The service is busy, try again later."; got != want {
		t.Errorf("Error: got %q, want %q", got, want)
	}
	plain := &Error{Code: CodeIncomplete, Err: errors.New("connection reset by 10.0.0.1")}
	if got, want := plain.Fault().Reason, "The message ended too early."; got != want {
		t.Errorf("Fault of an error without a place: got %q, want %q", got, want)
	}
}
