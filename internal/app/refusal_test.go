package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"soapway/config"
)

// TestRefusals: what only the parts find wrong is told at its key, without the
// names of their options.
func TestRefusals(t *testing.T) {
	cfg := load(t, head+`
routes:
  - {name: first, match: {path: /a}, to: ["builtin:echo"]}
  - {name: second, match: {path: /b}, to: ["builtin:echo"]}
`)
	cfg.Routes[1].Match.Path = config.PathPattern{Path: "/a/.."}
	cfg.Routes[1].Methods = []string{"G T"}
	cfg.Listeners[1].Length = 3
	err := Check(cfg)
	problems, ok := err.(config.Problems)
	if !ok {
		t.Fatalf("Check: got %v, want problems", err)
	}
	var keys strings.Builder
	for _, p := range problems {
		keys.WriteString(p.Key + " ")
		if p.Line == 0 || strings.Contains(p.String(), "option") || strings.Contains(p.String(), "proxy:") || strings.Contains(p.String(), "\n") {
			t.Errorf("got %q, want a place and a text without options", p)
		}
	}
	if keys.String() != "routes.second routes.second listeners.plant " {
		t.Errorf("got problems at %s\n%v", keys.String(), err)
	}
}

// TestQueueWait: while all connections of a backend are in use a message waits
// queue_wait for one, and gets 503 then.
func TestQueueWait(t *testing.T) {
	for _, tt := range []struct {
		wait        string
		least, most time.Duration
	}{{"20ms", 15 * time.Millisecond, 2 * time.Second}, {"300ms", 290 * time.Millisecond, 3 * time.Second}} {
		t.Run(tt.wait, func(t *testing.T) {
			hold := make(chan struct{})
			slow := newBackend(t, "slow", hold)
			g := start(t, head+`
backends: {slow: {nodes: ["`+slow.URL+`"], max_connections: 1, queue_wait: `+tt.wait+`}}
routes: [{name: slow, backend: slow}]
`)
			client := &http.Client{Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			first := make(chan int)
			go func() {
				status, _ := g.post(client, "/")
				first <- status
			}()
			<-slow.arrived
			began := time.Now()
			status, body := g.post(client, "/")
			if took := time.Since(began); status != 503 || took < tt.least || took > tt.most {
				t.Errorf("with the connection in use: got %d after %v: %s", status, took, body)
			}
			hold <- struct{}{}
			if status := <-first; status != 200 {
				t.Errorf("the first: got %d", status)
			}
			// Free again.
			go func() { hold <- struct{}{} }()
			if status, body := g.post(client, "/"); status != 200 {
				t.Errorf("afterwards: got %d: %s", status, body)
			}
		})
	}
	t.Run("in time", func(t *testing.T) {
		hold := make(chan struct{})
		slow := newBackend(t, "slow", hold)
		g := start(t, head+`
backends: {slow: {nodes: ["`+slow.URL+`"], max_connections: 1, queue_wait: 20s, connect_timeout: 20s}}
routes: [{name: slow, backend: slow}]
`)
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		statuses := make(chan int)
		for range 2 {
			go func() {
				status, _ := g.post(client, "/")
				statuses <- status
			}()
		}
		for range 2 {
			<-slow.arrived
			hold <- struct{}{}
			if status := <-statuses; status != 200 {
				t.Errorf("got %d, want 200 for both", status)
			}
		}
	})
}
