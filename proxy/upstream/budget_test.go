package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"soapway/proxy"
)

// echoNode answers every request with its body and counts its connections.
func echoNode(t *testing.T, open *atomic.Int64, most *atomic.Int64) string {
	return node(t, func(p *peer) {
		n := open.Add(1)
		defer open.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		for r, b := p.request(); r != nil; r, b = p.request() {
			p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b))
		}
	})
}

// One budget over three nodes: a node gets the connections that others leave idle,
// all together are never more, and none is lost.
func TestBudgetOverNodes(t *testing.T) {
	noLeaks(t)
	const most = 6
	b := NewBudget(most)
	var open, seen atomic.Int64
	var nodes []*HTTP
	for range 3 {
		nodes = append(nodes, newHTTP(t, HTTPOptions{URL: "http://" + echoNode(t, &open, &seen), Budget: b, QueueWait: patience, IdleTimeout: time.Hour}))
	}
	send := func(n *HTTP, text string) {
		resp, err := n.Send(t.Context(), request(text))
		if err != nil {
			t.Error(err)
			return
		}
		if got := body(t, resp); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	for i, n := range nodes { // each alone may have all
		var wg sync.WaitGroup
		for k := range most {
			wg.Go(func() { send(n, fmt.Sprintf("<m>%d-%d</m>", i, k)) })
		}
		wg.Wait()
		if got := b.open.Load(); got > most {
			t.Errorf("%d connections are open, want at most %d", got, most)
		}
	}
	var wg sync.WaitGroup
	for w := range 20 {
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for k := range 50 {
				send(nodes[rng.IntN(3)], fmt.Sprintf("<m>%d-%d</m>", w, k))
			}
		})
	}
	wg.Wait()
	// A node sees the end of a connection a moment after it was closed.
	if got := seen.Load(); got > 2*most {
		t.Errorf("the nodes have seen %d connections at once, want about %d", got, most)
	}
	for _, n := range nodes {
		n.Close()
	}
	wantNone(t, b, nodes...)
	if len(b.members) != 0 {
		t.Errorf("%d members are left", len(b.members))
	}
}

// Who has waited longest for a connection is served first, at whatever node.
func TestBudgetIsFair(t *testing.T) {
	noLeaks(t)
	var order []string
	var mu sync.Mutex
	holding, release := make(chan bool, 8), make(chan bool)
	hold := func(p *peer) {
		for r, text := p.request(); r != nil; r, text = p.request() {
			mu.Lock()
			order = append(order, text)
			mu.Unlock()
			holding <- true
			<-release
			p.send(okReply)
		}
	}
	b := NewBudget(1)
	one := newHTTP(t, HTTPOptions{URL: "http://" + node(t, hold), Budget: b, QueueWait: patience})
	two := newHTTP(t, HTTPOptions{URL: "http://" + node(t, hold), Budget: b, QueueWait: patience})
	var wg sync.WaitGroup
	for i, n := range []*HTTP{one, two, one, one, two} {
		wg.Go(func() {
			resp, err := n.Send(t.Context(), request(fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
				return
			}
			body(t, resp)
		})
		if i == 0 {
			await(t, holding, "the first request")
		} else {
			until(t, "the next to wait", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.queue) == i })
		}
	}
	for range 4 {
		release <- true
		await(t, holding, "the next request")
	}
	release <- true
	wg.Wait()
	if got := fmt.Sprint(order); got != "[0 1 2 3 4]" {
		t.Errorf("served in the order %s", got)
	}
}

// The end of a wait, by time or by the caller, loses no place.
func TestBudgetWaits(t *testing.T) {
	b := NewBudget(2)
	var wg sync.WaitGroup
	var held, most atomic.Int64
	for i := range 24 {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(800))*time.Microsecond)
				_, err := b.take(ctx, time.Duration(rng.IntN(500))*time.Microsecond, nil)
				if err == nil {
					for n, m := held.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					held.Add(-1)
					b.give()
				} else if !errors.Is(err, proxy.ErrNoConnection) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if b.open.Load() != 0 || b.waiting.Load() != 0 || len(b.queue) != 0 || most.Load() > 2 {
		t.Errorf("open %d, waiting %d, in the queue %d, most %d; want none, and at most 2", b.open.Load(), b.waiting.Load(), len(b.queue), most.Load())
	}
}

// A framed node and an HTTP node share a budget: each can be reached although the
// other had all of it, and what is idle makes room.
func TestBudgetFramed(t *testing.T) {
	noLeaks(t)
	b := NewBudget(2)
	var open, seen atomic.Int64
	h := newHTTP(t, HTTPOptions{URL: "http://" + echoNode(t, &open, &seen), Budget: b, QueueWait: patience, IdleTimeout: time.Hour})
	addr := node(t, func(p *peer) {
		for {
			text, err := p.frame()
			if err != nil {
				return
			}
			p.Write(append([]byte{0, byte(len(text))}, text...))
		}
	})
	f := newFramed(t, FramedOptions{Address: addr, Budget: b, IdleTimeout: time.Hour})
	for round := range 4 {
		var wg sync.WaitGroup
		for _, n := range []proxy.Node{f, h}[round%2 : round%2+1] {
			for i := range 2 {
				wg.Go(func() {
					text := fmt.Sprintf("<m>%d-%d</m>", round, i)
					resp, err := n.Send(t.Context(), request(text))
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					if resp.Body.Close(); string(got) != text || err != nil {
						t.Errorf("got %q, %v", got, err)
					}
				})
			}
		}
		wg.Wait()
		if n := b.open.Load(); n < 1 || n > 2 {
			t.Errorf("round %d: %d connections", round, n)
		}
	}
	h.Close()
	f.Close()
	wantNone(t, b, h)
}

// BenchmarkPool: what a pooled connection costs to take and to give back, by one
// caller and by as many as there are processors.
func BenchmarkPool(b *testing.B) {
	for _, callers := range []string{"one", "many"} {
		b.Run(callers, func(b *testing.B) {
			addr := answering(b, len(benchBody), benchAnswer)
			n, err := NewHTTP(HTTPOptions{URL: "http://" + addr, IdleTimeout: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			defer n.Close()
			for range 64 {
				c, err := n.connect(b.Context(), time.Second)
				if err != nil || !n.pool.budget.try() {
					b.Fatal(err)
				}
				n.pool.put(c)
			}
			b.ReportAllocs()
			use := func() {
				c := n.pool.pop()
				if c == nil {
					b.Error("none is idle")
					return
				}
				n.pool.put(c)
			}
			if callers == "one" {
				for b.Loop() {
					use()
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					use()
				}
			})
		})
	}
}
