package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1600},
		{1 << 20, 1600},
		{2 << 20, 800},
		{8 << 20, 200},
		{16 << 20, 100},
		{4 << 30, 100},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("percentFor(%d): got %d, want %d", c.live, got, c.want)
		}
	}
}

// TestCalm: the percentage follows the heap, not where the operator has set it.
func TestCalm(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	now := func() int {
		p := debug.SetGCPercent(usual)
		debug.SetGCPercent(p)
		return p
	}
	large := make([]byte, 64<<20)
	stop := calm()
	defer stop()
	// Finalizers run some time after a collection.
	follows := func(want func(int) bool) int {
		for range 1000 {
			runtime.GC()
			if want(now()) {
				break
			}
			runtime.Gosched()
		}
		return now()
	}
	if got := follows(func(p int) bool { return p == usual }); got != usual {
		t.Errorf("with a large heap: got %d, want %d", got, usual)
	}
	runtime.KeepAlive(large)
	large = nil
	if got := follows(func(p int) bool { return p > usual }); got <= usual {
		t.Errorf("with a small heap: got %d, want more than %d", got, usual)
	}
	stop()
	if got := now(); got != usual {
		t.Errorf("after stop: got %d, want %d", got, usual)
	}

	debug.SetGCPercent(50)
	calm()()
	if got := now(); got != 50 {
		t.Errorf("GOGC=50: got %d afterwards", got)
	}
}
