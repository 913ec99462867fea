package casetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	firstKey  = "4f1d0c5b2a69788796a5b4c3d2e1f00112233445566778899aabbccddeeff0a1"
	secondKey = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
)

// leaking are the files below dir that hold one of these texts.
func leaking(t testing.TB, dir string, texts ...string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of a store that is in use
		}
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, text := range texts {
			if bytes.Contains(append(b, path[len(dir):]...), []byte(text)) {
				found = append(found, fmt.Sprintf("%q in %s", text, path[len(dir):]))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// refusedBy runs a command on the folder of a gateway that has ended, which must
// fail, and returns what it said.
func refusedBy(t testing.TB, g *gateway, args ...string) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), bin, append(args, "-c", g.file)...).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Errorf("gateway %v: got %v, want exit 1\n%s", args, err, out)
	}
	return string(out)
}

// TestSealedStore: with store.encryption_key no file of the store shows what it
// keeps; without the key nothing opens it and nothing is touched; the key
// changes while messages wait, and all of them arrive as they were sent.
func TestSealedStore(t *testing.T) {
	addr := refusedAddr(t)
	config := strings.Replace(queueConfig(ordersRoute(addr, `dedup: {}, order_by: "http:X-Customer", reply: store, `+quick)), "store: {", `store: {encryption_key: "file:store.key", `, 1)
	config = strings.ReplaceAll(config, "min_free: 1MiB", "min_free: 1MiB, dir: data")
	dir := t.TempDir()
	key := filepath.Join(dir, "store.key")
	write := func(lines ...string) {
		t.Helper()
		next := key + ".next"
		if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, key); err != nil {
			t.Fatal(err)
		}
	}
	write("# the first", firstKey)
	g, err := startGateway(dir, config)
	if err != nil {
		t.Fatal(err)
	}
	send := func(id string, times int) []byte {
		t.Helper()
		body := signedAnew("urn:uuid:"+id, `<t:opOfSecrets xmlns:t="urn:test">`+strings.Repeat("body-of-secrets ", times)+`</t:opOfSecrets>`, 1)
		a := post(t, g.addr["http"], "/orders", append(xml11("urn:test"), field{"X-Customer", "customer-4711"}, field{"X-Other", "field-of-secrets"}), body)
		if a.Status != 202 {
			t.Fatalf("not a receipt: %s", a)
		}
		return body
	}
	want := map[string]bool{string(send("message-id-1", 1)): true}
	want[string(send("message-id-large", 200_000))] = true // in a file of its own
	texts := []string{"body-of-secrets", "opOfSecrets", "urn:test", "message-id-1", "customer-4711", "X-Customer", "field-of-secrets", "orders", addr, firstKey, firstKey[:16]}
	if found := leaking(t, filepath.Join(dir, "data"), texts...); len(found) > 0 {
		t.Errorf("the store shows %s", strings.Join(found, "; "))
	}
	g.crash(t)

	// Without its key nobody gets in, and everybody is told why.
	write(secondKey)
	for _, args := range [][]string{{"serve"}, {"check"}, {"queue", "ls"}} {
		if out := refusedBy(t, g, args...); !strings.Contains(out, "store.encryption_key: wrong or missing encryption key") || strings.Contains(out, secondKey[:8]) {
			t.Errorf("gateway %v with another key said\n%s", args, out)
		}
	}
	write("secret")
	if out := refusedBy(t, g, "check"); !strings.Contains(out, "line 1: a key is 32 octets") {
		t.Errorf("gateway check of a bad key file said\n%s", out)
	}
	write(firstKey)

	// The key changes while the gateway runs.
	g = startAgain(t, g, config)
	write(secondKey, firstKey)
	if err := g.signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !eventually(patience, func() bool { return strings.Contains(g.log.String(), "the keys of the store have changed") }) {
		t.Fatalf("the new key is not in use\n%s", tail(g.log.String()))
	}
	want[string(send("message-id-2", 1))] = true
	if found := leaking(t, filepath.Join(dir, "data"), append(texts, "message-id-2", secondKey)...); len(found) > 0 {
		t.Errorf("with the new key the store shows %s", strings.Join(found, "; "))
	}
	// A reload that takes away a key that is needed is refused.
	write(secondKey)
	if err := g.signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !eventually(patience, func() bool { v, err := g.metric("gateway_config_reload_ok"); return err == nil && v == 0 }) {
		t.Error("a key that is needed was taken away and the reload is said to be good")
	}
	g.crash(t)
	refusedBy(t, g, "serve")
	write(secondKey, firstKey)

	// A stopped store is shown with the keys.
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), bin, "queue", "ls", "-c", g.file).CombinedOutput(); err != nil || !strings.Contains(string(out), "orders") {
		t.Errorf("gateway queue ls: %v\n%s", err, out)
	}

	b := listenAt(t, addr)
	b.do(func(p *peer, _ *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, envelope("1.1", "<t:reply xmlns:t='urn:test'>reply-of-secrets</t:reply>")))
	})
	g = startAgain(t, g, config, b)
	if !eventually(patience, func() bool { return g.waiting(t) == 0 && len(b.got()) >= len(want) }) {
		t.Fatalf("%d messages wait, %d came", g.waiting(t), len(b.got()))
	}
	for _, c := range b.got() {
		if !want[string(c.Body)] || c.Fields.get("X-Other") != "field-of-secrets" {
			t.Errorf("another message came: %q %q", c.Fields, c.Body)
		}
	}
	if found := leaking(t, filepath.Join(dir, "data"), append(texts, "reply-of-secrets")...); len(found) > 0 {
		t.Errorf("with replies the store shows %s", strings.Join(found, "; "))
	}
}
