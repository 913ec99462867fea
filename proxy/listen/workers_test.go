package listen

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkers(t *testing.T) {
	t.Run("used again, and ended when idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var p workers
			before := runtime.NumGoroutine()
			for range 3 {
				var done sync.WaitGroup
				gate := make(chan struct{})
				for range 4 {
					done.Add(1)
					p.run(func() { <-gate; done.Done() })
				}
				close(gate)
				done.Wait()
				synctest.Wait()
				if n := runtime.NumGoroutine() - before; n != 4 {
					t.Fatalf("%d goroutines for 4 at once, want 4", n)
				}
			}
			time.Sleep(workerIdle - time.Millisecond)
			p.run(func() {})
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if n := runtime.NumGoroutine() - before; n != 1 {
				t.Fatalf("%d goroutines after their time, want the one that has worked since", n)
			}
			time.Sleep(workerIdle)
			synctest.Wait()
			if n := runtime.NumGoroutine() - before; n != 0 {
				t.Fatalf("%d goroutines after their time, want none", n)
			}
			p.close()
		})
	})
	t.Run("close waits for what is under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var p workers
			p.run(func() {}) // becomes idle
			synctest.Wait()
			var done bool
			p.run(func() { time.Sleep(time.Second); done = true })
			p.run(func() {})
			p.close()
			if !done {
				t.Error("close came back before the work was done")
			}
		})
	})
}
