package proxy

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlacesAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(2, time.Second)
		for range 2 {
			if err := p.take(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		leaving, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		for i := range 5 {
			ctx := t.Context()
			if i == 1 {
				ctx = leaving
			}
			wg.Go(func() {
				err := p.take(ctx, time.Second)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					order = append(order, i)
				case i == 1 && errors.Is(err, gone), i == 4 && errors.Is(err, ErrNoConnection):
				default:
					t.Errorf("%d: got %v", i, err)
				}
			})
			synctest.Wait() // in the order of i
		}
		leave(gone)
		synctest.Wait()
		for range 3 {
			p.give()
			synctest.Wait()
		}
		wg.Wait() // 4 gives up
		if want := []int{0, 2, 3}; !slices.Equal(order, want) {
			t.Errorf("places went to %v, want %v", order, want)
		}
		for range 2 {
			p.give()
		}
		if p.free.Load() != 2 || len(p.queue) != 0 || p.waiting.Load() != 0 {
			t.Errorf("in the end %d places are free and %d wait, want 2 and none", p.free.Load(), len(p.queue))
		}
	})
}

// TestPlacesAreKept: none is lost or made, whoever leaves at whatever moment.
func TestPlacesAreKept(t *testing.T) {
	p := NewPlaces(3, time.Millisecond)
	var wg sync.WaitGroup
	var mu sync.Mutex
	held, most := 0, 0
	for i := range 50 {
		wg.Go(func() {
			for k := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration((i+k)%5)*300*time.Microsecond)
				if p.take(ctx, time.Duration((i*k)%7)*200*time.Microsecond) == nil {
					mu.Lock()
					held++
					most = max(most, held)
					mu.Unlock()
					runtime.Gosched()
					mu.Lock()
					held--
					mu.Unlock()
					p.give()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if p.free.Load() != 3 || len(p.queue) != 0 || p.waiting.Load() != 0 || most > 3 {
		t.Errorf("%d places are free, %d wait, %d were taken at once; want 3, none, at most 3", p.free.Load(), len(p.queue), most)
	}
}

// TestMaxConcurrency: exchanges beyond the bound wait a moment, then are told to
// come back; a stored message waits for its turn; all places come back, however
// the exchange ends.
func TestMaxConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := newNode("http://node.test/svc")
		n.answer = func(ctx context.Context, req *Request) (*Response, error) {
			select {
			case <-release:
			case <-ctx.Done():
				return nil, &SendError{Class: Maybe, Err: ctx.Err()}
			}
			switch req.Header.Get("X-End") {
			case "error":
				return nil, &SendError{Class: Maybe, Err: io.ErrUnexpectedEOF}
			case "redirect":
				if req.Path == "" {
					return respond(307, "", "", "Location", "/x"), nil
				}
			case "panic":
				panic("node")
			case "html":
				return respond(200, "text/html", "<html>"), nil
			case "large":
				return respond(200, "text/xml", strings.Replace(reply11, "<r:Told", "<!-- "+strings.Repeat("x", 3<<20)+" --><r:Told", 1)), nil
			}
			return respond(200, "text/xml", reply11), nil
		}
		places := NewPlaces(2, 100*time.Millisecond)
		s := &shelf{}
		backend := &Backend{Name: "b", Nodes: []Node{n}, Places: places, Follow: true}
		h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
			{Name: "q", Match: Match{Path: "/q"}, Backend: backend, Delivery: Queue}, {Name: "r", Backend: backend, Methods: []string{"GET"}},
		}}), Options{Enqueuer: s, SpoolDir: t.TempDir()})

		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { serve(t, h, exchange("text/xml", env11)).wantAnswer(t, 200, reply11) })
		}
		synctest.Wait()
		began := time.Now()
		g := serve(t, h, exchange("text/xml", env11))
		g.wantPlain(t, 503, "Busy")
		if took := time.Since(began); took != 100*time.Millisecond || g.Header.Get("Retry-After") == "" {
			t.Errorf("refused after %v with %v", took, g.Header)
		}
		ex := exchange("text/xml", env11)
		ex.Target = "/q"
		serve(t, h, ex)
		var result DeliveryResult
		wg.Go(func() { result = h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}) })
		time.Sleep(time.Second)
		close(release)
		wg.Wait()
		if result.Verdict != VerdictDelivered {
			t.Errorf("a stored message that has waited for its turn: got %+v", result)
		}
		for _, end := range []string{"", "error", "redirect", "panic", "html", "large"} {
			serve(t, h, exchange("text/xml", env11, "X-End", end))
			get := exchange("", "", "X-End", end)
			get.Method = "GET"
			serve(t, h, get)
			framed := exchange("text/xml", env11)
			framed.Framed, framed.Target, framed.Header = true, "", nil
			serve(t, h, framed)
			if end != "panic" {
				h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1})
			}
			if places.free.Load() != 2 {
				t.Fatalf("end %q: %d of 2 places are free", end, places.free.Load())
			}
		}
	})
}

// TestNoPlaceIsNoNews: that a backend is busy with what we send it is held
// against neither its nodes nor the backend.
func TestNoPlaceIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		n := newNode("http://node.test/svc")
		b := &Backend{Name: "b", Nodes: []Node{n}, Places: NewPlaces(1, time.Millisecond), Answer: time.Second}
		h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{{Name: "q", Backend: b, Delivery: Queue}}}), Options{Enqueuer: s})
		serve(t, h, exchange("text/xml", env11))
		if err := b.Places.take(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); r.Verdict != VerdictRetry || r.Unhealthy || r.Maybe {
			t.Errorf("got %+v", r)
		}
		if len(n.got) != 0 {
			t.Error("it was sent")
		}
	})
}
