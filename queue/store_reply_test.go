package queue

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func replyOf(i int, keep time.Duration) *Reply {
	m := message(i)
	r := &Reply{ID: m.ID, Route: m.Route, Meta: m.Meta, Body: m.Body}
	if keep != 0 {
		r.Until = time.Now().Add(keep).Round(0).UTC()
	}
	return r
}

func keepReply(t *testing.T, s Store, r *Reply) {
	t.Helper()
	if err := s.KeepReply(t.Context(), r); err != nil {
		t.Fatalf("KeepReply(%s): %v", r.ID, err)
	}
}

// contractReply: replies are kept octet for octet until their time is over, and
// a while longer.
func contractReply(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	if _, err := s.Reply("none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Reply of an empty store: got %v, want ErrNotFound", err)
	}
	want := map[string]*Reply{}
	for i := range 30 {
		r := replyOf(i, time.Duration(i)*7*time.Minute) // the first for ever
		keepReply(t, s, r)
		want[r.ID] = r
	}
	// The same message again, in another hour: the newest counts.
	again := replyOf(5, 5*time.Hour)
	again.Body = []byte("newer")
	keepReply(t, s, again)
	want[again.ID] = again
	expired := replyOf(40, -time.Minute)
	keepReply(t, s, expired)
	want[expired.ID] = expired
	keepReply(t, s, replyOf(41, -3*time.Hour)) // may be there
	for _, id := range hostile[2:5] {
		r := replyOf(50, time.Hour)
		r.ID = id
		keepReply(t, s, r)
		want[id] = r
	}
	check := func(when string) {
		t.Helper()
		for id, w := range want {
			got, err := s.Reply(id)
			if err != nil {
				t.Fatalf("%s: Reply(%q): %v", when, id, err)
			}
			if d := cmp.Diff(w, got, cmp.Comparer(bytes.Equal)); d != "" {
				t.Errorf("%s: Reply(%q) (-want +got):\n%s", when, id, d)
			}
		}
		for _, id := range []string{"", "*", ">", "id-00000", "id-0000000"} {
			if r, err := s.Reply(id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: Reply(%q): got %v, %v, want ErrNotFound", when, id, r, err)
			}
		}
		if n := len(scanSeqs(t, s)); n != 0 {
			t.Errorf("%s: %d messages are in the log, want none", when, n)
		}
	}
	check("at once")
	if !want[expired.ID].Expired(time.Now()) || want[again.ID].Expired(time.Now()) || want[replyOf(0, 0).ID].Expired(time.Now().AddDate(100, 0, 0)) {
		t.Error("Expired: got the wrong ones")
	}
	s = mk.reopen(t, s, true)
	check("after Close")
	s = mk.reopen(t, s, false)
	check("after a crash")
	r := replyOf(60, time.Hour)
	r.Body = make([]byte, maxData+1)
	if err := s.KeepReply(t.Context(), r); !errors.Is(err, ErrTooLarge) {
		t.Errorf("KeepReply of what is too large: got %v, want ErrTooLarge", err)
	}
	r.Meta, r.Body = []byte("m"), bytes.Repeat([]byte("x"), maxData-1)
	keepReply(t, s, r)
	if got, err := s.Reply(r.ID); err != nil || !bytes.Equal(got.Body, r.Body) {
		t.Errorf("Reply of the largest: got %v", err)
	}
	closeStore(t, s)
	if err := s.KeepReply(t.Context(), replyOf(1, time.Hour)); !errors.Is(err, ErrClosed) {
		t.Errorf("KeepReply after Close: got %v, want ErrClosed", err)
	}
	if _, err := s.Reply("x"); !errors.Is(err, ErrClosed) {
		t.Errorf("Reply after Close: got %v, want ErrClosed", err)
	}
}

// contractReplyCrash: what KeepReply has returned for is there, whenever the process ends.
func contractReplyCrash(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	for i := range 5 {
		keepReply(t, s, replyOf(i, time.Hour*time.Duration(i+1)))
		c := mk.reopen(t, s, false)
		for k := range i + 1 {
			if _, err := c.Reply(message(k).ID); err != nil {
				t.Fatalf("after a crash behind reply %d: Reply(%d): %v", i, k, err)
			}
		}
		if _, memory := s.(*Memory); memory {
			s = c
			continue
		}
		closeStore(t, c)
	}
}

// TestRepliesAreForgotten: replies of an hour that is long over leave the disk, and
// so does the note of that hour; others stay.
func TestRepliesAreForgotten(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openStore(t, o)
	keeps := []time.Duration{-5 * time.Hour, -4 * time.Hour, -time.Minute, time.Hour, 0}
	for i, keep := range keeps {
		keepReply(t, s, replyOf(i, keep))
	}
	closeStore(t, s)
	s = openStore(t, o) // the hours are read back
	s.replies.mu.Lock()
	s.replies.over = time.Time{}
	s.replies.mu.Unlock()
	s.trim.poke()
	count := func(subject string) (n int) {
		err := s.js.values(t.Context(), subject, func(scanned) error { n++; return nil })
		if err != nil {
			t.Error(err)
		}
		return n
	}
	waitFor(t, "the replies that are over", func() bool {
		i, err := s.js.info(streamReply)
		return err == nil && i.State.Messages == 3 && count(subjectReplyHour+"*") <= 3
	})
	for i, keep := range keeps {
		_, err := s.Reply(message(i).ID)
		if gone := keep < -3*time.Hour; gone != errors.Is(err, ErrNotFound) || !gone && err != nil {
			t.Errorf("Reply kept for %v: got %v", keep, err)
		}
	}
}

// TestRepliesCount: replies take room, also what is kept for dead letters, and give
// it back.
func TestRepliesCount(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.MaxBytes = 2 << 20
	s := openStore(t, o)
	big := func(i int) *Reply {
		r := replyOf(i, -5*time.Hour)
		r.Body = make([]byte, 100<<10)
		return r
	}
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = s.KeepReply(t.Context(), big(n))
	}
	if !errors.Is(err, ErrFull) || n < 15 {
		t.Fatalf("reply %d: got %v, want ErrFull behind 2 MiB", n, err)
	}
	if used := s.Info().Bytes; used < 1900<<10 {
		t.Errorf("Info().Bytes = %d, want nearly 2 MiB", used)
	}
	m := message(1)
	m.Body = make([]byte, 1000)
	if _, err := s.Put(t.Context(), m); !errors.Is(err, ErrFull) {
		t.Errorf("Put beside the replies: got %v, want ErrFull", err)
	}
	s.replies.mu.Lock()
	s.replies.over = time.Time{}
	s.replies.mu.Unlock()
	s.trim.poke()
	waitFor(t, "room", func() bool { _, err := s.Put(t.Context(), m); return err == nil })
}

// TestStoreWithoutReplies: a store that was made before there were replies takes
// them; one that has lost them is not opened.
func TestStoreWithoutReplies(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openStore(t, o)
	if err := s.js.call("STREAM.DELETE."+streamReply, nil, nil); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if s, err := OpenEmbedded(o); err == nil {
		t.Error("a store that has lost its replies was opened")
		closeStore(t, s)
	}
	id, err := readIdentity(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	id.Replies = false // as older versions wrote it
	if err := id.write(o.Dir); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, o)
	keepReply(t, s, replyOf(1, time.Hour))
	closeStore(t, s)
	s = openStore(t, o)
	if _, err := s.Reply(message(1).ID); err != nil {
		t.Errorf("Reply: got %v", err)
	}
}
