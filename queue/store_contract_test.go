package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A storeMaker makes stores for the contract suite. reopen ends the process
// that has the store, in order or not, and opens it again.
type storeMaker struct {
	open   func(t *testing.T) Store
	reopen func(t *testing.T, s Store, clean bool) Store
}

func memoryMaker() storeMaker {
	return storeMaker{
		open: func(*testing.T) Store { return NewMemory() },
		reopen: func(t *testing.T, s Store, clean bool) Store {
			if clean {
				if err := s.Close(); err != nil {
					t.Fatalf("Close: %v", err)
				}
			}
			return s.(*Memory).Reopen()
		},
	}
}

// testContract is what both stores must do.
func testContract(t *testing.T, mk storeMaker) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, storeMaker)
	}{
		{"RoundTrip", contractRoundTrip},
		{"NotFound", contractNotFound},
		{"TooLarge", contractTooLarge},
		{"Order", contractOrder},
		{"PutAll", contractPutAll},
		{"Remove", contractRemove},
		{"RemoveHoles", contractRemoveHoles},
		{"Known", contractKnown},
		{"KnownCrash", contractKnownCrash},
		{"Reply", contractReply},
		{"ReplyCrash", contractReplyCrash},
		{"Awaited", contractAwaited},
		{"Delivered", contractDelivered},
		{"Dead", contractDead},
		{"DeadManyAttempts", contractDeadManyAttempts},
		{"Attempts", contractAttempts},
		{"State", contractState},
		{"Epoch", contractEpoch},
		{"Closed", contractClosed},
		{"ScanStops", contractScanStops},
		{"CancelledPut", contractCancelledPut},
		{"Blob", contractBlob},
		{"BlobLife", contractBlobLife},
		{"BlobCrash", contractBlobCrash},
		{"BlobRefused", contractBlobRefused},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, mk) })
	}
}

func TestMemoryContract(t *testing.T) { testContract(t, memoryMaker()) }

var hostile = []string{"", "%", "-", "a b", "a\r\nNats-Rollup: all", "ключ", "\x00\xff", "%41", strings.Repeat("long ", 500)}

// message makes the i-th message, with every kind of octet in its fields.
func message(i int) *Message {
	h := func(n int) string { return hostile[(i+n)%len(hostile)] }
	body := make([]byte, i%40*97)
	for k := range body {
		body[k] = byte(i + k*7)
	}
	return &Message{
		ID: fmt.Sprintf("id-%06d", i), Route: "orders" + h(1), Destination: h(2), Lane: h(3), Operation: h(4),
		Accepted: time.Unix(1790000000, int64(i)).UTC(), Meta: []byte(h(5)), Body: body,
		Forwards: i%3 == 1, After: Fate(i % 5 / 4 * 2),
	}
}

// sameMessage compares octets as a whole: one by one, large bodies take minutes.
var sameMessage = cmp.Options{cmp.Comparer(bytes.Equal), cmp.Comparer(sameBlob)}

func put(t *testing.T, s Store, m *Message) uint64 {
	t.Helper()
	seq, err := s.Put(t.Context(), m)
	if err != nil {
		t.Fatalf("Put(%s): %v", m.ID, err)
	}
	return seq
}

func scanSeqs(t *testing.T, s Store) (seqs []uint64) {
	t.Helper()
	if err := s.Scan(t.Context(), func(seq uint64, _ *Message, _ int64) error { seqs = append(seqs, seq); return nil }); err != nil {
		t.Fatalf("Scan: %v", err)
	}
	return seqs
}

func closeStore(t *testing.T, s Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func contractRoundTrip(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	want := make(map[uint64]*Message)
	check := func(when string) {
		for seq, m := range want {
			got, err := s.Get(seq)
			if err != nil {
				t.Fatalf("%s: Get(%d): %v", when, seq, err)
			}
			if d := cmp.Diff(m, got, sameMessage); d != "" {
				t.Fatalf("%s: Get(%d) differs (-want +got):\n%s", when, seq, d)
			}
		}
		n := 0
		err := s.Scan(t.Context(), func(seq uint64, m *Message, size int64) error {
			n++
			w := *want[seq]
			if size != w.Size() {
				t.Errorf("%s: Scan(%d): size %d, want %d", when, seq, size, w.Size())
			}
			if m.Body != nil || m.Blob != nil {
				t.Errorf("%s: Scan(%d): has a body", when, seq)
			}
			w.Meta, w.Body, w.Blob, m.Meta = nil, nil, nil, nil
			if d := cmp.Diff(&w, m, sameMessage); d != "" {
				t.Errorf("%s: Scan(%d) differs (-want +got):\n%s", when, seq, d)
			}
			return nil
		})
		if err != nil || n != len(want) {
			t.Fatalf("%s: Scan: %d messages, %v, want %d", when, n, err, len(want))
		}
		if got := s.Info().Messages; got != uint64(len(want)) {
			t.Errorf("%s: Info().Messages = %d, want %d", when, got, len(want))
		}
	}
	for i := range 60 {
		m := message(i)
		want[put(t, s, m)] = m
	}
	zero := &Message{ID: "zero time"}
	want[put(t, s, zero)] = zero
	large := &Message{ID: "large", Meta: []byte("m"), Body: bytes.Repeat([]byte("x"), maxData-1)}
	want[put(t, s, large)] = large
	check("first")
	s = mk.reopen(t, s, true)
	check("after Close")
	s = mk.reopen(t, s, false)
	check("after a crash")
	m := message(1000)
	if seq := put(t, s, m); want[seq] != nil {
		t.Errorf("Put: sequence %d was given twice", seq)
	}
	closeStore(t, s)
}

func contractNotFound(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	for _, seq := range []uint64{0, 1, 1 << 60} {
		if _, err := s.Get(seq); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get(%d): got %v, want %v", seq, err, ErrNotFound)
		}
	}
	if _, err := s.Dead("nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Dead: got %v, want %v", err, ErrNotFound)
	}
	if b, err := s.State("nothing"); b != nil || err != nil {
		t.Errorf("State: got %q, %v, want nil, nil", b, err)
	}
	if err := s.Remove(0, 1, 99); err != nil {
		t.Errorf("Remove of what is not there: %v", err)
	}
	if err := s.Unbury(t.Context(), "nobody"); err != nil {
		t.Errorf("Unbury of what is not there: %v", err)
	}
	if got := scanSeqs(t, s); got != nil {
		t.Errorf("Scan of an empty store: %v", got)
	}
	// A number that was removed before it existed must not hide the message that gets it.
	seq := put(t, s, message(1))
	if _, err := s.Get(seq); err != nil {
		t.Errorf("Get(%d): %v", seq, err)
	}
}

func contractTooLarge(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	scanAll(t, s)
	for name, m := range map[string]*Message{
		"meta":               {ID: "a", Meta: make([]byte, maxData), Body: []byte("x")},
		"meta beside a blob": {ID: "a", Meta: make([]byte, maxData+1), Body: noise(inlineMost + 1)},
		"lane":               {ID: "a", Lane: strings.Repeat("\n", maxFields/2)},
	} {
		if _, err := s.Put(t.Context(), m); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Put with a large %s: got %v, want %v", name, err, ErrTooLarge)
		}
	}
	if err := s.SaveState(t.Context(), strings.Repeat("n", maxKey+1), []byte("x")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("SaveState with a long name: got %v, want %v", err, ErrTooLarge)
	}
	if got := scanSeqs(t, s); len(got) != 0 || bodies(t, s) != 0 {
		t.Errorf("after refusals: %v in the log and %d bodies, want nothing", got, bodies(t, s))
	}
}

// contractOrder: onCommit is called in the order of the sequence, for all, and
// before Put returns.
func contractOrder(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	var mu sync.Mutex
	told := make(map[uint64]string)
	var order []uint64
	s.OnCommit(func(seq uint64, m *Message) {
		mu.Lock()
		defer mu.Unlock()
		told[seq] = m.ID
		order = append(order, seq)
	})
	const senders, each = 16, 40
	var wg sync.WaitGroup
	for g := range senders {
		wg.Go(func() {
			for i := range each {
				m := message(g*each + i)
				seq, err := s.Put(t.Context(), m)
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				mu.Lock()
				if told[seq] != m.ID {
					t.Errorf("Put returned %d for %s, but onCommit was told %q", seq, m.ID, told[seq])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(order) != senders*each || !slices.IsSorted(order) {
		t.Errorf("onCommit: %d calls, sorted: %v; want %d in order", len(order), slices.IsSorted(order), senders*each)
	}
	for seq, id := range told {
		if m, err := s.Get(seq); err != nil || m.ID != id {
			t.Fatalf("Get(%d): %v, %v, want %s", seq, m, err, id)
		}
	}
}

func contractRemove(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	var seqs []uint64
	for i := range 50 {
		seqs = append(seqs, put(t, s, message(i)))
	}
	if err := s.Remove(seqs[:20]...); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if err := s.Remove(seqs[30], seqs[35], seqs[30]); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	want := slices.Concat(seqs[20:30], seqs[31:35], seqs[36:])
	check := func(when string) {
		t.Helper()
		if got := scanSeqs(t, s); !slices.Equal(got, want) {
			t.Fatalf("%s: Scan: %v, want %v", when, got, want)
		}
		if _, err := s.Get(seqs[30]); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: Get of a removed message: %v, want %v", when, err, ErrNotFound)
		}
		if got := s.Info().Messages; got != uint64(len(want)) {
			t.Errorf("%s: Info().Messages = %d, want %d", when, got, len(want))
		}
	}
	check("at once")
	s = mk.reopen(t, s, true)
	check("after Close")
	if err := s.Remove(want...); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	want = nil
	check("all")
	s = mk.reopen(t, s, true)
	check("all, after Close")
	if seq := put(t, s, message(7)); seq <= seqs[49] {
		t.Errorf("Put after everything was removed: sequence %d, want more than %d", seq, seqs[49])
	}
	closeStore(t, s)
}

// contractRemoveHoles removes at random, over several lives, and never the first.
func contractRemoveHoles(t *testing.T, mk storeMaker) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := mk.open(t)
	first := put(t, s, message(0))
	live := []uint64{first}
	for life := range 4 {
		for i := range 200 {
			live = append(live, put(t, s, message(i)))
		}
		for range 150 {
			i := 1 + rnd.IntN(len(live)-1)
			if err := s.Remove(live[i]); err != nil {
				t.Fatalf("Remove: %v", err)
			}
			live = slices.Delete(live, i, i+1)
		}
		s = mk.reopen(t, s, true)
		if got := scanSeqs(t, s); !slices.Equal(got, live) {
			t.Fatalf("life %d: Scan: %d messages, want %d: %v and %v", life, len(got), len(live), got, live)
		}
		if got := s.Info().Messages; got != uint64(len(live)) {
			t.Errorf("life %d: Info().Messages = %d, want %d", life, got, len(live))
		}
	}
	closeStore(t, s)
}

func deadLetter(i int) *DeadLetter {
	return &DeadLetter{
		Message: message(i), Died: time.Unix(1790000500, int64(i)).UTC(), Reason: "permanent", Text: "404: no such\norder %",
		Attempts: []AttemptRecord{{N: 1, At: time.Unix(1790000400, 0).UTC(), Status: 500, Reason: "HTTP 500", Maybe: true}, {N: 2, At: time.Unix(1790000401, 5).UTC()}},
		Reply:    []byte("<fault/>"), ReplyType: "text/xml; charset=utf-8",
	}
}

func contractDead(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	ids := []string{"b", "a.*.>", "c c", "", "id%"}
	want := make(map[string]*DeadLetter)
	for i, id := range ids {
		d := deadLetter(i)
		d.ID = id
		want[id] = d
		if err := s.Bury(t.Context(), d); err != nil {
			t.Fatalf("Bury(%q): %v", id, err)
		}
	}
	again := deadLetter(40) // replaces the first
	again.ID, again.Reply, again.Attempts = "b", nil, nil
	want["b"] = again
	if err := s.Bury(t.Context(), again); err != nil {
		t.Fatalf("Bury: %v", err)
	}
	check := func(when string) {
		t.Helper()
		for id, w := range want {
			got, err := s.Dead(id)
			if err != nil {
				t.Fatalf("%s: Dead(%q): %v", when, id, err)
			}
			if d := cmp.Diff(w, got, sameMessage); d != "" {
				t.Errorf("%s: Dead(%q) differs (-want +got):\n%s", when, id, d)
			}
		}
		var got []string
		err := s.ScanDead(t.Context(), func(d *DeadLetter, size int64) error {
			got = append(got, d.ID)
			if want[d.ID] == nil {
				t.Errorf("%s: ScanDead: %q is there", when, d.ID)
				return nil
			}
			w := *want[d.ID]
			m := *w.Message
			if size != m.Size() {
				t.Errorf("%s: ScanDead(%q): size %d, want %d", when, d.ID, size, m.Size())
			}
			m.Meta, m.Body = nil, nil
			w.Message, w.Reply = &m, nil
			if d := cmp.Diff(&w, d, sameMessage); d != "" {
				t.Errorf("%s: ScanDead differs (-want +got):\n%s", when, d)
			}
			return nil
		})
		var sorted []string
		for id := range want {
			sorted = append(sorted, id)
		}
		slices.Sort(sorted)
		if err != nil || !slices.Equal(got, sorted) {
			t.Errorf("%s: ScanDead: %q, %v, want %q", when, got, err, sorted)
		}
	}
	check("first")
	s = mk.reopen(t, s, false)
	check("after a crash")
	if err := s.Unbury(t.Context(), "b", "c c"); err != nil {
		t.Fatalf("Unbury: %v", err)
	}
	delete(want, "b")
	delete(want, "c c")
	check("after Unbury")
	s = mk.reopen(t, s, false)
	check("after Unbury and a crash")
	if _, err := s.Dead("b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Dead after Unbury: %v, want %v", err, ErrNotFound)
	}
	closeStore(t, s)
}

func contractDeadManyAttempts(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	d := deadLetter(3)
	d.Body = bytes.Repeat([]byte("b"), maxData-len(d.Meta))
	d.Reply = bytes.Repeat([]byte("r"), maxReply+10)
	d.Text = strings.Repeat("\n", 10*maxText)
	d.Attempts = nil
	for i := range 10000 {
		d.Attempts = append(d.Attempts, AttemptRecord{N: i + 1, At: time.Unix(1790000400, int64(i)).UTC(), Reason: "no route to host"})
	}
	if err := s.Bury(t.Context(), d); err != nil {
		t.Fatalf("Bury: %v", err)
	}
	got, err := s.Dead(d.ID)
	if err != nil {
		t.Fatalf("Dead: %v", err)
	}
	if d := cmp.Diff(d.Message, got.Message, sameMessage); d != "" {
		t.Errorf("Dead: message differs (-want +got):\n%s", d)
	}
	n := len(got.Attempts)
	if n < 1000 || !cmp.Equal(got.Attempts, d.Attempts[len(d.Attempts)-n:]) {
		t.Errorf("Dead: %d attempts, want the latest of them, at least 1000", n)
	}
	if len(got.Reply) != maxReply {
		t.Errorf("Dead: reply of %d octets, want %d", len(got.Reply), maxReply)
	}
	err = s.ScanDead(t.Context(), func(d *DeadLetter, _ int64) error {
		if len(d.Attempts) != n || d.Body != nil || d.Reply != nil {
			t.Errorf("ScanDead: %d attempts, want %d, and neither body nor reply", len(d.Attempts), n)
		}
		return nil
	})
	if err != nil {
		t.Errorf("ScanDead: %v", err)
	}
}

func contractAttempts(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	want := make(map[string][]AttemptRecord)
	save := func(id string, n int) {
		t.Helper()
		var a []AttemptRecord
		for i := range n {
			a = append(a, AttemptRecord{N: i + 1, At: time.Unix(1790000400, int64(i)).UTC(), Reason: id, NotBefore: time.Unix(1790000900, 0).UTC()})
		}
		if want[id] = a; n == 0 {
			delete(want, id)
		}
		if err := s.SaveAttempts(id, a); err != nil {
			t.Fatalf("SaveAttempts(%q, %d): %v", id, n, err)
		}
	}
	check := func(when string) {
		t.Helper()
		got := make(map[string][]AttemptRecord)
		if err := s.ScanAttempts(t.Context(), func(id string, a []AttemptRecord) error { got[id] = a; return nil }); err != nil {
			t.Fatalf("%s: ScanAttempts: %v", when, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: ScanAttempts differs (-want +got):\n%s", when, d)
		}
	}
	for i := range 200 {
		save(fmt.Sprint("m", i), 1+i%3)
	}
	save("m1", 5)
	if a, err := s.Attempts("m1"); err != nil || len(a) != 5 || a[4].Reason != "m1" {
		t.Errorf("Attempts(m1): got %v, %v, want 5", a, err)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Errorf("Sync: %v", err)
	}
	if a, err := s.Attempts("nobody"); err != nil || a != nil {
		t.Errorf("Attempts(nobody): got %v, %v, want nothing", a, err)
	}
	save("we ird\n.>", 2)
	check("first")
	s = mk.reopen(t, s, false)
	check("after a crash")
	for i := range 100 {
		save(fmt.Sprint("m", i), 0)
	}
	save("m3", 2) // forgotten and back
	save("never", 0)
	s = mk.reopen(t, s, true)
	check("after forgetting")
	save("m150", 0) // without having been scanned
	s = mk.reopen(t, s, true)
	check("after forgetting without a scan")
	closeStore(t, s)
}

func contractState(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	save := func(name, value string) {
		t.Helper()
		if err := s.SaveState(t.Context(), name, []byte(value)); err != nil {
			t.Fatalf("SaveState(%q): %v", name, err)
		}
	}
	save("paused.orders", "1")
	save("paused.orders", "2")
	save("gone", "x")
	save("gone", "")
	save("\x00 *", "y")
	for _, clean := range []bool{false, true} {
		for name, want := range map[string]string{"paused.orders": "2", "gone": "", "\x00 *": "y"} {
			if got, err := s.State(name); err != nil || string(got) != want {
				t.Errorf("State(%q): got %q, %v, want %q", name, got, err, want)
			}
		}
		s = mk.reopen(t, s, clean)
	}
	closeStore(t, s)
}

func contractEpoch(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	first := s.Info()
	if !first.Clean || first.Epoch == 0 || first.ID == "" {
		t.Errorf("Info of a new store: %+v, want it clean, with an id and an epoch", first)
	}
	for i, clean := range []bool{true, false, false, true} {
		s = mk.reopen(t, s, clean)
		got := s.Info()
		if got.ID != first.ID || got.Epoch != first.Epoch+uint64(i)+1 || got.Clean != clean {
			t.Errorf("Info after reopening %d: id %q, epoch %d, clean %v; want %q, %d, %v", i, got.ID, got.Epoch, got.Clean, first.ID, first.Epoch+uint64(i)+1, clean)
		}
	}
	closeStore(t, s)
}

func contractClosed(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	seq := put(t, s, message(1))
	closeStore(t, s)
	_, putErr := s.Put(t.Context(), message(2))
	_, getErr := s.Get(seq)
	for name, err := range map[string]error{
		"Put": putErr, "Get": getErr, "Remove": s.Remove(seq), "Bury": s.Bury(t.Context(), deadLetter(1)),
		"SaveAttempts": s.SaveAttempts("x", nil), "SaveState": s.SaveState(t.Context(), "x", []byte("y")),
		"Scan": s.Scan(t.Context(), nil), "Unbury": s.Unbury(t.Context(), "x"),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed store: got %v, want %v", name, err, ErrClosed)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func contractScanStops(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	for i := range 10 {
		put(t, s, message(i))
	}
	enough := errors.New("enough")
	n := 0
	if err := s.Scan(t.Context(), func(uint64, *Message, int64) error { n++; return enough }); !errors.Is(err, enough) || n != 1 {
		t.Errorf("Scan: %v after %d calls, want %v after 1", err, n, enough)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Scan(ctx, func(uint64, *Message, int64) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Scan with a cancelled context: %v, want %v", err, context.Canceled)
	}
	// A message that comes during a scan is not in it.
	n = 0
	err := s.Scan(t.Context(), func(uint64, *Message, int64) error { n++; put(t, s, message(99)); return nil })
	if err != nil || n != 10 {
		t.Errorf("Scan beside Put: %d messages, %v, want 10", n, err)
	}
}

// contractCancelledPut: whoever stops waiting does not know; the message is
// either not kept, or it is and onCommit was told.
func contractCancelledPut(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	var told sync.Map
	s.OnCommit(func(seq uint64, m *Message) { told.Store(m.ID, seq) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 20 {
		if _, err := s.Put(ctx, message(i)); err != nil && !errors.Is(err, ErrUnknown) {
			t.Errorf("Put with a cancelled context: %v, want nil or %v", err, ErrUnknown)
		}
	}
	put(t, s, message(20)) // after those before it
	n := 0
	for _, seq := range scanSeqs(t, s) {
		m, err := s.Get(seq)
		if err != nil {
			t.Fatalf("Get(%d): %v", seq, err)
		}
		if got, ok := told.Load(m.ID); !ok || got != seq {
			t.Errorf("message %s is kept as %d, onCommit was told %v", m.ID, seq, got)
		}
		n++
	}
	if n == 0 {
		t.Error("nothing was kept")
	}
}

func TestMemoryFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		told := 0
		s.OnCommit(func(uint64, *Message) { told++ })
		s.SetFull(true)
		if _, err := s.Put(t.Context(), message(1)); !errors.Is(err, ErrFull) {
			t.Errorf("Put: %v, want %v", err, ErrFull)
		}
		s.SetFull(false)
		s.UnknownNext(1)
		if _, err := s.Put(t.Context(), message(2)); !errors.Is(err, ErrUnknown) || told != 1 {
			t.Errorf("Put: %v, told of %d, want %v and 1", err, told, ErrUnknown)
		}
		s.SetDelay(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Put(ctx, message(3)); !errors.Is(err, ErrUnknown) || told != 2 {
			t.Errorf("Put that took too long: %v, told of %d, want %v and 2", err, told, ErrUnknown)
		}
		s.Damage(2)
		if _, err := s.Get(2); !errors.Is(err, ErrCorrupt) {
			t.Errorf("Get of a damaged message: %v, want %v", err, ErrCorrupt)
		}
		bad := errors.New("input/output error")
		s.FailNextSync(bad)
		if _, err := s.Put(t.Context(), message(4)); !errors.Is(err, ErrUnknown) || told != 2 {
			t.Errorf("Put at a failing sync: %v, told of %d, want %v and 2", err, told, ErrUnknown)
		}
		<-s.Failed()
		if !errors.Is(s.Err(), bad) {
			t.Errorf("Err: %v, want %v", s.Err(), bad)
		}
		if _, err := s.Put(t.Context(), message(5)); !errors.Is(err, ErrClosed) {
			t.Errorf("Put into a failed store: %v, want %v", err, ErrClosed)
		}
		if s2 := s.Reopen(); s2.Info().Clean {
			t.Error("a failed store is clean when reopened")
		}
	})
}
