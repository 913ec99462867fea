package casetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestReservedPaths never reach a route that takes everything.
func TestReservedPaths(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, httpOnly+fmt.Sprintf("routes: [{name: all, to: [\"http://%s\"]}]\n", b.addr), b)
	for _, p := range []string{"/_gateway/messages/1", "/_gateway/", "/_site/v1/batch", "/.well-known/acme-challenge/x"} {
		if a := post(t, g.addr["http"], p, typed("1.1"), envelope("1.1", op)); a.Status < 400 {
			t.Errorf("%s: %s", p, a)
		}
	}
	if n := len(b.got()); n != 0 {
		t.Errorf("%d reserved paths were forwarded: %v", n, targets(b.got()))
	}
	if a := post(t, g.addr["http"], "/_gatewayx", typed("1.1"), envelope("1.1", op)); a.Status != 200 {
		t.Errorf("/_gatewayx is not reserved: %s", a)
	}
}

// TestLargeFrames: streamed HTTP bodies reach framed nodes, whose length must
// be known first, and large frames reach both, in bounded memory.
func TestLargeFrames(t *testing.T) {
	f := shared(t)
	msg := large("1.2", 12<<20, "")
	hd := appendHead(nil, "POST /f4 HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, typed("1.2")...))
	for name, octets := range map[string][]byte{"length": request("/f4", typed("1.2"), msg), "chunked": append(hd, chunked(msg, 1<<20, 5<<20)...)} {
		f.framed4.reset()
		var a *answer
		grown := f.g.growth(t, func() { a = exchange(t, f.g.addr["http"], octets) })
		if a.Status != 200 || a.Err != nil || !bytes.Equal(a.Body, msg) || !bytes.Equal(joined(f.framed4.got()), msg) {
			t.Errorf("%s: status %d, %v, %s", name, a.Status, a.Err, describe(a.Body))
		}
		if grown > 16<<20 {
			t.Errorf("%s: memory grew by %d MiB", name, grown>>20)
		}
	}
	f.http.do(func(p *peer, c *call) { _, _ = p.Write(response(200, xml12(), c.Body)) })
	for _, listener := range []string{"f4", "f4-f4", "f4-echo"} {
		grown := f.g.growth(t, func() {
			c := dialFramed(t, f.g.addr[listener], 4)
			go func() { _, _ = c.Write(frame(4, msg)) }()
			if got, err := c.next(); err != nil || !bytes.Equal(got, msg) {
				t.Errorf("%s: %v, %s", listener, err, describe(got))
			}
			c.Close()
		})
		if grown > 16<<20 {
			t.Errorf("%s: memory grew by %d MiB", listener, grown>>20)
		}
	}
	f.framed4.reset() // a bad tail is never sent as a whole frame
	a := exchange(t, f.g.addr["http"], request("/f4", typed("1.2"), large("1.2", 3<<20, "&nope;")))
	wantFault(t, a, "1.2", "Client", "NotWellFormed")
	c := dialFramed(t, f.g.addr["f4-f4"], 4)
	ft, err := readFault(c.call(large("1.2", 3<<20, "&nope;")), "")
	if err != nil || ft == nil || ft.Code != "{"+ns12+"}Sender" || !strings.Contains(ft.Own, "NotWellFormed") {
		t.Errorf("a bad large frame: %+v, %v", ft, err)
	}
	pause(50 * time.Millisecond)
	if n := f.framed4.gotComplete(); n != 0 {
		t.Errorf("%d bad frames reached the node whole", n)
	}
}

// TestAbortStorm: callers and nodes that break off at random points, many at
// once. No message reaches a node whole unless it was sent whole, and the
// gateway answers afterwards; the end of the run counts its goroutines.
func TestAbortStorm(t *testing.T) {
	f := shared(t)
	f.http.do(func(p *peer, c *call) {
		switch len(c.Body) % 5 {
		case 0:
			p.resetConn()
		case 1:
			b := okReply(c)
			_, _ = p.Write(b[:len(b)/2])
			p.Close()
		default:
			_, _ = p.Write(okReply(c))
		}
	})
	var wg sync.WaitGroup
	for worker := range 16 {
		rng := rand.New(rand.NewPCG(uint64(worker), 42))
		wg.Go(func() {
			for i := range 20 {
				msg := envelope("1.1", fmt.Sprintf("<abort/>%s", strings.Repeat("<x/>", rng.IntN([]int{50, 5000, 400000}[i%3]))))
				octets := request("/depot/x", typed("1.1"), msg)
				addr := f.g.addr["http"]
				if worker%4 == 3 {
					octets, addr = frame(4, msg), f.g.addr["f4"]
				}
				c := dial(t, addr)
				_ = c.send(octets[:rng.IntN(len(octets))])
				switch rng.IntN(3) {
				case 0:
					_ = c.SetLinger(0)
				case 1:
					_ = c.CloseWrite()
					_, _ = c.r.r.Peek(1)
				}
				c.Close()
			}
		})
	}
	wg.Wait()
	pause(100 * time.Millisecond)
	if n := f.http.gotComplete(); n != 0 {
		t.Errorf("%d cut messages reached the node whole", n)
	}
	f.http.reset()
	for range 5 {
		if a := post(t, f.g.addr["http"], "/depot/x", typed("1.1"), envelope("1.1", op)); a.Status != 200 {
			t.Errorf("after the storm: %s", a)
		}
	}
}
