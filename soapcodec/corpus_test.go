package soapcodec

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"soapway/internal/conformance"
	"soapway/xmlstream"
)

// testData returns the folder that an environment variable names, by default
// one beside the module, and skips the test where it is absent.
func testData(t *testing.T, variable, fallback string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		dir = fallback
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no test data: set %s to its folder (%v)", variable, err)
	}
	return dir
}

// TestCorpus reads real messages, the SOAP 1.2 test collection and the
// SOAPBuilders pairs: what is found in each agrees with its octets, and
// normalization keeps its promises. Which of them are envelopes at all is judged
// by package conformance.
func TestCorpus(t *testing.T) {
	messages, err := conformance.Messages(testData(t, "CORPUS", "../../shared/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(Options{})
	for name, doc := range messages {
		if _, ok := conformance.Refused[name]; ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			utf8, _, err := xmlstream.DecodeBytes(doc, "")
			if err != nil {
				t.Fatal(err)
			}
			checkMessage(t, d, utf8)
		})
	}
}

func checkMessage(t *testing.T, d *Decoder, doc []byte) {
	t.Helper()
	d.ResetBytes(doc)
	if err := d.Finish(); err != nil {
		t.Fatalf("Finish: got %v, want nil", err)
	}
	f := d.Facts()
	if (f.BodyChildren > 0) == f.Operation.IsZero() {
		t.Errorf("Facts: got\n%s, want an operation where Body has a child", dump(f))
	}
	if isFault := f.Operation == (QName{f.Version.Namespace(), "Fault"}); isFault != (f.Fault != nil) {
		t.Errorf("Fault: got %v for operation %v", f.Fault, f.Operation)
	}
	for _, b := range f.Headers {
		raw := doc[b.Start:b.End]
		if raw[0] != '<' || raw[len(raw)-1] != '>' || !bytes.Contains(raw, []byte(b.Name.Local)) {
			t.Errorf("block %v: got the range %q", b.Name, raw)
		}
	}
	if len(doc) < 200_000 { // the streamed half of the check goes octet by octet
		checkNormalize(t, doc)
		checkTranslate(t, doc)
	}
}

// What the real messages say, as far as it is known from elsewhere.
func TestCorpusFacts(t *testing.T) {
	dir := testData(t, "CORPUS", "../../shared/corpus")
	tests := []struct{ file, want string }{
		{"messages/04k_axis2_wsa10_headers_s12.xml", "message id: invalid-notinrole\nmessage ids: 1\n"},
		{"messages/01k_axiom_fault_s12.xml", "fault: {" + NS12 + "}Sender\n"},
		{"messages/08k_cxf_wss_signed_encrypted_s11.xml", "operation: {http://www.w3.org/2001/04/xmlenc#}EncryptedData\nchildren: 1\nsigned: true\n"},
		{"messages/20k_domibus_as4_x509_signed_s12.xml", "signed: true\n"},
		{"messages/02k_sandesha_wsrm_sequence_s11.xml", "action: urn:wsrm:echoStringResponse\n"},
		{"messages/07k_ihe_hl7v3_ITI47_response_s12.xml", "action: urn:hl7-org:v3:PRPA_IN201306UV02\n"},
	}
	for _, tt := range tests {
		doc, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(Options{Normalize: Envelope})
		d.ResetBytes(doc)
		if err := d.Finish(); err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		if got := dump(d.Facts()); !strings.Contains(got, tt.want) || d.Facts().NormalizeSkipped {
			t.Errorf("%s: got\n%s, want in it\n%s and no signature at risk", tt.file, got, tt.want)
		}
	}
}
