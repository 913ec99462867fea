package queue

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRestoreDoubt: what waits is marked, what may be delivered once only is a dead
// letter, and a route that appears later decides about its own.
func TestRestoreDoubt(t *testing.T) {
	src := openStore(t, testOptions(t, t.TempDir()))
	q := testQueue(t, src)
	for i, route := range []string{"often", "once", "later-once", "later-often", "once"} {
		m := plain(i)
		m.Route, m.Destination, m.Accepted = route, route, time.Now()
		put(t, src, m)
	}
	if err := src.SaveAttempts(plain(1).ID, []AttemptRecord{{N: 3, Reason: "refused"}}); err != nil {
		t.Fatal(err)
	}
	died := &DeadLetter{Message: plain(4), Died: time.Now(), Reason: ReasonPermanent, Text: "its own reason"}
	died.Route = "once"
	if err := src.Bury(t.Context(), died); err != nil { // and is not yet out of the log
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if _, err := q.Backup(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := restoreOptions(dir)
	o.AtMostOnce = func(r string) (bool, bool) { return r == "once", r == "once" || r == "often" }
	r, err := Restore(t.Context(), backupFileOf(t, buf.Bytes()), o)
	if err != nil || r.Unknown != 1 {
		t.Fatalf("Restore: %+v, %v, want one message of unknown outcome", r, err)
	}

	s := openStore(t, testOptions(t, dir))
	n := &node{}
	run, err := New(s, n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var routes []Route
	var dests []Destination
	for _, name := range []string{"often", "once", "later-once", "later-often"} {
		routes = append(routes, Route{Name: name, Destination: name, AtMostOnce: strings.HasSuffix(name, "once")})
		dests = append(dests, Destination{Name: name})
	}
	if err := run.Configure(routes, dests); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run.Run(ctx) }()
	waitFor(t, "end", func() bool { return run.Loaded() && run.Waiting() == 0 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var got []string
	for _, g := range n.given() {
		if got = append(got, g.id); !g.dup {
			t.Errorf("%s was delivered without the mark", g.id)
		}
	}
	slices.Sort(got)
	if want := []string{plain(0).ID, plain(3).ID}; !slices.Equal(got, want) {
		t.Errorf("delivered: %v, want %v", got, want)
	}
	for i, want := range map[int]string{1: ReasonUnknown, 2: ReasonUnknown, 4: ReasonPermanent} {
		d, err := s.Dead(plain(i).ID)
		if err != nil || d.Reason != want {
			t.Errorf("dead letter %d: %+v, %v, want reason %s", i, d, err, want)
			continue
		}
		if !slices.ContainsFunc(d.Attempts, func(a AttemptRecord) bool { return a.Maybe }) || i == 1 && d.Attempts[0].N != 3 {
			t.Errorf("dead letter %d: attempts %+v", i, d.Attempts)
		}
	}
}

// TestRestoreOccupied: a store that is there stays unless it is to be set aside,
// and then it stays there.
func TestRestoreOccupied(t *testing.T) {
	b, _ := backedUpStore(t, 3)
	file := backupFileOf(t, b)
	dir := t.TempDir()
	s := openStore(t, testOptions(t, dir))
	put(t, s, plain(99))
	if _, err := Restore(t.Context(), file, restoreOptions(dir)); !errors.Is(err, ErrLocked) {
		t.Errorf("Restore into an open store: got %v, want %v", err, ErrLocked)
	}
	closeStore(t, s)
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Restore(t.Context(), file, restoreOptions(dir))
	if !errors.Is(err, ErrNotEmpty) {
		t.Errorf("Restore: got %v, want %v", err, ErrNotEmpty)
	}
	o := restoreOptions(dir)
	o.SetAside = true
	r, err := Restore(t.Context(), file, o)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	old := openStore(t, testOptions(t, r.Replaced))
	if m, err := old.Get(1); err != nil || m.ID != plain(99).ID || !old.Info().Clean {
		t.Errorf("the old store: %v, %v", m, err)
	}
	fresh := openStore(t, testOptions(t, dir))
	if got := len(scanSeqs(t, fresh)); got != 3 {
		t.Errorf("%d messages, want 3", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Error(err)
	}
}

const restoreHelper = "QUEUE_TEST_RESTORE"

// TestRestoreKilled kills a restore at odd moments: there is no store, or all of it.
func TestRestoreKilled(t *testing.T) {
	const n = 60
	if env := os.Getenv(restoreHelper); env != "" { // the process that is killed
		file, dir, _ := strings.Cut(env, "|")
		o := restoreOptions(dir)
		o.SetAside = true
		o.AtMostOnce = func(string) (bool, bool) { return true, true }
		if _, err := Restore(context.Background(), file, o); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, _ := backedUpStore(t, n)
	file := backupFileOf(t, b)
	rnd := rand.New(rand.NewPCG(5, 6))
	whole, none := 0, 0
	began := time.Now()
	run := func(dir string, after time.Duration) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRestoreKilled$")
		cmd.Env = append(os.Environ(), restoreHelper+"="+file+"|"+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or not
		kill.Stop()
	}
	run(t.TempDir(), time.Minute)
	took := time.Since(began)
	for round := range 12 {
		dir := t.TempDir()
		if round%2 == 0 {
			s := openStore(t, testOptions(t, dir))
			put(t, s, plain(1))
			closeStore(t, s)
		}
		run(dir, took/6+time.Duration(rnd.Int64N(int64(took))))
		if err := hasStore(dir); errors.Is(err, ErrNoStore) {
			none++
			continue
		}
		s := openStore(t, testOptions(t, dir))
		seqs := scanSeqs(t, s)
		dead := 0
		if err := s.ScanDead(t.Context(), func(*DeadLetter, int64) error { dead++; return nil }); err != nil {
			t.Fatal(err)
		}
		switch {
		case len(seqs) == 0 && dead == 2*n:
			whole++
		case round%2 == 0 && len(seqs) == 1 && dead == 0: // the old one
			none++
		default:
			t.Errorf("round %d: %d messages and %d dead letters", round, len(seqs), dead)
		}
		closeStore(t, s)
		if left, err := os.Stat(filepath.Join(dir, restoredName)); err == nil {
			t.Errorf("round %d: %s is left", round, left.Name())
		}
	}
	t.Logf("restored %d times, not %d times; one restore takes %v", whole, none, took)
}

// TestFinishRestore: each step of putting a store in place may be the last.
func TestFinishRestore(t *testing.T) {
	for _, replaces := range []bool{false, true} {
		for stop := range 12 {
			dir := t.TempDir()
			from := filepath.Join(dir, restoredName)
			write := func(name, text string) {
				t.Helper()
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(filepath.Join(from, "jetstream", "x"), "new")
			write(filepath.Join(from, identityName), "new")
			if replaces {
				write(filepath.Join(from, replacesName), replacedPrefix+"then")
				write(filepath.Join(dir, "jetstream", "x"), "old")
				write(filepath.Join(dir, "blobs", "y"), "old")
				write(filepath.Join(dir, identityName), "old")
			}
			// A kill after the first moves, wherever they lead.
			moves := [][2]string{}
			if replaces {
				for _, e := range storeEntries {
					moves = append(moves, [2]string{filepath.Join(dir, e), filepath.Join(dir, replacedPrefix+"then", e)})
				}
				moves = append(moves, [2]string{filepath.Join(from, replacesName), filepath.Join(t.TempDir(), "gone")})
			}
			for _, e := range storeEntries {
				moves = append(moves, [2]string{filepath.Join(from, e), filepath.Join(dir, e)})
			}
			for _, m := range moves[:min(stop, len(moves))] {
				if err := os.MkdirAll(filepath.Dir(m[1]), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(m[0], m[1]); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if err := finishRestore(dir, testOptions(t, dir).Log); err != nil {
				t.Fatalf("after %d moves: %v", stop, err)
			}
			for name, want := range map[string]string{filepath.Join("jetstream", "x"): "new", identityName: "new"} {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
					t.Errorf("after %d moves: %s is %q, %v", stop, name, b, err)
				}
				if b, err := os.ReadFile(filepath.Join(dir, replacedPrefix+"then", name)); replaces && (err != nil || string(b) != "old") {
					t.Errorf("after %d moves: the old %s is %q, %v", stop, name, b, err)
				}
			}
		}
	}
}
