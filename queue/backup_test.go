package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// backedUpStore makes a store with n of everything and returns a backup of it.
func backedUpStore(t *testing.T, n int) (b []byte, counts *BackupCounts) {
	t.Helper()
	o := testOptions(t, t.TempDir())
	o.Durability, o.Observer = Relaxed, noGaps{t: t}
	s := openStore(t, o)
	q := testQueue(t, s)
	for i := range n {
		put(t, s, message(2*i))
		done := identified(2*i+1, 24*time.Hour)
		if err := s.RemoveKnown(put(t, s, done), knownOf(done, FateDelivered)); err != nil {
			t.Fatal(err)
		}
		errs := errors.Join(
			s.SaveAttempts(message(2*i).ID, []AttemptRecord{{N: i + 1, Reason: "refused"}}),
			s.Bury(t.Context(), deadLetter(1000+i)),
			s.KeepReply(t.Context(), replyOf(i, time.Hour)),
			s.SaveState(t.Context(), fmt.Sprintf("paused.%d", i), []byte("yes")),
		)
		if errs != nil {
			t.Fatal(errs)
		}
	}
	if err := s.SaveState(t.Context(), doubtState, []byte("3")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "what is known", func() bool {
		return len(scanKnown(t, s)) == n
	})
	var buf bytes.Buffer
	counts, err := q.Backup(t.Context(), &buf)
	if err != nil {
		t.Fatalf("Backup: %v", err)
	}
	return buf.Bytes(), counts
}

// testQueue is a queue over s that does not run.
func testQueue(t *testing.T, s Store) *Queue {
	t.Helper()
	q, err := New(s, &node{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// backupFileOf writes a backup into a file.
func backupFileOf(t *testing.T, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "store.backup")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func restoreOptions(dir string) RestoreOptions {
	return RestoreOptions{
		Dir: dir, Durability: Relaxed, MaxBytes: 1 << 30,
		AtMostOnce: func(string) (bool, bool) { return false, true },
	}
}

// TestBackupRestore: all that a store holds is in its backup and comes back, with
// a new epoch and in doubt.
func TestBackupRestore(t *testing.T) {
	const n = 30
	b, counts := backedUpStore(t, n)
	if counts.Messages != n || counts.Dead != n || counts.Replies != n || counts.States < 2*n || counts.Damaged != 0 {
		t.Errorf("Backup: %+v, want %d of each", counts, n)
	}
	head, checked, err := CheckBackup(bytes.NewReader(b), func(d Damage) { t.Errorf("damage: %v", &d) })
	if err != nil || checked != *counts {
		t.Fatalf("CheckBackup: %+v, %v, want %+v", checked, err, counts)
	}
	dir := filepath.Join(t.TempDir(), "not", "there")
	var last, total int64
	o := restoreOptions(dir)
	o.Progress = func(done, all int64) { last, total = done, all }
	r, err := Restore(t.Context(), backupFileOf(t, b), o)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	if last != total || total != 2*int64(len(b)) {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	if r.Counts != *counts || r.Unknown != 0 || r.Replaced != "" || r.Dir != dir {
		t.Errorf("Restore: %+v", r)
	}

	so := testOptions(t, dir)
	so.Durability, so.Observer = Relaxed, noGaps{t: t}
	s := openStore(t, so)
	if i := s.Info(); i.ID != head.Store || i.Clean || i.Epoch <= head.Epoch+1000 || i.Messages != n {
		t.Errorf("Info: %+v, want store %s, not clean, and an epoch far above %d", i, head.Store, head.Epoch)
	}
	seqs := scanSeqs(t, s)
	if len(seqs) != n {
		t.Fatalf("%d messages, want %d", len(seqs), n)
	}
	for i, seq := range seqs {
		m, err := s.Get(seq)
		want := message(2 * i)
		if err != nil || m.ID != want.ID || m.Lane != want.Lane || !m.Accepted.Equal(want.Accepted) || !bytes.Equal(m.Meta, want.Meta) || !bytes.Equal(m.Body, want.Body) {
			t.Fatalf("message %d: got %+v, %v, want %+v", seq, m, err, want)
		}
		if a, err := s.Attempts(m.ID); err != nil || len(a) != 1 || a[0].N != i+1 {
			t.Errorf("attempts of %s: %v, %v", m.ID, a, err)
		}
		d, err := s.Dead(deadLetter(1000 + i).ID)
		if err != nil || !bytes.Equal(d.Body, deadLetter(1000+i).Body) {
			t.Fatalf("dead letter %d: %+v, %v", i, d, err)
		}
		if last := d.Attempts[len(d.Attempts)-1]; !last.Maybe || !strings.Contains(last.Reason, "restored") {
			t.Errorf("dead letter %d is not in doubt: %+v", i, last)
		}
		if a, err := s.Reply(replyOf(i, time.Hour).ID); err != nil || !bytes.Equal(a.Body, replyOf(i, time.Hour).Body) {
			t.Errorf("reply %d: %v, %v", i, a, err)
		}
		if v, err := s.State(fmt.Sprintf("paused.%d", i)); err != nil || string(v) != "yes" {
			t.Errorf("state %d: %q, %v", i, v, err)
		}
	}
	if v, err := s.State(doubtState); err != nil || v != nil {
		t.Errorf("the doubt of the old log was restored: %q, %v", v, err)
	}
	known := scanKnown(t, s)
	for i := range n {
		if k := known[uid(2*i+1)]; k.Fate != FateDelivered || k.Route != message(2*i+1).Route {
			t.Errorf("known of %d: %+v", i, k)
		}
	}
	if hours := len(s.replies.has); hours == 0 {
		t.Error("no hour of replies is known: they would never go")
	}
}

// TestBackupDamaged: a backup with any octet changed, or cut anywhere, is refused
// with the place, and nothing is touched.
func TestBackupDamaged(t *testing.T) {
	b, _ := backedUpStore(t, 4)
	rnd := rand.New(rand.NewPCG(3, 4))
	dir := filepath.Join(t.TempDir(), "store")
	check := func(what string, x []byte) {
		t.Helper()
		_, _, err := CheckBackup(bytes.NewReader(x), nil)
		var place *BackupError
		if !errors.As(err, &place) || place.Offset < 0 || place.Offset > int64(len(x)) ||
			!errors.Is(err, ErrBackupCut) && !errors.Is(err, ErrBackupDamaged) && !errors.Is(err, ErrNoBackup) {
			t.Errorf("%s: got %v, want a BackupError", what, err)
		}
	}
	for n := range len(b) {
		if n > 200 && n < len(b)-200 && n%37 != 0 {
			continue
		}
		check(fmt.Sprintf("cut at %d", n), b[:n])
		x := slices.Clone(b)
		x[n] ^= 1 << rnd.IntN(8)
		check(fmt.Sprintf("flip at %d", n), x)
	}
	check("something behind it", append(slices.Clone(b), 0))
	check("twice", append(slices.Clone(b), b...))
	check("half of it twice", append(slices.Clone(b[:len(b)/2]), b...))

	bad := slices.Clone(b)
	bad[len(bad)/2] ^= 1
	for name, content := range map[string][]byte{"flipped": bad, "cut": b[:len(b)-1], "empty": nil, "other": []byte("#!/bin/sh\necho hello, world\n")} {
		_, err := Restore(t.Context(), backupFileOf(t, content), restoreOptions(dir))
		if _, ok := errors.AsType[*BackupError](err); !ok {
			t.Errorf("Restore of a %s file: %v", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("Restore of a %s file touched the directory: %v", name, err)
		}
	}
	if _, err := Restore(t.Context(), t.TempDir(), restoreOptions(dir)); err == nil {
		t.Error("Restore of a directory: no error")
	}
	if _, err := Restore(t.Context(), filepath.Join(dir, "none"), restoreOptions(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Restore of nothing: %v", err)
	}
	o := restoreOptions(dir)
	o.MaxBytes = int64(len(b)) / 2
	if _, err := Restore(t.Context(), backupFileOf(t, b), o); !errors.Is(err, ErrFull) {
		t.Errorf("Restore into a store that is too small: got %v, want %v", err, ErrFull)
	}
	big, err := newBackupWriter(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := big.frame(frameRecord, make([]byte, backupFrameMost+1)); err == nil {
		t.Error("a frame that no reader takes was written")
	}
}

// TestBackupBroken: a backup that could not be finished says why.
func TestBackupBroken(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	put(t, s, plain(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var buf bytes.Buffer
	if _, err := testQueue(t, s).Backup(ctx, &buf); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup: got %v, want %v", err, context.Canceled)
	}
	if _, _, err := CheckBackup(&buf, nil); !errors.Is(err, ErrBackupCut) || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("CheckBackup: got %v, want it to say why", err)
	}
	fails := errors.New("disk full")
	if _, err := testQueue(t, s).Backup(t.Context(), writerFunc(func([]byte) (int, error) { return 0, fails })); !errors.Is(err, fails) {
		t.Errorf("Backup: got %v, want %v", err, fails)
	}
	if _, err := testQueue(t, NewMemory()).Backup(t.Context(), io.Discard); err == nil {
		t.Error("Backup of a store in memory: no error")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestBackupOfDamage: what can not be read is missing in the backup, and told.
func TestBackupOfDamage(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	for i := range 10 {
		put(t, s, plain(i))
		if err := s.Bury(t.Context(), deadLetter(i)); err != nil {
			t.Fatal(err)
		}
	}
	header, data, err := encodeMessage(plain(77))
	if err != nil {
		t.Fatal(err)
	}
	j := &job{rec: record{logSubject("erp"), headerMessage, header, append(data, '!')}, msg: plain(77), urgent: true}
	if err := s.commit.do(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	counts, err := testQueue(t, s).Backup(t.Context(), &buf)
	if err != nil || counts.Messages != 10 || counts.Damaged == 0 {
		t.Fatalf("Backup: %+v, %v", counts, err)
	}
	var told []Damage
	if _, _, err := CheckBackup(&buf, func(d Damage) { told = append(told, d) }); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].ID != plain(77).ID || told[0].Route != "orders" || told[1].Seq != j.seq {
		t.Errorf("told: %+v", told)
	}
}

// TestBackupLive: while messages come, are delivered, die and are replayed, every
// message that was accepted before a backup and is not finished after it is in it.
func TestBackupLive(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.Observer = noGaps{t: t}
	s := openStore(t, o)
	var mu sync.Mutex
	finished := map[string]bool{}
	n := &node{}
	n.deliver = func(_ context.Context, d *Delivery) Outcome {
		mu.Lock()
		defer mu.Unlock()
		switch d.Attempt % 3 {
		case 1:
			return fault
		case 2:
			if strings.HasSuffix(d.ID, "7") {
				return bad
			}
		}
		finished[d.ID] = true
		return Outcome{}
	}
	q, err := New(s, n, Options{Rand: func() float64 { return 0.5 }})
	if err != nil {
		t.Fatal(err)
	}
	route := Route{Name: "orders", Destination: "erp"}
	route.Retry.Initial, route.Retry.Max = 5*time.Millisecond, 10*time.Millisecond
	if err := q.Configure([]Route{route}, []Destination{{Name: "erp", Parallel: 4}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	accepted := map[string]bool{}
	for g := range 4 {
		wg.Go(func() {
			for i := g; ctx.Err() == nil; i += 4 {
				m := plain(i)
				m.Accepted = time.Now()
				if err := q.Put(context.WithoutCancel(ctx), m); err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				mu.Lock()
				accepted[m.ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := q.ReplayAll(ctx, Filter{Route: "orders"}); err != nil && !errors.Is(err, ErrBackup) && ctx.Err() == nil {
				t.Errorf("ReplayAll: %v", err)
				return
			}
		}
	})
	for round := range 6 {
		pause(t.Context(), 60*time.Millisecond)
		mu.Lock()
		want := make([]string, 0, len(accepted))
		for id := range accepted {
			if !finished[id] {
				want = append(want, id)
			}
		}
		mu.Unlock()
		var buf bytes.Buffer
		counts, err := q.Backup(t.Context(), &buf)
		if err != nil || counts.Damaged > 0 {
			t.Fatalf("Backup: %+v, %v", counts, err)
		}
		mu.Lock()
		after := make(map[string]bool, len(finished))
		for id := range finished {
			after[id] = true
		}
		mu.Unlock()
		has := map[string]bool{}
		if _, _, err := readBackup(&buf, backupVisitor{record: func(r record) error {
			switch r.name {
			case headerMessage:
				m, err := decodeMessage(r.header, r.data)
				if err != nil {
					return err
				}
				has[m.ID] = true
			case headerDead:
				d, err := decodeDead(r.header, r.data)
				if err != nil {
					return err
				}
				has[d.ID] = true
			}
			return nil
		}}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, id := range want {
			if !has[id] && !after[id] {
				t.Errorf("round %d: message %s is not in the backup", round, id)
			}
		}
	}
	stop()
	wg.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestBackupHolds: no dead letter is replayed while a backup looks for it.
func TestBackupHolds(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	if err := s.Bury(t.Context(), deadLetter(1)); err != nil {
		t.Fatal(err)
	}
	q := testQueue(t, s)
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	tried := false
	if _, err := q.Backup(t.Context(), writerFunc(func(b []byte) (int, error) {
		tried = true
		if err := q.Replay(t.Context(), deadLetter(1).ID); !errors.Is(err, ErrBackup) {
			t.Errorf("Replay: got %v, want %v", err, ErrBackup)
		}
		return len(b), nil
	})); err != nil || !tried {
		t.Fatal(err, tried)
	}
	if err := q.Replay(t.Context(), deadLetter(1).ID); err != nil {
		t.Errorf("Replay afterwards: %v", err)
	}
}

// FuzzBackup: only what was written is taken for a backup.
func FuzzBackup(f *testing.F) {
	var buf bytes.Buffer
	w, err := newBackupWriter(&buf)
	if err != nil {
		f.Fatal(err)
	}
	header, data, err := encodeMessage(plain(1))
	if err != nil {
		f.Fatal(err)
	}
	w.counts.Messages = 1
	if err := errors.Join(
		w.json(frameHead, BackupHead{Format: BackupFormat, Store: "x", Epoch: 1}),
		w.record(record{logSubject("erp"), headerMessage, header, data}),
		w.file("blobs/00/x", 5, strings.NewReader("12345")),
		w.json(frameDamage, Damage{Reason: "gone"}), w.end(nil)); err != nil {
		f.Fatal(err)
	}
	good := buf.Bytes()
	if _, counts, err := CheckBackup(bytes.NewReader(good), nil); err != nil || counts.Files != 1 || counts.Messages != 1 {
		f.Fatal(counts, err)
	}
	f.Add(0, 0, []byte{})
	f.Add(20, 3, []byte("abc"))
	f.Add(len(good), 0, []byte("more"))
	f.Fuzz(func(t *testing.T, at, remove int, insert []byte) {
		at = min(max(at, 0), len(good))
		remove = min(max(remove, 0), len(good)-at)
		x := slices.Concat(good[:at], insert, good[at+remove:])
		_, _, err := CheckBackup(bytes.NewReader(x), nil)
		if (err == nil) != bytes.Equal(x, good) {
			t.Errorf("CheckBackup of %d octets replaced at %d by %q: %v", remove, at, insert, err)
		}
		if _, ok := errors.AsType[*BackupError](err); err != nil && !ok {
			t.Errorf("error without a place: %v", err)
		}
	})
}

// TestBackupHugeFrame: a length that is a lie costs no memory.
func TestBackupHugeFrame(t *testing.T) {
	b := append([]byte(backupMagic), frameHead, 0, 0xff, 0xff, 0xff)
	allocated := testing.Benchmark(func(b2 *testing.B) {
		b2.ReportAllocs()
		for b2.Loop() {
			if _, _, err := CheckBackup(bytes.NewReader(b), nil); !errors.Is(err, ErrBackupCut) {
				b2.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 4*backupChunk {
		t.Errorf("%d octets were allocated for a frame that is not there", allocated)
	}
}

// TestBackupWhileMoving: messages that die while the log is being read are found
// among the dead letters.
func TestBackupWhileMoving(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	const n = 8
	for i := range n {
		m := plain(i)
		m.Body = bytes.Repeat(m.Body, 1000) // more than is written at once
		put(t, s, m)
	}
	q := testQueue(t, s)
	var buf bytes.Buffer
	var once sync.Once
	_, err := q.Backup(t.Context(), writerFunc(func(b []byte) (int, error) {
		once.Do(func() { // the first are written; all others die
			for seq := uint64(4); seq <= n; seq++ {
				m, err := s.Get(seq)
				if err == nil {
					err = s.Bury(t.Context(), &DeadLetter{Message: m, Died: time.Now(), Reason: ReasonExpired})
				}
				if err == nil {
					err = s.Remove(seq)
				}
				if err != nil {
					t.Errorf("burial of %d: %v", seq, err)
				}
			}
			if _, err := q.Move(t.Context(), []string{plain(1).ID}, "other"); !errors.Is(err, ErrBackup) {
				t.Errorf("Move: got %v, want %v", err, ErrBackup)
			}
		})
		return buf.Write(b)
	}))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	if _, _, err := readBackup(&buf, backupVisitor{record: func(r record) error {
		f := fields{rest: r.header}
		m, _ := f.message()
		has[m.ID] = true
		return f.err
	}}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if !has[plain(i).ID] {
			t.Errorf("message %d is neither among those that wait nor dead", i)
		}
	}
}

// TestBackupSealed: what is sealed stays sealed in a backup, is restored with its
// keys only, and is sealed with the key in use then.
func TestBackupSealed(t *testing.T) {
	line := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name))) }
	old, other, both := testKeys(t, line("old")), testKeys(t, line("new")), testKeys(t, line("new"), line("old"))
	o := testOptions(t, t.TempDir())
	o.Keys, o.Observer = old, noGaps{t: t}
	s := openStore(t, o)
	const n = 10
	for i := range n {
		put(t, s, plain(i))
		if err := errors.Join(
			s.Bury(t.Context(), deadLetter(1000+i)), s.KeepReply(t.Context(), replyOf(i, time.Hour)),
			s.SaveState(t.Context(), fmt.Sprintf("state-%d", i), []byte("value")), s.SaveState(t.Context(), doubtState, []byte("1")),
		); err != nil {
			t.Fatal(err)
		}
	}
	q := testQueue(t, s)
	var buf bytes.Buffer
	if counts, err := q.Backup(t.Context(), &buf); err != nil || counts.Messages != n || counts.Damaged != 0 {
		t.Fatalf("Backup: %+v, %v", counts, err)
	}
	if found, err := q.Scrub(t.Context(), 0, nil); err != nil || len(found.Damage) > 0 {
		t.Errorf("Scrub: %+v, %v", found, err)
	}
	if bytes.Contains(buf.Bytes(), []byte("<order")) || bytes.Contains(buf.Bytes(), []byte("plain-0001")) {
		t.Error("the backup tells what the store has sealed")
	}
	if head, _, err := CheckBackup(bytes.NewReader(buf.Bytes()), nil); err != nil || !slices.Equal(head.Keys, []string{old.ID()}) {
		t.Errorf("CheckBackup: %+v, %v, want the key named", head, err)
	}
	file := backupFileOf(t, buf.Bytes())
	dir := filepath.Join(t.TempDir(), "store")
	for name, k := range map[string]*Keys{"no": nil, "another": other} {
		r := restoreOptions(dir)
		r.Keys = k
		if _, err := Restore(t.Context(), file, r); !errors.Is(err, ErrKey) {
			t.Errorf("Restore with %s key: got %v, want %v", name, err, ErrKey)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused restore touched the directory: %v", err)
	}
	r := restoreOptions(dir)
	r.Keys = both
	if _, err := Restore(t.Context(), file, r); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	so := testOptions(t, dir)
	so.Keys, so.Observer = other, noGaps{t: t} // the old key is not needed any more
	s = openStore(t, so)
	if c := readAll(t, s, n); c.String() != (contents{messages: make([]int, n), dead: make([]int, n), replies: make([]int, n), states: n}).String() {
		t.Errorf("restored: %v, want %d of each", c, n)
	}
}
