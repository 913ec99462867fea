package casetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// enrolled are two sites that know each other by an invitation.
type enrolled struct {
	hq, plant       *gateway
	b               *backend
	hqDir, plantDir string
	at              string // where hq listens for sites
}

// in runs a command of the gateway in a folder, which must end with that exit code.
func in(t testing.TB, dir string, code int, args ...string) (stdout, all string) {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = dir
	var log syncBuffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("gateway %s: exit %d, want %d: %v\n%s%s", strings.Join(args, " "), got, code, err, out, log.String())
	}
	return strings.TrimSpace(string(out)), string(out) + log.String()
}

// configured starts a gateway in a folder with the configuration that is there.
func configured(t testing.TB, dir string, b *backend) *gateway {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "gateway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := startGateway(dir, string(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.close()
		if err := g.stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (e *enrolled) invite(t testing.TB, more ...string) string {
	t.Helper()
	token, _ := in(t, e.hqDir, 0, append([]string{"site", "invite", "plant"}, more...)...)
	return token
}

func newEnrolled(t *testing.T) *enrolled {
	t.Helper()
	e := &enrolled{b: taking(t), hqDir: t.TempDir(), plantDir: t.TempDir(), at: refusedAddr(t)}
	for dir, text := range map[string]string{
		e.hqDir: preamble + fmt.Sprintf(`
listeners:
  - {name: sites, address: "%s", tls: {certificate: sites/server.pem, key: sites/server.pem, client_ca: sites/ca.crt, client_auth: request}}
store: {durability: %s, min_free: 1MiB}
routes:
  - {name: orders, match: none, backend: orders, delivery: queue}
  - {name: secret, match: {path: /secret}, backend: orders, delivery: queue}
backends: {orders: {nodes: ["http://%s/in"]}}
sites:
  name: hq
  ca_dir: sites
`, e.at, durability(), e.b.addr),
		e.plantDir: preamble + fmt.Sprintf(`
listeners: [{name: http, address: "127.0.0.1:0"}]
store: {durability: %s, min_free: 1MiB}
routes:
  - {name: orders, match: {path: /orders}, backend: hq, delivery: queue}
  - {name: secret, match: {path: /secret}, to: ["site:hq/secret"], delivery: queue}
backends: {hq: {nodes: ["site:hq/orders"], probe: {initial: 200ms, max: 400ms}}}
`, durability()),
	} {
		if err := os.WriteFile(filepath.Join(dir, "gateway.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token := e.invite(t, "--route", "orders")
	e.hq = configured(t, e.hqDir, e.b)
	if _, all := in(t, e.plantDir, 0, "site", "join", "https://"+e.at, token); !strings.Contains(all, "this site is plant and has a link to hq") || strings.Contains(all, token) {
		t.Errorf("join says %s", all)
	}
	e.plant = configured(t, e.plantDir, e.b)
	return e
}

// order sends one message and waits until it has arrived, or not.
func (e *enrolled) order(t testing.TB, n int, arrives bool) {
	t.Helper()
	if a := post(t, e.plant.addr["http"], "/orders", xml11("urn:test"), numbered(n)); a.Status != 202 {
		t.Fatalf("not a receipt: %s", a)
	}
	if arrives && !eventually(patience, func() bool { return e.b.gotComplete() == n }) {
		t.Fatalf("message %d has not arrived\nplant: %s\nhq: %s", n, tail(e.plant.log.String()), tail(e.hq.log.String()))
	}
}

// TestEnrolment: a site joins by an invitation and sends; it may send to no other
// route; its token works once; a revoked one is refused at once and loses nothing, and
// goes on with what waits when it is invited again.
func TestEnrolment(t *testing.T) {
	e := newEnrolled(t)
	e.order(t, 1, true)

	// A stranger finds the token.
	stranger := t.TempDir()
	token := e.invite(t)
	if err := os.WriteFile(filepath.Join(stranger, "gateway.yaml"), []byte("listeners: [{address: '127.0.0.1:1'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in(t, stranger, 0, "site", "join", "https://"+e.at, token)
	if _, all := in(t, t.TempDir(), 1, "site", "join", "https://"+e.at, token); !strings.Contains(all, "it is unknown, was used, or has expired") {
		t.Errorf("a token that was used: %s", all)
	}
	// A hub that the token does not know gets nothing.
	other := e.invite(t)
	wrong := httptest.NewTLSServer(http.NotFoundHandler())
	defer wrong.Close()
	if _, all := in(t, t.TempDir(), 1, "site", "join", wrong.URL, other); !strings.Contains(all, "neither the authority of the token nor a certificate") {
		t.Errorf("another hub: %s", all)
	}

	// A route that it was not given is a dead letter or waits, and never arrives.
	if a := post(t, e.plant.addr["http"], "/secret", xml11("urn:test"), numbered(99)); a.Status != 202 {
		t.Fatalf("not a receipt: %s", a)
	}

	in(t, e.hqDir, 0, "site", "revoke", "plant")
	e.order(t, 2, false)
	if !eventually(patience, func() bool { return strings.Contains(e.hq.log.String(), "the certificate was revoked") }) {
		t.Errorf("hq says nothing of a revoked certificate\n%s", tail(e.hq.log.String()))
	}
	if n := e.b.gotComplete(); n != 1 {
		t.Errorf("%d messages have arrived, want the one before the end", n)
	}
	in(t, e.plantDir, 0, "site", "join", "https://"+e.at, e.invite(t)) // the file of the link is watched
	if !eventually(patience, func() bool { return e.b.gotComplete() == 2 }) {
		t.Fatalf("what waited has not arrived\n%s", tail(e.plant.log.String()))
	}
	if text, err := os.ReadFile(filepath.Join(e.plantDir, "gateway.yaml")); err != nil || strings.Count(string(text), "url: https://") != 1 {
		t.Errorf("the link is there once more: %v\n%s", err, text)
	}
	for _, c := range e.b.got() {
		if c.target() != "/in" || strings.Contains(string(c.Body), "n='99'") {
			t.Errorf("%s has come", c.target())
		}
	}
	if out, _ := in(t, e.hqDir, 0, "site", "ls"); !strings.Contains(out, "plant") {
		t.Errorf("ls: %s", out)
	}
}
