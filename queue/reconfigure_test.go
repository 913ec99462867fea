package queue

import (
	"context"
	"runtime"
	"sync"
	"testing"
)

// TestConfigureDuringAttempts: a reload while messages are delivered. That nothing
// is read while it changes is for the race detector to say.
func TestConfigureDuringAttempts(t *testing.T) {
	n := &node{deliver: func(context.Context, *Delivery) Outcome {
		for range 100 { // a reload comes in between
			runtime.Gosched()
		}
		return Outcome{}
	}}
	r := newRig(t, NewMemory(), n, Route{})
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			d := Destination{Name: "depot", Link: []string{"", "hq"}[i%2], Class: uint8(i % 3)}
			if err := r.Configure([]Route{{Name: "orders", Destination: "depot"}}, []Destination{d}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 300 {
		r.put(t, "")
	}
	for r.Waiting() > 0 {
		runtime.Gosched()
	}
	close(over)
	wg.Wait()
}
