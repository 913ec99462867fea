package interop

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"io"
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

	"soapway/internal/conformance"
)

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
	files, err := conformance.Messages(corpus)
	if err != nil {
		t.Fatal(err)
	}
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
		switch r := conformance.Refused[name]; {
		case isAccepted && !isWellFormed:
			t.Errorf("%s: accepted what xmllint refuses", name)
		case !isAccepted && isWellFormed == (r.Code == "NotWellFormed"):
			t.Errorf("%s: refused as %s (%s), well-formed for xmllint: %t", name, r.Code, r.Reason, isWellFormed)
		}
	}
	t.Logf("%d files: %d came back octet for octet, %d got a fault; %d are well-formed for xmllint", len(files), accepted, len(files)-accepted, wellFormed)
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
	if r, ok := conformance.Refused[name]; ok {
		want = http.StatusInternalServerError
		if r.Fault == "Sender" {
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
	r, isRefused := conformance.Refused[name]
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
	want := r.Fault
	if way == "framed" && r.Code == "Doctype" {
		want = "Client" // the version is not known yet, and over frames that means 1.1
	}
	if code := cmp.Or(f.Body.Fault.Detail11, f.Body.Fault.Detail12); fault != want || code != r.Code {
		t.Errorf("%s: %s: got fault %s with code %s, want %s with %s (%s)", name, way, fault, code, want, r.Code, r.Reason)
	}
	return same
}
