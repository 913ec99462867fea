package queue

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What a block held is found under its second name when the file that took its
// place was not on the disk yet.
func TestTwins(t *testing.T) {
	dir := t.TempDir()
	if durabilityHere(dir) != Strict {
		t.Log("here nothing is synced by the filesystem; the links are tested all the same")
	}
	s := openStore(t, StoreOptions{Dir: dir, Durability: durabilityHere(dir)})
	if s.twins == nil {
		t.Skip("each record is synced by itself")
	}
	body := make([]byte, 60<<10) // cannot be packed
	rand.NewChaCha8([32]byte{1}).Read(body)
	var seqs []uint64
	const messages = 400 // some 24 MiB: three blocks
	for i := range messages {
		m := &Message{ID: fmt.Sprintf("01890000-0000-7000-8000-%012d", i), Route: "r", Destination: "d", Accepted: time.Now(), Body: append(fmt.Appendf(nil, "%d ", i), body...)}
		seq, err := s.Put(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, seq)
	}
	s.trim.close()
	s.twins.keep(allStreams...)
	block := filepath.Join(streamDir(dir, streamLog), "msgs", "1.blk")
	twin := twinPath(dir, streamLog, "1.blk")
	before, err := os.Stat(block)
	if err != nil {
		t.Fatal(err)
	}
	if !isFile(twin, before) {
		t.Fatal("the block has no second name")
	}
	// Most of the first block goes, so that the server writes it anew.
	kept := map[string]bool{}
	var gone []uint64
	for i, seq := range seqs {
		if i < 100 && i%10 != 0 {
			gone = append(gone, seq)
			continue
		}
		kept[fmt.Sprintf("01890000-0000-7000-8000-%012d", i)] = true
	}
	s.trim.remove(gone)
	s.trim.removedAt = time.Now() // it is noted now, and removed by hand
	if err := s.trim.pass(false); err != nil {
		t.Fatal(err)
	}
	if err := s.js.remove(streamLog, gone); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(block)
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(before, after) {
		t.Fatal("the server did not write the block anew: the test does not show what it should")
	}
	if !isFile(twin, before) {
		t.Fatal("the second name is not the old file any more")
	}
	for range 3 { // no sync: it stays
		s.twins.keep(allStreams...)
	}
	if !isFile(twin, before) {
		t.Fatal("the old file was given up before anything was synced")
	}

	// A power cut leaves the new name with octets that were never written.
	cut := copyStore(t, dir)
	broken := filepath.Join(streamDir(cut, streamLog), "msgs", "1.blk")
	st, err := os.Stat(broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, make([]byte, st.Size()), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &events{}
	again := openStore(t, StoreOptions{Dir: cut, Durability: durabilityHere(cut), Observer: e})
	found := map[string]bool{}
	if err := again.Scan(t.Context(), func(_ uint64, m *Message, _ int64) error { found[m.ID] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for id := range kept {
		if !found[id] {
			t.Errorf("message %s is lost", id)
		}
	}
	if len(e.gaps) > 0 || len(e.damaged()) > 0 {
		t.Errorf("gaps %v, damage %v, want none", e.gaps, e.damaged())
	}

	// After a sync the old file is given up and the new one has the second name.
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.twins.keep(allStreams...)
	if !isFile(twin, after) {
		t.Error("the second name is still the old file after a sync")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, twinsName)); !os.IsNotExist(err) {
		t.Errorf("after an orderly stop there are second names: %v", err)
	}
}

// What took the place of a block must be the file that was synced, not a later one.
func TestTwinsWaitForTheLastFile(t *testing.T) {
	dir := t.TempDir()
	msgs := filepath.Join(streamDir(dir, streamLog), "msgs")
	if err := os.MkdirAll(msgs, 0o700); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(msgs, "1.blk")
	replace := func(content string) {
		t.Helper()
		if err := os.WriteFile(block+".tmp", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(block+".tmp", block); err != nil {
			t.Fatal(err)
		}
	}
	var syncs syncCount
	sync := syncs.count(func() error { return nil })
	w := &twins{store: dir, log: slog.New(slog.DiscardHandler), syncs: &syncs, stale: map[string]replaced{}}
	pass := func(want string) {
		t.Helper()
		w.keep(streamLog)
		got, err := os.ReadFile(twinPath(dir, streamLog, "1.blk"))
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	replace("first")
	pass("first")
	replace("second")
	pass("first")
	if err := sync(); err != nil {
		t.Fatal(err)
	}
	replace("third")
	pass("first") // the sync was one for the second
	if err := sync(); err != nil {
		t.Fatal(err)
	}
	pass("third")
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	pass("third")
	if err := sync(); err != nil {
		t.Fatal(err)
	}
	w.keep(streamLog)
	if _, err := os.Stat(twinPath(dir, streamLog, "1.blk")); !os.IsNotExist(err) {
		t.Errorf("the block is gone and durably so, its second name is not: %v", err)
	}
}
