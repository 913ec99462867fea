package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// largeBody is the body of the i-th message whose body is a file.
func largeBody(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "<part n='%d'/>", i), (inlineMost+100_000*(i+1))/14)
}

// largeStore makes a store with n messages and n dead letters whose bodies are files;
// the first dead letter is in the log, too, as a crash leaves it.
func largeStore(t *testing.T, n int, k *Keys) *Embedded {
	t.Helper()
	o := testOptions(t, t.TempDir())
	o.Durability, o.Keys = Relaxed, k
	s := openStore(t, o)
	for i := range n {
		m := plain(i)
		m.Body = largeBody(i)
		put(t, s, m)
		d := plain(100 + i)
		d.Body = largeBody(100 + i)
		if i == 0 {
			d.Body = nil
			both, err := s.Get(1)
			if err != nil {
				t.Fatal(err)
			}
			d = both
		}
		if err := s.Bury(t.Context(), &DeadLetter{Message: d, Died: time.Now(), Reason: ReasonExpired}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// wholeBody reads all of a message's body.
func wholeBody(t *testing.T, m *Message) []byte {
	t.Helper()
	if m.Blob == nil {
		return m.Body
	}
	r, err := m.Blob.Open()
	if err != nil {
		t.Fatalf("body of %s: %v", m.ID, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("body of %s: %v", m.ID, err)
	}
	return b
}

// TestBackupBodies: bodies that are files are in the backup, each once, sealed as
// they are, and belong to their messages again after a restore.
func TestBackupBodies(t *testing.T) {
	const n = 3
	for name, keys := range map[string]*Keys{"plain": nil, "sealed": testKeys(t, testKeyA)} {
		t.Run(name, func(t *testing.T) {
			s := largeStore(t, n, keys)
			var buf bytes.Buffer
			counts, err := testQueue(t, s).Backup(t.Context(), &buf)
			if err != nil || counts.Files != 2*n-1 || counts.Messages != n || counts.Dead != n || counts.Damaged != 0 {
				t.Fatalf("Backup: %+v, %v", counts, err)
			}
			if keys != nil && bytes.Contains(buf.Bytes(), []byte("<part n=")) {
				t.Error("a body is not sealed")
			}
			dir := t.TempDir()
			o := restoreOptions(dir)
			o.AtMostOnce = func(string) (bool, bool) { return true, true } // bodies go along to dead letters
			if keys != nil {
				o.Keys = testKeys(t, testKeyB, testKeyA)
			}
			r, err := Restore(t.Context(), backupFileOf(t, buf.Bytes()), o)
			if err != nil || r.Unknown != n-1 {
				t.Fatalf("Restore: %+v, %v", r, err)
			}
			if keys != nil {
				if err := CheckKeys(dir, testKeys(t, testKeyB)); !errors.Is(err, ErrKey) {
					t.Errorf("CheckKeys without the key that bodies are sealed with: %v, want %v", err, ErrKey)
				}
			}
			so := testOptions(t, dir)
			so.Observer, so.Keys = noGaps{t: t}, o.Keys
			c := openStore(t, so)
			scanSeqs(t, c)
			dead := 0
			if err := c.ScanDead(t.Context(), func(*DeadLetter, int64) error { dead++; return nil }); err != nil || dead != 2*n-1 {
				t.Errorf("%d dead letters, %v, want %d", dead, err, 2*n-1)
			}
			for i := range n {
				for _, j := range []int{i, 100 + i} {
					if j == 100 { // it is message 0
						continue
					}
					d, err := c.Dead(plain(j).ID)
					if err != nil {
						t.Fatalf("dead letter %d: %v", j, err)
					}
					if !bytes.Equal(wholeBody(t, d.Message), largeBody(j)) {
						t.Errorf("the body of %d is another one", j)
					}
				}
			}
			if found, err := testQueue(t, c).Scrub(t.Context(), 0, nil); err != nil || len(found.Damage) > 0 || found.Files < 2*n-1 {
				t.Errorf("Scrub: %+v, %v", found, err)
			}
		})
	}
}

// TestScrubBodies: a body that is damaged or missing is told with its message, and
// is not in a backup.
func TestScrubBodies(t *testing.T) {
	s := largeStore(t, 3, nil)
	q := testQueue(t, s)
	name := func(m *Message, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s.blobs.path(m.Blob.(*storedBlob).name)
	}
	flipped := name(s.Get(2))
	d, err := s.Dead(plain(102).ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := flipAt(flipped, 500_000); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name(d.Message, nil)); err != nil {
		t.Fatal(err)
	}
	found, err := q.Scrub(t.Context(), 0, nil)
	if err != nil || len(found.Damage) != 2 {
		t.Fatalf("Scrub: %+v, %v, want two bodies", found, err)
	}
	var ids []string
	for _, d := range found.Damage {
		if d.Stream != "bodies" || d.File == "" || d.Route != "orders" {
			t.Errorf("found %+v", d)
		}
		ids = append(ids, d.ID)
	}
	if slices.Sort(ids); !slices.Equal(ids, []string{plain(1).ID, plain(102).ID}) {
		t.Errorf("found bodies of %v", ids)
	}
	var buf bytes.Buffer
	counts, err := q.Backup(t.Context(), &buf)
	if err != nil || counts.Messages != 2 || counts.Dead != 2 || counts.Damaged != 2 {
		t.Errorf("Backup: %+v, %v", counts, err)
	}
	// Of what was removed nothing is missing.
	if err := s.Remove(2); err != nil {
		t.Fatal(err)
	}
	if err := s.Unbury(t.Context(), plain(102).ID); err != nil {
		t.Fatal(err)
	}
	if found, err := q.Scrub(t.Context(), 0, nil); err != nil || len(found.Damage) > 0 {
		t.Errorf("Scrub after their removal: %+v, %v", found, err)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, blobsName, "*")); err != nil || len(left) < 3 {
		t.Errorf("left: %v, %v", left, err)
	}
}
