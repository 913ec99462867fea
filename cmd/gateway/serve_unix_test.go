//go:build !windows

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

// TestSignals: the first SIGTERM lets an exchange finish, the second cuts it.
// Either way the gateway ends with success.
func TestSignals(t *testing.T) {
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprintf("second=%v", second), func(t *testing.T) {
			arrived, answer := make(chan struct{}), make(chan struct{})
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(arrived)
				select {
				case <-answer:
				case <-r.Context().Done():
				}
				w.Header().Set("Content-Type", "text/xml")
				_, _ = io.WriteString(w, hello11)
			}))
			defer backend.Close()
			p := serve(t, binaryName, strings.Replace(smallest, "builtin:echo", backend.URL, 1)+"drain: 1h\n", "--json")
			status := make(chan int, 1)
			go func() {
				resp, err := http.Post("http://"+p.ready.Listeners[0].Address+"/", "text/xml", strings.NewReader(hello11))
				if err != nil {
					status <- 0
					return
				}
				resp.Body.Close()
				status <- resp.StatusCode
			}()
			<-arrived
			signal := func(log string) {
				t.Helper()
				if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if err := p.log.await(p, func(s string) bool { return strings.Contains(s, log) }); err != nil {
					t.Fatal(err)
				}
			}
			signal("draining")
			if second {
				signal("second signal")
			} else {
				close(answer)
			}
			if code, err := p.wait(); err != nil || code != 0 {
				t.Errorf("exit code %d, %v; log:\n%s", code, err, p.log)
			}
			if got := <-status; (got == 200) == second {
				t.Errorf("the exchange under way got %d", got)
			}
		})
	}
}
