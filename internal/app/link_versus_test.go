package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"soapway/queue"
)

// BenchmarkVersusLink sets how fast a backlog drains over a link, through the store of
// another gateway, to a backend beside how fast the same backlog drains to that backend
// from a queue of its own, by turns in one run. Each iteration is one turn of both;
// the figures are medians, and x-local is the median of the ratios.
//
//	go test ./internal/app -run '^$' -bench VersusLink -benchtime 7x
func BenchmarkVersusLink(b *testing.B) {
	if err := queue.CheckDir(b.TempDir(), queue.Strict); err != nil {
		b.Skip(err)
	}
	for _, c := range []struct{ messages, keys, size int }{{4000, 100, 2 << 10}, {4000, 0, 2 << 10}, {2000, 4, 2 << 10}, {1000, 100, 32 << 10}} {
		b.Run(fmt.Sprintf("keys=%d/size=%d", c.keys, c.size), func(b *testing.B) { versusLink(b, c.messages, c.keys, c.size) })
	}
}

// sitePair is a plant with a link to hq, and a backend for both.
type sitePair struct {
	plant, hq *gateway
	client    *http.Client
	node      *httptest.Server
	came      map[string]*atomic.Int64 // by path
}

func newSitePair(b *testing.B) *sitePair {
	p := &sitePair{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}, came: map[string]*atomic.Int64{"/orders": {}, "/local": {}}}
	p.node = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
		p.came[r.URL.Path].Add(1)
	}))
	b.Cleanup(p.node.Close)
	a := newAuthority(b)
	for i, name := range []string{"hq", "plant"} {
		a.issue(name, int64(2+i), time.Now().Add(time.Hour))
	}
	file := func(name string) string { return strconv.Quote(filepath.Join(a.dir, name)) }
	const common = "admin: {address: \"127.0.0.1:0\"}\nstore: {dir: %q, min_free: 16MiB}\n"
	p.hq = launch(b, fmt.Sprintf(common+`
listeners: [{name: sites, address: "127.0.0.1:0", tls: {certificate: %s, key: %s, client_ca: %s, client_auth: request}}]
sites: {name: hq, accept: [{name: plant, subjects: ["CN=plant,O=Example"], routes: [orders]}]}
routes: [{name: orders, match: {path: /orders}, to: ["%s/orders"], delivery: queue, order_by: "http:X-Key"}]
`, b.TempDir(), file("hq.pem"), file("hq.key"), file("ca.pem"), p.node.URL))
	p.plant = launch(b, fmt.Sprintf(common+`
listeners: [{name: web, address: "127.0.0.1:0"}]
sites: {name: plant, links: [{name: hq, url: "https://%s", certificate: %s, key: %s, ca: %s}]}
routes:
  - {name: orders, match: {path: /orders}, to: ["site:hq/orders"], delivery: queue, order_by: "http:X-Key"}
  - {name: local, match: {path: /local}, to: ["%s/local"], delivery: queue, order_by: "http:X-Key"}
`, b.TempDir(), p.hq.addr("sites"), file("plant.pem"), file("plant.key"), file("ca.pem"), p.node.URL))
	b.Cleanup(func() {
		p.client.CloseIdleConnections()
		p.plant.end()
		p.hq.end()
	})
	return p
}

// drain fills the queue of a route and returns how many a second then reach the backend.
func (p *sitePair) drain(b *testing.B, route string, messages, keys int, text []byte) float64 {
	q := p.plant.app.depot.present.Load().queue
	if err := q.Hold(b.Context(), route); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(messages); n = next.Add(1) {
				p.post(b, "/"+route, n, keys, text)
			}
		})
	}
	wg.Wait()
	path := p.came["/"+route]
	want := path.Load() + int64(messages)
	began := time.Now()
	if err := q.Release(b.Context(), route); err != nil {
		b.Fatal(err)
	}
	for path.Load() < want {
		if time.Since(began) > 2*time.Minute {
			b.Fatalf("%d of %d messages have come to %s", int64(messages)-want+path.Load(), messages, route)
		}
		<-time.After(time.Millisecond)
	}
	rate := float64(messages) / time.Since(began).Seconds()
	p.plant.eventually("an empty queue", func() bool { return q.Waiting() == 0 })
	return rate
}

func (p *sitePair) post(b *testing.B, path string, n int64, keys int, text []byte) {
	body := fmt.Sprintf(`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><t:Order xmlns:t="urn:test"><t:N>%d</t:N><t:Text>%s</t:Text></t:Order></e:Body></e:Envelope>`, n, text)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+p.plant.addr("web")+path, strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	r.Header.Set("Content-Type", "text/xml; charset=utf-8")
	if keys > 0 {
		r.Header.Set("X-Key", strconv.FormatInt(n%int64(keys), 10))
	} else {
		r.Header.Set("X-Key", strconv.FormatInt(n, 10))
	}
	resp, err := p.client.Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		b.Errorf("POST %s: status %d", path, resp.StatusCode)
	}
}

func versusLink(b *testing.B, messages, keys, size int) {
	p := newSitePair(b)
	var text bytes.Buffer
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "line %d of a lot of text; ", i*7919%10007)
	}
	var link, local, ratio []float64
	for b.Loop() {
		over := p.drain(b, "orders", messages, keys, text.Bytes())
		own := p.drain(b, "local", messages, keys, text.Bytes())
		link, local, ratio = append(link, over), append(local, own), append(ratio, over/own)
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(link), "link/s")
	b.ReportMetric(median(local), "local/s")
	b.ReportMetric(median(ratio), "x-local")
}
