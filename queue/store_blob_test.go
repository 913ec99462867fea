package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// noise is so many octets that nothing compresses, the same for the same number.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = r.Read(b) // never fails
	return b
}

// sameBlob compares what can be read.
func sameBlob(a, b Blob) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	x, errX := readBlob(a)
	y, errY := readBlob(b)
	return errX == nil && errY == nil && a.Size() == b.Size() && bytes.Equal(x, y)
}

func readBlob(b Blob) ([]byte, error) {
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(r)
	return all, errors.Join(err, r.Close())
}

// bodies is how many bodies a store keeps outside of records.
func bodies(t *testing.T, s Store) (n int) {
	t.Helper()
	switch s := s.(type) {
	case *Memory:
		return len(s.blobs.copy())
	case *Embedded:
		if err := s.blobs.each(func(string, int64) { n++ }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("%T is no store of the contract", s)
	return 0
}

// waitBodies waits until a store keeps so many: their removal follows that of
// their messages.
func waitBodies(t *testing.T, s Store, want int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d bodies", want), func() bool { return bodies(t, s) == want })
}

// newBlob writes a body in pieces and does not close its writer.
func newBlob(t *testing.T, s Store, content []byte) (BlobWriter, Blob) {
	t.Helper()
	w, err := s.NewBlob(-1)
	if err != nil {
		t.Fatalf("NewBlob: %v", err)
	}
	for piece := range slices.Chunk(content, 70_001) {
		if n, err := w.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	b, err := w.Blob()
	if err != nil {
		t.Fatalf("Blob: %v", err)
	}
	return w, b
}

// putBlob accepts a message with a body of its own.
func putBlob(t *testing.T, s Store, id string, content []byte) uint64 {
	t.Helper()
	w, b := newBlob(t, s, content)
	seq := put(t, s, &Message{ID: id, Route: "r", Meta: []byte("meta"), Blob: b})
	if err := w.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return seq
}

// wantBody asks that a message has these octets.
func wantBody(t *testing.T, when string, m *Message, err error, want []byte) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	got := m.Body
	if m.Blob != nil {
		if got, err = readBlob(m.Blob); err != nil {
			t.Fatalf("%s: the body of %s: %v", when, m.ID, err)
		}
	}
	if m.Size() != int64(len(want)) || !bytes.Equal(got, want) {
		t.Fatalf("%s: %s has a body of %d octets, size %d; it is not the one of %d", when, m.ID, len(got), m.Size(), len(want))
	}
}

// foreign is a Blob of no store.
type foreign struct {
	content []byte
	open    error
	fail    error // behind the content
}

func (f *foreign) Size() int64 { return int64(len(f.content)) }

func (f *foreign) Open() (io.ReadCloser, error) {
	if f.open != nil {
		return nil, f.open
	}
	end := f.fail
	if end == nil {
		end = io.EOF
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(f.content), brokenReader{end})), nil
}

type brokenReader struct{ err error }

func (f brokenReader) Read([]byte) (int, error) { return 0, f.err }

// contractBlob: every size and origin of a body comes back octet for octet.
func contractBlob(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	want := map[uint64][]byte{}
	var told []*Message
	s.OnCommit(func(_ uint64, m *Message) { told = append(told, m) })
	for _, n := range []int{0, 1, provenTail - 1, provenTail, provenTail + 1, 100_000, sealChunk * 4, inlineMost + 1, 9 << 20} {
		content := noise(n)
		want[putBlob(t, s, fmt.Sprint("own ", n), content)] = content
		want[put(t, s, &Message{ID: fmt.Sprint("foreign ", n), Blob: &foreign{content: content}})] = content
		want[put(t, s, &Message{ID: fmt.Sprint("memory ", n), Body: slices.Clone(content)})] = content
		letters := bytes.Repeat([]byte("<a>compresses well</a>"), n/20+1)
		want[put(t, s, &Message{ID: fmt.Sprint("letters ", n), Body: slices.Clone(letters)})] = letters
	}
	if len(told) != len(want) {
		t.Errorf("OnCommit: told of %d messages, want %d", len(told), len(want))
	}
	for _, m := range told {
		if m.Size() > inlineMost && (m.Body != nil || m.Blob == nil) {
			t.Errorf("OnCommit: %s has a body of %d octets in memory", m.ID, len(m.Body))
		}
	}
	check := func(when string) {
		t.Helper()
		for seq, content := range want {
			m, err := s.Get(seq)
			wantBody(t, when, m, err, content)
		}
		err := s.Scan(t.Context(), func(seq uint64, m *Message, size int64) error {
			if size != int64(len(want[seq])) {
				t.Errorf("%s: Scan(%s): size %d, want %d", when, m.ID, size, len(want[seq]))
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: Scan: %v", when, err)
		}
	}
	check("first")
	n := bodies(t, s)
	for _, clean := range []bool{true, false} {
		s = mk.reopen(t, s, clean)
		scanAll(t, s)
		check(fmt.Sprintf("reopened, clean %v", clean))
		if got := bodies(t, s); got != n {
			t.Errorf("reopened, clean %v: %d bodies, want %d", clean, got, n)
		}
	}
	if got := s.Info().Bytes; got < 2*9<<20 || got > 60<<20 {
		t.Errorf("Info().Bytes = %d, though there are %d messages with bodies of 9 MiB", got, 3)
	}
	closeStore(t, s)
}

// scanAll reads all that a queue reads at its start.
func scanAll(t *testing.T, s Store) {
	t.Helper()
	if err := s.ScanDead(t.Context(), func(*DeadLetter, int64) error { return nil }); err != nil {
		t.Fatalf("ScanDead: %v", err)
	}
	scanSeqs(t, s)
}

// contractBlobLife: a body goes with the last that needs it, not before.
func contractBlobLife(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	scanAll(t, s)
	content := noise(2 << 20)
	seq := putBlob(t, s, "a", content)
	m, err := s.Get(seq)
	wantBody(t, "waiting", m, err, content)
	kept := m.Blob
	open, err := kept.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()

	if err := s.Bury(t.Context(), &DeadLetter{Message: m, Died: time.Unix(1790000000, 0), Reason: ReasonPermanent}); err != nil {
		t.Fatalf("Bury: %v", err)
	}
	if err := s.Remove(seq); err != nil {
		t.Fatal(err)
	}
	d, err := s.Dead("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bury(t.Context(), d); err != nil { // once more, in place of the first
		t.Fatalf("Bury: %v", err)
	}
	other := putBlob(t, s, "other", content[1:])
	if err := s.Remove(other); err != nil {
		t.Fatal(err)
	}
	waitBodies(t, s, 1)
	d, err = s.Dead("a")
	if err != nil {
		t.Fatal(err)
	}
	wantBody(t, "dead", d.Message, nil, content)

	again := put(t, s, d.Message) // replayed
	if err := s.Unbury(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	m, err = s.Get(again)
	wantBody(t, "replayed", m, err, content)
	if err := s.Remove(again); err != nil {
		t.Fatal(err)
	}
	waitBodies(t, s, 0)
	if all, err := io.ReadAll(open); err != nil || !bytes.Equal(all, content) {
		t.Errorf("a reader that was open: %d octets, %v", len(all), err)
	}
	if _, err := s.Put(t.Context(), &Message{ID: "late", Blob: kept}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Put of a body that is gone: got %v, want %v", err, ErrNotFound)
	}
	if err := s.Bury(t.Context(), &DeadLetter{Message: &Message{ID: "late", Blob: kept}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Bury of a body that is gone: got %v, want %v", err, ErrNotFound)
	}
	if left := scanSeqs(t, s); len(left) != 0 {
		t.Errorf("Scan: %v, want nothing", left)
	}
}

// contractBlobCrash: what a crash leaves of each step is whole, and what no
// message claims goes.
func contractBlobCrash(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	content := noise(inlineMost + 7)
	crash := func(least, most int) {
		t.Helper()
		s = mk.reopen(t, s, false)
		scanAll(t, s)
		if got := bodies(t, s); got < least || got > most {
			t.Fatalf("after a crash: %d bodies, want %d or up to %d", got, least, most)
		}
	}
	_, _ = newBlob(t, s, content) // written, and never put
	crash(0, 0)

	seq := putBlob(t, s, "a", content)
	crash(1, 1)
	m, err := s.Get(seq)
	wantBody(t, "accepted", m, err, content)
	if err := s.Bury(t.Context(), &DeadLetter{Message: m, Reason: ReasonPermanent}); err != nil {
		t.Fatal(err)
	}
	// In the log and dead; a dead letter gets a body of its own when its key
	// changes, and another while the key changes again.
	crash(1, 3)
	if err := s.Remove(seq); err != nil {
		t.Fatal(err)
	}
	crash(1, 3)
	d, err := s.Dead("a")
	if err != nil {
		t.Fatal(err)
	}
	wantBody(t, "dead", d.Message, nil, content)
	put(t, s, d.Message)
	crash(1, 3) // dead and in the log again
	if err := s.Unbury(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	crash(1, 3)
	for _, seq := range scanSeqs(t, s) {
		m, err := s.Get(seq)
		wantBody(t, "replayed", m, err, content)
		if err := s.Remove(seq); err != nil {
			t.Fatal(err)
		}
	}
	s = mk.reopen(t, s, true)
	scanAll(t, s)
	if got := bodies(t, s); got != 0 {
		t.Errorf("all done: %d bodies, want none", got)
	}
	closeStore(t, s)
}

// contractBlobRefused: what is refused leaves nothing.
func contractBlobRefused(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	defer closeStore(t, s)
	scanAll(t, s)
	bad := errors.New("broken disk elsewhere")
	for name, b := range map[string]*foreign{
		"open": {open: bad}, "read": {content: noise(3 << 20), fail: bad}, "unread": {fail: bad},
	} {
		if _, err := s.Put(t.Context(), &Message{ID: name, Blob: b}); !errors.Is(err, bad) || errors.Is(err, ErrUnknown) {
			t.Errorf("Put of a foreign body that fails at %s: got %v, want %v, definitely", name, err, bad)
		}
	}
	w, b := newBlob(t, s, noise(100))
	if _, err := w.Write([]byte("late")); err == nil {
		t.Error("Write behind Blob: no error")
	}
	if _, err := s.Put(t.Context(), &Message{ID: "large", Meta: make([]byte, maxData+1), Blob: b}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Put: got %v, want %v", err, ErrTooLarge)
	}
	if all, err := readBlob(b); err != nil || !bytes.Equal(all, noise(100)) {
		t.Errorf("a body that was refused once, before Close: %q, %v", all, err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close twice: %v", err)
	}
	unused, err := s.NewBlob(10)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = unused.Write([]byte("half"))
	if err := unused.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := unused.Blob(); err == nil {
		t.Error("Blob behind Close: no error")
	}
	if seqs, n := scanSeqs(t, s), bodies(t, s); len(seqs) != 0 || n != 0 {
		t.Errorf("after refusals: %v in the log, %d bodies", seqs, n)
	}
}
