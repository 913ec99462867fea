package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// waitFor polls until cond holds. The store's own clock is the wall's, so there
// is nothing to wait on but the effect.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 4000 {
		if cond() {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s: not within 20 s", what)
}

const lockHelper = "QUEUE_TEST_LOCK_DIR"

// TestLock: a second process is refused and told who has the store; so is this one.
func TestLock(t *testing.T) {
	if dir := os.Getenv(lockHelper); dir != "" { // the second process
		_, err := OpenEmbedded(testOptions(t, dir))
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getppid())) {
			t.Errorf("OpenEmbedded: got %v, want %v and process %d", err, ErrLocked, os.Getppid())
		}
		return
	}
	dir := t.TempDir()
	s := openStore(t, testOptions(t, dir))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLock$")
	cmd.Env = append(os.Environ(), lockHelper+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("second process: %v\n%s", err, out)
	}
	if _, err := OpenEmbedded(testOptions(t, dir)); !errors.Is(err, ErrLocked) {
		t.Errorf("OpenEmbedded twice: got %v, want %v", err, ErrLocked)
	}
	put(t, s, message(1)) // the refused ones did no harm
	closeStore(t, s)
	openStore(t, testOptions(t, dir))
}

// TestIdentityRefused: what is not understood is refused and left as it is.
func TestIdentityRefused(t *testing.T) {
	for name, text := range map[string]string{
		"newer":     `{"format": 4, "id": "x", "epoch": 7}`,
		"not JSON":  `{"format": 1, "id":`,
		"empty":     ``,
		"no format": `{"id": "x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, identityName)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := OpenEmbedded(testOptions(t, dir)); err == nil {
				_ = s.Close()
				t.Fatal("OpenEmbedded: no error")
			}
			if b, err := os.ReadFile(file); err != nil || string(b) != text {
				t.Errorf("%s was changed to %q, %v", identityName, b, err)
			}
		})
	}
}

// TestLostIdentity: the messages are worth more than the file beside them.
func TestLostIdentity(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testOptions(t, dir))
	seq := put(t, s, message(1))
	closeStore(t, s)
	if err := os.Remove(filepath.Join(dir, identityName)); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, testOptions(t, dir))
	if s.Info().Clean {
		t.Error("Info: clean, though nobody knows")
	}
	if _, err := s.Get(seq); err != nil {
		t.Errorf("Get: %v", err)
	}
}

// flip changes one octet of the first file of the log that holds what.
func flip(t *testing.T, dir string, what []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", streamLog, "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(b, what); i >= 0 {
			b[i+len(what)/2] ^= 0x20
			if err := os.WriteFile(f, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%q is in no file of the log", what)
}

// TestCorrupt: a damaged record is neither delivered nor passed over in silence.
func TestCorrupt(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testOptions(t, dir))
	var seqs []uint64
	for i := range 20 {
		m := message(i)
		m.Body = fmt.Appendf(nil, "<order n='%d'>unmistakable-%d</order>", i, i)
		seqs = append(seqs, put(t, s, m))
	}
	closeStore(t, s)
	flip(t, dir, []byte("unmistakable-7<"))
	o := testOptions(t, dir)
	seen := &events{}
	o.Observer = seen
	s = openStore(t, o)
	got := scanSeqs(t, s)
	missing := make(map[uint64]bool)
	for _, g := range seen.reported() {
		for q := g[0]; q <= g[1]; q++ {
			missing[q] = true
		}
	}
	for _, seq := range seqs {
		there := slices.Contains(got, seq)
		if there == missing[seq] {
			t.Errorf("message %d: scanned %v, reported missing %v", seq, there, missing[seq])
		}
	}
	if _, err := s.Get(seqs[7]); !errors.Is(err, ErrCorrupt) && !(missing[seqs[7]] && errors.Is(err, ErrNotFound)) {
		t.Errorf("Get of the damaged message: %v, want %v", err, ErrCorrupt)
	}
	if m, err := s.Get(seqs[3]); err != nil || !bytes.Contains(m.Body, []byte("unmistakable-3<")) {
		t.Errorf("Get of an undamaged one: %v, %v", m, err)
	}
}

// TestChecksum: what the server lets through is still compared.
func TestChecksum(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	put(t, s, message(1))
	header, data, err := encodeMessage(message(2))
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '!')
	j := &job{rec: record{logSubject(""), headerMessage, header, data}, msg: message(2), urgent: true}
	if err := s.commit.do(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(j.seq); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Get: got %v, want %v", err, ErrCorrupt)
	}
}

// TestFull: a full log refuses, keeps room for dead letters, and takes
// messages again by itself once some are gone.
func TestFull(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.MaxBytes = 2 << 20
	s := openStore(t, o)
	m := message(1)
	m.Body = noise(20 << 10)
	var seqs []uint64
	var err error
	for range 200 {
		var seq uint64
		if seq, err = s.Put(t.Context(), m); err != nil {
			break
		}
		seqs = append(seqs, seq)
	}
	if !errors.Is(err, ErrFull) || len(seqs) < 80 {
		t.Fatalf("Put: %v after %d messages of 20 KiB into 2 MiB, want %v after about 95", err, len(seqs), ErrFull)
	}
	d := deadLetter(1)
	d.Body = m.Body
	if err := s.Bury(t.Context(), d); err != nil {
		t.Errorf("Bury into a full store: %v", err)
	}
	if _, err := s.Put(t.Context(), answerOf(m)); err != nil {
		t.Errorf("Put of an answer into a full store: %v", err)
	}
	if err := s.Remove(seqs[:10]...); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "room", func() bool { _, err := s.Put(t.Context(), m); return err == nil })
	if err := s.Err(); err != nil {
		t.Errorf("Err: %v", err)
	}
}

// answerOf is a message that follows from another.
func answerOf(m *Message) *Message {
	a := *m
	a.After = FateDelivered
	return &a
}

// TestFullByServer: the server's own refusal is definite and harms nothing.
func TestFullByServer(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.MaxBytes = 1 << 20
	s := openStore(t, o)
	s.limit = 1 << 40 // ours does not see it coming
	m := message(1)
	m.Body = noise(100 << 10)
	n, refused := 0, 0
	for range 30 {
		if _, err := s.Put(t.Context(), m); err == nil {
			n++
		} else if refused++; !errors.Is(err, ErrFull) {
			t.Fatalf("Put: got %v, want %v", err, ErrFull)
		}
	}
	if n == 0 || refused == 0 || s.Err() != nil || len(scanSeqs(t, s)) != n {
		t.Errorf("%d kept, %d refused, %d scanned, Err %v", n, refused, len(scanSeqs(t, s)), s.Err())
	}
}

// TestWatermark: a disk that fills up refuses messages before the server meets
// its end, and everything else goes on.
func TestWatermark(t *testing.T) {
	var free atomic.Int64
	free.Store(10 << 30)
	o := testOptions(t, t.TempDir())
	o.MinFree = 1 << 30
	o.free = func(string) (int64, error) { return free.Load(), nil }
	s := openStore(t, o)
	seq := put(t, s, message(1))
	free.Store(1<<30 - 1)
	waitFor(t, "refusal", func() bool { _, err := s.Put(t.Context(), message(2)); return errors.Is(err, ErrFull) })
	if err := s.Bury(t.Context(), deadLetter(1)); err != nil {
		t.Errorf("Bury: %v", err)
	}
	if err := s.Remove(seq); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if err := s.KeepReply(t.Context(), replyOf(1, time.Hour)); err != nil {
		t.Errorf("KeepReply: %v", err)
	}
	put(t, s, answerOf(message(4)))
	free.Store(1<<29 - 1)
	waitFor(t, "refusal of a reply", func() bool { return errors.Is(s.KeepReply(t.Context(), replyOf(2, time.Hour)), ErrFull) })
	free.Store(10 << 30)
	waitFor(t, "room for a reply", func() bool { return s.KeepReply(t.Context(), replyOf(2, time.Hour)) == nil })
	waitFor(t, "recovery", func() bool { _, err := s.Put(t.Context(), message(3)); return err == nil })
}

// TestSyncError: one failed sync ends the trust for good, and nothing that it
// should have covered is given to a backend.
func TestSyncError(t *testing.T) {
	bad := errors.New("input/output error")
	o := testOptions(t, t.TempDir())
	if o.Durability == Relaxed {
		t.Skip("strict is refused on this filesystem")
	}
	seen := &events{}
	o.Observer = seen
	var fail atomic.Bool
	var syncs atomic.Int64
	o.syncWith = func(real func() error) func() error {
		return func() error {
			syncs.Add(1)
			if fail.Load() {
				return bad
			}
			return real()
		}
	}
	s := openStore(t, o)
	var told atomic.Int64
	s.OnCommit(func(uint64, *Message) { told.Add(1) })
	put(t, s, message(1))
	fail.Store(true)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := s.Put(t.Context(), message(i)); !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrClosed) {
				t.Errorf("Put: got %v, want %v or, for a later one, %v", err, ErrUnknown, ErrClosed)
			}
		})
	}
	wg.Wait()
	<-s.Failed()
	if !errors.Is(s.Err(), bad) || told.Load() != 1 {
		t.Errorf("Err %v, onCommit told of %d; want %v and 1", s.Err(), told.Load(), bad)
	}
	fail.Store(false)
	before := syncs.Load()
	if _, err := s.Put(t.Context(), message(9)); !errors.Is(err, ErrClosed) {
		t.Errorf("Put afterwards: got %v, want %v", err, ErrClosed)
	}
	if err := s.Bury(t.Context(), deadLetter(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Bury afterwards: got %v, want %v", err, ErrClosed)
	}
	dir := s.dir
	if err := s.Close(); !errors.Is(err, bad) {
		t.Errorf("Close: got %v, want %v", err, bad)
	}
	if got := syncs.Load(); got != before {
		t.Errorf("%d syncs after the one that failed", got-before)
	}
	if len(seen.errs) != 1 {
		t.Errorf("observer: %v, want one error", seen.errs)
	}
	o.syncWith = nil
	if s := openStore(t, o); s.Info().Clean || s.dir != dir {
		t.Error("a failed store is clean when reopened")
	}
}

// TestIdleSync: what nobody waits for is synced all the same.
func TestIdleSync(t *testing.T) {
	o := testOptions(t, t.TempDir())
	seen := &events{}
	o.Observer = seen
	s := openStore(t, o)
	count := func() int { seen.mu.Lock(); defer seen.mu.Unlock(); return seen.syncs }
	before := count()
	if err := s.SaveAttempts("x", []AttemptRecord{{N: 1}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "sync", func() bool { return count() > before })
	waitFor(t, "quiet", func() bool {
		n := count()
		<-time.After(idleSync + 3*trimEvery)
		return count() == n
	})
}

func TestRelaxed(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.Durability = Relaxed
	seen := &events{}
	o.Observer = seen
	s := openStore(t, o)
	told := 0
	s.OnCommit(func(uint64, *Message) { told++ })
	for i := range 50 {
		put(t, s, message(i))
	}
	if told != 50 || s.Info().Durability != Relaxed {
		t.Errorf("told of %d, %s; want 50, %s", told, s.Info().Durability, Relaxed)
	}
	sum := func() (n int) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for _, g := range seen.groups {
			n += g
		}
		return n
	}
	waitFor(t, "sync", func() bool { return sum() == 50 })
}

// TestFallback: where syncfs is missing the server syncs by itself.
func TestFallback(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.syncWith = func(func() error) func() error { return nil }
	s := openStore(t, o)
	for i := range 10 {
		put(t, s, message(i))
	}
	if err := s.Remove(1, 2, 5); err != nil {
		t.Fatal(err)
	}
	if got := scanSeqs(t, s); !slices.Equal(got, []uint64{3, 4, 6, 7, 8, 9, 10}) {
		t.Errorf("Scan: %v", got)
	}
}

// TestTrimBounded: one message that waits does not keep the log from shrinking,
// neither by those of other destinations nor by those of its own.
func TestTrimBounded(t *testing.T) {
	t.Run("others", func(t *testing.T) { testTrimBounded(t, "erp", 100) })
	t.Run("its own", func(t *testing.T) { testTrimBounded(t, "dead", 2000) })
}

func testTrimBounded(t *testing.T, destination string, count int) {
	o := testOptions(t, t.TempDir())
	o.Observer = noGaps{t: t}
	s := openStore(t, o)
	first := put(t, s, &Message{ID: "waits", Destination: "dead"})
	var seqs []uint64
	for i := range count {
		seqs = append(seqs, put1(t, s, i, destination))
	}
	if err := s.Remove(seqs...); err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		i, err := s.js.info(streamLog)
		if err != nil {
			t.Fatal(err)
		}
		return i.State.Messages
	}
	waitFor(t, "removal", func() bool { return messages() == 1 })
	if got := scanSeqs(t, s); !slices.Equal(got, []uint64{first}) {
		t.Errorf("Scan: %v, want %d", got, first)
	}
	if err := s.Remove(first); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "cut", func() bool { return messages() == 0 })
	waitFor(t, "no more than a mark and a record of what is removed", func() bool {
		i, err := s.js.info(streamState)
		if err != nil {
			t.Fatal(err)
		}
		return i.State.Messages <= 2
	})
}

// put1 stores a message without waiting for a sync.
func put1(t *testing.T, s *Embedded, i int, destination string) uint64 {
	t.Helper()
	j := &job{msg: message(i), early: true}
	j.msg.Destination = destination
	header, data, err := encodeMessage(j.msg)
	if err != nil {
		t.Fatal(err)
	}
	j.rec = record{logSubject(destination), headerMessage, header, data}
	if err := s.commit.do(context.Background(), j); err != nil {
		t.Fatal(err)
	}
	return j.seq
}

// TestRemovedStaysRemoved: a kill after the note and before the deed repeats nothing.
func TestRemovedStaysRemoved(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	for i := range 10 {
		put(t, s, message(i))
	}
	s.trim.close() // its next mark would replace ours
	// The notes as pass writes them, without the removal.
	b, err := json.Marshal(mark{Floor: 4, Durable: 10})
	if err != nil {
		t.Fatal(err)
	}
	var gone seqSet
	gone.add(6)
	gone.add(7)
	if err := s.trim.write([]*job{
		{rec: record{subjectMark, headerValue, encodeValue(subjectMark, b), b}},
		{rec: record{chunkSubject(0), headerValue, encodeValue(chunkSubject(0), gone.marshalChunk(0)), gone.marshalChunk(0)}},
	}); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t, copyStore(t, s.dir))
	o.Observer = noGaps{t: t}
	s = openStore(t, o)
	if got := scanSeqs(t, s); !slices.Equal(got, []uint64{4, 5, 8, 9, 10}) {
		t.Errorf("Scan: %v, want 4, 5, 8, 9, 10", got)
	}
	if got := s.Info().Messages; got != 5 {
		t.Errorf("Info().Messages = %d, want 5", got)
	}
	waitFor(t, "deed", func() bool {
		i, err := s.js.info(streamLog)
		return err == nil && i.State.Messages == 5
	})
}

// TestGaps: messages that vanish are reported, wherever in the log they were,
// and numbers noted as finished are not given to new messages.
func TestGaps(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testOptions(t, dir))
	for i := range 20 {
		put(t, s, message(i))
	}
	if err := s.Remove(1, 2, 10, 19); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openStore(t, testOptions(t, dir))
	if err := s.js.remove(streamLog, []uint64{5, 6, 9, 11, 18, 20}); err != nil { // behind the store's back
		t.Fatal(err)
	}
	closeStore(t, s)
	o := testOptions(t, dir)
	seen := &events{}
	o.Observer = seen
	s = openStore(t, o)
	scanSeqs(t, s)
	want := [][2]uint64{{5, 6}, {9, 9}, {11, 11}, {18, 18}, {20, 20}}
	if got := seen.reported(); !slices.Equal(got, want) {
		t.Errorf("gaps: %v, want %v", got, want)
	}
	scanSeqs(t, s)
	if got := seen.reported(); len(got) != len(want) {
		t.Errorf("gaps after a second scan: %v, want no more", got)
	}
}

// TestLostTail: a log that lost its end is reported at the start, and its next
// message does not get a number that counts as finished.
func TestLostTail(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testOptions(t, dir))
	for i := range 10 {
		put(t, s, message(i))
	}
	if err := s.Remove(1, 2, 3, 4, 5, 6, 8, 9, 10); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	// The log of an earlier time beside the notes of now.
	early := t.TempDir()
	e := openStore(t, testOptions(t, early))
	put(t, e, message(0))
	put(t, e, message(1))
	closeStore(t, e)
	log := filepath.Join("jetstream", "$G", "streams", streamLog)
	if err := os.RemoveAll(filepath.Join(dir, log)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, log), os.DirFS(filepath.Join(early, log))); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t, dir)
	seen := &events{}
	o.Observer = seen
	s = openStore(t, o)
	if got := seen.reported(); !slices.Equal(got, [][2]uint64{{7, 7}}) {
		t.Errorf("gaps: %v, want 7", got)
	}
	seq := put(t, s, message(50))
	if got := scanSeqs(t, s); !slices.Equal(got, []uint64{seq}) {
		t.Errorf("Scan: %v, want the new message %d", got, seq)
	}
	if _, err := s.Get(seq); err != nil {
		t.Errorf("Get(%d): %v", seq, err)
	}
}

// TestKill copies the store at odd moments of a busy run, as a kill would leave
// it: whatever was acknowledged before is there, whole.
func TestKill(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	var mu sync.Mutex
	acked := make(map[uint64]int)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := g; ctx.Err() == nil; i += 8 {
				seq, err := s.Put(context.WithoutCancel(ctx), message(i))
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				mu.Lock()
				acked[seq] = i
				drop := uint64(0)
				if i%3 == 0 && i > 30 {
					for q := range acked {
						drop = q
						break
					}
					delete(acked, drop)
				}
				mu.Unlock()
				if drop != 0 {
					if err := s.Remove(drop); err != nil {
						t.Errorf("Remove: %v", err)
					}
				}
			}
		})
	}
	for round := range 4 {
		<-time.After(time.Duration(50+round*170) * time.Millisecond)
		mu.Lock()
		want := make(map[uint64]int, len(acked))
		maps.Copy(want, acked)
		dir := copyStore(t, s.dir) // with mu held, so that nothing of want is removed meanwhile
		mu.Unlock()
		o := testOptions(t, dir)
		o.Observer = noGaps{t: t}
		c := openStore(t, o)
		if c.Info().Clean {
			t.Errorf("round %d: clean", round)
		}
		scanned := scanSeqs(t, c)
		for seq, i := range want {
			if _, ok := slices.BinarySearch(scanned, seq); !ok {
				t.Fatalf("round %d: message %d is not in the scan", round, seq)
			}
			m, err := c.Get(seq)
			if err != nil || m.ID != message(i).ID || !bytes.Equal(m.Body, message(i).Body) {
				t.Fatalf("round %d: Get(%d): %v, %v, want %s", round, seq, m, err, message(i).ID)
			}
		}
		closeStore(t, c)
	}
	cancel()
	wg.Wait()
}

// TestNoLeak: after Close no goroutine of store or server is left.
func TestNoLeak(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, openStore(t, testOptions(t, dir))) // what starts once stays
	before := runtime.NumGoroutine()
	for range 3 {
		s := openStore(t, testOptions(t, dir))
		put(t, s, message(1))
		scanSeqs(t, s)
		closeStore(t, s)
	}
	waitFor(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestServerFatal: what would end a server's process ends the trust in the store.
func TestServerFatal(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	(&serverLog{log: s.opt.Log, fatal: s.fail}).Fatalf("disk %s", "gone")
	<-s.Failed()
	if _, err := s.Put(t.Context(), message(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Put: got %v, want %v", err, ErrClosed)
	}
}

// TestConnectionLost: a server that goes away under the store fails it.
func TestConnectionLost(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	s.js.srv.Shutdown()
	<-s.Failed()
	if _, err := s.Put(t.Context(), message(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Put: got %v, want %v", err, ErrClosed)
	}
}

func TestStoreOptionsReportEveryField(t *testing.T) {
	_, err := OpenEmbedded(StoreOptions{Durability: "maybe", MaxBytes: 5})
	for _, field := range []string{"Dir", "Durability", "MaxBytes"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("OpenEmbedded: got %v, want it to name %s", err, field)
		}
	}
}

// TestDeadTwice: a kill between a dead letter's replacement and the end of the
// one it replaces leaves both; the newer one counts.
func TestDeadTwice(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	for _, reason := range []string{"older", "newer"} {
		header, data, err := encodeDead(&DeadLetter{Message: &Message{ID: "id", Route: "r"}, Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.commit.do(t.Context(), &job{rec: record{subjectDead + "id", headerDead, header, data}, urgent: true}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	if err := s.ScanDead(t.Context(), func(d *DeadLetter, _ int64) error { got = append(got, d.Reason); return nil }); err != nil || !slices.Equal(got, []string{"newer"}) {
		t.Errorf("ScanDead: got %q, %v, want the newer one", got, err)
	}
}
