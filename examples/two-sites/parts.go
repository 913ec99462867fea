package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// machines is how many keys there are.
const machines = 5

// A service is what is behind hq: it counts what comes.
type service struct {
	srv *http.Server
	at  net.Listener

	mu              sync.Mutex
	last            [machines]int
	n               int
	twice, disorder int
}

func newService() (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{at: l}
	s.srv = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.srv.Serve(l) }() // until it is closed
	return s, nil
}

func (s *service) url() string { return "http://" + s.at.Addr().String() + "/orders" }
func (s *service) close()      { _ = s.srv.Close() }

// ServeHTTP takes one order, whose machine and number are in its fields.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what was broken off is sent again
	machine, err1 := strconv.Atoi(r.Header.Get("X-Machine"))
	n, err2 := strconv.Atoi(r.Header.Get("X-Number"))
	if err1 != nil || err2 != nil || machine < 0 || machine >= machines {
		http.Error(w, "whose order is it?", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	switch last := s.last[machine]; {
	case n == last+1:
		s.last[machine] = n
		s.n++
	case n <= last:
		s.twice++
	default:
		s.disorder++
	}
	s.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
}

func (s *service) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *service) faults() (twice, disorder int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twice, s.disorder
}

// A link passes connections on to the hub, until it is cut.
type link struct {
	at     net.Listener
	target string

	mu   sync.Mutex
	down bool
	open map[net.Conn]bool
}

func newLink(target string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{at: l, target: target, open: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.pass(c)
		}
	}()
	return k, nil
}

func (k *link) address() string { return k.at.Addr().String() }

func (k *link) close() {
	_ = k.at.Close()
	k.cut(true)
}

// cut ends all connections and refuses others, or lets them through again.
func (k *link) cut(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = down
	if down {
		for c := range k.open {
			_ = c.Close()
		}
	}
}

func (k *link) isCut() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.down
}

// keep takes up a connection, unless the link is cut.
func (k *link) keep(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.down {
		k.open[c] = true
	}
	return !k.down
}

func (k *link) drop(c net.Conn) {
	k.mu.Lock()
	delete(k.open, c)
	k.mu.Unlock()
	_ = c.Close()
}

func (k *link) pass(near net.Conn) {
	defer k.drop(near)
	far, err := net.Dial("tcp", k.target)
	if err != nil {
		return
	}
	defer k.drop(far)
	if !k.keep(near) || !k.keep(far) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // the end of one side is that of both
			_ = way[0].Close()
		})
	}
	both.Wait()
}

// A sender sends orders of several machines, each in its order.
type sender struct {
	url  string
	rate int
	n    atomic.Int64
}

func newSender(url string, rate int) *sender { return &sender{url: url, rate: max(1, rate)} }

func (s *sender) accepted() int { return int(s.n.Load()) }

func (s *sender) run(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(s.rate))
	defer tick.Stop()
	var next [machines]int
	for i := 0; ; i = (i + 1) % machines {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.send(i, next[i]+1) {
			next[i]++
			s.n.Add(1)
		}
	}
}

// send reports whether the gateway has taken the order.
func (s *sender) send(machine, n int) bool {
	body := fmt.Sprintf(`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><order xmlns="urn:example" machine="%d" n="%d"/></s:Body></s:Envelope>`, machine, n)
	req, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	req.Header.Set("X-Machine", strconv.Itoa(machine))
	req.Header.Set("X-Number", strconv.Itoa(n))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode == http.StatusAccepted
}
