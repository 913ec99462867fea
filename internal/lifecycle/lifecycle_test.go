package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// drains returns a part that needs d to finish once it is told to stop, and
// notes its name and the cause with which it was cut, if it was.
func drains(name string, d time.Duration, order *[]string, cause *error) Part {
	return Part{name, func(stop, cut context.Context) error {
		<-stop.Done()
		select {
		case <-time.After(d):
		case <-cut.Done():
			*cause = context.Cause(cut)
		}
		*order = append(*order, name)
		return nil
	}}
}

func TestStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var cause error
		ctx, cancel := context.WithCancel(t.Context())
		g := New(Options{},
			drains("files", time.Second, &order, &cause),
			drains("proxy", 2*time.Second, &order, &cause),
			drains("listeners", 3*time.Second, &order, &cause))
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()

		began := time.Now()
		cancel()
		if err := <-done; err != nil || cause != nil {
			t.Errorf("Run: got %v, cause %v, want a clean stop", err, cause)
		}
		if want := []string{"listeners", "proxy", "files"}; !slices.Equal(order, want) {
			t.Errorf("order: got %v, want %v", order, want)
		}
		if got := time.Since(began); got != 6*time.Second {
			t.Errorf("stop took %v, want 6s: each part waits for the one after it", got)
		}
	})
}

// TestBudget: the budget is one for all parts, and what happens to a part that
// is told to stop after it is spent is that it is cut at once.
func TestBudget(t *testing.T) {
	tests := []struct {
		name  string
		drain time.Duration
		takes time.Duration // by each of two parts
		want  error
		after time.Duration
	}{
		{"enough", 10 * time.Second, 4 * time.Second, nil, 8 * time.Second},
		{"spent by the second part", 10 * time.Second, 6 * time.Second, ErrDrainSpent, 10 * time.Second},
		{"spent by the first part", 10 * time.Second, time.Hour, ErrDrainSpent, 10 * time.Second},
		{"default", 0, time.Hour, ErrDrainSpent, 30 * time.Second},
		{"none", -1, time.Hour, ErrDrainSpent, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				var cause error
				ctx, cancel := context.WithCancel(t.Context())
				g := New(Options{Drain: tt.drain},
					drains("proxy", tt.takes, &order, &cause),
					drains("listeners", tt.takes, &order, &cause))
				done := make(chan error, 1)
				go func() { done <- g.Run(ctx) }()
				synctest.Wait()

				began := time.Now()
				cancel()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				if got := time.Since(began); got != tt.after {
					t.Errorf("stop took %v, want %v", got, tt.after)
				}
				if !errors.Is(cause, tt.want) || (tt.want == nil && cause != nil) {
					t.Errorf("cause: got %v, want %v", cause, tt.want)
				}
			})
		})
	}
}

// TestSetDrain: what a reload sets holds for the stop that comes after it.
func TestSetDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var cause error
		ctx, cancel := context.WithCancel(t.Context())
		g := New(Options{Drain: time.Minute}, drains("listeners", time.Hour, &order, &cause))
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		g.SetDrain(2 * time.Second)
		began := time.Now()
		cancel()
		<-done
		if took := time.Since(began); took != 2*time.Second || !errors.Is(cause, ErrDrainSpent) {
			t.Errorf("stop took %v with cause %v, want 2s with %v", took, cause, ErrDrainSpent)
		}
	})
}

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var cause error
		ctx, cancel := context.WithCancel(t.Context())
		g := New(Options{}, drains("listeners", time.Hour, &order, &cause))
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		cancel()
		synctest.Wait() // the drain is under way

		began := time.Now()
		g.Cut()
		g.Cut() // harmless
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if time.Since(began) != 0 || !errors.Is(cause, ErrCut) {
			t.Errorf("after %v with cause %v, want at once with %v", time.Since(began), cause, ErrCut)
		}
	})
}

// TestCutDoesNotStop: a cut alone must not look like a stop to the parts.
func TestCutDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := New(Options{}, Part{"p", func(stop, _ context.Context) error { <-stop.Done(); return nil }})
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		g.Cut()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("Run ended with %v before its context did", err)
		default:
		}
		cancel()
		<-done
	})
}

func TestPartEndsEarly(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name        string
		gives, want error
	}{
		{"with an error", boom, boom},
		{"without a reason", nil, ErrEarly},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				var cause error
				g := New(Options{},
					drains("files", 0, &order, &cause),
					Part{"proxy", func(context.Context, context.Context) error {
						time.Sleep(time.Minute)
						return tt.gives
					}},
					drains("listeners", time.Second, &order, &cause))
				err := g.Run(t.Context())
				if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "proxy: ") {
					t.Errorf("Run: got %v, want proxy: %v", err, tt.want)
				}
				if want := []string{"listeners", "files"}; !slices.Equal(order, want) || cause != nil {
					t.Errorf("stopped %v (cause %v), want %v", order, cause, want)
				}
			})
		})
	}
}

// TestEveryErrorIsTold: a listener that fails must not hide that the files
// below it could not be closed.
func TestEveryErrorIsTold(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	g := New(Options{},
		Part{"files", func(stop, _ context.Context) error { <-stop.Done(); return b }},
		Part{"listeners", func(context.Context, context.Context) error { return a }})
	if err := g.Run(t.Context()); !errors.Is(err, a) || !errors.Is(err, b) {
		t.Errorf("Run: got %v, want both errors", err)
	}
}

func TestNoParts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Options{}).Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}
