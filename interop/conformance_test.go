package interop

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A refusal is the gateway's own fault for one file.
type refusal struct {
	fault  string // local name of the fault code
	code   string // in detail
	reason string // what is wrong with the file
}

var (
	notWellFormed = refusal{"Sender", "NotWellFormed", "an end tag that matches no start tag"}
	doctype       = refusal{"Sender", "Doctype", "a DOCTYPE"}
	instruction   = refusal{"Sender", "InvalidEnvelope", "a processing instruction beside Body"}
	noBody        = refusal{"Sender", "InvalidEnvelope", "no Body"}
	trailer       = refusal{"Sender", "InvalidEnvelope", "an element after Body"}
	notBoolean    = refusal{"Sender", "InvalidEnvelope", "a mustUnderstand that is no xs:boolean"}
	version       = refusal{"VersionMismatch", "VersionMismatch", "no Envelope of a known namespace"}
)

// refused lists every file of the collections that must not come back. All
// others are envelopes and must, octet for octet.
var refused = map[string]refusal{
	"soap12-testcollection/axis2/ReplyMessages/SOAP12ReqT24.xml":              version,
	"soap12-testcollection/axis2/ReplyMessages/SOAP12ResT30.xml":              version,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT14.xml":            notBoolean,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT23.xml":            notBoolean,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT24.xml":            version,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT25.xml":            doctype,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT26.xml":            instruction,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT30.xml":            version,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT39.xml":            notBoolean,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT69.xml":            noBody,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT7_A.xml":           notWellFormed,
	"soap12-testcollection/axis2/RequestMessages/SOAP12ReqT8_A.xml":           notWellFormed,
	"soap12-testcollection/php/T14-request.xml":                               notBoolean,
	"soap12-testcollection/php/T23-request.xml":                               notBoolean,
	"soap12-testcollection/php/T24-request.xml":                               version,
	"soap12-testcollection/php/T25-request.xml":                               doctype,
	"soap12-testcollection/php/T26-request.xml":                               instruction,
	"soap12-testcollection/php/T39-request.xml":                               notBoolean,
	"soap12-testcollection/php/T64-request.xml":                               doctype,
	"soap12-testcollection/php/T65-request.xml":                               doctype,
	"soap12-testcollection/php/T69-request.xml":                               noBody,
	"soap12-testcollection/php/T70-request.xml":                               trailer,
	"interop-soapbuilders/Round4/GroupH/r4_groupH_soapfault_003w-request.xml": version,
	"messages/notwf_27k_amadeus_bare_ampersand_s11.xml":                       {"Client", "NotWellFormed", "a bare ampersand"},
	"messages/payload_ubl_invoice_peppol.xml":                                 version,
}

// collections are the folders of CORPUS that hold envelopes.
var collections = []string{"soap12-testcollection", "interop-soapbuilders", "messages"}

// ownFault is what the gateway's faults of both versions consist of.
type ownFault struct {
	Body struct {
		Fault struct {
			Code11   string `xml:"faultcode"`
			Code12   string `xml:"Code>Value"`
			Detail11 string `xml:"detail>code"`
			Detail12 string `xml:"Detail>code"`
		}
	}
}

// TestConformance reads the collections from CORPUS (default ../../shared/corpus).
func TestConformance(t *testing.T) {
	corpus := cmp.Or(os.Getenv("CORPUS"), filepath.Join("..", "..", "shared", "corpus"))
	if _, err := os.Stat(corpus); err != nil {
		t.Skipf("no message collections, see CORPUS: %v", err)
	}
	files := envelopes(t, corpus)
	addresses := startGateway(t, `admin: {address: "127.0.0.1:0"}
log: {level: info, format: text}
listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: framed, address: "127.0.0.1:0", protocol: framed, length: 4, route: echo}
routes:
  - {name: echo, match: {path: /echo}, to: ["builtin:echo"]}
`)
	conn, err := net.DialTimeout("tcp", addresses["framed"], patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * patience)); err != nil {
		t.Fatal(err)
	}
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Log("no xmllint: its opinion is not asked (libxml2-utils has it)")
	}
	var accepted, wellFormed int
	for _, name := range slices.Sorted(maps.Keys(files)) {
		doc := files[name]
		isAccepted := overHTTP(t, "http://"+addresses["http"]+"/echo", name, doc)
		overFrames(t, conn, name, doc)
		if isAccepted {
			accepted++
		}
		if xmllint == "" {
			continue
		}
		isWellFormed := exec.Command(xmllint, "--noout", "--nonet", filepath.Join(corpus, filepath.FromSlash(name))).Run() == nil
		if isWellFormed {
			wellFormed++
		}
		switch r := refused[name]; {
		case isAccepted && !isWellFormed:
			t.Errorf("%s: accepted what xmllint refuses", name)
		case !isAccepted && isWellFormed == (r.code == "NotWellFormed"):
			t.Errorf("%s: refused as %s (%s), well-formed for xmllint: %t", name, r.code, r.reason, isWellFormed)
		}
	}
	for name := range refused {
		if files[name] == nil {
			t.Errorf("%s is in the table of refusals, but not in the collections", name)
		}
	}
	t.Logf("%d files: %d came back octet for octet, %d got a fault; %d are well-formed for xmllint", len(files), accepted, len(files)-accepted, wellFormed)
}

// envelopes reads the XML files of the collections, by their slashed names.
func envelopes(t *testing.T, corpus string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, c := range collections {
		err := filepath.WalkDir(filepath.Join(corpus, c), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".xml" {
				return err
			}
			name, err := filepath.Rel(corpus, path)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(name)], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 500 {
		t.Fatalf("only %d files in the collections", len(files))
	}
	return files
}

// overHTTP posts a file to the echo route, checks the answer and says whether
// the file was accepted.
func overHTTP(t *testing.T, url, name string, doc []byte) bool {
	t.Helper()
	media := "text/xml"
	if strings.HasPrefix(name, "soap12-") || strings.HasSuffix(name, "_s12.xml") {
		media = "application/soap+xml"
	}
	c := http.Client{Timeout: patience}
	res, err := c.Post(url, media, bytes.NewReader(doc))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want := http.StatusOK
	if r, ok := refused[name]; ok {
		want = http.StatusInternalServerError
		if r.fault == "Sender" {
			want = http.StatusBadRequest
		}
	}
	if res.StatusCode != want {
		t.Errorf("%s: HTTP: got status %s, want %d", name, res.Status, want)
	}
	return compare(t, "HTTP", name, doc, got)
}

// overFrames sends a file in one frame; the answer is one frame as well.
func overFrames(t *testing.T, conn net.Conn, name string, doc []byte) {
	t.Helper()
	if _, err := conn.Write(frame(nil, string(doc))); err != nil {
		t.Fatalf("%s: framed: %v", name, err)
	}
	compare(t, "framed", name, doc, readFrame(t, conn))
}

// compare checks an answer and says whether the file came back.
func compare(t *testing.T, way, name string, doc, got []byte) bool {
	t.Helper()
	same := bytes.Equal(got, doc)
	r, isRefused := refused[name]
	if !isRefused {
		if !same {
			t.Errorf("%s: %s: the echo differs: got %d octets, want %d; it begins %.300q", name, way, len(got), len(doc), got)
		}
		return same
	}
	var f ownFault
	if err := xml.Unmarshal(got, &f); err != nil {
		t.Errorf("%s: %s: the answer is no fault: %v: %.300q", name, way, err, got)
		return same
	}
	fault := cmp.Or(f.Body.Fault.Code11, f.Body.Fault.Code12)
	fault = fault[strings.LastIndexByte(fault, ':')+1:]
	want := r.fault
	if way == "framed" && r == doctype {
		want = "Client" // the version is not known yet, and over frames that means 1.1
	}
	if code := cmp.Or(f.Body.Fault.Detail11, f.Body.Fault.Detail12); fault != want || code != r.code {
		t.Errorf("%s: %s: got fault %s with code %s, want %s with %s (%s)", name, way, fault, code, want, r.code, r.reason)
	}
	return same
}
