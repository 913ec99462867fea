package queue

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// wholeStore makes a store with n messages, dead letters, replies and states, and
// closes it, in order or as a kill does.
func wholeStore(t *testing.T, n int, clean bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	o := testOptions(t, dir)
	o.Durability, o.KeepDelivered = Relaxed, time.Hour
	s := openStore(t, o)
	for i := range n {
		if err := s.KeepDelivered(deadLetter(2000 + i)); err != nil {
			t.Fatal(err)
		}
		put(t, s, plain(i))
		if err := s.Bury(t.Context(), deadLetter(1000+i)); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepReply(t.Context(), replyOf(i, time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := s.SaveState(t.Context(), fmt.Sprintf("state-%d", i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if !clean {
		waitFor(t, "note of what is durable", func() bool { // within about a second
			b, _, err := s.value(subjectMark)
			return err == nil && bytes.Contains(b, fmt.Appendf(nil, `"durable":%d}`, n))
		})
		dir = copyStore(t, dir)
	}
	closeStore(t, s)
	return dir
}

func plain(i int) *Message {
	return &Message{
		ID: fmt.Sprintf("plain-%04d", i), Route: "orders", Destination: "erp", Accepted: time.Unix(1790000000, 0).UTC(),
		Body: fmt.Appendf(nil, "<order n='%d'>%s</order>", i, strings.Repeat("x", 200+i)),
	}
}

// contents are the numbers of all plain messages, dead letters and replies that
// can be read, whole, and how many states.
type contents struct {
	messages, dead, replies []int
	states, done            int
}

func readAll(t *testing.T, s *Embedded, n int) (c contents) {
	t.Helper()
	ids := map[string]bool{}
	err := s.Scan(t.Context(), func(seq uint64, m *Message, _ int64) error {
		got, err := s.Get(seq)
		if err == nil && got.ID != m.ID {
			err = fmt.Errorf("message %s under the number of %s", got.ID, m.ID)
		}
		if err == nil {
			ids[m.ID] = true
		}
		return err
	})
	if err != nil {
		t.Fatalf("Scan: %v", err)
	}
	for i := range n {
		if ids[plain(i).ID] {
			c.messages = append(c.messages, i)
		}
		if d, err := s.Dead(deadLetter(1000 + i).ID); err == nil && bytes.Equal(d.Body, deadLetter(1000+i).Body) {
			c.dead = append(c.dead, i)
		}
		if r, err := s.Reply(replyOf(i, time.Hour).ID); err == nil && bytes.Equal(r.Body, replyOf(i, time.Hour).Body) {
			c.replies = append(c.replies, i)
		}
		if v, err := s.State(fmt.Sprintf("state-%d", i)); err == nil && string(v) == "value" {
			c.states++
		}
		if d, err := s.Delivered(deadLetter(2000 + i).ID); err == nil && bytes.Equal(d.Body, deadLetter(2000+i).Body) {
			c.done++
		}
	}
	return c
}

func (c contents) String() string {
	return fmt.Sprintf("%d messages, %d dead letters, %d replies, %d states, %d delivered", len(c.messages), len(c.dead), len(c.replies), c.states, c.done)
}

// spoil changes the record in the middle of a stream's only block.
func spoil(t *testing.T, dir, stream string, change func(b []byte, r blockRecord)) (file string, spoilt []byte) {
	t.Helper()
	f, b := blockOf(t, dir, stream)
	var all []blockRecord
	if _, err := newBlockReader(f.stream, f.index).walk(b, func(r blockRecord) error { all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	x := slices.Clone(b)
	change(x, all[len(all)/2])
	if err := os.WriteFile(f.path, x, 0o600); err != nil {
		t.Fatal(err)
	}
	return f.path, x
}

// kept returns what was set aside of a file.
func kept(t *testing.T, dir, file string) []byte {
	t.Helper()
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, damagedPrefix+"*", rel))
	if err != nil || len(found) != 1 {
		t.Fatalf("set aside: %v, %v, want one copy of %s", found, err, rel)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStartDamage: one damaged record costs no other, whatever is damaged of it; it
// is reported, and the block is kept as it was found.
func TestStartDamage(t *testing.T) {
	const n = 20
	flips := map[string]func(b []byte, r blockRecord){
		"data":    func(b []byte, r blockRecord) { b[r.at+len(r.raw)-20] ^= 1 },
		"length":  func(b []byte, r blockRecord) { b[r.at+1] ^= 0x40 },
		"subject": func(b []byte, r blockRecord) { b[r.at+21] ^= 0x80 },
		"number":  func(b []byte, r blockRecord) { b[r.at+4] ^= 4 },
		"hash":    func(b []byte, r blockRecord) { b[r.at+len(r.raw)-1] ^= 8 },
		"zeros":   func(b []byte, r blockRecord) { clear(b[r.at : r.at+len(r.raw)]) },
	}
	for _, name := range []string{"data", "length", "subject", "number", "hash", "zeros"} {
		for _, st := range streamNames {
			for _, clean := range []bool{true, false} {
				if !clean && name != "length" { // one that would be cut off
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/clean=%v", name, st.stream, clean), func(t *testing.T) {
					dir := wholeStore(t, n, clean)
					file, spoilt := spoil(t, dir, st.stream, flips[name])
					o := testOptions(t, dir)
					o.KeepDelivered = time.Hour
					seen := &events{}
					o.Observer = seen
					s := openStore(t, o)
					c := readAll(t, s, n)
					lost := 5*n - len(c.messages) - len(c.dead) - len(c.replies) - c.states - c.done
					if lost > 1 || lost == 0 && st.stream != streamState {
						t.Errorf("%v are left, want one record less than %d of each", c, n)
					}
					if len(seen.damaged()) == 0 || seen.damaged()[0].Stream != st.holds {
						t.Errorf("damage reported: %v, want some of the %s", seen.damaged(), st.holds)
					}
					if gaps := len(seen.reported()); st.stream == streamLog && gaps != 1 || st.stream == streamDead && gaps > 0 {
						t.Errorf("gaps reported: %v", seen.reported())
					}
					if got := kept(t, dir, file); !bytes.Equal(got, spoilt) {
						t.Error("what was set aside is not the block as it was found")
					}
					if s.Info().Clean {
						t.Error("what may have been sent is not in doubt")
					}
					put(t, s, plain(n))
					closeStore(t, s)

					o.Observer = noGaps{t: t} // it is told once
					s = openStore(t, o)
					if again := readAll(t, s, n); again.String() != c.String() {
						t.Errorf("after another start: %v, want %v", again, c)
					}
				})
			}
		}
	}
}

// TestStartFiles: files that are missing, empty or cut off.
func TestStartFiles(t *testing.T) {
	const n = 12
	inLog := func(dir, name string) string { return filepath.Join(streamDir(dir, streamLog), name) }
	empty := func(name string) error { return os.WriteFile(name, nil, 0o600) }
	for _, tt := range []struct {
		name   string
		spoil  func(dir string) error
		loud   bool // damage or a gap is to be reported
		lost   int  // messages
		refuse string
	}{
		{name: "no index", spoil: func(d string) error { return os.Remove(inLog(d, "msgs/index.db")) }},
		{name: "empty index", spoil: func(d string) error { return empty(inLog(d, "msgs/index.db")) }},
		{name: "damaged index", spoil: func(d string) error { return flipAt(inLog(d, "msgs/index.db"), 20) }},
		{name: "damaged description", spoil: func(d string) error { return flipAt(inLog(d, "meta.inf"), 20) }, loud: true},
		{name: "empty description", spoil: func(d string) error { return empty(inLog(d, "meta.inf")) }, loud: true},
		{name: "no description", spoil: func(d string) error { return os.Remove(inLog(d, "meta.inf")) }, loud: true},
		{name: "no sum of the description", spoil: func(d string) error { return os.Remove(inLog(d, "meta.sum")) }, loud: true},
		{name: "empty sum of the description", spoil: func(d string) error { return empty(inLog(d, "meta.sum")) }, loud: true},
		{name: "last block cut off", spoil: func(d string) error {
			f, err := blockFiles(d, streamLog)
			if err != nil {
				return err
			}
			return os.Truncate(f[0].path, f[0].size-5)
		}, loud: true, lost: 1},
		{name: "last block empty", spoil: func(d string) error { return empty(inLog(d, "msgs/1.blk")) }, loud: true, lost: n},
		{name: "last block missing", spoil: func(d string) error { return os.Remove(inLog(d, "msgs/1.blk")) }, loud: true, lost: n},
		{name: "no stream", spoil: func(d string) error { return os.RemoveAll(streamDir(d, streamLog)) }, refuse: streamLog},
		{name: "no dead letters", spoil: func(d string) error { return os.RemoveAll(streamDir(d, streamDead)) }, refuse: streamDead},
		{name: "unreadable block", spoil: func(d string) error { return unreadable(inLog(d, "msgs/1.blk")) }, refuse: "1.blk"},
		{name: "unreadable description", spoil: func(d string) error { return unreadable(inLog(d, "meta.inf")) }, refuse: "meta.inf"},
		{name: "unreadable blocks", spoil: func(d string) error {
			if err := os.RemoveAll(inLog(d, "msgs")); err != nil {
				return err
			}
			return empty(inLog(d, "msgs"))
		}, refuse: "msgs"},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/clean=%v", tt.name, clean), func(t *testing.T) {
				dir := wholeStore(t, n, clean)
				if err := tt.spoil(dir); err != nil && !(errors.Is(err, fs.ErrNotExist) && !clean) {
					t.Fatal(err)
				}
				o := testOptions(t, dir)
				seen := &events{}
				o.Observer = seen
				before := files(t, dir)
				s, err := OpenEmbedded(o)
				if tt.refuse != "" {
					if err == nil {
						_ = s.Close()
					}
					if err == nil || !strings.Contains(err.Error(), tt.refuse) {
						t.Fatalf("OpenEmbedded: got %v, want it to name %s", err, tt.refuse)
					}
					for name, size := range before {
						if after, ok := files(t, dir)[name]; !ok || size >= 0 && strings.HasSuffix(name, blockSuffix) && after != size {
							t.Errorf("%s is gone or was changed by a start that was refused", name)
						}
					}
					return
				}
				if err != nil {
					t.Fatalf("OpenEmbedded: %v", err)
				}
				defer s.Close()
				c := readAll(t, s, n)
				if got := n - len(c.messages); got != tt.lost || len(c.dead) != n || len(c.replies) != n || c.states != n {
					t.Errorf("%v are left, want %d messages and %d of all else", c, n-tt.lost, n)
				}
				if loud := len(seen.damaged())+len(seen.reported()) > 0; loud != tt.loud {
					t.Errorf("damage %v, gaps %v; want some: %v", seen.damaged(), seen.reported(), tt.loud)
				}
				put(t, s, plain(n))
				if c := readAll(t, s, n+1); len(c.messages) != n+1-tt.lost {
					t.Errorf("with a new message %v are left, want %d messages", c, n+1-tt.lost)
				}
			})
		}
	}
}

// files are the names and sizes of all files below dir.
func files(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	err := filepath.WalkDir(filepath.Join(dir, "jetstream"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			all[path] = st.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func flipAt(name string, at int) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	b[at] ^= 0x20
	return os.WriteFile(name, b, 0o600)
}

// unreadable makes reading a file fail, also for a user who may do everything.
func unreadable(name string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(name, "x"), 0o700)
}

// TestStartBlockGone: of several blocks one is lost, in each stream that is told
// by its own means: by its numbers, or by what the last stop has counted.
func TestStartBlockGone(t *testing.T) {
	for _, how := range []string{"missing", "empty"} {
		for _, st := range streamNames[:2] {
			t.Run(how+"/"+st.stream, func(t *testing.T) {
				dir := t.TempDir()
				o := testOptions(t, dir)
				o.Durability = Relaxed
				s := openStore(t, o)
				const n = 28
				for i := range n {
					m := plain(i)
					m.Body = noise(inlineMost - i)
					if st.stream == streamLog {
						put(t, s, m)
					} else if err := s.Bury(t.Context(), &DeadLetter{Message: m, Died: time.Now()}); err != nil {
						t.Fatal(err)
					}
				}
				closeStore(t, s)
				all, err := blockFiles(dir, st.stream)
				if err != nil || len(all) < 3 {
					t.Fatalf("%d blocks, %v; want some", len(all), err)
				}
				if how == "missing" {
					err = os.Remove(all[1].path)
				} else {
					err = os.Truncate(all[1].path, 0)
				}
				if err != nil {
					t.Fatal(err)
				}
				seen := &events{}
				o.Observer = seen
				s = openStore(t, o)
				left := 0
				if st.stream == streamLog {
					left = len(scanSeqs(t, s))
				} else if err := s.ScanDead(t.Context(), func(*DeadLetter, int64) error { left++; return nil }); err != nil {
					t.Fatal(err)
				}
				if left >= n || left < n/2 {
					t.Errorf("%d of %d are left", left, n)
				}
				if len(seen.damaged()) == 0 && len(seen.reported()) == 0 {
					t.Error("nothing was reported")
				}
			})
		}
	}
}

// TestStartUnfinished: what a kill leaves half written at the end is no alarm, and
// is kept all the same.
func TestStartUnfinished(t *testing.T) {
	for name, tail := range map[string][]byte{
		"half a record": append(binary.LittleEndian.AppendUint32(nil, 500), "half of it"...),
		"zeros":         make([]byte, 4096),
	} {
		t.Run(name, func(t *testing.T) {
			const n = 8
			dir := wholeStore(t, n, false)
			f, b := blockOf(t, dir, streamLog)
			if err := os.WriteFile(f.path, append(slices.Clone(b), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			o := testOptions(t, dir)
			o.Observer = noGaps{t: t}
			s := openStore(t, o)
			if c := readAll(t, s, n); len(c.messages) != n {
				t.Errorf("%v are left, want %d messages", c, n)
			}
			found, err := filepath.Glob(filepath.Join(dir, damagedPrefix+"*"))
			if err != nil || len(found) > 0 != (name != "zeros") {
				t.Errorf("set aside: %v, %v", found, err)
			}
			if name != "zeros" {
				if got := kept(t, dir, f.path+".tail"); !bytes.Equal(got, tail) {
					t.Errorf("set aside: %q, want %q", got, tail)
				}
			}
		})
	}
}

// TestFirstStartKilled: a store whose first start was killed holds nothing, and
// what is half made of it is no damage.
func TestFirstStartKilled(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, openStore(t, testOptions(t, dir)))
	id, err := readIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	id.Streams, id.Clean, id.Counts = false, false, nil
	if err := id.write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"meta.inf", "meta.sum"} {
		if err := os.Truncate(filepath.Join(streamDir(dir, streamDead), name), 0); err != nil {
			t.Fatal(err)
		}
	}
	o := testOptions(t, dir)
	o.Observer = noGaps{t: t}
	s := openStore(t, o)
	put(t, s, plain(1))
	if err := s.Bury(context.Background(), deadLetter(1)); err != nil {
		t.Error(err)
	}
}
