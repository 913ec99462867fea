package listen

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"soapway/internal/frame"
)

// oneShot is a socket that gives what it is told to, then says that it is
// closed.
type oneShot struct {
	net.Listener
	accepts []any // net.Conn or error
	n       atomic.Int64
	closed  chan struct{}
}

func (o *oneShot) Accept() (net.Conn, error) {
	if i := int(o.n.Add(1)) - 1; i < len(o.accepts) {
		switch v := o.accepts[i].(type) {
		case net.Conn:
			return v, nil
		case error:
			return nil, v
		}
	}
	<-o.closed
	return nil, net.ErrClosed
}

func (o *oneShot) Close() error { close(o.closed); return nil }

// serveOne runs a framed listener over one connection of a pipe.
func serveOne(t *testing.T, opt FramedOptions, srv serverFunc, first ...any) (client net.Conn, stop func()) {
	t.Helper()
	opt.Address = "pipe:0"
	l, err := NewFramed(opt, srv)
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	l.ln = newBounded(&oneShot{accepts: append(first, server), closed: make(chan struct{})}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return client, func() {
		cancel()
		client.Close()
		if err := await(t, done, "Run"); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}

// A socket that has no descriptor to give for a moment is not given up.
func TestFramedAcceptError(t *testing.T) {
	noLeaks(t)
	log := new(logged)
	busy := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errTooManyFiles)}
	client, stop := serveOne(t, FramedOptions{Log: log.logger()}, echoFrame, busy, busy)
	defer stop()
	client.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(client, framed(2, "<a/>")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(client, got); err != nil || string(got) != framed(2, "<a/>") {
		t.Errorf("got %q, %v", got, err)
	}
	if s := log.String(); strings.Count(s, "accept failed") != 2 {
		t.Errorf("log: got %q", s)
	}
}

// FuzzFramedConn gives a connection any octets in any pieces, and compares what
// comes back with the plain meaning of the format: one frame for every whole
// one, in order, until the stream ends, stalls or breaks the limit.
func FuzzFramedConn(f *testing.F) {
	f.Add([]byte(framed(2, "<a/>", "", "oneway", "<b/>")), uint8(3))
	f.Add([]byte(framed(2, strings.Repeat("x", 200), strings.Repeat("y", 100))+"\x00"), uint8(1))
	f.Add([]byte(framed(2, "<a/>")+"\xff\xff"+framed(2, "<b/>")), uint8(255))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		if piece == 0 {
			t.Skip()
		}
		const limit, buffer = 150, 50
		var want []byte
		for r := frame.NewReader(strings.NewReader(string(stream)), 2, limit, 16); ; {
			if _, err := r.Next(); err != nil {
				break
			}
			payload, err := io.ReadAll(r)
			if err != nil {
				break
			}
			if string(payload) == "oneway" {
				payload = nil
			}
			want, _ = frame.Append(want, 2, payload)
		}
		opt := FramedOptions{MaxMessage: limit, Buffer: buffer, Pipeline: 4, Timeouts: Timeouts{BodyIdle: patience, Idle: patience}}
		client, stop := serveOne(t, opt, echoFrame)
		defer stop()
		client.SetDeadline(time.Now().Add(patience))
		go func() {
			for rest := stream; len(rest) > 0; rest = rest[min(int(piece), len(rest)):] {
				if _, err := client.Write(rest[:min(int(piece), len(rest))]); err != nil {
					return
				}
			}
		}()
		// A pipe has no half-close: what must come is read, and no more.
		got := make([]byte, len(want))
		if n, err := io.ReadFull(client, got); err != nil || string(got) != string(want) {
			t.Errorf("got %q, %v, want %q", got[:n], err, want)
		}
	})
}
