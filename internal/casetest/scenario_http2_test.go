package casetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// http2Client speaks HTTP/2 by prior knowledge and nothing else.
func http2Client(t testing.TB) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// TestHTTP2Callers: an exchange over HTTP/2 is one over HTTP/1.1, with either
// engine beside it: the same octets, fields, answers and faults.
func TestHTTP2Callers(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, preamble+`
listeners:
  - {name: fast, address: "127.0.0.1:0", h2c: true}
  - {name: std, address: "127.0.0.1:0", h2c: true, engine: std}
routes:
  - {name: depot, match: {path: /depot/*}, to: ["http://`+b.addr+`"], timeout: 5s}
  - {name: small, match: {path: /small}, to: ["builtin:echo"], limits: {max_message: 1KiB, header_bytes: 1KiB}}
`, b)
	msg := envelope("1.1", `<t:op xmlns:t="urn:test">é</t:op>`)
	reply := envelope("1.1", `<r:ok xmlns:r="urn:r"/>`)
	for _, engine := range []string{"fast", "std"} {
		t.Run(engine, func(t *testing.T) {
			c := http2Client(t)
			send := func(target string, body []byte, more ...string) (*http.Response, string) {
				t.Helper()
				req, err := http.NewRequest("POST", "http://"+g.addr[engine]+target, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = http.Header{"Content-Type": {"text/xml; charset=utf-8"}, "Soapaction": {`"urn:op"`}}
				for i := 0; i < len(more); i += 2 {
					req.Header.Set(more[i], more[i+1])
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				if err != nil || resp.ProtoMajor != 2 {
					t.Fatalf("got %s, %v", resp.Proto, err)
				}
				return resp, string(answer)
			}
			b.reset()
			b.answerWith(response(200, fields{{"Content-Type", "text/xml"}, {"X-Node", "1"}, {"Connection", "keep-alive"}}, reply))
			resp, answer := send("/depot/parcel?a=%2F", msg, "X-Own", "kept", "Te", "trailers")
			got := b.got()
			if len(got) != 1 || !bytes.Equal(got[0].Body, msg) || got[0].Line != "POST /parcel?a=%2F HTTP/1.1" {
				t.Fatalf("the node got %s", describe(joined(got)))
			}
			f := got[0].Fields
			for name, want := range map[string]string{"Host": b.addr, "X-Own": "kept", "SOAPAction": `"urn:op"`, "Via": "1.1 gateway", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": g.addr[engine], "Content-Length": fmt.Sprint(len(msg))} {
				if f.get(name) != want {
					t.Errorf("the node got %s: %q, want %q", name, f.get(name), want)
				}
			}
			if f.has("Te") || f.has("Transfer-Encoding") || strings.Contains(string(got[0].Raw), "\r\n:") {
				t.Errorf("the node got %s", got[0].Raw)
			}
			if resp.StatusCode != 200 || answer != string(reply) || resp.Header.Get("X-Node") != "1" || resp.Header.Get("Connection") != "" {
				t.Errorf("got %s %v %q", resp.Status, resp.Header, answer)
			}

			for _, tt := range []struct {
				target string
				body   []byte
				more   []string
				status int
				text   string
			}{
				{"/none", msg, nil, 404, ""},
				{"/_gateway/x", msg, nil, 404, ""},
				{"/.well-known/acme-challenge/x", msg, nil, 404, ""},
				{"/small", msg, nil, 200, string(msg)},
				{"/small", msg, []string{"X-Large", strings.Repeat("x", 2000)}, 431, ""},
				{"/small", envelope("1.1", strings.Repeat("x", 2000)), nil, 413, ""},
				{"/small", []byte("no XML"), nil, 500, "Client"},
				{"/small", msg, []string{"Content-Type", "text/plain"}, 415, ""},
			} {
				resp, answer := send(tt.target, tt.body, tt.more...)
				if resp.StatusCode != tt.status || tt.text == "" && answer != "" || !strings.Contains(answer, tt.text) {
					t.Errorf("%s %.40q: got %s %q, want %d", tt.target, tt.body, resp.Status, answer, tt.status)
				}
			}

			// A large body streams both ways.
			large := envelope("1.1", "<x>"+strings.Repeat("0123456789abcdef", 1<<18)+"</x>")
			b.reset()
			b.do(func(p *peer, c *call) { _, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, c.Body)) })
			if _, answer := send("/depot/large", large); answer != string(large) {
				t.Errorf("large: got %d octets, want %d", len(answer), len(large))
			}

			// The caller's leaving ends the call to the node.
			b.reset()
			left := make(chan bool, 1)
			began := make(chan bool, 1)
			b.do(func(p *peer, _ *call) {
				began <- true
				_, err := p.Read(make([]byte, 1))
				left <- err != nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+g.addr[engine]+"/depot/slow", bytes.NewReader(msg))
			req.Header.Set("Content-Type", "text/xml")
			go func() { <-began; cancel() }()
			if _, err := c.Do(req); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
			select {
			case ended := <-left:
				if !ended {
					t.Error("the node got more octets")
				}
			case <-time.After(3 * time.Second): // less than the route's timeout
				t.Error("the node still has its connection")
			}
		})
	}
}
