package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/retry"
)

func incoming(i int, lane string, waits bool) Incoming {
	in := Incoming{Waits: waits, DeadLetter: DeadLetter{
		Message:  &Message{ID: uid(i), Route: "orders", Destination: "elsewhere", Lane: lane, Operation: "place", Accepted: time.Now().Add(-time.Minute), Body: fmt.Append(nil, "body ", i)},
		Attempts: []AttemptRecord{{N: 2, At: time.Now().Add(-time.Second), Status: 503, Reason: "busy"}},
		Reply:    []byte("busy"), ReplyType: "text/plain",
	}}
	if !waits {
		in.Died, in.Reason, in.Text = time.Now(), ReasonExpired, "too late"
	}
	return in
}

func wantImport(t *testing.T, when string, q *Queue, batch []Incoming, count, known int) {
	t.Helper()
	if sum, err := q.Import(t.Context(), batch); err != nil || sum != (Imported{count, known}) {
		t.Errorf("%s: got %+v, %v, want %d and %d known", when, sum, err, count, known)
	}
}

// TestImport: what waited waits, marked and in its order, what was dead is, and
// nothing is taken twice, whatever has become of it.
func TestImport(t *testing.T) {
	for _, clean := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewMemory()
			n := &routed{}
			q := newMover(t, s, n, Route{Name: "orders"})
			if err := q.Pause(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			stop := runs(t, q)
			synctest.Wait()
			var batch []Incoming
			for i := range 6 {
				batch = append(batch, incoming(i, []string{"a", ""}[i%2], true))
			}
			batch = append(batch, incoming(6, "a", false), incoming(7, "", false))
			wantImport(t, "first", q, batch, 8, 0)
			wantImport(t, "again", q, batch, 0, 8)
			d, err := q.Get(uid(0))
			if err != nil || d.State != StateRetrying || d.Attempts != 2 || d.Destination != "to-orders" || string(d.Message.Body) != "body 0" || time.Since(d.Accepted) != time.Minute || string(d.Reply) != "busy" || !d.NextAttempt.IsZero() {
				t.Errorf("one that waits: %+v, %v", d, err)
			}
			d, err = q.Get(uid(7))
			if err != nil || d.State != StateDead || d.Reason != ReasonExpired || d.Text != "too late" || len(d.History) != 1 || string(d.Reply) != "busy" || d.ReplyType != "text/plain" {
				t.Errorf("a dead letter: %+v, %v", d, err)
			}
			if err := q.Resume(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var lane []string
			for _, g := range n.all() {
				for _, i := range []int{0, 2, 4} {
					if g == "orders "+uid(i)+"!" {
						lane = append(lane, g)
					}
				}
			}
			if len(n.all()) != 6 || !slices.Equal(lane, []string{"orders " + uid(0) + "!", "orders " + uid(2) + "!", "orders " + uid(4) + "!"}) {
				t.Errorf("given: %q", n.all())
			}
			if err := q.Drop(t.Context(), uid(7)); err != nil {
				t.Fatal(err)
			}
			wantImport(t, "after the delivery", q, batch, 0, 8)
			stop()
			if clean {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			q = newMover(t, s.Reopen(), &routed{}, Route{Name: "orders"})
			if err := q.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantImport(t, "after a restart", q, batch, 0, 8)
		})
	}
}

// TestImportIsRemembered for its window, and not for longer.
func TestImportIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newMover(t, NewMemory(), &routed{}, Route{Name: "orders"})
		defer runs(t, q)()
		synctest.Wait()
		wantImport(t, "first", q, []Incoming{incoming(1, "", true)}, 1, 0)
		time.Sleep(importWindow - time.Minute)
		wantImport(t, "within the window", q, []Incoming{incoming(1, "", true)}, 0, 1)
		time.Sleep(2 * time.Minute)
		wantImport(t, "after it", q, []Incoming{incoming(1, "", true)}, 1, 0)
	})
}

// TestImportIdentity: a repeat of an imported message is one, an imported repeat is
// not kept, and an import takes no identity from another message.
func TestImportIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		r := newRig(t, s, &node{}, Route{})
		synctest.Wait()
		if err := r.Pause(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		first := incoming(1, "", true)
		first.Identity = sameAs("k", "sum", time.Hour)
		wantImport(t, "with an identity", r.Queue, []Incoming{first}, 1, 0)
		r.wantOnce(t, "a repeat", 2, "k", "sum", Kept{ID: uid(1), Repeat: true}, nil)

		repeat := incoming(3, "", true)
		repeat.Identity = first.Identity
		wantImport(t, "a repeat that is imported", r.Queue, []Incoming{repeat}, 0, 1)
		for i, waits := range []bool{true, false} {
			other := incoming(4+i, "", waits)
			other.Identity = sameAs("k", "other", time.Hour)
			wantImport(t, "other content", r.Queue, []Incoming{other}, 1, 0)
		}
		r.wantOnce(t, "a repeat, still", 6, "k", "sum", Kept{ID: uid(1), Repeat: true}, nil)
	})
}

// TestImportBesideItsOrigin: a file that is imported where it came from brings
// nothing that is there, waiting or delivered.
func TestImportBesideItsOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory(), &node{deliver: func(context.Context, *Delivery) Outcome { return bad }}, Route{})
		synctest.Wait()
		if _, err := r.once(1, "k", "sum"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		in := incoming(1, "", true)
		wantImport(t, "a dead letter", r.Queue, []Incoming{in}, 0, 1)
		if err := r.Drop(t.Context(), uid(1)); err != nil {
			t.Fatal(err)
		}
		in.Identity = sameAs("k", "sum", time.Hour)
		wantImport(t, "dropped, with an identity", r.Queue, []Incoming{in}, 0, 1)
	})
}

// TestImportHeld: an imported message is not sent before that it was imported is
// durable, so that no kill lets it be imported once more after its delivery.
func TestImportHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := &routed{}
		q := newMover(t, s, n, Route{Name: "orders"})
		defer runs(t, q)()
		synctest.Wait()
		s.SetDelay(10 * time.Millisecond)
		done := make(chan error, 1)
		go func() {
			_, err := q.Import(t.Context(), []Incoming{incoming(1, "", true)})
			done <- err
		}()
		time.Sleep(15 * time.Millisecond) // the message is durable, the note is not
		synctest.Wait()
		if q.Waiting() != 1 || len(n.all()) != 0 {
			t.Errorf("%d wait, given %q; want one that is not given", q.Waiting(), n.all())
		}
		if err := q.Drop(t.Context(), uid(1)); !errors.Is(err, ErrBusy) {
			t.Errorf("Drop: %v", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(n.all()) != 1 {
			t.Errorf("given %q", n.all())
		}
	})
}

// TestImportEnds: an error ends an import, what was taken stays, and the rest is
// taken by the next.
func TestImportEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		q := newMover(t, s, &routed{}, Route{Name: "orders", MaxMessages: 3, Retry: retry.Policy{Expire: time.Second}}, Route{Name: "sync", Closed: true})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		var batch []Incoming
		for i := range 5 {
			batch = append(batch, incoming(i, "a", true))
		}
		if sum, err := q.Import(t.Context(), batch); !errors.Is(err, ErrFull) || sum.Count != 3 {
			t.Errorf("over the quota: %+v, %v", sum, err)
		}
		if a, err := s.Attempts(uid(3)); err != nil || a != nil {
			t.Errorf("attempts of what was refused: %v, %v", a, err)
		}
		if d, err := q.Get(uid(0)); err != nil || !d.Accepted.Equal(time.Now()) {
			t.Errorf("what would expire at once: accepted %v, %v, want now", d.Accepted, err)
		}
		for _, id := range []int{0, 1} {
			if err := q.Drop(t.Context(), uid(id)); err != nil {
				t.Fatal(err)
			}
		}
		wantImport(t, "again", q, batch, 2, 3)
		for _, route := range []string{"sync", "none"} {
			in := incoming(9, "", true)
			in.Route = route
			if sum, err := q.Import(t.Context(), []Incoming{in}); !errors.Is(err, ErrNoTarget) || sum.Count != 0 {
				t.Errorf("route %s: %+v, %v", route, sum, err)
			}
		}
	})
}

func TestImportRefuses(t *testing.T) {
	q := newMover(t, NewMemory(), &routed{}, Route{Name: "orders"})
	if _, err := q.Import(t.Context(), []Incoming{incoming(1, "", true)}); !errors.Is(err, ErrBusy) {
		t.Errorf("before the index is complete: %v", err)
	}
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Incoming){
		"no message":               func(in *Incoming) { in.Message = nil },
		"no id":                    func(in *Incoming) { in.ID = "" },
		"id of words":              func(in *Incoming) { in.ID = "../../etc/passwd" },
		"id in braces":             func(in *Incoming) { in.ID = "{" + in.ID + "}" },
		"accepted tomorrow":        func(in *Incoming) { in.Accepted = time.Now().Add(24 * time.Hour) },
		"accepted never":           func(in *Incoming) { in.Accepted = time.Time{} },
		"attempt below zero":       func(in *Incoming) { in.Attempts[0].N = -1 },
		"attempt too many":         func(in *Incoming) { in.Attempts[0].N = 1 << 40 },
		"attempts too many":        func(in *Incoming) { in.Attempts = make([]AttemptRecord, 501) },
		"reason too long":          func(in *Incoming) { in.Attempts[0].Reason = string(make([]byte, 4000)) },
		"waits for ever":           func(in *Incoming) { in.Attempts[0].NotBefore = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
		"reply too large":          func(in *Incoming) { in.Reply = make([]byte, maxReply+1) },
		"identity for ever":        func(in *Incoming) { in.Identity.Until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
		"follows from one dropped": func(in *Incoming) { in.After = FateDropped },
		"died never":               func(in *Incoming) { in.Waits = false },
		"died of a label":          func(in *Incoming) { in.Waits, in.Died, in.Reason = false, time.Now(), "x\ny" },
		"operation too large":      func(in *Incoming) { in.Operation = string(make([]byte, maxFields)) },
	} {
		in := incoming(1, "", true)
		spoil(&in)
		if sum, err := q.Import(t.Context(), []Incoming{in}); err == nil || sum.Count != 0 || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
	if got := entries(t, q, Filter{}); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	wantImport(t, "a good one", q, []Incoming{incoming(1, "", true)}, 1, 0)
}

// TestImportEmbedded: on the disk as in memory, also after a kill.
func TestImportEmbedded(t *testing.T) {
	for _, clean := range []bool{true, false} {
		s := openStore(t, testOptions(t, t.TempDir()))
		q := newMover(t, s, idleNode{}, Route{Name: "orders"})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		var batch []Incoming
		for i := range 40 {
			batch = append(batch, incoming(i, []string{"a", ""}[i%2], i < 30))
		}
		wantImport(t, "first", q, batch, 40, 0)
		again := embeddedMaker(func(t *testing.T) StoreObserver { return noGaps{t: t} }).reopen(t, s, clean)
		q = newMover(t, again, idleNode{}, Route{Name: "orders"})
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantImport(t, "after a restart", q, batch, 0, 40)
		if got := len(entries(t, q, Filter{State: StateDead})); got != 10 || q.Waiting() != 30 {
			t.Errorf("clean %t: %d wait, %d are dead", clean, q.Waiting(), got)
		}
		_ = again.Close()
		_ = s.Close()
	}
}
