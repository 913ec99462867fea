package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
