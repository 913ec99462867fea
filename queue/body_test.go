package queue

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reads makes a node that reads the body of what it is given, as one that sends
// it does, and tells what it got.
func reads(n *node, got func(d *Delivery, octets int, err error) Outcome) {
	n.deliver = func(_ context.Context, d *Delivery) Outcome {
		r, err := d.Blob.Open()
		if err != nil {
			return got(d, 0, err)
		}
		b, err := io.ReadAll(r)
		_ = r.Close()
		return got(d, len(b), err)
	}
}

func (r *rig) putBody(t *testing.T, lane string, content []byte) string {
	t.Helper()
	r.n++
	id := "large-" + strings.Repeat("x", r.n)
	w, b := newBlob(t, r.store, content)
	defer w.Close()
	if err := r.Put(t.Context(), &Message{ID: id, Route: "orders", Destination: "depot", Lane: lane, Accepted: time.Now(), Blob: b}); err != nil {
		t.Fatalf("Put(%s): %v", id, err)
	}
	return id
}

// TestLargeMessage: every attempt has the whole body, a restart and a replay
// included, and nothing is left when it is delivered.
func TestLargeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		n := &node{}
		outcomes := []Outcome{fault, fault, bad, {}}
		var tries atomic.Int64
		reads(n, func(d *Delivery, octets int, err error) Outcome {
			if octets != 3<<20 || err != nil || d.Size() != 3<<20 {
				t.Errorf("attempt %d: %d octets of %d, %v", d.Attempt, octets, d.Size(), err)
			}
			return outcomes[tries.Add(1)-1]
		})
		r := newRig(t, store, n, Route{})
		id := r.putBody(t, "", noise(3<<20))
		synctest.Wait()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		store = store.Reopen()
		r = newRig(t, store, n, Route{})
		time.Sleep(time.Minute)
		if d, err := r.Get(id); err != nil || d.State != StateDead || d.Size != 3<<20 || d.Message.Blob == nil {
			t.Fatalf("Get: %+v, %v, want a dead letter", d, err)
		}
		if err := r.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := tries.Load(); n != 4 || bodies(t, store) != 0 || r.Waiting() != 0 {
			t.Errorf("%d attempts, %d bodies and %d messages are left, want 4, 0, 0", n, bodies(t, store), r.Waiting())
		}
	})
}

// TestDamagedBody: a body that is not what was accepted is never given as a whole,
// is no news of the destination, and its message is a dead letter that keeps what
// is left; its lane goes on.
func TestDamagedBody(t *testing.T) {
	for _, once := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := NewMemory()
			n := &node{}
			var whole atomic.Int64
			var down atomic.Bool
			down.Store(true)
			reads(n, func(_ *Delivery, octets int, err error) Outcome {
				switch {
				case err != nil:
					if !errors.Is(err, ErrCorrupt) || octets >= 2<<20-provenTail+1 {
						t.Errorf("the reader gave %d octets and %v", octets, err)
					}
					return lost // as one judges who knows no better
				case down.Load():
					return fault
				}
				whole.Add(1)
				return Outcome{}
			})
			r := newRig(t, store, n, Route{AtMostOnce: once})
			id := r.putBody(t, "lane", noise(2<<20))
			r.putBody(t, "lane", noise(2<<20))
			synctest.Wait()
			store.Damage(1)
			down.Store(false)
			time.Sleep(time.Minute)
			d, err := r.Get(id)
			if err != nil || d.Reason != ReasonDamaged || d.Attempts != 2 || !strings.Contains(d.Text, "checksum") {
				t.Fatalf("Get: %+v, %v, want a dead letter, %s", d, err, ReasonDamaged)
			}
			for _, a := range d.History {
				if a.Maybe || a.Open {
					t.Errorf("attempt %+v: it was not processed", a)
				}
			}
			if n := whole.Load(); n != 1 {
				t.Errorf("%d messages were delivered, want the other", n)
			}
			if s := r.Stats()[0]; s.Down || s.Stopped != 0 || s.Pending+s.Retrying != 0 {
				t.Errorf("Stats: %+v", s)
			}
			if bodies(t, store) != 1 {
				t.Errorf("%d bodies are left, want that of the dead letter", bodies(t, store))
			}
		})
	}
}

// unreadableBody fails each Open of a body until it is mended.
type unreadableBody struct {
	*Memory
	broken atomic.Bool
}

func (s *unreadableBody) Get(seq uint64) (*Message, error) {
	m, err := s.Memory.Get(seq)
	if err == nil && s.broken.Load() {
		m.Blob = &foreign{open: errors.New("input/output error")}
	}
	return m, err
}

// TestUnreadableBody: a disk may come back, so the message waits; at most once too.
func TestUnreadableBody(t *testing.T) {
	for _, once := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &unreadableBody{Memory: NewMemory()}
			store.broken.Store(true)
			n := &node{}
			reads(n, func(_ *Delivery, octets int, err error) Outcome {
				if err != nil {
					return lost
				}
				return Outcome{}
			})
			q, err := New(store, n, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Configure([]Route{{Name: "orders", Destination: "depot", AtMostOnce: once}}, []Destination{{Name: "depot"}}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- q.Run(ctx) }()
			r := &rig{Queue: q, store: store.Memory, node: n}
			id := r.putBody(t, "", noise(100))
			time.Sleep(time.Minute)
			if d, err := q.Get(id); err != nil || d.State != StatePending || d.Attempts != 0 {
				t.Errorf("Get: %+v, %v, want it to wait without an attempt", d, err)
			}
			if a, err := store.Attempts(id); err != nil || len(a) != 0 {
				t.Errorf("Attempts: %+v, %v, want none", a, err)
			}
			store.broken.Store(false)
			time.Sleep(unreadableWait)
			if n := q.Waiting(); n != 0 {
				t.Errorf("%d messages wait", n)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestQuotaOfBodies: octets count wherever they are.
func TestQuotaOfBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		r := newRig(t, store, &node{}, Route{MaxBytes: 5 << 20})
		if err := r.Pause(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		r.putBody(t, "", noise(3<<20))
		w, b := newBlob(t, store, noise(3<<20))
		err := r.Put(t.Context(), &Message{ID: "over", Route: "orders", Destination: "depot", Blob: b})
		if !errors.Is(err, ErrFull) {
			t.Errorf("Put: got %v, want %v", err, ErrFull)
		}
		if err := w.Close(); err != nil || bodies(t, store) != 1 {
			t.Errorf("Close: %v; %d bodies, want 1", err, bodies(t, store))
		}
		if s := r.Stats()[0]; s.Bytes != 3<<20 {
			t.Errorf("Stats: %d octets, want 3 MiB", s.Bytes)
		}
	})
}
