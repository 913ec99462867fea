package queue

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestBlobDamaged: a file that is not what was written is found, however it
// differs, before its last octets are given.
func TestBlobDamaged(t *testing.T) {
	content := noise(3 << 20)
	for name, keys := range map[string]*Keys{"plain": nil, "sealed": keysOf(t, testKeyA)} {
		for how, damage := range map[string]func(b []byte) []byte{
			"first octet": func(b []byte) []byte { b[0] ^= 1; return b },
			"in between":  func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"last octet":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			"cut":         func(b []byte) []byte { return b[:len(b)-1] },
			"cut short":   func(b []byte) []byte { return b[:10] },
			"empty":       func([]byte) []byte { return nil },
			"longer":      func(b []byte) []byte { return append(b, 0) },
			"gone":        nil,
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				o := testOptions(t, t.TempDir())
				o.Keys = keys
				s := openStore(t, o)
				seq := putBlob(t, s, "a", content)
				m, err := s.Get(seq)
				wantBody(t, "before", m, err, content)
				file := s.blobs.path(m.Blob.(*storedBlob).name)
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(b, content[:100]) != (keys == nil) {
					t.Errorf("the file has the octets: %v", keys != nil)
				}
				if damage == nil {
					err = os.Remove(file)
				} else {
					err = os.WriteFile(file, damage(b), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				if m, err = s.Get(seq); err != nil {
					t.Fatal(err)
				}
				if got, err := readBlob(m.Blob); !errors.Is(err, ErrCorrupt) || len(got) > len(content)-provenTail {
					t.Errorf("read %d octets of %d, %v, want %v before the end", len(got), len(content), err, ErrCorrupt)
				}
			})
		}
	}
}

// keysOf are the keys of a key file with these lines.
func keysOf(t *testing.T, lines ...string) *Keys {
	t.Helper()
	k, err := ParseKeys(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestBlobKill: copies of the directory while large messages are accepted, die, are
// replayed and removed. In each of them every message has its body, and nothing
// is left over.
func TestBlobKill(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.Log = nil
	s := openStore(t, o)
	scanAll(t, s)
	body := func(id string) []byte { return noise(inlineMost + 1 + int(id[0])) }
	var acknowledged, removed sync.Map // by id
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%c%d-%d", 'a'+w, w, i)
				m := &Message{ID: id, Body: body(id)}
				seq, err := s.Put(t.Context(), m)
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				acknowledged.Store(id, true)
				if i%4 == 0 {
					continue
				}
				if i%4 > 1 {
					if err := s.Bury(t.Context(), &DeadLetter{Message: m}); err != nil {
						t.Errorf("Bury: %v", err)
					}
				}
				if i%4 == 3 { // dies, and is replayed
					if err := s.Remove(seq); err != nil {
						t.Error(err)
					}
					d, err := s.Dead(id)
					if err != nil {
						t.Error(err)
						return
					}
					if seq, err = s.Put(t.Context(), d.Message); err != nil {
						t.Errorf("Put of a dead letter: %v", err)
					}
				}
				removed.Store(id, true) // from here on it may be gone
				if i%4 > 1 {
					if err := s.Unbury(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
				if err := s.Remove(seq); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		before := map[string]bool{}
		acknowledged.Range(func(id, _ any) bool { before[id.(string)] = true; return true })
		dir := copyStore(t, o.Dir)
		over := map[string]bool{}
		removed.Range(func(id, _ any) bool { over[id.(string)] = true; return true })
		c := o
		c.Dir = dir
		after := openStore(t, c)
		found, files := map[string]bool{}, map[string]bool{}
		look := func(m *Message, err error) {
			if err != nil {
				t.Errorf("a message of a copy: %v", err)
				return
			}
			found[m.ID] = true
			files[m.Blob.(*storedBlob).name] = true
			wantBody(t, "copy", m, nil, body(m.ID))
		}
		var dead []string
		if err := after.ScanDead(t.Context(), func(d *DeadLetter, _ int64) error { dead = append(dead, d.ID); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, seq := range scanSeqs(t, after) {
			look(after.Get(seq))
		}
		for _, id := range dead {
			d, err := after.Dead(id)
			if err != nil {
				t.Error(err)
				continue
			}
			look(d.Message, nil)
		}
		for id := range before {
			if !found[id] && !over[id] {
				t.Errorf("message %s was acknowledged and is lost", id)
			}
		}
		if n := bodies(t, after); n != len(files) {
			t.Errorf("%d files, %d are claimed", n, len(files))
		}
		closeStore(t, after)
	}
	close(stop)
	wg.Wait()
}

// TestBlobAside: where a record that may have claimed a body is missing, the body
// is not removed.
func TestBlobAside(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := openStore(t, o)
	var seqs []uint64
	for i := range 3 {
		seqs = append(seqs, putBlob(t, s, fmt.Sprint("m", i), noise(100_000+i)))
	}
	m, err := s.Get(seqs[1])
	if err != nil {
		t.Fatal(err)
	}
	name := m.Blob.(*storedBlob).name
	closeStore(t, s)
	flip(t, o.Dir, []byte(name))
	o.Log = nil
	s = openStore(t, o)
	scanAll(t, s)
	if n := bodies(t, s); n != 2 {
		t.Errorf("%d bodies, want those of the two messages that are left", n)
	}
	kept, err := filepath.Glob(filepath.Join(o.Dir, damagedPrefix+"*", blobsName, name))
	if err != nil || len(kept) != 1 {
		t.Fatalf("set aside: %q, %v, want %s", kept, err, name)
	}
	if b, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(b, noise(100_001)) {
		t.Errorf("what was set aside has %d octets, %v", len(b), err)
	}
	left := s.blobs.octets.Load()
	closeStore(t, s)
	s = openStore(t, o)
	if scanAll(t, s); bodies(t, s) != 2 || s.blobs.octets.Load() != left || left != 200_002 {
		t.Errorf("opened again: %d bodies, %d octets, before %d", bodies(t, s), s.blobs.octets.Load(), left)
	}
}

// TestBlobRoom: bodies count for max_bytes and min_free while they are written,
// what is refused leaves nothing, and what is gone makes room.
func TestBlobRoom(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	o := testOptions(t, t.TempDir())
	o.MaxBytes, o.MinFree = 20<<20, 1<<30
	o.free = func(string) (int64, error) { return free.Load(), nil }
	s := openStore(t, o)
	scanAll(t, s)
	if _, err := s.NewBlob(20 << 20); !errors.Is(err, ErrFull) {
		t.Errorf("NewBlob of all that the store may hold: got %v, want %v", err, ErrFull)
	}
	var seqs []uint64
	for i := range 3 {
		seqs = append(seqs, putBlob(t, s, fmt.Sprint(i), noise(5<<20)))
	}
	w, err := s.NewBlob(-1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for err == nil && n < 100 {
		_, err = w.Write(make([]byte, 100_000))
		n++
	}
	if !errors.Is(err, ErrFull) || n > 50 {
		t.Errorf("Write number %d: got %v, want %v within 5 MiB", n, err, ErrFull)
	}
	if _, e := w.Write([]byte("x")); e == nil {
		t.Error("Write behind an error: no error")
	}
	if _, e := w.Blob(); !errors.Is(e, ErrFull) {
		t.Errorf("Blob behind an error: got %v", e)
	}
	if err := w.Close(); err != nil || bodies(t, s) != 3 {
		t.Errorf("Close: %v, %d bodies are left, want 3", err, bodies(t, s))
	}
	if _, err := s.Put(t.Context(), &Message{ID: "large", Body: noise(5 << 20)}); !errors.Is(err, ErrFull) {
		t.Errorf("Put of a large body: got %v, want %v", err, ErrFull)
	}
	m, err := s.Get(seqs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bury(t.Context(), &DeadLetter{Message: m}); err != nil { // has its body already
		t.Errorf("Bury: %v", err)
	}
	if err := s.Unbury(t.Context(), "0"); err != nil {
		t.Error(err)
	}
	if err := s.Remove(seqs...); err != nil {
		t.Fatal(err)
	}
	waitBodies(t, s, 0)
	waitFor(t, "the octets of bodies to be none", func() bool { return s.blobs.octets.Load() == 0 })
	putBlob(t, s, "room", noise(5<<20))
	free.Store(1<<30 + 100)
	waitFor(t, "refusal", func() bool { _, err := s.NewBlob(1000); return errors.Is(err, ErrFull) })
}

// TestBlobStays: as long as a crash can bring a message back, its body is there.
func TestBlobStays(t *testing.T) {
	o := testOptions(t, t.TempDir())
	var held atomic.Bool
	release := make(chan struct{})
	o.syncWith = func(real func() error) func() error {
		return func() error {
			if held.Load() {
				<-release
			}
			return real()
		}
	}
	if o.Durability == Relaxed {
		t.Skip("no sync is awaited on this filesystem")
	}
	s := openStore(t, o)
	scanAll(t, s)
	content := noise(100_000)
	seq := putBlob(t, s, "a", content)
	held.Store(true) // nothing is durable from here on
	if err := s.Remove(seq); err != nil {
		t.Fatal(err)
	}
	wake := make(chan error, 1)
	go func() { wake <- s.Sync(t.Context()) }()
	waitFor(t, "the removal to be noted", func() bool { s.trim.mu.Lock(); defer s.trim.mu.Unlock(); return s.trim.floor > seq })
	if bodies(t, s) != 1 {
		t.Error("the body is gone before the removal of its message is durable")
	}
	held.Store(false)
	close(release)
	if err := <-wake; err != nil {
		t.Fatal(err)
	}
	waitBodies(t, s, 0)
}

// TestClaim: what is written is read, and what is not a claim is an error.
func TestClaim(t *testing.T) {
	name, err := newBlobName()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []claim{{name: name, size: 1 << 40, sum: 0xfedcba98}, {name: name, key: "0123abcd"}} {
		if got, err := parseClaim(c.option()); err != nil || got != c {
			t.Errorf("parseClaim(%q): got %+v, %v, want %+v", c.option(), got, err, c)
		}
	}
	for _, bad := range []string{"", name, name + ".1", name + ".1.x", name + ".-1.0", name + ".1.0.", name + ".1.0.a.b", "../../../../../../../../../../etc/pass.1.0", strings.ToUpper(name) + ".1.0"} {
		if got, err := parseClaim(bad); err == nil {
			t.Errorf("parseClaim(%q): got %+v, want an error", bad, got)
		}
	}
	// A record whose claim can not be read is none without a body.
	m := &Message{ID: "a", Blob: &storedBlob{claim: claim{name: name, size: 5}}}
	header, data, err := encodeMessage(m)
	if err != nil || !strings.HasPrefix(header, "2 ") {
		t.Fatalf("encodeMessage: %q, %v", header, err)
	}
	fields := strings.Replace(header[:strings.LastIndexByte(header, ' ')], name, "x", 1)
	if got, err := decodeMessage(seal([]byte(fields), data), data); err == nil {
		t.Errorf("decodeMessage: got %+v, want an error", got)
	}
}

// BenchmarkPack is what compressing the body of a record costs and saves, beside
// what the log pays for its octets; see packFrom.
func BenchmarkPack(b *testing.B) {
	line := []byte("<item><sku>4711-%d</sku><quantity>3</quantity><price currency=\"EUR\">12.90</price></item>\n")
	for _, n := range []int{2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		var text []byte
		for i := 0; len(text) < n; i++ {
			text = append(text, fmt.Sprintf(string(line), i*7919)...)
		}
		for name, body := range map[string][]byte{"xml": text[:n], "noise": noise(n)} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					size = len(encoder().EncodeAll(body, make([]byte, 0, n)))
				}
				b.ReportMetric(float64(size)/float64(n), "of-size")
			})
		}
	}
}

// BenchmarkPutBodies is what a store takes of bodies that stand in their records.
// Compare with packFrom set so high that none is compressed.
func BenchmarkPutBodies(b *testing.B) {
	for _, n := range []int{8 << 10, 32 << 10, 128 << 10, 512 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := OpenEmbedded(StoreOptions{Dir: b.TempDir(), Durability: durabilityHere(b.TempDir()), MaxBytes: 1 << 40, MinFree: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var text []byte
			for i := 0; len(text) < n; i++ {
				text = fmt.Appendf(text, "<item><sku>4711-%d</sku><quantity>3</quantity></item>\n", i*7919)
			}
			b.SetBytes(int64(n))
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				for i := 0; p.Next(); i++ {
					seq, err := s.Put(b.Context(), &Message{ID: fmt.Sprint(i), Body: slices.Clone(text)})
					if err == nil {
						err = s.Remove(seq)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
