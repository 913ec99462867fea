package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// blockOf returns the only block of a closed store's log.
func blockOf(t *testing.T, dir, stream string) (blockFile, []byte) {
	t.Helper()
	files, err := blockFiles(dir, stream)
	if err != nil || len(files) != 1 {
		t.Fatalf("blockFiles: %v, %v, want one", files, err)
	}
	b, err := files[0].read()
	if err != nil {
		t.Fatal(err)
	}
	return files[0], b
}

// filledBlock makes a store with n messages, closes it and reads its block.
func filledBlock(t *testing.T, n int) (dir string, f blockFile, b []byte) {
	t.Helper()
	dir = t.TempDir()
	o := testOptions(t, dir)
	o.Durability = Relaxed
	s := openStore(t, o)
	for i := range n {
		put(t, s, message(i))
	}
	closeStore(t, s)
	f, b = blockOf(t, dir, streamLog)
	return dir, f, b
}

// TestBlockFormat holds the reader of blocks against what the server writes.
func TestBlockFormat(t *testing.T) {
	_, f, b := filledBlock(t, 60)
	var got []int
	wounds, err := newBlockReader(f.stream, f.index).walk(b, func(r blockRecord) error {
		header, ok := r.value(headerMessage)
		if !ok || r.seq == 0 {
			return fmt.Errorf("record of %q at %d has no %s", r.subject, r.at, headerMessage)
		}
		m, err := decodeMessage(header, r.data)
		if err != nil {
			return err
		}
		want := message(int(r.seq) - 1)
		if m.ID != want.ID || !bytes.Equal(m.Body, want.Body) || r.subject != logSubject(want.Destination) {
			return fmt.Errorf("record %d is message %s on %s", r.seq, m.ID, r.subject)
		}
		got = append(got, int(r.seq))
		return nil
	})
	if err != nil || len(wounds) > 0 || len(got) != 60 || !slices.IsSorted(got) {
		t.Errorf("walk: %v, wounds %v, records %v", err, wounds, got)
	}
}

// TestBlockWounds: whatever octet is flipped, all records but the one that it is
// in are read, and the damage is found there.
func TestBlockWounds(t *testing.T) {
	_, f, b := filledBlock(t, 40)
	type place struct{ from, to int }
	at := map[place]uint64{}
	if _, err := newBlockReader(f.stream, f.index).walk(b, func(r blockRecord) error {
		at[place{r.at, r.at + len(r.raw)}] = r.seq
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for p, seq := range at {
		offsets := []int{0, 1, 2, 3, 4, 11, 12, 20, 21, 22, 23, p.to - p.from - 1}
		for range 6 {
			offsets = append(offsets, r.IntN(p.to-p.from))
		}
		for _, o := range offsets {
			x := slices.Clone(b)
			x[p.from+o] ^= 1 << r.IntN(8)
			n := 0
			wounds, err := newBlockReader(f.stream, f.index).walk(x, func(r blockRecord) error {
				if r.seq == seq {
					// Lengths are outside the hash; ours is inside what it covers.
					if header, _ := r.value(headerMessage); verify(header, r.data) == nil {
						return errors.New("the damaged record was taken for a whole one")
					}
					return nil
				}
				n++
				return nil
			})
			if err != nil || n != len(at)-1 {
				t.Errorf("octet %d of record %d: %d other records, want %d (%v)", o, seq, n, len(at)-1, err)
			}
			for _, w := range wounds {
				if w.from < p.from || w.to > p.to {
					t.Errorf("octet %d of record %d: wound [%d, %d), want it in [%d, %d)", o, seq, w.from, w.to, p.from, p.to)
				}
			}
		}
	}
}

// TestBlockForged: a message whose body is a record for the server's eyes is not
// taken for one when its own record is damaged.
func TestBlockForged(t *testing.T) {
	br := newBlockReader(streamLog, 1)
	forge := func(seq uint64, data string) []byte {
		head := make([]byte, blockHeader)
		subject := logSubject("erp")
		body := append([]byte(subject), data...)
		binary.LittleEndian.PutUint32(head, uint32(blockLeast+len(body)))
		binary.LittleEndian.PutUint64(head[4:], seq)
		binary.LittleEndian.PutUint16(head[20:], uint16(len(subject)))
		br.hash.Reset()
		_, _ = br.hash.Write(head[4:20])
		_, _ = br.hash.Write(body)
		return br.hash.Sum(append(head, body...))
	}
	evil := append(forge(2, "forged"), forge(3, "forged")...)
	if _, ok := br.record(evil, 0); !ok {
		t.Fatal("the forged record is not like a real one")
	}
	b := append(forge(1, "x"+string(evil)+"y"), forge(2, "real")...)
	b[2] ^= 0x10 // the length
	var got []string
	wounds, err := br.walk(b, func(r blockRecord) error { got = append(got, string(r.data)); return nil })
	if err != nil || len(wounds) != 1 || !slices.Equal(got, []string{"real"}) {
		t.Errorf("walk: records %q, wounds %v, %v; want the real one alone", got, wounds, err)
	}
}

// TestBlockHostile: looking for the next record ends soon, whatever is in the block.
func TestBlockHostile(t *testing.T) {
	b := make([]byte, 1<<20)
	for i := range b { // every offset looks like a record of half the block
		b[i] = []byte{0, 0, 8, 0}[i%4]
	}
	br := newBlockReader(streamLog, 1)
	wounds, err := br.walk(b, func(blockRecord) error { return errors.New("a record") })
	if err != nil || len(wounds) != 1 || wounds[0].from != 0 || wounds[0].to != len(b) || !wounds[0].tail {
		t.Errorf("walk: %v, %v", wounds, err)
	}
	if br.hashed > (resyncBudget+1)*len(b) {
		t.Errorf("%d octets were hashed for a block of %d", br.hashed, len(b))
	}
}

func BenchmarkBlockWalk(b *testing.B) {
	dir := b.TempDir()
	s, err := OpenEmbedded(StoreOptions{Dir: dir, Durability: Relaxed, MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 2000 {
		m := message(i)
		m.Body = bytes.Repeat([]byte("<x/>"), 500)
		if _, err := s.Put(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	files, err := blockFiles(dir, streamLog)
	if err != nil {
		b.Fatal(err)
	}
	x, err := os.ReadFile(files[0].path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(x)))
	for b.Loop() {
		if w, err := newBlockReader(streamLog, files[0].index).walk(x, func(blockRecord) error { return nil }); err != nil || len(w) > 0 {
			b.Fatal(w, err)
		}
	}
}
