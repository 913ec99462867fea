package queue

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"sync"
)

// memoryBlobs is the twin of blobDir.
type memoryBlobs struct {
	refs blobRefs
	room func() error

	mu    sync.Mutex
	files map[string][]byte
}

var _ shelf = (*memoryBlobs)(nil)

// newMemoryBlobs returns the bodies among files that the records of d claim.
func newMemoryBlobs(files map[string][]byte, d *memoryData, room func() error) *memoryBlobs {
	b := &memoryBlobs{refs: newBlobRefs(), room: room, files: maps.Clone(files)}
	if b.files == nil {
		b.files = map[string][]byte{}
	}
	for seq, r := range d.log {
		if _, body, err := decodeHead(r.header); err == nil && body.blob != nil {
			b.refs.foundInLog(seq, body.blob.name)
		}
	}
	for id, r := range d.dead {
		if h, err := decodeDeadHead(r.header); err == nil {
			b.refs.foundDead(id, h.body.claimed())
		}
	}
	b.refs.read(true, true)
	maps.DeleteFunc(b.files, func(name string, _ []byte) bool { return !b.refs.has(name) })
	return b
}

// open implements [shelf].
func (b *memoryBlobs) open(name string) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.files[name]
	if !ok {
		return nil, fmt.Errorf("%w: its body %s is missing", ErrCorrupt, name)
	}
	return io.NopCloser(bytes.NewReader(f)), nil
}

// unseal implements [shelf].
func (*memoryBlobs) unseal(r io.Reader, _ *claim) (io.Reader, error) { return r, nil }

func (b *memoryBlobs) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.files, name)
}

func (b *memoryBlobs) release(name string) {
	if b.refs.release(name) {
		b.remove(name)
	}
}

// copy is all that is kept.
func (b *memoryBlobs) copy() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.files)
}

// damage changes an octet of a body.
func (b *memoryBlobs) damage(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := slices.Clone(b.files[name])
	if len(f) > 0 {
		f[len(f)/2] ^= 1
	}
	b.files[name] = f
}

// create begins a body.
func (b *memoryBlobs) create() (*memoryBlobWriter, error) {
	if err := b.room(); err != nil {
		return nil, err
	}
	name, err := newBlobName()
	if err != nil {
		return nil, err
	}
	b.refs.begin(name)
	return &memoryBlobWriter{in: b, name: name}, nil
}

// take is that of blobDir.
func (b *memoryBlobs) take(m *Message, most int) (name string, err error) {
	if m.Blob == nil && len(m.Body) <= most {
		return "", nil
	}
	own, ours := m.Blob.(*storedBlob)
	if !ours || own.in != shelf(b) {
		w, err := b.create()
		if err != nil {
			return "", err
		}
		defer w.Close()
		if err := copyBody(w, m); err != nil {
			return "", err
		}
		own = w.finish()
	}
	if !b.refs.hold(own.name) {
		return "", fmt.Errorf("%w: its body %s is gone", ErrNotFound, own.name)
	}
	m.Body, m.Blob = nil, &storedBlob{claim: own.claim, in: b}
	return own.name, nil
}

// memoryBlobWriter is the twin of blobWriter.
type memoryBlobWriter struct {
	in     *memoryBlobs
	name   string
	buf    []byte
	done   bool
	closed bool
	err    error
}

var _ BlobWriter = (*memoryBlobWriter)(nil)

// Write implements [io.Writer].
func (w *memoryBlobWriter) Write(p []byte) (int, error) {
	if w.err == nil && (w.done || w.closed) {
		w.err = errBlobClosed
	}
	if w.err == nil {
		w.err = w.in.room()
	}
	if w.err != nil {
		return 0, w.err
	}
	w.buf = append(w.buf, p...)
	return len(p), nil
}

// Blob implements [BlobWriter].
func (w *memoryBlobWriter) Blob() (Blob, error) {
	if w.err == nil && w.closed && !w.done {
		w.err = errBlobClosed
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.finish(), nil
}

func (w *memoryBlobWriter) finish() *storedBlob {
	if !w.done {
		w.done = true
		w.in.mu.Lock()
		w.in.files[w.name] = w.buf
		w.in.mu.Unlock()
	}
	c := claim{name: w.name, size: int64(len(w.buf)), sum: crc32.Checksum(w.buf, castagnoli)}
	return &storedBlob{claim: c, in: w.in}
}

// Close implements [BlobWriter].
func (w *memoryBlobWriter) Close() error {
	if !w.closed {
		w.closed = true
		w.in.release(w.name)
	}
	return nil
}
