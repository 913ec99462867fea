package casetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAlerts: a dead letter and a backend that is down are told once, over a restart,
// and once when they are over (issue 10; the document is that of docs/operations.md).
func TestAlerts(t *testing.T) {
	var mu sync.Mutex
	var told []string
	refuse := 2 // the first notices are not taken, and come again
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		var n struct {
			Version int
			ID      string
			Time    time.Time
			Alerts  []struct {
				Kind, Subject, State, Text string
				Since, Ended               time.Time
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil || n.Version != 1 || n.ID != r.Header.Get("Idempotency-Key") || n.ID == "" {
			t.Errorf("notice %+v, %v", n, err)
		}
		for _, a := range n.Alerts {
			told = append(told, a.Kind+" "+a.Subject+" "+a.State)
			if a.Text == "" || a.Since.IsZero() || (a.State == "closed") != !a.Ended.IsZero() {
				t.Errorf("alarm %+v", a)
			}
		}
	}))
	defer hook.Close()
	has := func(what string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(strings.Join(told, "\n"), what)
		}
	}
	addr := refusedAddr(t)
	cfg := fmt.Sprintf("alerts: {webhook: %q}\n", hook.URL) + queueConfig(`{name: poison, match: {path: /poison}, to: ["builtin:page"], delivery: queue}`, ordersRoute(addr, quick))
	g := start(t, cfg)
	id := stored(t, g, "/poison", numbered(1))
	stored(t, g, "/orders", numbered(2))
	for _, what := range []string{"dead-letters poison open", "circuit-open orders open"} {
		if !eventually(patience, has(what)) {
			t.Fatalf("told %q, and not %s", told, what)
		}
	}
	term(t, g)
	b := listenAt(t, addr)
	next := startAgain(t, g, cfg, b)
	req, err := http.NewRequest(http.MethodDelete, "http://"+next.admin+"/api/v1/messages/"+id, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(patience, func() bool {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	}) {
		t.Fatal("the dead letter was not dropped")
	}
	for _, what := range []string{"dead-letters poison closed", "circuit-open orders closed"} {
		if !eventually(2*time.Minute, has(what)) { // 30 s after it is over
			t.Fatalf("told %q, and not %s", told, what)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 4 {
		t.Errorf("told %q, want each once", told)
	}
}
