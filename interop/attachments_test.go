package interop

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const scanBinary = ".build/scan/scan" // made by setup.sh

// TestAttachments: gSOAP sends files in parts of their own (MTOM) and gets them
// back so, directly and through routes that keep, normalize and check strictly.
// The largest files stream through the gateway.
func TestAttachments(t *testing.T) {
	if os.Getenv("INTEROP") != "1" {
		t.Skip("needs the peers: bash interop/setup.sh, then INTEROP=1")
	}
	port := freePort(t)
	node := "127.0.0.1:" + port
	startPeer(t, "scan", node, scanBinary, "serve", port)
	addresses := startGateway(t, fmt.Sprintf(`
admin: {address: "127.0.0.1:0"}
listeners: [{name: http, address: "127.0.0.1:0"}]
backends: {scan: {nodes: ["http://%s/"]}}
routes:
  - {name: keep, match: {path: /keep}, backend: scan}
  - {name: by-name, match: {path: /by-name, operation: "{urn:depot:scan}Keep"}, backend: scan}
  - {name: envelope, match: {path: /envelope}, backend: scan, soap: {normalize: envelope}}
  - {name: canonical, match: {path: /canonical}, backend: scan, soap: {normalize: canonical}}
  - {name: strict, match: {path: /strict}, backend: scan, soap: {strict: true}}
`, node))
	for _, way := range []string{"direct", "keep", "by-name", "envelope", "canonical", "strict"} {
		url := "http://" + node + "/"
		if way != "direct" {
			url = "http://" + addresses["http"] + "/" + way
		}
		for _, version := range versions {
			for _, octets := range []int{6, 1000, 300_000, 3_000_000} {
				out, err := runCommand(scanBinary, "call", url, version, fmt.Sprint(octets))
				want := fmt.Sprintf(`{"op":"keep","octets":%d,"same":true,"id":"cid:copy+1%%40scan.test"}`, octets)
				if got := strings.TrimSpace(string(out)); err != nil || got != want {
					t.Errorf("%s, SOAP %s, %d octets: got %s, %v, want %s", way, version, octets, got, err, want)
				}
			}
		}
	}
}
