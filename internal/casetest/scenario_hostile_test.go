package casetest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNoMixUps: many callers at once, each gets the answer to its own message,
// also when answers are slow, and over every kind of node.
func TestNoMixUps(t *testing.T) {
	f := shared(t)
	f.http.do(func(p *peer, c *call) {
		if c.Conn%3 == 0 {
			pause(time.Millisecond)
		}
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, c.Body))
	})
	var wg sync.WaitGroup
	for worker := range 24 {
		target := []string{"/depot/x", "/f2", "/f4", "/echo"}[worker%4]
		wg.Go(func() {
			c := dial(t, f.g.addr["http"])
			defer c.Close()
			for i := range 60 {
				_ = c.SetDeadline(time.Now().Add(patience))
				msg := envelope("1.1", fmt.Sprintf("<w>%d</w><i>%d</i>%s", worker, i, strings.Repeat("<x/>", (worker*i)%700)))
				_ = c.send(request(target, typed("1.1"), msg))
				if a := c.answer(); a.Status != 200 || !bytes.Equal(a.Body, msg) {
					t.Errorf("%s: worker %d, message %d got %s", target, worker, i, a)
					return
				}
			}
		})
	}
	for worker := range 8 {
		x := []struct {
			listener string
			size     int
		}{{"f2", 2}, {"f4", 4}, {"f4-f2", 4}, {"f2-f4", 2}}[worker%4]
		wg.Go(func() {
			c := dialFramed(t, f.g.addr[x.listener], x.size)
			defer c.Close()
			for i := range 60 {
				msg := envelope("1.1", fmt.Sprintf("<f>%d</f><i>%d</i>", worker, i))
				if _, err := c.Write(frame(x.size, msg)); err != nil {
					t.Errorf("framed worker %d: %v", worker, err)
					return
				}
				if got, err := c.next(); err != nil || !bytes.Equal(got, msg) {
					t.Errorf("framed worker %d, message %d got %q, %v", worker, i, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestPipelining: requests in one write are answered in order on HTTP/1.1.
func TestPipelining(t *testing.T) {
	f := shared(t)
	c := dial(t, f.g.addr["http"])
	var octets []byte
	for i := range 10 {
		octets = append(octets, request("/echo", typed("1.1"), envelope("1.1", fmt.Sprintf("<i>%d</i>", i)))...)
	}
	_ = c.send(octets)
	for i := range 10 {
		if a := c.answer(); a.Status != 200 || !bytes.Equal(a.Body, envelope("1.1", fmt.Sprintf("<i>%d</i>", i))) {
			t.Fatalf("answer %d: %s", i, a)
		}
	}
}

// TestConnectionClose and HTTP/1.0: the gateway closes when it must, and a
// refusal does not cost a connection whose request was read.
func TestConnectionClose(t *testing.T) {
	f := shared(t)
	c := dial(t, f.g.addr["http"])
	_ = c.send(closing(request("/echo", typed("1.1"), envelope("1.1", op))))
	if a := c.answer(); a.Status != 200 || !strings.EqualFold(a.Fields.get("Connection"), "close") {
		t.Errorf("got %s", a)
	}
	if !c.closes(5 * time.Second) {
		t.Error("still open")
	}
	c = dial(t, f.g.addr["http"])
	_ = c.send(bytes.Replace(request("/echo", typed("1.1"), envelope("1.1", op)), []byte("HTTP/1.1"), []byte("HTTP/1.0"), 1))
	if a := c.answer(); a.Status != 200 || !bytes.Equal(a.Body, envelope("1.1", op)) || a.Fields.has("Transfer-Encoding") {
		t.Errorf("HTTP/1.0: %s", a)
	}
	c = dial(t, f.g.addr["http"])
	for _, bad := range []string{"<a", "<a/>", "x", string(envelope("1.1", "<b>"))} {
		_ = c.send(request("/depot/x", typed("1.1"), []byte(bad)))
		if a := c.answer(); a.Status != 500 {
			t.Fatalf("%q: %s", bad, a)
		}
	}
	_ = c.send(request("/echo", typed("1.1"), envelope("1.1", op)))
	if a := c.answer(); a.Status != 200 {
		t.Errorf("after faults on the same connection: %s", a)
	}
}

// TestSmuggling is the table of request heads that must never be taken, nor
// leave a second request behind (RFC 9112 §11.2), on both engines.
func TestSmuggling(t *testing.T) {
	for _, listener := range []string{"http", "std"} {
		t.Run(listener, func(t *testing.T) { testSmuggling(t, listener) })
	}
}

func testSmuggling(t *testing.T, listener string) {
	f := shared(t)
	body := string(envelope("1.1", op))
	n := len(body)
	smuggled := "POST /depot/admin HTTP/1.1\r\nHost: gw\r\nContent-Length: 3\r\n\r\nabc"
	coded := string(chunked([]byte(body)))
	for name, octets := range map[string]string{
		"bare LF in the head":         "POST /depot/x HTTP/1.1\nHost: gw\nContent-Length: %d\n\n" + body,
		"CR inside a value":           "POST /depot/x HTTP/1.1\r\nHost: gw\r\nX-A: a\rContent-Length: 0\r\nContent-Length: %d\r\n\r\n" + body,
		"NUL inside a value":          "POST /depot/x HTTP/1.1\r\nHost: gw\r\nX-A: a\x00b\r\nContent-Length: %d\r\n\r\n" + body,
		"obs-fold":                    "POST /depot/x HTTP/1.1\r\nHost: gw\r\nX-A: a\r\n b\r\nContent-Length: %d\r\n\r\n" + body,
		"space before the colon":      "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length : %d\r\n\r\n" + body,
		"no name":                     "POST /depot/x HTTP/1.1\r\nHost: gw\r\n: x\r\nContent-Length: %d\r\n\r\n" + body,
		"no colon":                    "POST /depot/x HTTP/1.1\r\nHost: gw\r\nX-A\r\nContent-Length: %d\r\n\r\n" + body,
		"plus sign":                   "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: +%d\r\n\r\n" + body,
		"hexadecimal length":          "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 0x%x\r\n\r\n" + body,
		"length with a blank":         "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 1 %d\r\n\r\n" + body,
		"two lengths":                 "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 3\r\nContent-Length: %d\r\n\r\n" + body,
		"a huge length":               "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 184467440737095516%d\r\n\r\n" + body,
		"no host":                     "POST /depot/x HTTP/1.1\r\nContent-Length: %d\r\n\r\n" + body,
		"two hosts":                   "POST /depot/x HTTP/1.1\r\nHost: gw\r\nHost: other\r\nContent-Length: %d\r\n\r\n" + body,
		"chunked twice":               "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked, chunked\r\n\r\n" + coded,
		"chunked not last":            "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked, gzip\r\n\r\n" + coded,
		"unknown coding":              "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: xchunked\r\n\r\n" + coded,
		"vertical tab before chunked": "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: \x0bchunked\r\n\r\n" + coded,
		"two transfer codings":        "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + coded,
		"chunk size with a sign":      "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n+" + coded,
		"chunk size with 0x":          "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n0x" + coded,
		"a huge chunk":                "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + coded,
		"chunk that goes on":          "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Replace(coded, "\r\n0\r\n", "XX0\r\n", 1),
		"garbage line":                "\x16\x03\x01\x02\x00\r\n\r\n",
		"no version":                  "POST /depot/x\r\nHost: gw\r\nContent-Length: %d\r\n\r\n" + body,
		"HTTP/1.9 with blanks":        "POST  /depot/x  HTTP/1.1\r\nHost: gw\r\nContent-Length: %d\r\n\r\n" + body,
		"target with a blank":         "POST /depot/x y HTTP/1.1\r\nHost: gw\r\nContent-Length: %d\r\n\r\n" + body,
		"method with a control":       "PO\x01ST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: %d\r\n\r\n" + body,
		"length and chunked":          "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + coded,
		"chunked under HTTP/1.0":      "POST /depot/x HTTP/1.0\r\nHost: gw\r\nConnection: keep-alive\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" + body,
		"length list":                 "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: %[1]d, %[1]d\r\n\r\n" + body,
		"length with underscores":     "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent_Length: 3\r\nContent-Length: %d\r\n\r\n" + body,
		"tab before the colon":        "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding\t: chunked\r\n\r\n" + coded,
		"coding in quotes":            "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: \"chunked\"\r\n\r\n" + coded,
		"coding with a parameter":     "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked;q=1\r\n\r\n" + coded,
		"empty coding":                "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding:\r\n\r\n" + coded,
		"digits of another script":    "POST /depot/x HTTP/1.1\r\nHost: gw\r\nContent-Length: \u0663\r\n\r\n" + body,
		"LF before chunk data":        "POST /depot/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Replace(coded, "\r\n", "\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			f.http.reset()
			if strings.Contains(octets, "%d") || strings.Contains(octets, "%x") {
				octets = fmt.Sprintf(octets, n)
			}
			c := dial(t, f.g.addr[listener])
			_ = c.send([]byte(octets + smuggled))
			a := c.answer()
			lenient := name == "bare LF in the head" || name == "obs-fold" || name == "HTTP/1.9 with blanks"
			// net/http reads these by their coding, or their length, and both ends agree on what is next.
			agreed := name == "length with underscores" || listener == "std" && (name == "length and chunked" || name == "chunked under HTTP/1.0")
			switch {
			case a.Err != nil && len(a.Raw) == 0: // closed without a word
			case a.Status == 200 && agreed:
				if name != "length with underscores" && !c.closes(3*time.Second) { // RFC 9112 §6.1
					t.Errorf("the connection is still open after %s", a.Line)
				}
				for _, call := range f.http.got() {
					if call.Fields.has("Content_Length") || !strings.Contains(call.Line, "admin") && string(call.Body) != body {
						t.Errorf("the node got %s%q", call.Raw, call.Body)
					}
				}
				if name == "length with underscores" {
					return // what follows is a request of its own
				}
			case a.Status == 200 && lenient: // RFC 9112 §2.2 and §5.2 let a server take it, if it takes it whole
			case strings.HasPrefix(name, "chunk ") || name == "a huge chunk" || name == "LF before chunk data": // the head was good
				if a.Status < 400 {
					t.Errorf("got %s", a)
				}
			case a.Status < 400 || a.Status == 404 || a.Status > 505 || strings.Contains(string(a.Body), "nvelope"):
				t.Errorf("got %s", a)
			}
			if a.Status >= 400 && !c.closes(3*time.Second) {
				t.Errorf("the connection is still open after %s", a.Line)
			}
			for _, call := range f.http.got() {
				if strings.Contains(call.Line, "admin") && !lenient || strings.Contains(string(call.Body), "/depot/admin") {
					t.Errorf("smuggled: %s %q", call.Line, call.Body)
				}
			}
		})
	}
}

// TestBadHeadsOfNodes: what a node may not send ends as a fault, and nothing of
// it reaches the caller or the next exchange.
func TestBadHeadsOfNodes(t *testing.T) {
	for _, listener := range []string{"http", "std"} {
		t.Run(listener, func(t *testing.T) { testBadHeadsOfNodes(t, listener) })
	}
}

func testBadHeadsOfNodes(t *testing.T, listener string) {
	f := shared(t)
	body := string(envelope("1.1", `<evil xmlns="urn:evil"/>`))
	for name, octets := range map[string]string{
		"length and chunked":   "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + string(chunked([]byte(body))),
		"negative length":      "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: -1\r\n\r\n" + body,
		"bad chunk":            "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + body,
		"unknown coding":       "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: gzip\r\n\r\n" + body,
		"no status":            "HTTP/1.1 \r\n\r\n" + body,
		"status of two digits": "HTTP/1.1 20 OK\r\n\r\n" + body,
		"HTTP/3":               "HTTP/3 200 OK\r\n\r\n" + body,
		"101":                  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + body,
		"only interim":         strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 200),
		"NUL in a value":       "HTTP/1.1 200 OK\r\nX-A: a\x00\r\nContent-Type: text/xml\r\nContent-Length: 0\r\n\r\n",
		"a head of 2 MiB":      "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 2<<20) + "\r\nContent-Type: text/xml\r\nContent-Length: 0\r\n\r\n",
		"two lengths":          "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n" + body,
		"a list of lengths":    "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 3, 5\r\n\r\n" + body,
		"a signed length":      "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: +3\r\n\r\n" + body,
		"chunked under 1.0":    "HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n" + string(chunked([]byte(body))),
		"chunked twice":        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked, chunked\r\n\r\n" + string(chunked([]byte(body))),
		"a chunk with a sign":  "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n+" + string(chunked([]byte(body))),
		"a chunk too long":     "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Replace(string(chunked([]byte(body))), "\r\n0\r\n", "XX0\r\n", 1),
		"chunks without end":   "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(string(chunked([]byte(body))), "0\r\n\r\n"),
		"blank before a colon": "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding : chunked\r\n\r\n" + string(chunked([]byte(body))),
		"obs-fold":             "HTTP/1.1 200 OK\r\nX-A: a\r\n Content-Length: 3\r\nContent-Type: text/xml\r\n\r\n" + body,
		"CR inside a value":    "HTTP/1.1 200 OK\r\nX-A: a\rContent-Length: 0\r\nContent-Type: text/xml\r\n\r\n" + body,
		"no colon":             "HTTP/1.1 200 OK\r\nContent-Type text/xml\r\n\r\n" + body,
		"status of four":       "HTTP/1.1 2000 OK\r\nContent-Type: text/xml\r\n\r\n" + body,
		"a status below 100":   "HTTP/1.1 099 OK\r\nContent-Type: text/xml\r\n\r\n" + body,
		"shorter than said":    fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body),
		"no HTTP at all":       body,
		"a million fields":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 400000) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			f.http.reset()
			f.http.do(func(p *peer, _ *call) { _, _ = p.Write([]byte(octets)); p.Close() })
			a := exchange(t, f.g.addr[listener], request("/depot/x", typed("1.1"), envelope("1.1", op)))
			if name == "length and chunked" && a.Status == 200 && string(a.Body) == body {
				return // RFC 9112 §6.3: chunked overrides, the connection is not used again
			}
			ft := wantFault(t, a, "1.1", "Server", "")
			if !strings.HasPrefix(ft.Own, "Backend") {
				t.Errorf("code %s", ft.Own)
			}
		})
	}
	t.Run("an answer too many", func(t *testing.T) {
		f.http.reset()
		f.http.do(func(p *peer, c *call) {
			_, _ = p.Write(append(okReply(c), response(200, fields{{"Content-Type", "text/xml"}}, []byte(body))...))
		})
		for i := range 10 {
			a := post(t, f.g.addr[listener], "/depot/x", typed("1.1"), envelope("1.1", op))
			if bytes.Contains(a.Body, []byte("urn:evil")) {
				t.Fatalf("exchange %d got the surplus answer of the one before", i)
			}
		}
	})
}

// TestPatience: peers that stop are let go after the listener's timeouts, in
// every state, on both protocols.
func TestPatience(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, preamble+fmt.Sprintf(`
listeners:
  - {name: http, address: "127.0.0.1:0", timeouts: {header: 300ms, body_idle: 300ms, idle: 600ms}}
  - {name: framed, address: "127.0.0.1:0", protocol: framed, length: 4, route: r, timeouts: {body_idle: 300ms, idle: 600ms}}
routes: [{name: r, to: ["http://%s/"]}]
`, b.addr), b)
	msg := request("/x", typed("1.1"), envelope("1.1", op))
	start := bytes.Index(msg, []byte("\r\n\r\n")) + 4
	big := request("/x", typed("1.1"), large("1.1", 3<<20, ""))
	one := frame(4, envelope("1.1", op))
	t.Run("peers that stop", func(t *testing.T) {
		for name, x := range map[string]struct {
			listener string
			octets   []byte
		}{
			"nothing":           {"http", nil},
			"half a head":       {"http", msg[:20]},
			"a head":            {"http", msg[:start]},
			"half a body":       {"http", msg[:start+40]},
			"half a large body": {"http", big[:2<<20]},
			"half a length":     {"framed", one[:2]},
			"a length":          {"framed", one[:4]},
			"half a frame":      {"framed", one[:40]},
			"no frame":          {"framed", nil},
			"one and a half":    {"framed", append(bytes.Clone(one), one[:50]...)},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := dial(t, g.addr[x.listener])
				begin := time.Now()
				go func() { _ = c.send(x.octets) }()
				var first time.Duration // of an answer, if there is one
				ended := eventually(5*time.Second, func() bool {
					_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
					_, err := c.r.r.ReadByte()
					if first == 0 {
						first = time.Since(begin)
					}
					return err != nil
				})
				if !ended || first > 1500*time.Millisecond {
					t.Errorf("let go: %v, first octet or end after %s", ended, first)
				}
				if d := time.Since(begin); d > 5*time.Second { // an answer may linger
					t.Errorf("let go after %s", d)
				} else if d < 250*time.Millisecond {
					t.Errorf("let go after %s already", d)
				}
				c.Close()
			})
		}
	})
	if n := b.gotComplete(); n != 1 {
		t.Errorf("%d messages at the backend, want the one whole frame", n)
	}
	slow := dial(t, g.addr["http"]) // slow but within the pauses
	for i := 0; i < len(msg); i += len(msg)/4 + 1 {
		_ = slow.send(msg[i:min(len(msg), i+len(msg)/4+1)])
		pause(60 * time.Millisecond)
	}
	if a := slow.answer(); a.Status != 200 {
		t.Errorf("a slow sender: %s", a)
	}
}

// TestEachLimit sets every codec limit low on a route of its own, and tries
// what fits and what is one over.
func TestEachLimit(t *testing.T) {
	b := listenHTTP(t)
	limits := map[string]struct {
		value     int
		fits, not string // Body content
	}{
		"depth":           {5, "<a><a><a/></a></a>", "<a><a><a><a/></a></a></a>"},
		"elements":        {6, "<a/><a/><a/><a/>", "<a/><a/><a/><a/><a/>"},
		"attributes":      {3, `<a b="" c="" d=""/>`, `<a b="" c="" d="" e=""/>`},
		"namespaces":      {2, `<a xmlns="urn:1" xmlns:b="urn:2"/>`, `<a xmlns="urn:1" xmlns:b="urn:2" xmlns:c="urn:3"/>`},
		"name":            {20, "<a234567890123456789x/>", "<a2345678901234567890x/>"},
		"attribute_value": {60, `<a b="` + strings.Repeat("v", 60) + `"/>`, `<a b="` + strings.Repeat("v", 61) + `"/>`},
		"text":            {50, "<a>" + strings.Repeat("t", 50) + "</a>", "<a>" + strings.Repeat("t", 51) + "</a>"},
	}
	var config strings.Builder
	config.WriteString(httpOnly + "routes:\n")
	for name, l := range limits {
		config.WriteString(fmt.Sprintf("  - {name: %s, match: {path: /%s}, to: [\"http://%s/\"], limits: {%s: %d}}\n", strings.ReplaceAll(name, "_", "-"), name, b.addr, name, l.value))
	}
	g := start(t, config.String(), b)
	inBoth(t, func(t *testing.T, v string) {
		for name, l := range limits {
			if a := post(t, g.addr["http"], "/"+name, typed(v), envelope(v, l.fits)); a.Status != 200 {
				t.Errorf("%s: %s fits: %s", name, l.fits, a)
			}
			ft := wantFault(t, post(t, g.addr["http"], "/"+name, typed(v), envelope(v, l.not)), v, "Client", "Limit")
			if !strings.Contains(ft.Reason, name) && !strings.Contains(ft.Reason, strings.ReplaceAll(name, "_", " ")) {
				t.Errorf("%s: the reason does not name the limit: %s", name, ft.Reason)
			}
		}
	})
	t.Run("header_bytes", func(t *testing.T) {
		g2 := start(t, httpOnly+fmt.Sprintf("limits: {header_bytes: 2KiB}\nroutes: [{name: r, to: [\"http://%s/\"]}]\n", b.addr))
		long := append(typed("1.1"), field{"X-Long", strings.Repeat("a", 4<<10)})
		a := exchange(t, g2.addr["http"], request("/x", long, envelope("1.1", op)))
		if a.Status != 431 && a.Status != 400 {
			t.Errorf("a head of 4 KiB with a limit of 2 KiB: %s", a)
		}
	})
}
