package app

import (
	"fmt"
	"io"
	"net/http"
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
	yaml := func(to string) string {
		return storeHead + fmt.Sprintf("routes:\n  - {name: orders, to: [%q], delivery: sync-then-queue, hold: 5s, retry: {initial: 20ms, max: 50ms}}\n", to+"/in")
	}
	g := start(t, yaml(b.URL))
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
	write(t, g.file, yaml(again.URL))
	if err := g.app.Reload(); err != nil {
		t.Fatal(err)
	}
	g.eventually("the deliveries", func() bool { return len(again.taken()) == 3 })
	for _, m := range again.taken() {
		if m.body != envelope || m.header.Get("Gateway-Possible-Duplicate") != "" || !strings.HasPrefix(m.header.Get("Content-Type"), "text/xml") {
			t.Errorf("got %v %q", m.header, m.body)
		}
	}
}
