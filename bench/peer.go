package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// PeerOptions are the settings of a peer.
type PeerOptions struct {
	// Listen is the address. Default 127.0.0.1:0.
	Listen string
	// Faults are what the peer does wrong on purpose. Default nothing.
	Faults Faults
}

// A peer plays the other side of a measure on a listener until that is closed.
type peer func(ctx context.Context, ln net.Listener, f *faults) error

// peers are the peers by their kind.
var peers = map[string]peer{
	"echo":     eachConn(echoConn),
	"sink":     eachConn(sinkConn),
	"raw-http": eachConn(serveRawHTTP),
	"framed":   eachConn(serveFramed),
	"std-http": serveStd,
}

// PeerKinds are the kinds of [ServePeer].
func PeerKinds() []string { return slices.Sorted(maps.Keys(peers)) }

// ServePeer plays the other side of a measure until ctx is done or stdin ends.
// When it listens it writes one line of JSON with its address to stdout.
func ServePeer(ctx context.Context, kind string, opt PeerOptions, stdin io.Reader, stdout io.Writer) error {
	serve, ok := peers[kind]
	if !ok {
		return fmt.Errorf("bench: there is no peer %.40q, the kinds are %s", kind, strings.Join(PeerKinds(), ", "))
	}
	if opt.Listen == "" {
		opt.Listen = "127.0.0.1:0"
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", opt.Listen)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := json.NewEncoder(stdout).Encode(map[string]string{"address": ln.Addr().String()}); err != nil {
		ln.Close()
		return fmt.Errorf("bench: %w", err)
	}
	go func() { // ends with the process at the latest: a read of stdin cannot be cut off
		_, _ = io.Copy(io.Discard, stdin)
		stop()
	}()
	context.AfterFunc(ctx, func() { ln.Close() })
	if err := serve(ctx, ln, newFaults(opt.Faults)); err != nil && ctx.Err() == nil {
		return fmt.Errorf("bench: peer %s: %w", kind, err)
	}
	return nil
}

// eachConn makes a peer of what it does with one connection.
func eachConn(serve func(net.Conn, *faults) error) peer {
	return func(ctx context.Context, ln net.Listener, f *faults) error {
		conns := &connSet{conns: map[net.Conn]bool{}}
		stop := context.AfterFunc(ctx, conns.close)
		defer func() { stop(); conns.close(); conns.wg.Wait() }()
		for {
			c, err := ln.Accept()
			if err != nil {
				return err
			}
			if f.Nagle {
				if err := c.(*net.TCPConn).SetNoDelay(false); err != nil {
					return errors.Join(err, c.Close())
				}
			}
			// A connection that breaks is the caller's to notice.
			conns.serve(c, func() { _ = serve(c, f) })
		}
	}
}

// serveStd is net/http, the yardstick's other side.
func serveStd(ctx context.Context, ln net.Listener, f *faults) error {
	s := &http.Server{Handler: stdEcho(f), ReadHeaderTimeout: 10 * time.Second}
	defer s.Close()
	return s.Serve(ln)
}

// connSet are the connections under way.
type connSet struct {
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

// serve runs f for c and closes it afterwards.
func (s *connSet) serve(c net.Conn, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return
	}
	s.conns[c] = true
	s.wg.Go(func() {
		f()
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
}

// echoConn sends back every octet as it comes: the floor of all round trips.
func echoConn(c net.Conn, _ *faults) error {
	buf := make([]byte, 64)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// sinkConn reads until the caller has closed its side, then answers with one
// octet, so that the caller knows that all has arrived.
func sinkConn(c net.Conn, _ *faults) error {
	buf := make([]byte, 256<<10)
	for {
		if _, err := c.Read(buf); err == io.EOF {
			_, err = c.Write([]byte{1})
			return err
		} else if err != nil {
			return err
		}
	}
}
