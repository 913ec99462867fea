package queue

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// durabilityHere is strict where the tests' directory allows it.
func durabilityHere(dir string) string {
	if CheckDir(dir, Strict) != nil {
		return Relaxed
	}
	return Strict
}

// events is an observer that remembers.
type events struct {
	mu     sync.Mutex
	syncs  int
	groups []int
	errs   []error
	gaps   [][2]uint64
	damage []*Damage
}

func (e *events) Damage(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damage = append(e.damage, err.(*Damage))
}

// damaged returns the damage so far.
func (e *events) damaged() []*Damage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*Damage(nil), e.damage...)
}

func (e *events) Synced(_ time.Duration, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.syncs++
	e.groups = append(e.groups, n)
}

func (e *events) StoreError(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs = append(e.errs, err)
}

func (e *events) Gap(from, to uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gaps = append(e.gaps, [2]uint64{from, to})
}

// reported returns the gaps so far.
func (e *events) reported() [][2]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([][2]uint64(nil), e.gaps...)
}

func testOptions(t *testing.T, dir string) StoreOptions {
	return StoreOptions{
		Dir: dir, Durability: durabilityHere(dir), MaxBytes: 1 << 30, MinFree: -1,
		Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) { w.t.Logf("%s", b); return len(b), nil }

func openStore(t *testing.T, o StoreOptions) *Embedded {
	t.Helper()
	d := &stand{}
	free := o.syncWith == nil
	if free {
		o.syncWith = d.between
	}
	s, err := OpenEmbedded(o)
	if err != nil {
		t.Fatalf("OpenEmbedded: %v", err)
	}
	if d.s = s; free && s.commit.sync != nil {
		stands.Store(s.dir, d)
		t.Cleanup(func() { stands.Delete(s.dir) })
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// copyStore copies a store's directory while it is open: what a kill of the
// process leaves.
func copyStore(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	defer standStill(t, from)()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // temporary files come and go
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(dst, 0o700)
		}
		if stream, ok := strings.CutPrefix(filepath.Dir(rel), twinsName+string(filepath.Separator)); ok {
			block := filepath.Join("msgs", filepath.Base(rel)) // copied before its second name
			if st, err := os.Stat(path); err == nil && isFile(filepath.Join(streamDir(from, stream), block), st) {
				return os.Link(filepath.Join(streamDir(to, stream), block), dst)
			}
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(dst, b, 0o600)
	})
	if err != nil {
		t.Fatalf("copy of the store: %v", err)
	}
	return to
}

func embeddedMaker(observer func(t *testing.T) StoreObserver) storeMaker {
	return optionsMaker(func(t *testing.T, dir string) StoreOptions {
		o := testOptions(t, dir)
		o.Observer = observer(t)
		return o
	})
}

func optionsMaker(options func(t *testing.T, dir string) StoreOptions) storeMaker {
	return storeMaker{
		open: func(t *testing.T) Store { return openStore(t, options(t, t.TempDir())) },
		reopen: func(t *testing.T, s Store, clean bool) Store {
			e := s.(*Embedded)
			dir := e.dir
			if clean {
				closeStore(t, s)
			} else {
				dir = copyStore(t, dir)
			}
			return openStore(t, options(t, dir))
		},
	}
}

// noGaps fails the test if a store misses what nobody lost.
type noGaps struct {
	noObserver
	t *testing.T
}

func (n noGaps) Gap(from, to uint64)  { n.t.Errorf("gap reported: %d to %d", from, to) }
func (n noGaps) Damage(err error)     { n.t.Errorf("damage reported: %v", err) }
func (n noGaps) StoreError(err error) { n.t.Errorf("store error: %v", err) }

func TestEmbeddedContract(t *testing.T) {
	testContract(t, embeddedMaker(func(t *testing.T) StoreObserver { return noGaps{t: t} }))
}

// TestMaxBytesChanges: what a store may hold can be set to any other size, and
// what it has is still there.
func TestMaxBytesChanges(t *testing.T) {
	o := testOptions(t, t.TempDir())
	for n, most := range []int64{1 << 40, 1 << 30, 1 << 44, 1 << 20} {
		o.MaxBytes, o.KeepDelivered = most, time.Hour
		s := openStore(t, o)
		if _, err := s.Put(t.Context(), scaled(n, 1)); err != nil {
			t.Fatalf("Put with at most %d octets: %v", most, err)
		}
		waiting := 0
		if err := s.Scan(t.Context(), func(uint64, *Message, int64) error { waiting++; return nil }); err != nil {
			t.Fatal(err)
		}
		if waiting != n+1 {
			t.Errorf("%d messages with at most %d octets, want %d", waiting, most, n+1)
		}
		closeStore(t, s)
	}
}
