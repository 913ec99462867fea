package uitest

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
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
	g := run(t, fmt.Sprintf(`
backends:
  erp: {nodes: ["%s/orders"]}
  billing: {nodes: ["http://127.0.0.1:1/bills", "http://127.0.0.1:2/bills"]}
routes:
  - {name: orders, match: {path: /orders}, backend: erp, delivery: queue, order_by: "http:X-Customer", retry: {expire: 5d}}
  - {name: invoices, match: {path: /invoices, operation: "{urn:orders}PlaceOrder"}, backend: billing, delivery: queue, dedup: {}}
  - {name: quotes, match: {path: /quotes/*}, to: ["%s/quotes"]}
  - {name: echo, match: {path: /echo}, to: ["builtin:echo"]}
`, backend.URL, backend.URL))
	for i := range 60 {
		g.send(t, "/echo", order(fmt.Sprint("item ", i)))
		g.send(t, "/quotes/x", order(fmt.Sprint("item ", i)))
	}
	g.sendAll(t, "/orders", 7, func(i int) string { return order(fmt.Sprint("poison ", i)) })
	g.sendAll(t, "/invoices", 140, func(i int) string { return order(fmt.Sprint("item ", i)) })
	g.send(t, "/quotes/x", "<no envelope/>")

	b := open(t, g.admin)
	b.do(chromedp.Navigate(g.admin + "/"))
	b.sees("7 dead letters")
	b.sees("Backend billing")
	pages := []struct{ name, hash, sees string }{
		{"overview", "#/", "Needs attention"},
		{"queues", "#/queues", "invoices"},
		{"queue", "#/queues/invoices", "Messages 1 to 100 of 140."},
		{"dead", "#/queues/orders?state=dead", "7 messages."},
		{"message", "", "Why it is here"},
		{"routes", "#/routes", "quotes"},
		{"backends", "#/backends", "gets messages"},
		{"events", "#/events", "dead letter"},
		{"config", "#/config", "X-Customer"},
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
				b.looks(fmt.Sprintf("%s-%d-%s", p.name, size.wide, shade))
			}
		}
	}
}
