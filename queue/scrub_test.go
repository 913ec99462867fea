package queue

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestScrub: damage that comes while a store runs is found with all that is known
// of it, the file is kept, and nothing is changed.
func TestScrub(t *testing.T) {
	const n = 20
	dir := wholeStore(t, n, true)
	o := testOptions(t, dir)
	o.KeepDelivered = time.Hour
	seen := &events{}
	o.Observer = seen
	s := openStore(t, o)
	q := testQueue(t, s)
	var last, total uint64
	got, err := q.Scrub(t.Context(), 0, func(done, all uint64) { last, total = done, all })
	if err != nil || len(got.Damage) > 0 || got.Records < 5*n || got.Files < 4 || got.Octets == 0 {
		t.Fatalf("Scrub of a whole store: %+v, %v", got, err)
	}
	if last != total || total != got.Octets {
		t.Errorf("progress ended at %d of %d, read were %d", last, total, got.Octets)
	}
	for _, st := range streamNames {
		file, spoilt := spoil(t, dir, st.stream, func(b []byte, r blockRecord) { b[r.at+len(r.raw)-12] ^= 1 })
		got, err := q.Scrub(t.Context(), 0, nil)
		if err != nil {
			t.Fatalf("Scrub: %v", err)
		}
		var found *Damage
		for i := range got.Damage {
			if got.Damage[i].Stream == st.holds && got.Damage[i].Length > 0 {
				found = &got.Damage[i]
			}
		}
		if found == nil || found.Offset == 0 || !strings.HasSuffix(file, found.File) {
			t.Errorf("%s: found %+v, want damage in %s", st.stream, got.Damage, file)
			continue
		}
		if st.stream != streamState && (found.ID == "" || found.Route == "") {
			t.Errorf("%s: found %+v without id and route", st.stream, found)
		}
		if !bytes.Equal(kept(t, dir, file), spoilt) {
			t.Errorf("%s: what was kept is not the file", st.stream)
		}
		if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, spoilt) {
			t.Errorf("%s: the scrub has changed the file: %v", st.stream, err)
		}
	}
	if len(seen.damaged()) < len(streamNames) {
		t.Errorf("observer: damage %v", seen.damaged())
	}
	if _, err := q.Scrub(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, damagedPrefix+"*", "jetstream", "*", "*", streamLog, "msgs", "*")); err != nil || len(found) != 1 {
		t.Errorf("a file was kept %d times, %v", len(found), err)
	}
}

// TestScrubMissing: a block that vanishes under a running store.
func TestScrubMissing(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.Durability = Relaxed
	seen := &events{}
	o.Observer = seen
	s := openStore(t, o)
	const n = 28
	r := rand.NewChaCha8([32]byte{1})
	for i := range n {
		m := plain(i)
		m.Body = make([]byte, inlineMost-10) // in its record, and none that gets smaller
		_, _ = r.Read(m.Body)
		put(t, s, m)
	}
	if err := s.Remove(2); err != nil {
		t.Fatal(err)
	}
	all, err := blockFiles(s.dir, streamLog)
	if err != nil || len(all) < 3 {
		t.Fatalf("%d blocks, %v; want some", len(all), err)
	}
	if err := os.Remove(all[1].path); err != nil {
		t.Fatal(err)
	}
	got, err := testQueue(t, s).Scrub(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Damage) < 2 || got.Damage[0].Seq < 3 || len(seen.reported()) != len(got.Damage) {
		t.Errorf("found %+v, gaps %v; want the messages of a block", got.Damage, seen.reported())
	}
	for _, d := range got.Damage {
		if d.Seq == 2 {
			t.Error("a message that was removed is reported as missing")
		}
	}
}

// TestScrubBusy: a store that is written, trimmed and compacted while it is looked
// through is whole.
func TestScrubBusy(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.Observer = noGaps{t: t}
	s := openStore(t, o)
	q := testQueue(t, s) // before the first message
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := g; ctx.Err() == nil; i += 6 {
				m := plain(i)
				m.Body = bytes.Repeat(m.Body, 1+i%200)
				seq, err := s.Put(context.WithoutCancel(ctx), m)
				if err == nil && i%5 != 0 {
					err = s.Remove(seq)
				}
				if err == nil && i%50 == 0 {
					err = s.Bury(context.WithoutCancel(ctx), deadLetter(i%7))
				}
				if err == nil && i%60 == 0 {
					err = s.Unbury(context.WithoutCancel(ctx), deadLetter(i%7).ID)
				}
				if err != nil {
					t.Errorf("store: %v", err)
					return
				}
			}
		})
	}
	end := time.Now().Add(3 * time.Second)
	looks := 0
	for time.Now().Before(end) {
		got, err := q.Scrub(t.Context(), 0, nil)
		if err != nil || len(got.Damage) > 0 {
			t.Fatalf("Scrub: %+v, %v", got, err)
		}
		looks++
	}
	cancel()
	wg.Wait()
	t.Logf("%d looks", looks)
}

// TestScrubber: a running store looks at itself, and ends with the store.
func TestScrubber(t *testing.T) {
	dir := wholeStore(t, 5, true)
	o := testOptions(t, dir)
	o.scrubEvery = 20 * time.Millisecond
	seen := &events{}
	o.Observer = seen
	s := openStore(t, o)
	spoil(t, dir, streamDead, func(b []byte, r blockRecord) { b[r.at+len(r.raw)-12] ^= 1 })
	waitFor(t, "alarm", func() bool { return len(seen.damaged()) > 0 })
	closeStore(t, s)
}

// TestScrubRate: a bounded look takes its time, and ends when it is told to.
func TestScrubRate(t *testing.T) {
	dir := wholeStore(t, 20, true)
	s := openStore(t, testOptions(t, dir))
	ctx, cancel := context.WithCancel(t.Context())
	looked := make(chan error, 1)
	read := make(chan struct{}, 100)
	go func() {
		_, err := testQueue(t, s).Scrub(ctx, 1, func(uint64, uint64) { read <- struct{}{} })
		looked <- err
	}()
	<-read
	select {
	case err := <-looked:
		t.Errorf("a look at one octet a second has ended: %v", err)
	default:
	}
	cancel()
	if err := <-looked; err == nil {
		t.Error("a look that was ended says that all is well")
	}
}

// TestScrubStopped: what the opening of a stopped store has found and mended is
// part of what its scrub tells.
func TestScrubStopped(t *testing.T) {
	dir := wholeStore(t, 10, true)
	spoil(t, dir, streamReply, func(b []byte, r blockRecord) { b[r.at+1] ^= 0x40 })
	o := testOptions(t, dir)
	o.Inspect = true
	s := openStore(t, o)
	got, err := testQueue(t, s).Scrub(t.Context(), 0, nil)
	if err != nil || len(got.Damage) != 1 || got.Damage[0].ID == "" {
		t.Errorf("Scrub: %+v, %v, want one damaged reply", got, err)
	}
	closeStore(t, s)
	s = openStore(t, o)
	if got, err := testQueue(t, s).Scrub(t.Context(), 0, nil); err != nil || len(got.Damage) != 0 {
		t.Errorf("Scrub afterwards: %+v, %v", got, err)
	}
}
