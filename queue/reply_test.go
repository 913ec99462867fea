package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// answer is a delivery with a reply that is to be kept.
func answer(body string, keep time.Duration) Outcome {
	return Outcome{Status: 200, Keep: &Reply{Meta: []byte("m"), Body: []byte(body), Until: time.Now().Add(keep)}}
}

// wantReply checks what a caller is told of a message that was delivered.
func (r *rig) wantReply(t *testing.T, when, id, body string) {
	t.Helper()
	f, err := r.Follow(id)
	if err != nil || f.Fate != FateDelivered || f.Route != "orders" || f.Reply == nil || string(f.Reply.Body) != body || string(f.Reply.Meta) != "m" || f.Reply.ID != id {
		t.Fatalf("%s: Follow: got %+v, %v, want the reply %q", when, f, err, body)
	}
}

// TestFollow: what a caller can learn of its message, in each of its states.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		hold := make(chan struct{})
		n := &node{deliver: func(ctx context.Context, d *Delivery) Outcome {
			<-hold
			switch string(d.Meta) {
			case "bad":
				return bad
			case "none":
				return Outcome{}
			}
			return answer("<reply/>", time.Hour)
		}}
		r := newRig(t, s, n, Route{})
		send := func(id, meta string) {
			t.Helper()
			if err := r.Put(t.Context(), &Message{ID: id, Route: "orders", Destination: "depot", Accepted: time.Now(), Meta: []byte(meta), Body: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"good", "bad", "none"} {
			send(id, id)
		}
		synctest.Wait()
		for _, id := range []string{"good", "bad", "none"} {
			if f, err := r.Follow(id); err != nil || f.Fate != FateWaiting || string(f.Meta) != id || f.Route != "orders" || f.Reply != nil {
				t.Errorf("Follow(%s) while it waits: got %+v, %v", id, f, err)
			}
		}
		if _, err := r.Follow("never"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Follow of none: got %v, want ErrNotFound", err)
		}
		close(hold)
		time.Sleep(time.Second)
		r.wantReply(t, "answered", "good", "<reply/>")
		if f, err := r.Follow("bad"); err != nil || f.Fate != FateDead || string(f.Meta) != "bad" {
			t.Errorf("Follow of a dead letter: got %+v, %v", f, err)
		}
		if f, err := r.Follow("none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Follow of one without a reply: got %+v, %v, want ErrNotFound", f, err)
		}
		time.Sleep(time.Hour)
		if f, err := r.Follow("good"); err != nil || !f.Reply.Expired(time.Now()) {
			t.Errorf("Follow of an expired reply: got %+v, %v, want it expired", f, err)
		}
		time.Sleep(3 * time.Hour)
		if f, err := r.Follow("good"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Follow long after: got %+v, %v, want ErrNotFound", f, err)
		}
	})
}

// TestFollowWhileLoading: nobody is told that there is no such message while it
// may wait all the same.
func TestFollowWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		if _, err := s.Put(t.Context(), &Message{ID: "waits", Route: "orders", Destination: "depot", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		q, err := New(s, &node{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f, err := q.Follow("waits"); !errors.Is(err, ErrBusy) {
			t.Errorf("Follow before Load: got %+v, %v, want ErrBusy", f, err)
		}
		if err := q.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f, err := q.Follow("waits"); err != nil || f.Fate != FateWaiting {
			t.Errorf("Follow after Load: got %+v, %v", f, err)
		}
	})
}

// TestReplyBeforeRemoval: a crash between the two brings the message back, which is
// then taken as delivered and not sent again; without the reply it is, marked.
func TestReplyBeforeRemoval(t *testing.T) {
	for _, once := range []bool{false, true} {
		for _, kept := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := NewMemory()
				hang := &node{deliver: func(ctx context.Context, _ *Delivery) Outcome { <-ctx.Done(); return Outcome{Verdict: Aborted} }}
				old := newRig(t, s, hang, Route{AtMostOnce: once})
				id := old.put(t, "")
				time.Sleep(time.Second) // the attempt has begun
				if kept {
					// As the queue does it; the crash comes before the removal.
					r := answer("<reply/>", time.Hour).Keep
					r.ID, r.Route = id, "orders"
					if err := s.KeepReply(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				}
				n := &node{deliver: func(context.Context, *Delivery) Outcome { return answer("<second/>", time.Hour) }}
				r := newRig(t, s.Reopen(), n, Route{AtMostOnce: once})
				time.Sleep(time.Minute)
				g := n.given()
				switch {
				case kept:
					if len(g) != 0 || r.Waiting() != 0 {
						t.Errorf("once %t: given again: %+v, %d wait", once, g, r.Waiting())
					}
					r.wantReply(t, "after the crash", id, "<reply/>")
				case once:
					if f, err := r.Follow(id); err != nil || f.Fate != FateDead || len(g) != 0 {
						t.Errorf("at most once: got %+v, %v and %+v, want a dead letter", f, err, g)
					}
				default:
					if len(g) != 1 || !g[0].dup {
						t.Errorf("without a reply: given %+v, want once, marked", g)
					}
					r.wantReply(t, "given again", id, "<second/>")
				}
			})
		}
	}
}

// TestReplyWaitsForRoom: a message whose reply finds no room is not sent again, and
// goes once there is room; a stop marks it.
func TestReplyWaitsForRoom(t *testing.T) {
	for _, stop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := NewMemory()
			n := &node{deliver: func(context.Context, *Delivery) Outcome { return answer("<reply/>", 24*time.Hour) }}
			r := newRig(t, s, n, Route{})
			s.SetRepliesFull(true)
			id := r.put(t, "lane")
			r.put(t, "lane")
			time.Sleep(time.Hour)
			if g := n.given(); len(g) != 1 || r.Waiting() != 2 || r.Stats()[0].LastError == "" {
				t.Fatalf("without room: given %+v, %d wait, %+v", g, r.Waiting(), r.Stats()[0])
			}
			if f, err := r.Follow(id); err != nil || f.Fate != FateWaiting {
				t.Errorf("without room: Follow: got %+v, %v, want it to wait", f, err)
			}
			if !stop {
				s.SetRepliesFull(false)
				time.Sleep(time.Minute)
				r.wantReply(t, "with room", id, "<reply/>")
				if g := n.given(); len(g) != 2 || g[1].dup {
					t.Errorf("with room: given %+v, want each once", g)
				}
				return
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := newRig(t, s.Reopen(), n, Route{})
			time.Sleep(time.Minute)
			again.wantReply(t, "after a stop", id, "<reply/>")
			if g := n.given(); len(g) != 3 || !g[1].dup || g[2].dup {
				t.Errorf("after a stop: given %+v, want the first again, marked", g)
			}
		})
	}
}

// TestReplyTooLarge: a reply that no record holds makes a dead letter, whose replay
// is marked.
func TestReplyTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		n.deliver = func(context.Context, *Delivery) Outcome {
			if len(n.given()) > 1 {
				return answer("<small/>", time.Hour)
			}
			return answer(string(make([]byte, maxData)), time.Hour)
		}
		r := newRig(t, NewMemory(), n, Route{})
		id := r.put(t, "")
		time.Sleep(time.Minute)
		d, err := r.Get(id)
		if err != nil || d.Reason != ReasonPermanent || d.Text != "the reply is larger than can be stored" || len(d.Reply) != maxReply || len(d.History) != 1 {
			t.Fatalf("Get: got %+v, %v, want a dead letter", d.Entry, err)
		}
		if err := r.Replay(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if g := n.given(); len(g) != 2 || !g[1].dup {
			t.Errorf("replayed: got %+v, want it marked", g)
		}
		r.wantReply(t, "replayed", id, "<small/>")
	})
}

// TestReplyStoreFails: when the store fails under a reply nothing is sent again by
// this run, and the next one marks it.
func TestReplyStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		n := &node{}
		n.deliver = func(context.Context, *Delivery) Outcome {
			s.FailNextSync(errors.New("disk"))
			return answer("<reply/>", time.Hour)
		}
		r := newRig(t, s, n, Route{})
		id := r.put(t, "")
		time.Sleep(time.Hour)
		if g := n.given(); len(g) != 1 {
			t.Errorf("on a store that has failed: given %+v, want once", g)
		}
		_ = r.stop()
		s = s.Reopen() // the write had come through all the same
		again := newRig(t, s, &node{}, Route{})
		time.Sleep(time.Minute)
		again.wantReply(t, "after the failure", id, "<reply/>")
	})
}
