package uitest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestPoison is the day of an operator: a backend is down, 1,000 messages wait, and
// one of them is poison. Through the dashboard alone she sees what is the matter,
// finds the poison letter, reads the fault, drops it, resumes, and watches the queue
// drain; the page is never loaded again.
func TestPoison(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close() // nobody is there

	g := run(t, fmt.Sprintf(`
backends: {erp: {nodes: ["http://%s/orders"], probe: {initial: 200ms, max: 500ms}}}
routes: [{name: orders, match: {path: /orders}, backend: erp, delivery: queue, order_by: route, on_dead: stop}]
`, address))
	g.send(t, "/orders", order("poison"))
	g.sendAll(t, "/orders", 999, func(i int) string { return order(fmt.Sprint("item ", i)) })

	b := open(t, g.admin)
	b.do(chromedp.Navigate(g.admin + "/"))
	b.until("window.sameDocument = true")
	b.sees("Needs attention")
	b.until(`document.querySelector(".attention").innerText.includes("Backend erp")`)
	b.until(`[...document.querySelectorAll(".tile")].some((t) => t.innerText.includes("stored messages") && t.innerText.includes("1,000"))`)
	b.click("Queues")
	b.sees("those that need a decision")
	b.click("orders")
	b.click("Pause")
	b.sees("Pause orders?")
	b.click("Pause")
	b.sees("orders is paused.")

	// The backend is back, and knows one thing that it will not have.
	var got atomic.Int64
	ln, err = net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	slow := make(chan time.Time)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		if strings.Contains(string(body), "poison") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, fault("item poison is not for sale"))
			return
		}
		<-slow // so that a queue can be watched
		got.Add(1)
		_, _ = io.WriteString(w, order("thanks"))
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	pace := time.NewTicker(2 * time.Millisecond)
	halt := make(chan struct{})
	go func() {
		for {
			select {
			case at := <-pace.C:
				select {
				case slow <- at:
				case <-halt:
					return
				}
			case <-halt:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(halt)
		pace.Stop()
		_ = srv.Close()
		<-served
	})

	// With the route resumed the poison dies, and its key stands still for it.
	b.click("Resume")
	b.sees("orders is resumed.")
	b.until(`document.querySelector("[data-state=dead]").innerText.includes("1")`)
	b.click("Pause")
	b.sees("Pause orders?")
	b.click("Pause")
	b.press(`document.querySelector("[data-state=dead]")`)
	b.sees("stops its key")
	b.press(`document.querySelector(".messages tbody th a")`)
	b.sees("Why it is here")
	b.sees("item poison is not for sale")
	b.sees(`quantity="3"`)
	if n := got.Load(); n != 0 {
		t.Fatalf("%d messages went before the one that stops them", n)
	}
	b.click("Drop")
	b.sees("Drop this message?")
	b.click("Drop")
	b.sees("The message is dropped.")
	b.sees("No dead letters")
	b.click("Resume")

	// The drain, as it is shown.
	waiting := `Number(document.querySelector("[data-state=all] .tab-count").innerText.replaceAll(",", ""))`
	seen := map[int]bool{}
	last := 1000
	eventually(t, "the queue is empty on the page", func() bool {
		n := value[int](b, waiting)
		if n > last {
			t.Errorf("the page went from %d waiting messages to %d", last, n)
		}
		last = n
		seen[n] = true
		return n == 0
	})
	if len(seen) < 3 {
		t.Errorf("the drain was shown in %d steps, want some in between", len(seen))
	}
	if n := got.Load(); n != 999 {
		t.Errorf("the backend got %d messages, want 999", n)
	}
	b.click("Overview")
	b.sees("All is well")
	b.click("Events")
	b.sees("backend is back")
	b.sees("dead letter")
	if !value[bool](b, "window.sameDocument === true") {
		t.Error("the page was loaded again")
	}
}
