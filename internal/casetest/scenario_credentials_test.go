package casetest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// onDisk reports whether some octets stand in a file below a folder.
func onDisk(t testing.TB, dir, octets string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, []byte(octets))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestStoreCredentials: what the caller proves itself with is not written to the
// disk; Authorization is where the route asks for it, and comes to the backend.
func TestStoreCredentials(t *testing.T) {
	for rest, keeps := range map[string]bool{"": false, "store_credentials: true, ": true} {
		addr := refusedAddr(t)
		g := start(t, queueConfig(ordersRoute(addr, rest+quick)))
		a := post(t, g.addr["http"], "/orders", append(xml11("urn:test"),
			field{"Authorization", "Bearer secret-authorization"}, field{"Cookie", "c=secret-cookie"},
			field{"Proxy-Authorization", "Basic secret-proxy"}, field{"Proxy-Other", "secret-other"}, field{"X-Kept", "kept-field"}), numbered(1))
		if a.Status != 202 {
			t.Fatalf("not stored: %s", a)
		}
		term(t, g) // all is written
		dir := filepath.Join(g.dir, "data")
		if !onDisk(t, dir, "kept-field") {
			t.Fatalf("the message is not found in %s", dir)
		}
		for octets, want := range map[string]bool{"secret-authorization": keeps, "secret-cookie": false, "secret-proxy": false, "secret-other": false} {
			if found := onDisk(t, dir, octets); found != want {
				t.Errorf("%q: %s on the disk: %v, want %v", rest, octets, found, want)
			}
		}
		b := listenAt(t, addr)
		startAgain(t, g, queueConfig(ordersRoute(addr, rest+quick)), b)
		if !eventually(patience, func() bool { return len(b.got()) == 1 }) {
			t.Fatal("it does not come")
		}
		want := map[bool]string{true: "Bearer secret-authorization"}[keeps]
		if f := b.got()[0].Fields; f.get("Authorization") != want || f.has("Cookie") || f.has("Proxy-Authorization") || f.get("X-Kept") != "kept-field" {
			t.Errorf("%q: the backend got %s", rest, b.got()[0].Raw)
		}
	}
}
