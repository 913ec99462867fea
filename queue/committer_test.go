package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// scriptLog is a log that takes its time and does as told.
type scriptLog struct {
	mu      sync.Mutex
	ch      chan ack
	takes   time.Duration
	outcome func(r record) (error, bool) // the answer, and whether one comes
	next    uint64
	acked   uint64 // highest acknowledged
	sick    error
	frozen  time.Duration // for so long nothing moves when health is asked for first
}

func newScriptLog() *scriptLog { return &scriptLog{ch: make(chan ack, 2*groupCount)} }

func (l *scriptLog) append(slot int, r record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err, answers := error(nil), true
	if l.outcome != nil {
		err, answers = l.outcome(r)
	}
	if !answers {
		return nil
	}
	a := ack{slot: slot, err: err}
	if err == nil {
		l.next++
		a.seq = l.next
	}
	time.AfterFunc(l.takes, func() {
		l.mu.Lock()
		l.acked = max(l.acked, a.seq)
		l.mu.Unlock()
		l.ch <- a
	})
	return nil
}

func (l *scriptLog) acks() <-chan ack { return l.ch }

func (l *scriptLog) healthy() error {
	l.mu.Lock()
	sick, frozen := l.sick, l.frozen
	l.frozen = 0
	l.mu.Unlock()
	time.Sleep(frozen)
	return sick
}

// groupRig is a committer on a scriptLog and a disk whose sync takes a second.
type groupRig struct {
	log     *scriptLog
	c       *committer
	seen    events
	mu      sync.Mutex
	durable uint64 // what the last finished sync covered
	syncs   int
	syncErr error
	failure error
}

func startGroupRig(t *testing.T) *groupRig {
	r := &groupRig{log: newScriptLog()}
	sync := func() error {
		r.log.mu.Lock()
		covers := r.log.acked // what was acknowledged before the sync began
		r.log.mu.Unlock()
		time.Sleep(time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.syncs++
		if r.syncErr != nil {
			return r.syncErr
		}
		r.durable = covers
		return nil
	}
	r.c = newCommitter(r.log, sync, func(err error) { r.failure = err }, &r.seen)
	go r.c.run()
	t.Cleanup(r.c.close)
	return r
}

func (r *groupRig) put(ctx context.Context, id string) error {
	return r.c.do(ctx, &job{rec: record{subject: id}, size: 1, msg: &Message{ID: id}, urgent: true})
}

// TestCommitterGroups: what waits shares one sync, which began after all of it
// was acknowledged, and is told in the order of the log.
func TestCommitterGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGroupRig(t)
		r.log.takes = 10 * time.Millisecond
		var order []uint64
		r.c.onCommit = func(seq uint64, m *Message) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if seq > r.durable {
				t.Errorf("onCommit(%d, %s), but only %d is durable", seq, m.ID, r.durable)
			}
			order = append(order, seq)
		}
		var wg sync.WaitGroup
		for i := range 3 * groupCount {
			wg.Go(func() {
				if err := r.put(t.Context(), fmt.Sprint(i)); err != nil {
					t.Errorf("put: %v", err)
				}
			})
		}
		wg.Wait()
		if r.syncs != 3 || !slices.Equal(r.seen.groups, []int{groupCount, groupCount, groupCount}) {
			t.Errorf("%d syncs of %v, want 3 of %d", r.syncs, r.seen.groups, groupCount)
		}
		if len(order) != 3*groupCount || !slices.IsSorted(order) {
			t.Errorf("onCommit: %d calls, sorted %v", len(order), slices.IsSorted(order))
		}
	})
}

// TestCommitterLate: a record that comes while acknowledgements are awaited
// joins the group; one that comes during the sync is in the next.
func TestCommitterLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGroupRig(t)
		r.log.takes = 100 * time.Millisecond
		began := time.Now()
		want := map[time.Duration]time.Duration{ // submitted at: answered at
			0: 1150 * time.Millisecond, 50 * time.Millisecond: 1150 * time.Millisecond,
			500 * time.Millisecond: 2250 * time.Millisecond, 1100 * time.Millisecond: 2250 * time.Millisecond,
		}
		var wg sync.WaitGroup
		for at, answered := range want {
			wg.Go(func() {
				time.Sleep(at)
				if err := r.put(t.Context(), at.String()); err != nil {
					t.Errorf("put: %v", err)
				}
				if got := time.Since(began); got != answered {
					t.Errorf("submitted at %v: answered at %v, want %v", at, got, answered)
				}
			})
		}
		wg.Wait()
	})
}

// TestCommitterRefusal: a definite refusal is that of one record only.
// TestCommitterFrozen: a process that stood still for longer than the log may
// take, as on a paused machine, has not waited for the log that long.
func TestCommitterFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGroupRig(t)
		r.log.takes = ackTimeout / 2
		r.log.frozen = 3 * ackTimeout
		if err := r.put(t.Context(), "a"); err != nil {
			t.Errorf("put: got %v, want nil", err)
		}
		if err := r.put(t.Context(), "b"); err != nil {
			t.Errorf("put afterwards: got %v, want nil", err)
		}
		if r.failure != nil {
			t.Errorf("the store was given up: %v", r.failure)
		}
	})
}

func TestCommitterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGroupRig(t)
		r.log.outcome = func(rec record) (error, bool) {
			if rec.subject == "refused" {
				return ErrFull, true
			}
			return nil, true
		}
		var wg sync.WaitGroup
		for _, id := range []string{"a", "refused", "b"} {
			wg.Go(func() {
				if err := r.put(t.Context(), id); (id == "refused") != errors.Is(err, ErrFull) || id != "refused" && err != nil {
					t.Errorf("put %s: %v", id, err)
				}
			})
		}
		wg.Wait()
		if r.failure != nil {
			t.Errorf("failed: %v", r.failure)
		}
	})
}

// TestCommitterFailures: whatever leaves a doubt gives the store up.
func TestCommitterFailures(t *testing.T) {
	sick := errors.New("write: no space left on device")
	for _, tt := range []struct {
		name  string
		spoil func(*groupRig)
		after time.Duration // until the answer
		want  error
	}{
		{"no acknowledgement", func(r *groupRig) {
			r.log.outcome = func(rec record) (error, bool) { return nil, rec.subject != "b" }
		}, ackTimeout, nil},
		{"log knows of an error", func(r *groupRig) {
			r.log.outcome = func(rec record) (error, bool) { return nil, rec.subject != "b" }
			r.log.sick = sick
		}, ackTimeout / 20, sick},
		{"unknown refusal", func(r *groupRig) {
			r.log.outcome = func(rec record) (error, bool) { return sick, true }
		}, 0, sick},
		{"sync", func(r *groupRig) { r.syncErr = sick }, time.Second, sick},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startGroupRig(t)
				r.c.onCommit = func(seq uint64, m *Message) { t.Errorf("onCommit(%d, %s)", seq, m.ID) }
				tt.spoil(r)
				began := time.Now()
				var wg sync.WaitGroup
				// The one that is in doubt first: the other then belongs to its group.
				for _, id := range []string{"b", "a"} {
					synctest.Wait()
					wg.Go(func() {
						if err := r.put(t.Context(), id); !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrClosed) || tt.want != nil && !errors.Is(err, tt.want) {
							t.Errorf("put %s: got %v, want %v", id, err, ErrUnknown)
						}
					})
				}
				wg.Wait()
				if got := time.Since(began); got != tt.after {
					t.Errorf("answered after %v, want %v", got, tt.after)
				}
				if r.failure == nil {
					t.Error("the store was not given up")
				}
				n := r.syncs
				if err := r.put(t.Context(), "later"); !errors.Is(err, ErrClosed) {
					t.Errorf("put later: got %v, want %v", err, ErrClosed)
				}
				if r.syncs != n {
					t.Error("synced again")
				}
			})
		})
	}
}

// TestCommitterWithdrawn: a caller that leaves does not know; the message is
// committed all the same.
func TestCommitterWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGroupRig(t)
		told := make(chan string, 1)
		r.c.onCommit = func(_ uint64, m *Message) { told <- m.ID }
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := r.put(ctx, "a"); !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("put: got %v, want %v", err, ErrUnknown)
		}
		if got := <-told; got != "a" {
			t.Errorf("onCommit: %q", got)
		}
	})
}

// TestCommitterLazy: what nobody needs at once shares the next sync, or gets
// one of its own within idleSync.
func TestCommitterLazy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGroupRig(t)
		began := time.Now()
		lazy := func() {
			if err := r.c.do(t.Context(), &job{rec: record{subject: "note"}}); err != nil {
				t.Errorf("do: %v", err)
			}
		}
		early := &job{rec: record{subject: "attempts"}, early: true}
		if err := r.c.do(t.Context(), early); err != nil || time.Since(began) != 0 {
			t.Errorf("early: %v after %v, want at once", err, time.Since(began))
		}
		lazy()
		if got := time.Since(began); got != idleSync+time.Second || r.syncs != 1 {
			t.Errorf("lazy: answered after %v and %d syncs, want %v and 1", got, r.syncs, idleSync+time.Second)
		}
		began = time.Now()
		go lazy()
		synctest.Wait()
		r.put(t.Context(), "a")
		if got := time.Since(began); got != time.Second || r.syncs != 2 {
			t.Errorf("lazy with another: %v and %d syncs, want %v and 2", got, r.syncs, time.Second)
		}
		time.Sleep(time.Minute)
		if r.syncs != 2 {
			t.Errorf("%d syncs although nothing was written, want 2", r.syncs)
		}
	})
}

// TestCommitterBounds: too much that waits is refused, definitely.
func TestCommitterBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGroupRig(t)
		big := func() *job {
			return &job{rec: record{subject: "big"}, size: waitBytes/2 + 1, msg: &Message{}, urgent: true}
		}
		go r.c.do(t.Context(), big())
		synctest.Wait() // its group is being synced
		go r.c.do(t.Context(), big())
		synctest.Wait()
		if err := r.c.do(t.Context(), big()); !errors.Is(err, ErrFull) {
			t.Errorf("do: got %v, want %v", err, ErrFull)
		}
		if err := r.c.do(t.Context(), &job{rec: record{subject: "note"}, size: waitBytes}); err != nil {
			t.Errorf("a note: %v", err)
		}
	})
}
