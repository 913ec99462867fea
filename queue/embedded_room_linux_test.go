package queue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a tmpfs of so many octets, or skips the test.
func smallDisk(t *testing.T, size int) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a filesystem of its own needs root")
	}
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)))
		}
	})
	return dir
}

// fillDisk takes all that is left, to the last octet, and gives it back.
func fillDisk(t *testing.T, dir string) (release func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, chunk := range []int{1 << 20, 4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, chunk))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// takeDisk takes what is free but for half a MiB, at once: a stranger who goes on
// would take the reserve too when that is given up, and then there is no room.
func takeDisk(t *testing.T, dir string) (release func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	free, err := FreeBytes(dir)
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, free-512<<10)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

func smallStore(t *testing.T, dir string) StoreOptions {
	o := sealedOptions(t, filepath.Join(dir, "store"))
	o.Durability, o.MaxBytes = Relaxed, 64<<20
	o.Observer = noObserver{} // an error of the store is what is asked for
	return o
}

// TestNoRoom: a stranger takes the last octet, again and again; the store tells
// that from a broken disk, refuses, and has everything once there is room.
func TestNoRoom(t *testing.T) {
	dir := smallDisk(t, 64<<20)
	o := smallStore(t, dir)
	want := map[uint64]string{}
	for turn := range 4 {
		s := openStore(t, o)
		n := 0
		if err := s.Scan(t.Context(), func(seq uint64, m *Message, _ int64) error {
			if n++; want[seq] != m.ID {
				t.Errorf("turn %d: %d is %q, want %q", turn, seq, m.ID, want[seq])
			}
			return nil
		}); err != nil || n < len(want) {
			t.Fatalf("turn %d: %d messages, %v, want %d", turn, n, err, len(want))
		}
		m := message(1)
		m.ID, m.Body = fmt.Sprint("kept-", turn), make([]byte, 20<<10)
		want[put(t, s, m)] = m.ID
		release := fillDisk(t, dir)
		waitFor(t, "the store fails for lack of room", func() bool {
			again := message(1)
			again.ID, again.Body = fmt.Sprint("lost-", turn, time.Now()), m.Body
			seq, err := s.Put(t.Context(), again)
			if err == nil { // a page that was begun had room for it
				want[seq] = again.ID
			} else if !errors.Is(err, ErrFull) && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrUnknown) {
				t.Fatalf("Put: got %v, want ErrFull, ErrUnknown or ErrClosed", err)
			}
			// What is no message has no watermark.
			_ = s.SaveAttempts(m.ID, []AttemptRecord{{N: 1, Reason: string(make([]byte, 8<<10))}})
			fillDisk(t, dir) // the reserve as well
			return s.Err() != nil
		})
		if err := s.Err(); !errors.Is(err, ErrNoRoom) {
			t.Fatalf("turn %d: the store failed with %v, want ErrNoRoom", turn, err)
		}
		if err := s.Close(); !errors.Is(err, ErrNoRoom) {
			t.Fatalf("turn %d: Close: got %v, want ErrNoRoom", turn, err)
		}
		fillDisk(t, dir)
		if s, err := OpenEmbedded(o); err == nil {
			t.Logf("turn %d: a full disk had room to open the store", turn)
			_ = s.Close()
		} else if !errors.Is(err, ErrNoRoom) {
			t.Errorf("turn %d: OpenEmbedded on a full disk: got %v, want ErrNoRoom", turn, err)
		}
		release()
	}
	s := openStore(t, o)
	for seq, id := range want {
		if m, err := s.Get(seq); err != nil || m.ID != id {
			t.Errorf("Get(%d): got %v, %v, want %s", seq, m, err, id)
		}
	}
	if s.Info().Clean {
		t.Error("the stop counts as orderly")
	}
	put(t, s, message(2))
}

// TestOwnFill: messages alone never fill the disk so far that the store fails,
// however fast they come.
func TestOwnFill(t *testing.T) {
	dir := smallDisk(t, 64<<20)
	o := smallStore(t, dir)
	s := openStore(t, o)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var kept []uint64
	for g := range 32 {
		wg.Go(func() {
			for i := 0; ; i++ {
				m := message(i)
				m.ID, m.Body = fmt.Sprintf("%d-%d", g, i), make([]byte, 64<<10)
				seq, err := s.Put(t.Context(), m)
				if err != nil {
					if !errors.Is(err, ErrFull) {
						t.Errorf("Put: got %v, want ErrFull", err)
					}
					return
				}
				mu.Lock()
				kept = append(kept, seq)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := s.Err(); err != nil {
		t.Fatalf("the store failed: %v", err)
	}
	if len(kept) < 300 {
		t.Errorf("%d messages were taken, want most of 64 MiB", len(kept))
	}
	// It drains, and takes messages again.
	scanSeqs(t, s)
	if err := s.Remove(kept...); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "room", func() bool { _, err := s.Put(t.Context(), message(1)); return err == nil })
}

// TestReserve: the reserve goes when a stranger takes the rest of the disk, so
// that the store can be drained, and comes back.
func TestReserve(t *testing.T) {
	dir := smallDisk(t, 64<<20)
	o := smallStore(t, dir)
	s := openStore(t, o)
	reserve := filepath.Join(s.dir, reserveName)
	has := func() bool { st, err := os.Stat(reserve); return err == nil && st.Size() == s.reserveSize() }
	waitFor(t, "a reserve", has)
	var seqs []uint64
	for i := range 100 {
		m := message(i)
		m.Body = make([]byte, 100<<10)
		seqs = append(seqs, put(t, s, m))
	}
	release := takeDisk(t, dir)
	waitFor(t, "the reserve is given up", func() bool { _, err := os.Stat(reserve); return err != nil })
	scanSeqs(t, s)
	if err := s.Remove(seqs...); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "what was removed makes room", func() bool { free, err := FreeBytes(dir); return err == nil && free > 8<<20 })
	if err := s.Err(); err != nil {
		t.Errorf("the store failed: %v", err)
	}
	release()
	waitFor(t, "a reserve again", has)
}

// TestNoRoomReasons: which errors a store outlives.
func TestNoRoomReasons(t *testing.T) {
	api := func(text string) error { return fmt.Errorf("trim: %w", &apiError{Description: text}) }
	for _, c := range []struct {
		err   error
		heard []error // what the server has logged before
		want  bool
	}{
		{err: &os.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}, want: true},
		{err: &os.PathError{Op: "write", Path: "x", Err: unix.EDQUOT}, want: true},
		{err: api("write /x/1.blk: no space left on device"), want: true},
		{err: api("write /x/1.blk: disk quota exceeded"), want: true},
		{err: api("write /x/1.blk: read-only file system"), want: false},
		{err: api("write /x/1.blk: input/output error"), want: false},
		{err: &syncError{unix.ENOSPC}, want: false},
		{err: fmt.Errorf("trim: %w", &syncError{fmt.Errorf("syncfs: %w", unix.EDQUOT)}), want: false},
		{err: errors.New("timeout"), want: false},
		{err: errors.New("timeout"), heard: []error{&os.PathError{Op: "write", Err: unix.ENOSPC}}, want: true},
		{err: api("no space left on device"), heard: []error{&os.PathError{Op: "write", Err: unix.EIO}}, want: false},
		{err: api("no space left on device"), heard: []error{&os.PathError{Op: "write", Err: unix.EROFS}}, want: false},
		{err: io.ErrUnexpectedEOF, heard: []error{os.ErrNotExist, &os.PathError{Op: "open", Err: unix.ENOENT}}, want: false},
	} {
		s := &Embedded{js: &js{}}
		for _, err := range c.heard {
			s.js.disk.heard(err)
		}
		if got := s.lacksRoom(c.err); got != c.want {
			t.Errorf("lacksRoom(%v) after %v: got %v, want %v", c.err, c.heard, got, c.want)
		}
	}
}
