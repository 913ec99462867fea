package queue

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"soapway/internal/durable"
)

const (
	blobsName = "blobs"

	// blobStep is how much of a blob is written before it is made durable, so that
	// a sync of the filesystem for small messages finds little of it to write.
	blobStep = 16 << 20
)

// blobDir keeps blobs as files. A file has its last name from the beginning: it
// counts only once a record claims it, so a kill or a power cut at any moment
// leaves at most a file without a claim, which sweep removes.
//
// Invariant: when the record of a claim is given to the log, the file and its
// name are durable (with durability relaxed: in the hands of the kernel, like
// the record). A file is removed only when the removal of its last claim is durable.
type blobDir struct {
	dir  string
	sync bool // each file is made durable by itself
	// room refuses with ErrFull when so many octets more of a body are too many; the
	// message is nil where it is not known.
	room   func(n int64, of *Message) error
	keys   func() *Keys
	log    *slog.Logger
	refs   blobRefs
	octets atomic.Int64 // of all files
	doubt  atomic.Bool  // a record can not be read or is missing: it may have had a claim
}

var _ shelf = (*blobDir)(nil)

// openBlobs opens the directory, which is made when the first blob is, and
// learns how much is in it.
func openBlobs(dir string, sync bool, room func(int64, *Message) error, keys func() *Keys, log *slog.Logger) (*blobDir, error) {
	d := &blobDir{dir: filepath.Join(dir, blobsName), sync: sync, room: room, keys: keys, log: log, refs: newBlobRefs()}
	return d, d.each(func(_ string, size int64) { d.octets.Add(size) })
}

// each calls f for every blob in the directory.
func (d *blobDir) each(f func(name string, size int64)) error {
	dir, err := os.Open(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if !isBlobName(e.Name()) {
				continue
			}
			i, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			f(e.Name(), i.Size())
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (d *blobDir) path(name string) string { return filepath.Join(d.dir, name) }

// create begins a blob of the given size, -1 if that is not known, for a message
// that may be nil.
func (d *blobDir) create(size int64, m *Message) (*blobWriter, error) {
	if err := d.room(max(size, 0), m); err != nil {
		return nil, err
	}
	name, err := newBlobName()
	if err != nil {
		return nil, err
	}
	d.refs.begin(name)
	f, err := d.createFile(name)
	if err != nil {
		d.refs.release(name)
		return nil, noRoom(err)
	}
	keys := d.keys()
	w := &blobWriter{d: d, f: f, of: m, claim: claim{name: name, key: keys.ID()}}
	if w.out, err = keys.Seal(w.counted(), name); err != nil {
		return nil, errors.Join(noRoom(err), w.Close())
	}
	return w, nil
}

func (d *blobDir) createFile(name string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(d.path(name), flags, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if d.sync {
		if err := durable.SyncDir(filepath.Dir(d.dir)); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(d.path(name), flags, 0o600)
}

// noRoom is an error of a file that keeps a message from being stored: nothing of
// it is kept, so it is a definite one.
func noRoom(err error) error {
	if err == nil || errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%w: body: %w", ErrFull, err)
}

// open implements [shelf].
func (d *blobDir) open(name string) (io.ReadCloser, error) {
	f, err := os.Open(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: its body %s is missing", ErrCorrupt, name)
	}
	return f, err
}

// unseal implements [shelf].
func (d *blobDir) unseal(r io.Reader, c *claim) (io.Reader, error) {
	if c.key == "" {
		return r, nil
	}
	return d.keys().Unseal(r, c.name)
}

// remove removes the file of a blob that nobody needs. That it could not be
// removed costs room until the next start.
func (d *blobDir) remove(name string) {
	i, err := os.Stat(d.path(name))
	if err == nil {
		err = os.Remove(d.path(name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		d.log.Warn("the body of a message that is gone could not be removed", "file", d.path(name), "err", err)
		return
	}
	d.octets.Add(-i.Size())
}

// release needs a blob once less.
func (d *blobDir) release(name string) {
	if d.refs.release(name) {
		d.remove(name)
	}
}

// sweep removes what no record claims: bodies whose messages were never accepted,
// or are gone. Where a record is missing or can not be read they are set aside;
// false if that was not done with all.
func (d *blobDir) sweep() (done bool) {
	var orphans []string
	err := d.each(func(name string, _ int64) {
		if !d.refs.has(name) {
			orphans = append(orphans, name)
		}
	})
	if err != nil {
		d.log.Warn("bodies without a message could not be looked for", "dir", d.dir, "err", err)
	}
	done = err == nil
	if len(orphans) == 0 {
		return done
	}
	if !d.doubt.Load() {
		for _, name := range orphans {
			d.remove(name)
		}
		d.log.Info("bodies of messages that were never accepted, or are gone, were removed", "files", len(orphans))
		return done
	}
	aside := aside{store: filepath.Dir(d.dir)}
	for _, name := range orphans {
		if err := d.setAside(&aside, name); err != nil {
			done = false
			d.log.Error("a body without a message stays where it is", "file", d.path(name), "err", err)
		}
	}
	d.log.Error("bodies without a message were set aside, because records are missing that may have claimed them", "files", len(orphans), "kept", aside.dir)
	return done
}

// setAside keeps a file and takes it out of the store.
func (d *blobDir) setAside(a *aside, name string) error {
	i, err := os.Stat(d.path(name))
	if err != nil {
		return err
	}
	to, err := a.path(d.path(name))
	if err != nil {
		return err
	}
	if err := os.Rename(d.path(name), to); err != nil {
		return err
	}
	d.octets.Add(-i.Size())
	return durable.SyncDir(filepath.Dir(to))
}

// take makes the body of m one that its record can claim: one of more octets than
// most becomes a file, one of another store is copied. The file is durable when it returns, and
// held for the record; the name is "" where the body stands in the record.
func (d *blobDir) take(m *Message, most int) (name string, err error) {
	if m.Blob == nil && len(m.Body) <= most {
		return "", nil
	}
	b, ours := m.Blob.(*storedBlob)
	if !ours || b.in != shelf(d) {
		w, err := d.copied(m)
		if err != nil {
			return "", err
		}
		defer w.Close()
		if b, err = w.finish(); err != nil {
			return "", err
		}
	}
	if !d.refs.hold(b.name) {
		return "", fmt.Errorf("%w: its body %s is gone", ErrNotFound, b.name)
	}
	if b.work != nil {
		if err := b.work.settle(); err != nil {
			d.release(b.name)
			return "", err
		}
	}
	m.Body, m.Blob = nil, &storedBlob{claim: b.claim, in: d}
	return b.name, nil
}

// copied returns a writer of what m has as its body.
func (d *blobDir) copied(m *Message) (*blobWriter, error) {
	w, err := d.create(m.Size(), m)
	if err != nil {
		return nil, err
	}
	if err := copyBody(w, m); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// copyBody writes the body of m.
func copyBody(w io.Writer, m *Message) error {
	if m.Blob == nil {
		_, err := w.Write(m.Body)
		return err
	}
	r, err := m.Blob.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{w}, r)
	return errors.Join(err, r.Close())
}

// blobWriter writes a blob into its file.
type blobWriter struct {
	d        *blobDir
	f        *os.File       // nil once it is closed
	of       *Message       // nil: not known
	out      io.WriteCloser // seals, into f
	claim    claim
	err      error // sticks
	blob     *storedBlob
	unsynced int64
	settled  error
	closed   bool
}

var _ BlobWriter = (*blobWriter)(nil)

// counted is the file, as out writes into it.
func (w *blobWriter) counted() io.Writer { return (*blobFile)(w) }

type blobFile blobWriter

// Write implements [io.Writer].
func (w *blobFile) Write(p []byte) (int, error) {
	if err := w.d.room(int64(len(p)), w.of); err != nil {
		return 0, err
	}
	n, err := w.f.Write(p)
	w.d.octets.Add(int64(n))
	if w.unsynced += int64(n); err == nil && w.d.sync && w.unsynced >= blobStep {
		w.unsynced = 0
		err = w.f.Sync()
	}
	return n, err
}

// Write implements [io.Writer].
func (w *blobWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.out.Write(p)
	w.claim.size += int64(n)
	w.claim.sum = crc32.Update(w.claim.sum, castagnoli, p[:n])
	w.err = noRoom(err)
	return n, w.err
}

var errBlobClosed = errors.New("queue: body is closed")

// Blob implements [BlobWriter].
func (w *blobWriter) Blob() (Blob, error) {
	b, err := w.finish()
	if err != nil {
		return nil, err // no typed nil
	}
	return b, nil
}

func (w *blobWriter) finish() (*storedBlob, error) {
	if w.blob != nil {
		return w.blob, nil
	}
	if w.err == nil {
		w.err = noRoom(w.out.Close())
	}
	if w.err != nil {
		return nil, w.err
	}
	w.err = errBlobClosed
	w.blob = &storedBlob{claim: w.claim, in: w.d, work: w}
	return w.blob, nil
}

// settle makes the file and its name durable.
func (w *blobWriter) settle() error {
	if w.f == nil {
		return w.settled
	}
	f := w.f
	w.f = nil
	var err error
	if w.d.sync {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil && w.d.sync {
		err = durable.SyncDir(w.d.dir)
	}
	w.settled = noRoom(err)
	return w.settled
}

// Close implements [BlobWriter].
func (w *blobWriter) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	var err error
	if w.f != nil {
		err = w.f.Close()
		w.f = nil
	}
	w.err = errBlobClosed
	w.d.release(w.claim.name)
	return err
}
