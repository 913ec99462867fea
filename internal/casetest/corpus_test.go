package casetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func messagesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	dir = filepath.Join(dir, "messages")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no corpus of messages: set CORPUS")
	}
	return dir
}

// TestCorpus sends the plain XML messages of the corpus through /echo: the
// well-formed envelopes come back octet for octet.
func TestCorpus(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(messagesDir(t), "*.xml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no messages: %v", err)
	}
	f := shared(t)
	echoed := 0
	for _, p := range paths {
		name := filepath.Base(p)
		version := "1.1"
		if strings.Contains(name, "_s12.") {
			version = "1.2"
		}
		body, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			a := post(t, f.g.addr["http"], "/echo", typed(version), body)
			switch {
			case strings.HasPrefix(name, "notwf_"):
				ft := wantFault(t, a, version, "Client", "NotWellFormed")
				line, column := firstError(t, body)
				if !strings.Contains(ft.Reason, fmt.Sprint("line ", line)) || !strings.Contains(ft.Reason, fmt.Sprint("column ", column)) {
					t.Errorf("want line %d, column %d: %s", line, column, ft.Reason)
				}
			case strings.HasPrefix(name, "payload_ubl"):
				wantFault(t, a, version, "VersionMismatch", "VersionMismatch")
			default:
				echoed++
				if !bytes.Equal(a.Body, body) {
					t.Errorf("status %d, %s", a.Status, describe(a.Body))
				}
				f.http.reset() // and over a wire to a node
				a = post(t, f.g.addr["http"], "/depot/x", typed(version), body)
				if calls := f.http.got(); len(calls) != 1 || !bytes.Equal(calls[0].Body, body) {
					t.Errorf("the node got %s; %s", describe(joined(calls)), a)
				}
			}
		})
	}
	if echoed != 21 {
		t.Errorf("%d messages came back octet for octet, want the 21 that are well-formed envelopes", echoed)
	}
}

// firstError is the place of the bare & that makes the message ill-formed.
func firstError(t *testing.T, body []byte) (line, column int) {
	t.Helper()
	entity := regexp.MustCompile(`^&(#\d+|#x[0-9a-fA-F]+|lt|gt|amp|quot|apos);`)
	for i := range body {
		if body[i] == '&' && !entity.Match(body[i:min(len(body), i+12)]) {
			return 1 + bytes.Count(body[:i], []byte("\n")), i - bytes.LastIndexByte(body[:i], '\n')
		}
	}
	t.Fatal("no bare & in the message")
	return 0, 0
}

// TestTenMegabytes: with max_message raised, and with a limit that it fits
// anyway, the large message passes in bounded memory.
func TestTenMegabytes(t *testing.T) {
	path := filepath.Join(messagesDir(t), "10M_amadeus_fare_search_x10_s11.xml.xz")
	xz, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("xz is not installed: the large message cannot be unpacked")
	}
	body, err := exec.Command(xz, "-dc", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf(`
routes:
  - {name: echo, match: {path: /echo}, to: ["builtin:echo"], limits: {max_message: 128MiB}}
  - {name: small, match: {path: /small}, to: ["builtin:echo"], limits: {max_message: 10MiB}}
  - {name: node, match: {path: /node}, to: ["http://%s/"], limits: {max_message: 128MiB}}
`, b.addr), b)
	wantBare(t, exchange(t, g.addr["http"], request("/small", typed("1.1"), body)), 413)
	for _, target := range []string{"/echo", "/node"} {
		for range 3 {
			b.reset()
			var a *answer
			grown := g.growth(t, func() { a = exchange(t, g.addr["http"], request(target, typed("1.1"), body)) })
			if a.Err != nil || a.Status != 200 || target == "/echo" && !bytes.Equal(a.Body, body) {
				t.Fatalf("%s: status %d, %v, %s", target, a.Status, a.Err, describe(a.Body))
			}
			if target == "/node" && !bytes.Equal(joined(b.got()), body) {
				t.Errorf("the node got %s", describe(joined(b.got())))
			}
			t.Logf("%s: %d octets, memory grew by %d KiB, took %s", target, len(body), grown>>10, a.Took)
			// 16 MiB may lie about before they are collected (cmd/gateway/collect.go).
			if grown >= (16+10)<<20 {
				t.Errorf("%s: memory grew by %d KiB", target, grown>>10)
			}
		}
	}
}
