package queue

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestBlobAsideOfLostLetters: where a file of dead letters is gone as a whole nothing
// in it can be found damaged, but fewer are there than at the last stop. The bodies
// that they claimed are not removed.
func TestBlobAsideOfLostLetters(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openStore(t, o)
	const n = 3
	for i := range n {
		seq := putBlob(t, s, fmt.Sprint("m", i), noise(100_000))
		m, err := s.Get(seq)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Bury(t.Context(), &DeadLetter{Message: m, Reason: ReasonPermanent}); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(seq); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	files, err := blockFiles(o.Dir, streamDead)
	if err != nil || len(files) == 0 {
		t.Fatalf("files of dead letters: %v, %v", files, err)
	}
	for _, f := range files {
		if err := os.Remove(f.path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(filepath.Dir(files[0].path), "index.db")); err != nil {
		t.Fatal(err)
	}
	o.Log = nil
	s = openStore(t, o)
	scanAll(t, s)
	kept, err := filepath.Glob(filepath.Join(o.Dir, damagedPrefix+"*", blobsName, "*"))
	if err != nil || len(kept) != n {
		t.Errorf("set aside: %q, %v, want %d bodies", kept, err, n)
	}
}

// TestDamageIsNotForgotten: a start that mends a store may be killed before it has
// looked for the bodies that the lost records claimed, or may be one that only
// inspects. The next one finds nothing damaged, and still knows.
func TestDamageIsNotForgotten(t *testing.T) {
	for _, first := range []string{"mended", "opened", "inspected"} {
		o := testOptions(t, t.TempDir())
		o.Log, o.scrubEvery = nil, time.Hour
		s := openStore(t, o)
		putBlob(t, s, "kept", noise(100_000))
		m, err := s.Get(putBlob(t, s, "lost", noise(100_001)))
		if err != nil {
			t.Fatal(err)
		}
		name := m.Blob.(*storedBlob).name
		closeStore(t, s)
		flip(t, o.Dir, []byte(name))
		switch first {
		case "mended":
			id, err := readIdentity(o.Dir)
			if err != nil {
				t.Fatal(err)
			}
			c := &startCheck{dir: o.Dir, id: &id, log: slog.New(slog.DiscardHandler), observer: noObserver{}}
			c.aside.store = o.Dir
			files, err := blockFiles(o.Dir, streamLog)
			if err != nil || len(files) != 1 {
				t.Fatalf("files: %v, %v", files, err)
			}
			if found, err := c.block(&files[0], true); err != nil || len(found) != 1 {
				t.Fatalf("block: %v, %v, want one damage", found, err)
			}
		case "opened":
			openStore(t, o)
			o.Dir = copyStore(t, o.Dir) // a kill
		case "inspected":
			look := o
			look.Inspect = true
			s = openStore(t, look)
			scanAll(t, s)
			closeStore(t, s)
		}
		s = openStore(t, o)
		if s.Info().Clean {
			t.Errorf("%s: the stop counts as clean", first)
		}
		scanAll(t, s)
		kept, err := filepath.Glob(filepath.Join(o.Dir, damagedPrefix+"*", blobsName, name))
		if err != nil || len(kept) != 1 || bodies(t, s) != 1 {
			t.Errorf("%s: set aside %q, %v, and %d bodies are left; want the one of the lost message and 1", first, kept, err, bodies(t, s))
		}
		closeStore(t, s)
		s = openStore(t, o)
		if s.blobs.doubt.Load() || !s.Info().Clean {
			t.Errorf("%s: it is in doubt for ever", first)
		}
	}
}
