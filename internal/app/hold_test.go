package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSyncThenQueue: the caller has the backend's answer while there is a
// backend, and a receipt when there is none.
func TestSyncThenQueue(t *testing.T) {
	b := newTaker(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, envelope)
	})
	addr := b.Listener.Addr().String()
	g := start(t, storeHead+fmt.Sprintf(`routes:
  - {name: orders, to: ["http://%s/in"], delivery: sync-then-queue, hold: 5s, retry: {initial: 20ms, max: 50ms}}
`, addr))
	if status, body := g.post(http.DefaultClient, "/"); status != 200 || body != envelope {
		t.Fatalf("with a backend: got %d %q", status, body)
	}
	b.Close()
	for range 3 {
		if status, body := g.post(http.DefaultClient, "/"); status != 202 || body != "" {
			t.Fatalf("without: got %d %q, want 202", status, body)
		}
	}
	g.eventually("the messages in the store", func() bool { return g.app.Queue().Waiting() == 3 })

	again := newTaker(t, nil)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the backend's address is taken by now: %v", err)
	}
	moved := &httptest.Server{Listener: ln, Config: &http.Server{Handler: again.Config.Handler}}
	moved.Start()
	defer moved.Close()
	g.eventually("the deliveries", func() bool { return len(again.taken()) == 3 })
	for _, m := range again.taken() {
		if m.body != envelope || m.header.Get("Gateway-Possible-Duplicate") != "" || !strings.HasPrefix(m.header.Get("Content-Type"), "text/xml") {
			t.Errorf("got %v %q", m.header, m.body)
		}
	}
}
