package soapcodec

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// refused are the files of the corpus that are not envelopes, and why.
var refused = map[string]Code{
	"messages/notwf_27k_amadeus_bare_ampersand_s11.xml": CodeNotWellFormed,
	"messages/payload_ubl_invoice_peppol.xml":           CodeVersionMismatch,

	"interop-soapbuilders/Round4/GroupH/r4_groupH_soapfault_003w-request.xml": CodeVersionMismatch,

	"soap12-testcollection/axis2/ReplyMessages/SOAP12ReqT24.xml":    CodeVersionMismatch,
	"soap12-testcollection/axis2/ReplyMessages/SOAP12ResT30.xml":    CodeVersionMismatch,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT14.xml":  CodeInvalidEnvelope, // mustUnderstand="wrong"
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT23.xml":  CodeInvalidEnvelope,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT24.xml":  CodeVersionMismatch,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT25.xml":  CodeDoctype,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT26.xml":  CodeInvalidEnvelope, // a PI outside Body
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT30.xml":  CodeVersionMismatch,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT39.xml":  CodeInvalidEnvelope,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT69.xml":  CodeInvalidEnvelope,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT7_A.xml": CodeNotWellFormed,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT8_A.xml": CodeNotWellFormed,
	"soap12-testcollection/php/T14-request.xml":                     CodeInvalidEnvelope,
	"soap12-testcollection/php/T23-request.xml":                     CodeInvalidEnvelope,
	"soap12-testcollection/php/T24-request.xml":                     CodeVersionMismatch,
	"soap12-testcollection/php/T25-request.xml":                     CodeDoctype,
	"soap12-testcollection/php/T26-request.xml":                     CodeInvalidEnvelope,
	"soap12-testcollection/php/T39-request.xml":                     CodeInvalidEnvelope,
	"soap12-testcollection/php/T64-request.xml":                     CodeDoctype,
	"soap12-testcollection/php/T65-request.xml":                     CodeDoctype,
	"soap12-testcollection/php/T69-request.xml":                     CodeInvalidEnvelope, // no Body
	"soap12-testcollection/php/T70-request.xml":                     CodeInvalidEnvelope, // an element after Body
}

// TestCorpus decodes real messages, the SOAP 1.2 test collection and the
// SOAPBuilders pairs.
func TestCorpus(t *testing.T) {
	dir := testData(t, "CORPUS", "../../shared/corpus")
	d := NewDecoder(Options{})
	n := 0
	for _, part := range []string{"messages", "soap12-testcollection", "interop-soapbuilders"} {
		err := filepath.WalkDir(filepath.Join(dir, part), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".xml" {
				return err
			}
			n++
			doc, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			t.Run(filepath.ToSlash(name), func(t *testing.T) {
				utf8, _, err := xmlstream.DecodeBytes(doc, "")
				if err != nil {
					t.Fatal(err)
				}
				checkMessage(t, d, filepath.ToSlash(name), utf8)
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 700 {
		t.Errorf("the corpus has %d messages, want at least 700", n)
	}
}

func checkMessage(t *testing.T, d *Decoder, name string, doc []byte) {
	t.Helper()
	d.ResetBytes(doc)
	err := d.Finish()
	if code, ok := refused[name]; ok {
		if e, ok := err.(*Error); !ok || e.Code != code {
			t.Fatalf("Finish: got %v, want %s", err, code)
		}
		return
	}
	if err != nil {
		t.Fatalf("Finish: got %v, want nil", err)
	}
	f := d.Facts()
	// Where a message names both namespaces, the first is that of Envelope.
	want := V11
	if before, _, ok := bytes.Cut(doc, []byte(NS12)); ok && !bytes.Contains(before, []byte(NS11)) {
		want = V12
	}
	if f.Version != want {
		t.Errorf("Version: got %v, want %v", f.Version, want)
	}
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
