package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// jaxwsFault is the SOAPFaultException of Metro, the library that JAX-WS is here.
const jaxwsFault = "com.sun.xml.ws.fault.ServerSOAPFaultException"

// java runs a class of the JAX-WS peers, which setup.sh compiles.
func java(class string, args ...string) []string {
	return append([]string{
		"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // begins faster
		"-Dcom.sun.xml.ws.fault.SOAPFaultBuilder.disableCaptureStackTrace=true",
		"-cp", ".build/jaxws/classes:.build/jaxws/lib/*", class,
	}, args...)
}

// attic runs a client of the attic and returns its lines.
func attic(t *testing.T, url, version, wsdl, encoding string, ops ...string) []line {
	t.Helper()
	out, err := runCommand(append(java("attic.AtticClient", url, version, wsdl, encoding), ops...)...)
	if err != nil {
		t.Fatalf("attic %s %s: %v", url, version, err)
	}
	var lines []line
	for s := range strings.Lines(string(out)) {
		var l line
		if err := json.Unmarshal([]byte(s), &l); err != nil {
			t.Fatalf("not a line of JSON: %q: %v", s, err)
		}
		lines = append(lines, l)
	}
	if len(lines) != len(ops) {
		t.Fatalf("attic %s %s: %d lines for %d operations:\n%s", url, version, len(lines), len(ops), out)
	}
	return lines
}

// same fails unless a line of a client is the wanted one.
func (l line) same(t *testing.T, want line) {
	t.Helper()
	got, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(w) {
		t.Errorf("got %s, want %s", got, w)
	}
}

// startAttic runs the JAX-WS server and returns its address.
func startAttic(t *testing.T) string {
	t.Helper()
	if os.Getenv("INTEROP") != "1" {
		t.Skip("needs the peers: bash interop/setup.sh, then INTEROP=1")
	}
	port := freePort(t)
	startPeer(t, "jaxws", "127.0.0.1:"+port, java("depot.Server", port)...)
	// It listens before all of its services are there; this is the last.
	eventually(t, "the JAX-WS server has /11?wsdl", func() bool {
		c := http.Client{Timeout: patience}
		res, err := c.Get("http://127.0.0.1:" + port + "/11?wsdl")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return err == nil && strings.Contains(string(body), "Port11")
	})
	return "127.0.0.1:" + port
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(2 * patience); !is(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", 2*patience, what)
		}
	}
}

// TestSwitch: a client that speaks one version calls a server that speaks the other
// one: with a header block both ways, without an answer, with a fault that the
// service declares, with a file by MTOM; a signed message gets the fault that
// SPEC.md promises.
func TestSwitch(t *testing.T) {
	node := startAttic(t)
	base := "http://" + startGateway(t, fmt.Sprintf(`admin: {address: "127.0.0.1:0"}
listeners: [{name: http, address: "127.0.0.1:0"}]
routes:
  - {name: to-11, match: {path: /to/11/*}, to: ["http://%[1]s"], soap: {translate: 1.1}}
  - {name: to-12, match: {path: /to/12/*}, to: ["http://%[1]s"], soap: {translate: 1.2}}
`, node))["http"]
	file := filepath.Join(t.TempDir(), "small.bin")
	digest := randomFile(t, file, 100_000)
	for _, version := range versions {
		to := other(version)
		t.Run(version+"-to-"+to, func(t *testing.T) {
			note := "dropped by " + version
			lines := attic(t, base+"/to/"+to+"/swa/"+to, version, "http://"+node+"/swa/"+version+"?wsdl", "plain", "tag=red & blue", "drop="+note, "look", "fail=why")
			lines[0].same(t, line{"op": "tag", "text": "red & blue", "ticket": "T-1-red & blue"})
			lines[1].same(t, line{"op": "drop", "sent": true})
			if text, _ := lines[2]["text"].(string); strings.Count(text, note) != 1 {
				t.Errorf("what was dropped: %q, want %q once", text, note)
			}
			lines[3].same(t, line{"op": "fail", "fault": "the attic is closed", "reason": "closed & locked: why"})
			attic(t, base+"/to/"+to+"/mtom/"+to, version, "http://"+node+"/mtom/"+version+"?wsdl", "mtom", "keep="+file)[0].same(t, line{"op": "keep", "digest": digest, "same": true})
		})
		t.Run(version+"-signed", func(t *testing.T) {
			s := newSigner(t)
			signed := filepath.Join(s.dir, "signed.xml")
			if err := os.WriteFile(signed, s.sign(t, version, "sha256"), 0o600); err != nil {
				t.Fatal(err)
			}
			got := attic(t, base+"/to/"+to+"/swa/"+to, version, "http://"+node+"/swa/"+version+"?wsdl", "plain", "raw="+signed)[0]
			delete(got, "message") // free text
			got.same(t, line{"op": "raw", "exception": jaxwsFault, "code": byVersion(version, "Server", "Receiver"), "detail": "Signed"})
		})
	}
}

// randomFile writes octets that no compression makes fewer, and returns "COUNT
// SHA-256" of them.
func randomFile(t *testing.T, name string, octets int64) string {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, h), rand.NewChaCha8([32]byte{1}), octets); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", octets, hex.EncodeToString(h.Sum(nil)))
}

// mostGrowth is by how much a large attachment may raise the resident memory of the
// gateway.
const mostGrowth = 64 << 20

// TestFiles: JAX-WS peers exchange files by MTOM and as attachments, through a route
// that forwards and one that stores. The other end has the same octets, and 200 MB of
// them do not show in the memory of the gateway.
func TestFiles(t *testing.T) {
	node := startAttic(t)
	addresses, pid := startProcess(t, fmt.Sprintf(`admin: {address: "127.0.0.1:0"}
listeners: [{name: http, address: "127.0.0.1:0"}]
store: {dir: %q, durability: relaxed, min_free: 1MiB}
limits: {max_message: 300MB}
backends: {attic: {nodes: ["http://%s"]}}
routes:
  - {name: sync, match: {path: /sync/*}, backend: attic}
  - {name: queue, match: {path: /queue/*}, delivery: queue, backend: attic}
`, t.TempDir(), node))
	base := "http://" + addresses["http"]
	dir := t.TempDir()
	small, large := filepath.Join(dir, "small.bin"), filepath.Join(dir, "large.bin")
	sums := map[string]string{small: randomFile(t, small, 5000), large: randomFile(t, large, 200_000_000)}

	check := func(t *testing.T, version, encoding, file string) {
		t.Helper()
		endpoint, suffix := map[string]string{"mtom": "/mtom/", "plain": "/swa/"}[encoding]+version, map[string]string{"plain": "-attached"}[encoding]
		got := attic(t, base+"/sync"+endpoint, version, "-", encoding, "keep"+suffix+"="+file)[0]
		got.same(t, line{"op": "keep" + suffix, "digest": sums[file], "same": true})

		// A name of its own for each message, since the server remembers them all.
		name := filepath.Join(dir, version+"-"+encoding+"-"+filepath.Base(file))
		if err := os.Link(file, name); err != nil {
			t.Fatal(err)
		}
		got = attic(t, base+"/queue"+endpoint, version, "-", encoding, "stow"+suffix+"="+name)[0]
		got.same(t, line{"op": "stow" + suffix, "digest": sums[file]})
		want := filepath.Base(name) + " " + sums[file]
		eventually(t, "the server has "+want, func() bool {
			_, body := post(t, "http://"+node+"/swa/11", envelope(envelope11, `<LookNote xmlns="urn:example:attic"><text/></LookNote>`))
			return strings.Contains(body, want)
		})
	}
	for _, version := range versions {
		for _, encoding := range []string{"mtom", "plain"} {
			t.Run(version+"-"+encoding, func(t *testing.T) { check(t, version, encoding, small) })
		}
	}
	for _, c := range [][2]string{{"11", "mtom"}, {"12", "plain"}} {
		t.Run(c[0]+"-"+c[1]+"-large", func(t *testing.T) {
			before := resident(t, pid, "VmRSS")
			if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200); err != nil {
				t.Fatal(err) // the peak begins anew
			}
			check(t, c[0], c[1], large)
			growth := resident(t, pid, "VmHWM") - before
			t.Logf("the gateway grew by %.1f MiB", float64(growth)/(1<<20))
			if growth > mostGrowth {
				t.Errorf("the gateway grew by %d octets, want at most %d", growth, mostGrowth)
			}
		})
	}
}

// resident is a figure of /proc/PID/status, in octets.
func resident(t *testing.T, pid int, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), name+":")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		t.Fatalf("%s in /proc/%d/status: %v", name, pid, err)
	}
	return n << 10
}
