package uitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"soapway/bench"
)

var pictures = flag.String("pictures", "", "`folder` for pictures of every page, to be looked at")

// TestPictures takes pictures of every page, wide, narrow, light and dark. At every
// width no page may be wider than the window.
func TestPictures(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		if strings.Contains(string(body), "poison") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, fault("item 4711 is unknown in warehouse 12"))
			return
		}
		_, _ = io.WriteString(w, order("thanks"))
	}))
	defer backend.Close()
	dir := t.TempDir()
	id := keepReport(t, filepath.Join(dir, "data", "selftest"))
	pair := certificate(t, dir, 10*24*time.Hour)
	g := runIn(t, dir, fmt.Sprintf(`
sites:
  name: plant
  links: [{name: hq, url: "https://127.0.0.1:1", certificate: %[2]s, key: %[2]s, ca: %[2]s}]
  accept: [{name: branch, routes: [orders]}]
backends:
  erp: {nodes: ["%[1]s/orders"]}
  billing: {nodes: ["http://127.0.0.1:1/bills", "http://127.0.0.1:2/bills"]}
routes:
  - {name: orders, match: {path: /orders}, backend: erp, delivery: queue, order_by: "http:X-Customer", retry: {expire: 5d}}
  - {name: invoices, match: {path: /invoices, operation: "{urn:orders}PlaceOrder"}, backend: billing, delivery: queue, dedup: {}}
  - {name: quotes, match: {path: /quotes/*}, to: ["%[1]s/quotes"]}
  - {name: ledger, match: {path: /ledger}, to: ["site:hq/ledger"], delivery: queue}
  - {name: echo, match: {path: /echo}, to: ["builtin:echo"]}
`, backend.URL, pair))
	for i := range 60 {
		g.send(t, "/echo", order(fmt.Sprint("item ", i)))
		g.send(t, "/quotes/x", order(fmt.Sprint("item ", i)))
	}
	g.sendAll(t, "/orders", 7, func(i int) string { return order(fmt.Sprint("poison ", i)) })
	g.sendAll(t, "/ledger", 12, func(i int) string { return order(fmt.Sprint("entry ", i)) })
	g.sendAll(t, "/invoices", 140, func(i int) string { return order(fmt.Sprint("item ", i)) })
	g.send(t, "/quotes/x", "<no envelope/>")

	b := open(t, g.admin)
	b.do(chromedp.Navigate(g.admin + "/"))
	b.sees("7 dead letters")
	b.sees("Backend billing")
	pages := []struct{ name, hash, sees string }{
		{"overview", "#/", "Links to other sites"},
		{"queues", "#/queues", "invoices"},
		{"queue", "#/queues/invoices", "Messages 1 to 100 of 140."},
		{"dead", "#/queues/orders?state=dead", "7 messages."},
		{"message", "", "Why it is here"},
		{"routes", "#/routes", "quotes"},
		{"backends", "#/backends", "gets messages"},
		{"events", "#/events", "dead letter"},
		{"config", "#/config", "X-Customer"},
		{"selftest", "#/selftest", "It loads this machine."},
		{"report", "#/selftest/" + id, "Report of the self-test"},
	}
	for _, size := range []struct{ wide, high int64 }{{400, 860}, {1280, 860}, {3840, 2160}} {
		for _, dark := range []bool{false, true} {
			if dark && *pictures == "" {
				continue // it is as wide as in the light
			}
			b.dark(dark)
			b.do(chromedp.EmulateViewport(size.wide, size.high))
			for _, p := range pages {
				hash := p.hash
				if hash == "" {
					b.until(`document.querySelector(".messages tbody th a")`)
					hash = value[string](b, `document.querySelector(".messages tbody th a").hash`)
				}
				b.until(fmt.Sprintf("(location.hash = %q, true)", hash))
				b.sees(p.sees)
				if over := value[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
					t.Errorf("%s at %d: the page is %d px too wide", p.name, size.wide, over)
				}
				shade := "light"
				if dark {
					shade = "dark"
				}
				if *pictures != "" { // of the whole page, as far as somebody scrolls
					b.do(chromedp.EmulateViewport(size.wide, min(max(size.high, value[int64](b, "document.documentElement.scrollHeight")), 2600)))
					b.looks(fmt.Sprintf("%s-%d-%s", p.name, size.wide, shade))
					b.do(chromedp.EmulateViewport(size.wide, size.high))
				}
			}
		}
	}
}

// keepReport puts a report into the folder of the self-tests: the results of -results,
// if they are given.
func keepReport(t *testing.T, dir string) (id string) {
	t.Helper()
	r := sampleResults()
	if *results != "" {
		f, err := os.Open(*results)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if r, err = bench.ReadJSON(f); err != nil {
			t.Fatal(err)
		}
	}
	id = "20261130-081500-000-abcdef"
	own := filepath.Join(dir, id)
	text, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(own, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	meta := fmt.Appendf(nil, `{"id":%q,"test":"all","started":"2026-11-30T08:15:00Z","seconds":141.5,"result":"done","verdict":%q,"good":%t}`, id, r.Verdict, strings.HasPrefix(r.Verdict, "ok"))
	for name, b := range map[string][]byte{"report.json": meta, "results.json": text} {
		if err := os.WriteFile(filepath.Join(own, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// certificate makes a file with a certificate that vouches for itself, and its key.
func certificate(t *testing.T, dir string, life time.Duration) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plant"}, NotAfter: time.Now().Add(life), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "plant.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
