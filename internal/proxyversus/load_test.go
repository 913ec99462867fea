package proxyversus

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	conns = 32
	// window is how many frames are under way on each of framedConns connections: 128 together.
	window      = 32
	framedConns = 4
)

// A caller makes one exchange after the other.
type caller func() error

// A load is what one row is asked for: callers that may work at once.
type load struct {
	callers []caller
	// each is how many exchanges one call is.
	each int
}

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func overHTTP(t testing.TB, address, path string, body []byte) *load {
	t.Helper()
	l := &load{each: 1}
	request := post(path, body)
	for range conns {
		c := dial(t, address)
		r := bufio.NewReaderSize(c, 16<<10)
		l.callers = append(l.callers, func() error {
			if _, err := c.Write(request); err != nil {
				return err
			}
			status, err := readMessage(r)
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("got status %d, want 200", status)
			}
			return nil
		})
	}
	return l
}

// overH2 speaks HTTP/2 by prior knowledge on four connections.
func overH2(t testing.TB, address, path string, body []byte) *load {
	t.Helper()
	l := &load{each: 1}
	var transports []*http.Transport
	for range 4 {
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		transports = append(transports, &http.Transport{Protocols: p, DisableCompression: true, TLSClientConfig: &tls.Config{}})
	}
	t.Cleanup(func() {
		for _, tr := range transports {
			tr.CloseIdleConnections()
		}
	})
	for i := range conns {
		tr := transports[i%len(transports)]
		l.callers = append(l.callers, func() error {
			req, err := http.NewRequest(http.MethodPost, "http://"+address+path, bytes.NewReader(body))
			if err != nil {
				return err
			}
			req.Header = http.Header{"Content-Type": {"text/xml; charset=utf-8"}, "Soapaction": {`"urn:example:orders:Submit"`}, "User-Agent": {"versus"}, "Accept": {"text/xml"}}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				return err
			}
			n, err := discardBody(resp.Body)
			if err == nil && (resp.StatusCode != http.StatusOK || n == 0 || resp.ProtoMajor != 2) {
				err = fmt.Errorf("got %s %d with %d octets, want HTTP/2 200 and some", resp.Proto, resp.StatusCode, n)
			}
			return err
		})
	}
	return l
}

// overFrames keeps window frames under way on each connection.
func overFrames(t testing.TB, address string, body []byte) *load {
	t.Helper()
	l := &load{each: window}
	requests := bytes.Repeat(framed(body), window)
	for range framedConns {
		c := dial(t, address)
		r := bufio.NewReaderSize(c, 128<<10)
		l.callers = append(l.callers, func() error {
			if _, err := c.Write(requests); err != nil {
				return err
			}
			for range window {
				head, err := r.Peek(2)
				if err != nil {
					return err
				}
				if head[0] == 0 && head[1] == 0 {
					return fmt.Errorf("got an empty frame, want a reply")
				}
				if err := skipFrame(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return l
}

// saturate lets all callers work for a while and returns how many exchanges
// were made in which time.
func (l *load) saturate(t testing.TB, turn time.Duration) (int64, time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	var n atomic.Int64
	began := time.Now()
	for _, call := range l.callers {
		wg.Go(func() {
			for time.Since(began) < turn {
				if err := call(); err != nil {
					t.Errorf("load: %v", err)
					return
				}
				n.Add(int64(l.each))
			}
		})
	}
	wg.Wait()
	return n.Load(), time.Since(began)
}

// pace makes exchanges at a steady rate, whoever is free takes the next, and
// returns how long after its due time each was done.
func (l *load) pace(t testing.TB, perSecond float64, turn time.Duration) []time.Duration {
	t.Helper()
	gap := time.Duration(float64(time.Second) / perSecond)
	total := int64(turn / gap)
	var next atomic.Int64
	var wg sync.WaitGroup
	took := make([][]time.Duration, len(l.callers))
	began := time.Now()
	for i, call := range l.callers {
		wg.Go(func() {
			timer := time.NewTimer(0)
			defer timer.Stop()
			for {
				k := next.Add(1) - 1
				if k >= total {
					return
				}
				due := began.Add(time.Duration(k) * gap)
				if early := time.Until(due); early > 0 {
					timer.Reset(early)
					<-timer.C
				}
				if err := call(); err != nil {
					t.Errorf("load: %v", err)
					return
				}
				took[i] = append(took[i], time.Since(due))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	return all
}

// quantile of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
