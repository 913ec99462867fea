package enrol

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := Create(t.TempDir(), "hq")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// newHub serves a hub over TLS with the certificate of its authority.
func newHub(t *testing.T, a *Authority) (*Hub, string) {
	t.Helper()
	if _, err := a.Server([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	hub := &Hub{Authority: a, Name: "hq", Routes: func(site string) []string { return []string{"orders-of-" + site} }}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var an *Answer
		switch r.URL.Path {
		case JoinPath:
			an, _ = hub.Join(r.Body)
		case RenewPath:
			var peer *x509.Certificate
			if len(r.TLS.PeerCertificates) > 0 {
				peer = r.TLS.PeerCertificates[0]
			}
			an, _ = hub.Renew(peer, r.Body)
		default:
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(an.Status)
		_, _ = w.Write(an.Body)
	}))
	file := filepath.Join(a.dir, ServerFile)
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Certificate())
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return hub, srv.URL
}

func invite(t *testing.T, a *Authority, site string) Token {
	t.Helper()
	tok, err := a.Invite(site, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func keyText(t *testing.T) []byte {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func joined(t *testing.T, url string, tok Token) *Joined {
	t.Helper()
	j, err := Join(t.Context(), url, tok, keyText(t))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func leaf(t *testing.T, pem []byte) *x509.Certificate {
	t.Helper()
	c, err := certificateOf(pem)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestJoin(t *testing.T) {
	a := newAuthority(t)
	_, url := newHub(t, a)
	tok := invite(t, a, "plant")
	key := keyText(t)
	j, err := Join(t.Context(), url, tok, key)
	if err != nil {
		t.Fatal(err)
	}
	if j.Hub != "hq" || j.Site != "plant" || len(j.Routes) != 1 || j.Routes[0] != "orders-of-plant" || j.Public {
		t.Errorf("got %+v", j)
	}
	if _, err := tls.X509KeyPair(j.Pair, j.Pair); err != nil {
		t.Errorf("the pair is none: %v", err)
	}
	c := leaf(t, j.Pair)
	if site, err := a.Check(c); site != "plant" || err != nil {
		t.Errorf("Check: got %q, %v", site, err)
	}
	if c.Subject.CommonName != "plant" || len(c.URIs) != 1 || c.URIs[0].String() != "urn:soapway:site:plant" {
		t.Errorf("subject %v, URIs %v", c.Subject, c.URIs)
	}
	// A lost answer: the same key gets the same certificate, another key nothing.
	again, err := Join(t.Context(), url, tok, key)
	if err != nil || !bytes.Equal(again.Pair, j.Pair) {
		t.Errorf("the same key again: %v", err)
	}
	if _, err := Join(t.Context(), url, tok, keyText(t)); !refused(err, http.StatusForbidden) {
		t.Errorf("another key: got %v, want 403", err)
	}
}

func refused(err error, status int) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && r.Status == status
}

// TestTokens: what is not a token that counts gets nothing, and nothing is told of
// why.
func TestTokens(t *testing.T) {
	a := newAuthority(t)
	_, url := newHub(t, a)
	expired, err := a.Invite("late", -time.Second)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newToken(a.pin())
	gone := invite(t, a, "gone")
	if c, i, err := a.Revoke("gone"); c != 0 || i != 1 || err != nil {
		t.Errorf("Revoke: %d, %d, %v", c, i, err)
	}
	for name, tok := range map[string]Token{"expired": expired, "unknown": stranger, "revoked": gone} {
		_, err := Join(t.Context(), url, tok, keyText(t))
		if !refused(err, http.StatusForbidden) || !strings.Contains(err.Error(), ErrRefused.Error()) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	other := newAuthority(t)
	_, err = Join(t.Context(), url, invite(t, other, "plant"), keyText(t))
	if err == nil || strings.Contains(err.Error(), "403") {
		t.Errorf("a hub that is not the token's: got %v, want no answer from it", err)
	}
	if open, err := other.Invites(); err != nil || len(open) != 1 {
		t.Errorf("its token was used: %v, %v", open, err)
	}
	for _, text := range []string{"", "site1-", "site1-AAAA", "site2-" + strings.Repeat("A", 64), invite(t, a, "x").Reveal()[:40]} {
		if _, err := ParseToken(text); err == nil {
			t.Errorf("ParseToken(%q) takes it", text)
		}
	}
	tok := invite(t, a, "x")
	if back, err := ParseToken(" " + tok.Reveal() + "\n"); err != nil || back != tok {
		t.Errorf("a token does not survive its text: %v", err)
	}
	if strings.Contains(tok.String(), tok.Reveal()[8:]) {
		t.Error("String shows the token")
	}
}

// TestSecrets: the directory keeps no token, and lets nobody else read its keys.
func TestSecrets(t *testing.T) {
	a := newAuthority(t)
	_, url := newHub(t, a)
	tok := invite(t, a, "plant")
	joined(t, url, tok)
	err := filepath.WalkDir(a.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(tok.Reveal()[6:20])) {
			t.Errorf("%s has the token", path)
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte("PRIVATE KEY")) && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v", path, st.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOnce: of many that come with one token at once, one gets a certificate.
func TestOnce(t *testing.T) {
	a := newAuthority(t)
	tok := invite(t, a, "plant")
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 16 {
		wg.Go(func() {
			key, err := keyOf(keyText(t))
			if err != nil {
				t.Error(err)
				return
			}
			req, err := newRequest(key)
			if err != nil {
				t.Error(err)
				return
			}
			if _, _, err := a.Join(tok, req); err == nil {
				mu.Lock()
				got++
				mu.Unlock()
			} else if !errors.Is(err, ErrRefused) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got != 1 {
		t.Errorf("%d certificates for one token", got)
	}
}

func TestRenewAndRevoke(t *testing.T) {
	a := newAuthority(t)
	_, url := newHub(t, a)
	j := joined(t, url, invite(t, a, "plant"))
	file := filepath.Join(t.TempDir(), "hq.pem")
	if err := os.WriteFile(file, j.Pair, 0o600); err != nil {
		t.Fatal(err)
	}
	renew := func() error {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(j.Authority)
		own, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			t.Fatal(err)
		}
		return RenewFile(t.Context(), file, url, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}})
	}
	if until, due, err := Due(file); due || err != nil || time.Until(until) < 80*24*time.Hour {
		t.Errorf("a fresh certificate: until %v, due %v, %v", until, due, err)
	}
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(text, text); err != nil || bytes.Equal(text, j.Pair) {
		t.Fatalf("renewed: %v", err)
	}
	if site, err := a.Check(leaf(t, text)); site != "plant" || err != nil {
		t.Errorf("Check of the new one: %q, %v", site, err)
	}
	// Another process opens the same directory and revokes.
	other, err := Open(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err := other.Revoke("plant"); c != 2 || err != nil {
		t.Errorf("Revoke: %d, %v, want both", c, err)
	}
	for _, pem := range [][]byte{j.Pair, text} {
		if _, err := a.Check(leaf(t, pem)); !errors.Is(err, ErrRevoked) {
			t.Errorf("Check of a revoked one: got %v", err)
		}
	}
	if err := renew(); !refused(err, http.StatusForbidden) {
		t.Errorf("a revoked one is renewed: %v", err)
	}
	if text2, _ := os.ReadFile(file); !bytes.Equal(text, text2) {
		t.Error("a refused renewal changed the file")
	}
}

// TestForeign: certificates of other authorities, also of the same name, are not
// known, and neither is one that the directory has no record of.
func TestForeign(t *testing.T) {
	a, twin := newAuthority(t), newAuthority(t) // of the same name
	_, url := newHub(t, twin)
	c := leaf(t, joined(t, url, invite(t, twin, "plant")).Pair)
	if _, err := a.Check(c); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
	if err := os.Remove(twin.issuedFile(serialOf(c))); err != nil {
		t.Fatal(err)
	}
	if _, err := twin.Check(c); !errors.Is(err, ErrRevoked) {
		t.Errorf("without a record: got %v, want ErrRevoked", err)
	}
}

// TestServer: the certificate of the listener is kept while it has the hosts and
// life, and keeps the hosts that it had.
func TestServer(t *testing.T) {
	a := newAuthority(t)
	step := func(want bool, hosts ...string) {
		t.Helper()
		if made, err := a.Server(hosts); made != want || err != nil {
			t.Fatalf("Server(%v): got %v, %v, want %v", hosts, made, err, want)
		}
	}
	step(false)
	step(true, "hq.example")
	step(false, "hq.example")
	step(true, "10.0.0.1")
	step(false, "10.0.0.1", "hq.example")
	a.now = func() time.Time { return time.Now().Add(250 * 24 * time.Hour) }
	step(true)
	text, err := os.ReadFile(filepath.Join(a.dir, ServerFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := hostsOf(leaf(t, text)); strings.Join(got, " ") != "hq.example 10.0.0.1" {
		t.Errorf("hosts %v", got)
	}
}

// TestHostile: what else can come to a hub.
func TestHostile(t *testing.T) {
	a := newAuthority(t)
	hub := &Hub{Authority: a, Name: "hq", Routes: func(string) []string { return nil }}
	tok := invite(t, a, "plant").Reveal()
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"empty":           {"", http.StatusBadRequest},
		"no JSON":         {"<x/>", http.StatusBadRequest},
		"no token":        {"{}", http.StatusForbidden},
		"traversal":       {`{"token":"../../ca"}`, http.StatusForbidden},
		"no request":      {`{"token":"` + tok + `"}`, http.StatusBadRequest},
		"no PEM":          {`{"token":"` + tok + `","request":"x"}`, http.StatusBadRequest},
		"a certificate":   {`{"token":"` + tok + `","request":"` + strings.ReplaceAll(string(a.Certificate()), "\n", `\n`) + `"}`, http.StatusBadRequest},
		"much":            {`{"token":"` + strings.Repeat("x", messageMost) + `"}`, http.StatusRequestEntityTooLarge},
		"signature wrong": {`{"token":"` + tok + `","request":"` + strings.ReplaceAll(forged(t), "\n", `\n`) + `"}`, http.StatusBadRequest},
	} {
		an, err := hub.Join(strings.NewReader(c.body))
		if an.Status != c.status || err == nil {
			t.Errorf("%s: got %d, %v, want %d", name, an.Status, err, c.status)
		}
		if bytes.Contains(an.Body, []byte(a.dir)) || bytes.Contains(an.Body, []byte(tok)) {
			t.Errorf("%s: the answer tells too much: %s", name, an.Body)
		}
	}
	if open, err := a.Invites(); err != nil || len(open) != 1 {
		t.Errorf("the invitation is gone: %v, %v", open, err)
	}
	if an, _ := hub.Join(io.MultiReader(strings.NewReader("{"), errReader{})); an.Status != http.StatusBadRequest {
		t.Errorf("broken off: got %d", an.Status)
	}
	for range triesMost {
		_, _ = hub.Join(strings.NewReader(`{"token":"x"}`))
	}
	if an, _ := hub.Join(strings.NewReader(`{"token":"x"}`)); an.Status != http.StatusTooManyRequests {
		t.Errorf("after many tries: got %d, want 429", an.Status)
	}
	if an, _ := hub.Renew(nil, strings.NewReader("{}")); an.Status != http.StatusForbidden {
		t.Errorf("Renew without a certificate: got %d", an.Status)
	}
}

// forged is a request whose signature is not right.
func forged(t *testing.T) string {
	t.Helper()
	key, err := keyOf(keyText(t))
	if err != nil {
		t.Fatal(err)
	}
	req, err := newRequest(key)
	if err != nil {
		t.Fatal(err)
	}
	b := blockOf(req, "CERTIFICATE REQUEST")
	b[len(b)-1] ^= 1
	return strings.ReplaceAll(string(pemOf(b)), "CERTIFICATE", "CERTIFICATE REQUEST")
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestAddresses(t *testing.T) {
	for _, base := range []string{"", "hq:8443", "http://hq:8443", "https://", "https://hq/x", "https://u:p@hq", "https://hq?x", "://"} {
		if _, err := hubURL(base, JoinPath); err == nil {
			t.Errorf("hubURL(%q) takes it", base)
		}
	}
	for _, base := range []string{"https://hq", "https://hq:8443/"} {
		if _, err := hubURL(base, JoinPath); err != nil {
			t.Errorf("hubURL(%q): %v", base, err)
		}
	}
}

// TestDue: a certificate of which less than a third is left is due, and a file that
// has none is an error.
func TestDue(t *testing.T) {
	a := newAuthority(t)
	a.now = func() time.Time { return time.Now().Add(-70 * 24 * time.Hour) } // long ago
	key, err := keyOf(keyText(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.signSite("plant", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hq.pem")
	if err := os.WriteFile(file, pemOf(c.Raw), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, due, err := Due(file); !due || err != nil {
		t.Errorf("after 70 of 90 days: due %v, %v", due, err)
	}
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Due(file); err == nil {
		t.Error("a damaged file is taken")
	}
}

// TestElsewhere: a site that does not know the path is told apart from one that refuses.
func TestElsewhere(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "hq.pem")
	if err := RenewFile(t.Context(), file, srv.URL, srv.Client().Transport.(*http.Transport).TLSClientConfig); !errors.Is(err, ErrElsewhere) {
		t.Errorf("got %v, want ErrElsewhere", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was written")
	}
}
