package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// echoService knows the routes of the calls rows and gives messages back.
func echoService() *CallService {
	echo := func(m []byte) ([]byte, error) { return bytes.Clone(m), nil }
	return &CallService{
		Lookup: func(host, path, action string) string {
			var i int
			if _, err := fmt.Sscanf(path, "/service/%d", &i); err != nil {
				return ""
			}
			if h, p, a, route := CallRoute(i); h == host && p == path && a == action {
				return route
			}
			return ""
		},
		Local: echo, Remote: echo,
	}
}

// TestCallCarriers: every transport brings every kind of request there and its
// answer back, through memory and through TCP, and ends when it is closed.
func TestCallCarriers(t *testing.T) {
	for _, transport := range CallTransports() {
		t.Run(transport, func(t *testing.T) {
			service := echoService()
			inside, err := memoryCalls(transport, service)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			addresses, done := make(chan string, 1), make(chan error, 1)
			go func() {
				done <- ServeCalls(ctx, transport, service, func(a string) error { addresses <- a; return nil })
			}()
			outside, err := dialCalls(t.Context(), transport, <-addresses)
			if err != nil {
				t.Fatal(err)
			}
			o := CallsOptions{Service: service}
			for name, c := range map[string]callCarrier{"memory": inside, "TCP": outside} {
				for i := range 30 {
					if err := o.remoteLookup(c)(i); err != nil {
						t.Fatalf("%s: look-up %d: %v", name, i, err)
					}
					if err := o.remote(c)(i); err != nil {
						t.Fatalf("%s: call %d: %v", name, i, err)
					}
				}
				c.close()
			}
			stop()
			if err := <-done; err != nil {
				t.Errorf("ServeCalls: %v", err)
			}
		})
	}
	if err := ServeCalls(t.Context(), "pigeon", echoService(), nil); err == nil || !strings.Contains(err.Error(), "framed, http, nats, netrpc") {
		t.Errorf("ServeCalls(pigeon): %v", err)
	}
}

// TestCallsAreChecked: an answer that is not the right one is an error, not a fast
// success.
func TestCallsAreChecked(t *testing.T) {
	var wrong atomic.Bool
	service := echoService()
	good := service.Remote
	service.Remote = func(m []byte) ([]byte, error) {
		if wrong.Load() {
			return bytes.Replace(m, []byte(">3<"), []byte(">4<"), 1), nil
		}
		return good(m)
	}
	c, err := memoryCalls(CallFramed, service)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	o := CallsOptions{Service: service}
	if err := o.remote(c)(3); err != nil {
		t.Fatal(err)
	}
	wrong.Store(true)
	if err := o.remote(c)(3); !errors.Is(err, errNetAnswer) {
		t.Errorf("a wrong number: %v, want %v", err, errNetAnswer)
	}
	service.Lookup = func(string, string, string) string { return "route-x" }
	if err := o.lookup(1); !errors.Is(err, errNetAnswer) {
		t.Errorf("a wrong route: %v, want %v", err, errNetAnswer)
	}
	if err := o.remoteLookup(c)(1); !errors.Is(err, errNetAnswer) {
		t.Errorf("a wrong route from elsewhere: %v, want %v", err, errNetAnswer)
	}
	service.Local = func([]byte) ([]byte, error) { return nil, nil }
	if err := o.local(1); !errors.Is(err, errNetAnswer) {
		t.Errorf("no reply: %v, want %v", err, errNetAnswer)
	}
}

// TestCallsPhase: callers work side by side, and each has its row with a loop that
// does not count.
func TestCallsPhase(t *testing.T) {
	o := CallsOptions{Service: echoService(), Ops: 50, Loops: 4}.withDefaults()
	var other atomic.Int64
	tests, err := o.phase(t.Context(), "test", nil, []callKind{
		{"lookup", "look-up", "one", o.lookup},
		{"other", "counts", "one", func(int) error { other.Add(1); return nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) != 2 || other.Load() != 50*5 {
		t.Fatalf("%d rows, %d operations, want 2 and 250", len(tests), other.Load())
	}
	for _, row := range tests {
		if len(row.Runs) != 4 || row.Cold == nil || row.Unit != "µs" || !row.LowerIsBetter || row.Runs[0].Ops != 50 {
			t.Errorf("%s: %d runs, cold %v, %d operations", row.Combo, len(row.Runs), row.Cold, row.Runs[0].Ops)
		}
		if runtime.GOOS != "linux" {
			continue
		}
		if m := row.Memory; m == nil || m.Of != "both" || m.RSS < 1<<20 || m.Peak < m.RSS {
			t.Errorf("%s: memory %+v", row.Combo, m)
		}
	}
	boom := errors.New("boom")
	if _, err := o.phase(t.Context(), "test", nil, []callKind{{"bad", "bad", "one", func(int) error { return boom }}}); !errors.Is(err, boom) {
		t.Errorf("phase: %v, want %v", err, boom)
	}
}
