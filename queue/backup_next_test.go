package queue

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"
)

// firstWrite calls do before the first octets are written.
type firstWrite struct {
	bytes.Buffer
	do func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return w.Buffer.Write(p)
}

// TestBackupFollows: a message that is answered while a backup is made, before its
// record is looked at, is in the backup by its answer, which is a message of its own.
func TestBackupFollows(t *testing.T) {
	for _, body := range []int{100, 2 << 20} {
		o := testOptions(t, t.TempDir())
		s := openStore(t, o)
		q := testQueue(t, s)
		scanAll(t, s)
		put(t, s, &Message{ID: "filler", Route: "orders", Body: noise(2 * backupChunk)})
		asked := put(t, s, &Message{ID: "asked", Route: "orders", Body: []byte("question"), Forwards: true})
		w := &firstWrite{do: func() {
			put(t, s, &Message{ID: "answer", Route: "answers", Body: noise(body), After: FateDelivered})
			put(t, s, &Message{ID: "later", Route: "orders", Body: []byte("accepted after the beginning")})
			if err := s.Remove(asked); err != nil {
				t.Error(err)
			}
		}}
		if _, err := q.Backup(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "restored")
		if _, err := Restore(t.Context(), backupFileOf(t, w.Bytes()), restoreOptions(dir)); err != nil {
			t.Fatal(err)
		}
		so := testOptions(t, dir)
		so.Durability = Relaxed
		r := openStore(t, so)
		var ids []string
		for _, seq := range scanSeqs(t, r) {
			m, err := r.Get(seq)
			if err != nil {
				t.Fatal(err)
			}
			if ids = append(ids, m.ID); m.ID == "answer" {
				wantBody(t, "answer", m, nil, noise(body))
			}
		}
		if want := []string{"filler", "answer"}; !slices.Equal(ids, want) {
			t.Errorf("restored: %q, want %q", ids, want)
		}
	}
}
