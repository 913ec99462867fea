package upstream

import (
	"sync/atomic"
	"testing"
)

// A node that knows a connection by what was proved on it (NTLM) must not take the
// next caller for that one.
func TestHTTPProvenConnection(t *testing.T) {
	for authorization, shared := range map[string]bool{
		"": true, "Basic bWU6aXQ=": true, "Bearer ntlm": true, "NTLMx y": true,
		"NTLM TlRMTVNTUAAD": false, "ntlm TlRMTVNTUAAD": false, "Negotiate YIIZ": false, " negotiate YIIZ": false, "NTLM": false,
	} {
		for _, answer := range []string{okReply, "HTTP/1.1 204 No Content\r\n\r\n"} {
			t.Run(authorization, func(t *testing.T) {
				noLeaks(t)
				var conns atomic.Int64
				addr := node(t, func(p *peer) {
					conns.Add(1)
					for r, _ := p.request(); r != nil; r, _ = p.request() {
						p.send(answer)
					}
				})
				n := newHTTP(t, HTTPOptions{URL: "http://" + addr})
				for _, value := range []string{"", authorization, "", ""} {
					req := request("<x/>")
					if value != "" {
						req.Header.Set("Authorization", value)
					}
					resp, err := n.Send(t.Context(), req)
					if err != nil {
						t.Fatal(err)
					}
					body(t, resp)
				}
				want := int64(2)
				if shared {
					want = 1
				}
				if got := conns.Load(); got != want {
					t.Errorf("connections: got %d, want %d", got, want)
				}
			})
		}
	}
}
