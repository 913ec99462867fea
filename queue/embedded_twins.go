package queue

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
)

// twinsName is the directory of second names.
const twinsName = "twins"

// twins gives every block of the server a second name.
//
// The server makes a block smaller by writing what is left of it to another file,
// which then takes the place of the first by its name, and it syncs neither. The
// new name can be on the disk before the octets are: after a power cut the block
// is there and full of zeros, with messages that were durable in the file that it
// replaced. (ext4 shows it in about 1 of 400 cuts that come while the log is
// trimmed; nats-server 2.15.3, filestore.go, compactWithFloor and compactLocked.)
// Under its second name the first file lives on until a sync that began after the
// block was replaced has ended. At a start after a stop that was not clean a
// damaged block is taken from there.
//
// A second name is a hard link and costs no room but for what the server removes,
// which is free about a second later. Names are made and removed in the order of
// the operations, and filesystems that have a journal keep that order.
//
// It belongs to the goroutine of the trimmer, which is the one that removes.
type twins struct {
	store string
	log   *slog.Logger
	syncs *syncCount
	stale map[string]replaced
	off   bool // the filesystem has no links
}

// replaced is a block that is another file than its second name.
type replaced struct {
	by    os.FileInfo // the block; nil if it is gone
	since uint64      // syncs that had begun when that was seen
}

// syncCount counts the syncs of the disk.
type syncCount struct{ begun, ended atomic.Uint64 }

// count makes a sync one that is counted.
func (c *syncCount) count(f func() error) func() error {
	return func() error {
		n := c.begun.Add(1)
		err := f()
		if err == nil {
			c.ended.Store(n) // they come one after the other
		}
		return err
	}
}

func twinPath(store, stream, name string) string {
	return filepath.Join(store, twinsName, stream, name)
}

// keep gives every block of the streams a second name that has none, and gives up
// those that are not needed any more. It reports whether one waits for a sync.
func (t *twins) keep(streams ...string) (waits bool) {
	if t == nil || t.off {
		return false
	}
	for _, stream := range streams {
		if err := t.stream(stream, true); err != nil {
			t.off = true
			t.log.Warn("blocks of the log cannot have second names: a power cut in the moment in which the log is trimmed could cost messages", "dir", t.store, "err", err)
			return false
		}
	}
	return len(t.stale) > 0
}

// name gives the blocks of the log second names that have none, and does no more.
func (t *twins) name() {
	if t != nil && !t.off {
		_ = t.stream(streamLog, false) // keep tells of it
	}
}

// stream sees to the blocks of a stream; with all, those too that have a second
// name.
func (t *twins) stream(stream string, all bool) error {
	msgs := filepath.Join(streamDir(t.store, stream), "msgs")
	dir := filepath.Join(t.store, twinsName, stream)
	blocks, err := os.ReadDir(msgs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return nil // the server will tell
	}
	have := map[string]bool{}
	old, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return linkError(err)
	}
	for _, e := range old {
		have[e.Name()] = true
	}
	for _, e := range blocks {
		name := e.Name()
		if filepath.Ext(name) != blockSuffix {
			continue
		}
		twin := filepath.Join(dir, name)
		if have[name] {
			delete(have, name)
			if !all {
				continue
			}
			block, err := os.Stat(filepath.Join(msgs, name))
			if err != nil || isFile(twin, block) || !t.free(twin, block) {
				continue
			}
		}
		if err := os.Link(filepath.Join(msgs, name), twin); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return linkError(err)
		}
	}
	for name := range have { // its block is gone
		if !all {
			break
		}
		t.free(filepath.Join(dir, name), nil)
	}
	return nil
}

// free gives up a name that is another file than its block, once what has taken
// its place is durable, and reports whether it is free.
func (t *twins) free(twin string, block os.FileInfo) bool {
	r, known := t.stale[twin]
	switch {
	case !known || (r.by == nil) != (block == nil) || block != nil && !os.SameFile(r.by, block):
		t.stale[twin] = replaced{block, t.syncs.begun.Load()}
		return false
	case t.syncs.ended.Load() <= r.since:
		return false
	}
	if err := os.Remove(twin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false // tried again with the next pass
	}
	delete(t.stale, twin)
	return true
}

// allStreams are those of a store.
var allStreams = func() (all []string) {
	for _, n := range streamNames {
		all = append(all, n.stream)
	}
	return all
}()

// linkError is nil for what passes by itself, such as a full disk.
func linkError(err error) error {
	if saysNoRoom(err) {
		return nil
	}
	return err
}

func isFile(name string, what os.FileInfo) bool {
	st, err := os.Stat(name)
	return err == nil && os.SameFile(st, what)
}

// removeTwins gives up all second names, after a sync that nothing follows.
func removeTwins(store string) error { return os.RemoveAll(filepath.Join(store, twinsName)) }

// twin returns the records of the file that a block has replaced, if it is there
// and whole, and has the records of the block up to the number end; the end of it
// may be a record that was never finished.
func (c *startCheck) twin(f *blockFile, end uint64) ([]byte, bool) {
	path := twinPath(c.dir, f.stream, filepath.Base(f.path))
	st, err := os.Stat(path)
	if err != nil || isFile(f.path, st) {
		return nil, false
	}
	t := blockFile{stream: f.stream, index: f.index, path: path, size: st.Size()}
	b, err := t.read()
	if err != nil || len(b) == 0 {
		return nil, false
	}
	wounds, last, err := walkBlock(&t, b)
	switch {
	case err != nil || len(wounds) > 1 || last < end:
		return nil, false
	case len(wounds) == 1 && (!wounds[0].tail || wounds[0].from == 0):
		return nil, false
	case len(wounds) == 1:
		b = b[:wounds[0].from]
	}
	return b, true
}

// fromTwin puts what a damaged block has replaced in its place again. What was
// removed from it is noted and is removed again.
func (c *startCheck) fromTwin(f *blockFile, b []byte) error {
	if err := c.aside.copy(f.path); err != nil {
		return err
	}
	// The index describes the block as it was; the server makes it anew.
	if err := c.aside.move(filepath.Join(filepath.Dir(f.path), "index.db")); err != nil {
		return err
	}
	if err := replaceBlock(f, b); err != nil {
		return err
	}
	c.log.Warn("a block that a power cut had left unwritten was taken from the file that it replaced; nothing is lost", "file", c.rel(f.path), "octets", len(b))
	return nil
}
