package bench

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// startNetServer serves tests on a port of its own until the test ends, and
// returns its address and what it tells of each connection.
func startNetServer(t *testing.T, o NetServerOptions) (address string, events chan NetEvent) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	events = make(chan NetEvent, 100)
	o.Event = func(e NetEvent) { events <- e }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- NetServe(ctx, ln, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("NetServe: %v", err)
		}
	})
	return ln.Addr().String(), events
}

// lastEvent waits for what became of a connection.
func lastEvent(t *testing.T, events chan NetEvent) NetEvent {
	t.Helper()
	for e := range events {
		if !e.Began {
			return e
		}
	}
	t.Fatal("no event")
	return NetEvent{}
}

// TestNet runs every protocol in every direction: all octets arrive, and both
// ends have the same result.
func TestNet(t *testing.T) {
	address, events := startNetServer(t, NetServerOptions{Token: "t", Host: NetHost{Name: "far"}})
	for _, tt := range []NetOptions{
		{Protocol: NetRaw},
		{Protocol: NetRaw, Dir: NetDown},
		{Protocol: NetRaw, Mode: NetRoundTrip},
		{Protocol: NetRaw, Size: 1 << 20},
		{Protocol: NetHTTP},
		{Protocol: NetHTTP, Dir: NetDown},
		{Protocol: NetHTTP, Mode: NetRoundTrip, Size: 100_000},
		{Protocol: NetRPC},
		{Protocol: "rmi", Dir: NetDown},
		{Protocol: NetRPC, Mode: NetRoundTrip, Window: 7},
		{Protocol: NetSOAP},
		{Protocol: NetSOAP, Dir: NetDown},
		{Protocol: NetSOAP, Mode: NetRoundTrip, Size: netEnvelopeLeast},
		{Protocol: NetFramed},
		{Protocol: NetFramed, Dir: NetDown, Window: 3},
		{Protocol: NetFramed, Mode: NetRoundTrip, Window: 100, Size: 70_000},
	} {
		o := tt.withDefaults()
		t.Run(strings.Join([]string{o.Protocol, o.Mode, o.Dir}, " "), func(t *testing.T) {
			o.Server, o.Token, o.Buffers, o.Passes = address, "t", 30, 3
			var marks []byte
			o.Mark = func(b byte) { marks = append(marks, b) }
			o.Host.Name = "near"
			r, err := NetClient(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if string(marks) != "..." {
				t.Errorf("marks %q, want three dots", marks)
			}
			if len(r.Passes) != 2 || r.Cold.Buffers != 30 {
				t.Errorf("%d passes and a cold one of %d buffers, want 2 and 30", len(r.Passes), r.Cold.Buffers)
			}
			for _, p := range r.Passes {
				if p.Bytes != 30*int64(o.Size) || p.Mbit <= 0 {
					t.Errorf("pass %+v, want %d octets", p, 30*o.Size)
				}
			}
			if r.Client.Name != "near" || r.Server.Name != "far" {
				t.Errorf("hosts %q and %q", r.Client.Name, r.Server.Name)
			}
			e := lastEvent(t, events)
			if e.Err != nil || e.Result == nil || e.Result.Avg != r.Avg || len(e.Result.Passes) != 2 {
				t.Errorf("the server has %+v, %v; want avg %v", e.Result, e.Err, r.Avg)
			}
			if test := r.Test(); len(test.Runs) != 2 || test.Cold == nil || test.Summary.Mean != r.Avg {
				t.Errorf("row %+v", test.Summary)
			}
		})
	}
}

// TestNetFindsBuffers: without a number of buffers passes grow by tens until
// they last, with a sign for each.
func TestNetFindsBuffers(t *testing.T) {
	address, _ := startNetServer(t, NetServerOptions{})
	var marks []byte
	r, err := NetClient(t.Context(), NetOptions{Server: address, Size: 10, Passes: 2, Mark: func(b byte) { marks = append(marks, b) }})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(marks), "."); got != 2 {
		t.Errorf("marks %q, want two dots", marks)
	}
	want := int64(netFirstBuffers)
	for range strings.Count(string(marks), "+") {
		want *= 10
	}
	if r.Buffers != want || want == netFirstBuffers {
		t.Errorf("%d buffers after %q, want %d", r.Buffers, marks, want)
	}
}

// TestNetOneOff: the server ends after one test, and not after a stranger.
func TestNetOneOff(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- NetServe(t.Context(), ln, NetServerOptions{OneOff: true, Token: "right"}) }()
	o := NetOptions{Server: ln.Addr().String(), Token: "wrong", Buffers: 1, Passes: 1}
	if _, err := NetClient(t.Context(), o); !errors.Is(err, ErrNetDenied) {
		t.Errorf("with a wrong token: %v, want %v", err, ErrNetDenied)
	}
	o.Token = "right"
	if _, err := NetClient(t.Context(), o); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("NetServe: %v", err)
	}
}

// TestNetCaps: nobody gets more than the server lets a test have, whatever the
// client thinks of it.
func TestNetCaps(t *testing.T) {
	address, events := startNetServer(t, NetServerOptions{MaxBytes: 10_000})
	_, err := NetClient(t.Context(), NetOptions{Server: address, Buffers: 7, Passes: 3})
	if !errors.Is(err, ErrNetCap) {
		t.Errorf("NetClient: %v, want %v", err, ErrNetCap)
	}
	lastEvent(t, events)

	greedy := dialControl(t, address, "")
	greedy.send(t, netLine{Step: "params", Params: &netParams{NetRaw, NetOneWay, NetUp, 1000, 1}})
	greedy.expect(t, "ready")
	greedy.send(t, netLine{Step: "go", Pass: 1, Buffers: 11})
	if v := greedy.expect(t, "error"); v.Reason != ErrNetCap.Error() {
		t.Errorf("reason %q, want %q", v.Reason, ErrNetCap)
	}
	if e := lastEvent(t, events); !errors.Is(e.Err, ErrNetCap) {
		t.Errorf("event %v, want %v", e.Err, ErrNetCap)
	}
}

// TestNetTime: a test that takes too long is ended in the middle of a pass.
func TestNetTime(t *testing.T) {
	address, events := startNetServer(t, NetServerOptions{MaxDuration: 200 * time.Millisecond})
	_, err := NetClient(t.Context(), NetOptions{Server: address, Buffers: 1e9, Passes: 1, Size: 8})
	if err == nil || !strings.Contains(err.Error(), ErrNetCap.Error()) {
		t.Errorf("NetClient: %v, want the reason that the server gives", err)
	}
	if e := lastEvent(t, events); !errors.Is(e.Err, ErrNetCap) {
		t.Errorf("event %v, want %v", e.Err, ErrNetCap)
	}
}

// TestNetInterrupted: a client that is stopped in a pass leaves nothing running,
// and the server is free for the next.
func TestNetInterrupted(t *testing.T) {
	address, events := startNetServer(t, NetServerOptions{})
	for _, protocol := range []string{NetRaw, NetHTTP, NetRPC, NetFramed} {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for e := range events {
				if e.Began {
					cancel()
					continue
				}
				return
			}
		})
		if _, err := NetClient(ctx, NetOptions{Server: address, Protocol: protocol, Buffers: 1e8}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", protocol, err, context.Canceled)
		}
		wg.Wait()
	}
	if _, err := NetClient(t.Context(), NetOptions{Server: address, Buffers: 1, Passes: 1}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestNetStranger: whoever connects to the port of the data without the key is let
// go, and the test goes on.
func TestNetStranger(t *testing.T) {
	for _, protocol := range []string{NetRaw, NetHTTP, NetFramed} {
		p := NetOptions{Protocol: protocol}.withDefaults().params()
		near, far := &netMoved{}, &netMoved{}
		server, address, err := listenNetEnd(t.Context(), p, "127.0.0.1:0", netNonce(), far)
		if err != nil {
			t.Fatal(err)
		}
		if end, err := dialNetEnd(t.Context(), p, address, netNonce(), near); err == nil {
			// A raw client hears nothing before its first pass.
			if err := end.pass(1); err == nil {
				t.Errorf("%s: a stranger was let in", protocol)
			}
			end.cut()
		}
		if got := far.in.Load(); got != 0 {
			t.Errorf("%s: %d octets of a stranger were counted", protocol, got)
		}
		server.cut()
	}
}

// TestNetScenarioNeedsItsServer: without the other end there is no row, and Close
// has nothing to stop.
func TestNetScenarioNeedsItsServer(t *testing.T) {
	lab := NewLab(LabOptions{Command: []string{"false"}, Dir: t.TempDir()})
	s := NewNet(lab, NetRaw, 1500, 0, nil)
	if err := s.Prepare(t.Context()); err == nil {
		t.Error("Prepare: no error")
	}
	if err := errors.Join(s.Close(), lab.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
}
