package queue

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// deliveredIDs lists the delivered messages by pages of two.
func (r *rig) deliveredIDs(t *testing.T, f Filter) (ids []string) {
	t.Helper()
	f.State, f.Limit = StateDelivered, 2
	for {
		page, next, err := r.List(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			if e.State != StateDelivered || e.Delivered.IsZero() || e.Attempts == 0 {
				t.Errorf("listed as %+v", e)
			}
			ids = append(ids, e.ID)
		}
		if next == "" {
			return ids
		}
		f.After = next
	}
}

// TestKeepDelivered: what was delivered is listed where it is asked for, shown and
// dropped, for as long as it is kept.
func TestKeepDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		r := newRig(t, s, &node{}, Route{})
		r.put(t, "")
		time.Sleep(time.Second)
		if err := r.SetKeepDelivered(time.Hour); err != nil {
			t.Fatal(err)
		}
		var want []string
		for range 5 {
			want = append(want, r.put(t, ""))
			time.Sleep(time.Second)
		}
		got := r.deliveredIDs(t, Filter{Route: "orders"})
		if len(got) != 5 || got[0] != want[0] || got[4] != want[4] {
			t.Fatalf("got %v, want %v", got, want)
		}
		if got := r.deliveredIDs(t, Filter{Route: "other"}); len(got) != 0 {
			t.Errorf("of another route: %v", got)
		}
		if got := r.deliveredIDs(t, Filter{Text: want[2]}); len(got) != 1 {
			t.Errorf("by a text: %v", got)
		}
		if page, _, err := r.List(Filter{}); err != nil || len(page) != 0 {
			t.Errorf("without a state: %v, %v", page, err)
		}
		d, err := r.Get(want[1])
		if err != nil || string(d.Message.Body) != "body of "+want[1] || d.State != StateDelivered || len(d.History) != 1 || d.History[0].N != 1 {
			t.Errorf("Get: got %+v, %v", d, err)
		}
		if err := r.Drop(t.Context(), want[1]); err != nil {
			t.Error(err)
		}
		if err := r.Drop(t.Context(), want[1]); !errors.Is(err, ErrNotFound) {
			t.Errorf("Drop again: got %v, want ErrNotFound", err)
		}
		if _, err := r.Get(want[1]); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get of what was dropped: got %v, want ErrNotFound", err)
		}
		time.Sleep(time.Hour - 3*time.Second)
		if got := r.deliveredIDs(t, Filter{}); len(got) != 2 {
			t.Errorf("nearly an hour later: %v, want two", got)
		}
		if err := r.SetKeepDelivered(0); err != nil {
			t.Fatal(err)
		}
		r.put(t, "")
		time.Sleep(time.Second)
		if got := r.deliveredIDs(t, Filter{}); len(got) != 0 {
			t.Errorf("nothing is kept any more: %v", got)
		}
		s.SetFull(true) // it must not keep anybody from delivering
	})
}

// TestReplayDelivered: the replay of a delivered message is a delivery like any
// other, marked, whatever was kept of the first one and whenever a crash comes.
func TestReplayDelivered(t *testing.T) {
	for _, crash := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := NewMemory()
			n := asked(answer("<reply/>", time.Hour))
			r := twoWay(t, s, n, Route{})
			if err := r.SetKeepDelivered(time.Hour); err != nil {
				t.Fatal(err)
			}
			r.ask(t, "q1")
			time.Sleep(time.Second)
			if err := r.Replay(t.Context(), "never"); !errors.Is(err, ErrNotFound) {
				t.Errorf("Replay of none: got %v, want ErrNotFound", err)
			}
			if err := r.Pause(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			if err := r.Replay(t.Context(), "q1"); err != nil {
				t.Fatal(err)
			}
			if err := r.Replay(t.Context(), "q1"); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrBusy) {
				t.Errorf("Replay of one that waits: got %v", err)
			}
			if d, err := r.Get("q1"); err != nil || d.State != StatePending {
				t.Errorf("Get: got %+v, %v, want it to wait", d, err)
			}
			if crash {
				r = twoWay(t, s.Reopen(), n, Route{})
				if err := r.SetKeepDelivered(time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			if err := r.Resume(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			wantBodies(t, "replayed", n, "question", "question!")
			if g := n.given(); len(g) == 2 && g[1].attempt != 1 {
				t.Errorf("the replay is attempt %d, want 1", g[1].attempt)
			}
			if got := r.deliveredIDs(t, Filter{}); len(got) != 2 {
				t.Errorf("delivered: %v, want it twice", got)
			}
		})
	}
}

// TestDeliveredAndBackAgain: a crash between the two leaves a message that is kept as
// delivered and waits, and it is given again marked.
func TestDeliveredAndBackAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		if err := s.SetKeepDelivered(time.Hour); err != nil {
			t.Fatal(err)
		}
		m := &Message{ID: "q1", Route: "orders", Destination: "depot", Accepted: time.Now(), Body: []byte("question")}
		if _, err := s.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepDelivered(&DeadLetter{Message: m, Died: time.Now(), Reason: ReasonDelivered}); err != nil {
			t.Fatal(err)
		}
		n := &node{}
		r := twoWay(t, s.Reopen(), n, Route{})
		time.Sleep(time.Minute)
		wantBodies(t, "after a crash", n, "question!")
		if r.Waiting() != 0 {
			t.Errorf("%d wait", r.Waiting())
		}
	})
}

// contractDelivered: both stores keep what was delivered alike.
func contractDelivered(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	keep := func(i int) {
		t.Helper()
		d := deadLetter(i)
		d.Reason = ReasonDelivered
		if err := s.KeepDelivered(d); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(t.Context()); err != nil { // it is written then
			t.Fatal(err)
		}
	}
	scan := func(from uint64) (seqs []uint64, ids []string) {
		t.Helper()
		err := s.ScanDelivered(t.Context(), from, func(seq uint64, d *DeadLetter, size int64) error {
			if len(d.Body) > 0 || size != deadLetter(1).Size() && size == 0 {
				t.Errorf("ScanDelivered of %s: a body, or size %d", d.ID, size)
			}
			seqs, ids = append(seqs, seq), append(ids, d.ID)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return seqs, ids
	}
	keep(1)
	if _, ids := scan(1); len(ids) != 0 {
		t.Errorf("kept although nothing is to be: %v", ids)
	}
	if err := s.SetKeepDelivered(time.Hour); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 4; i++ {
		keep(i)
	}
	seqs, ids := scan(1)
	if len(ids) != 4 || ids[0] != deadLetter(1).ID || ids[3] != deadLetter(4).ID {
		t.Fatalf("got %v", ids)
	}
	if again, _ := scan(seqs[2]); len(again) != 2 || again[0] != seqs[2] {
		t.Errorf("from %d: got %v", seqs[2], again)
	}
	stop := errors.New("stop")
	if err := s.ScanDelivered(t.Context(), 1, func(uint64, *DeadLetter, int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of f: got %v", err)
	}
	d, err := s.Delivered(deadLetter(2).ID)
	if want := deadLetter(2); err != nil || string(d.Body) != string(want.Body) || string(d.Meta) != string(want.Meta) || !d.Died.Equal(want.Died) || d.Reason != ReasonDelivered {
		t.Errorf("Delivered: got %+v, %v", d, err)
	}
	if err := s.ForgetDelivered(t.Context(), deadLetter(2).ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delivered(deadLetter(2).ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("Delivered of what was forgotten: got %v, want ErrNotFound", err)
	}
	if n := len(scanSeqs(t, s)); n != 0 {
		t.Errorf("%d messages are in the log", n)
	}
	if _, err := s.Dead(deadLetter(1).ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("Dead: got %v, want ErrNotFound", err)
	}
	s = mk.reopen(t, s, true)
	if err := s.SetKeepDelivered(time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, mem := s.(*Memory); mem { // Embedded was opened with nothing to be kept
		if _, ids := scan(1); len(ids) != 3 {
			t.Errorf("after a reopening: %v", ids)
		}
	}
	if err := s.SetKeepDelivered(0); err != nil {
		t.Fatal(err)
	}
	if _, ids := scan(1); len(ids) != 0 {
		t.Errorf("forgotten, and still there: %v", ids)
	}
}

// TestKeepDeliveredLarge: a body that is a file is kept as long as a record holds it.
func TestKeepDeliveredLarge(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.KeepDelivered = time.Hour
	s := openStore(t, o)
	n := &node{}
	r := twoWay(t, s, n, Route{})
	if err := r.SetKeepDelivered(time.Hour); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{"large": 3 << 20, "too large": 9 << 20}
	for id, size := range sizes {
		m := &Message{ID: id, Route: "orders", Destination: "depot", Accepted: time.Now(), Body: bytes.Repeat([]byte("x"), size)}
		if err := r.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "both to be delivered", func() bool { return len(n.given()) == 2 && r.Waiting() == 0 })
	d, err := r.Get("large")
	if err != nil || d.State != StateDelivered || d.Size != 3<<20 || len(d.Message.Body) != 3<<20 {
		t.Fatalf("Get: got %v", err)
	}
	if _, err := r.Get("too large"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get of what no record holds: got %v, want ErrNotFound", err)
	}
	if err := r.Replay(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the replay", func() bool { return len(n.given()) == 3 && r.Waiting() == 0 })
	if g := n.given()[2]; g.id != "large" || !g.dup {
		t.Errorf("the replay came as %s, marked %v", g.id, g.dup)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// TestDeliveredOnDisk: they outlive a restart, give way to what needs room, and go
// when their time is over.
func TestDeliveredOnDisk(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.MaxBytes, o.KeepDelivered = 2<<20, time.Hour
	s := openStore(t, o)
	big := func(i int) *DeadLetter {
		d := deadLetter(i)
		d.Body = noise(50 << 10)
		return d
	}
	count := func() (n int) {
		t.Helper()
		if err := s.ScanDelivered(t.Context(), 1, func(uint64, *DeadLetter, int64) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 100 {
		if err := s.KeepDelivered(big(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.trim.poke() // which measures
	waitFor(t, "a bounded store", func() bool { n := count(); return n >= 20 && n <= 40 && s.Info().Bytes <= 2<<20 })
	if _, err := s.Delivered(big(99).ID); err != nil {
		t.Errorf("the latest: %v", err)
	}
	before := count()
	closeStore(t, s)
	s = openStore(t, o)
	if n := count(); n > before || n < 15 { // the last pass before the stop may still make room
		t.Errorf("after a restart: %d, want about %d", n, before)
	}
	m := message(1)
	m.Body = noise(50 << 10)
	for i := range 36 {
		if _, err := s.Put(t.Context(), m); err != nil {
			t.Fatalf("Put %d beside what was delivered: %v", i, err)
		}
	}
	if n := count(); n > 5 || s.Info().Bytes > 2<<20 {
		t.Errorf("%d did not give way, %d octets are used", n, s.Info().Bytes)
	}
	for i := 0; ; i++ {
		if _, err := s.Put(t.Context(), m); errors.Is(err, ErrFull) {
			break
		} else if err != nil || i > 5 {
			t.Fatalf("Put: got %v, want ErrFull", err)
		}
	}
	waitFor(t, "what was delivered to give way", func() bool { return count() == 0 })
	if err := s.KeepDelivered(big(1)); !errors.Is(err, ErrFull) {
		t.Errorf("KeepDelivered: got %v, want ErrFull", err)
	}
	closeStore(t, s)
	o.MaxBytes, o.KeepDelivered = 1<<30, time.Second
	s = openStore(t, o)
	if err := s.KeepDelivered(big(1)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of its time", func() bool { return count() == 0 })
	closeStore(t, s)
	o.KeepDelivered = 0
	s = openStore(t, o)
	if err := s.KeepDelivered(big(1)); err != nil || count() != 0 {
		t.Errorf("kept for no time: %v, %d", err, count())
	}
}
