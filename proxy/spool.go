package proxy

import (
	"fmt"
	"io"
	"os"

	"soapway/soapcodec"
)

// spoolError is an error of the local disk, not of the message.
type spoolError struct{ err error }

func (e *spoolError) Error() string { return fmt.Sprintf("proxy: spool: %v", e.err) }
func (e *spoolError) Unwrap() error { return e.err }

// newSpool makes a file that has no name any more, so that nothing is left
// behind however this process ends.
func newSpool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "gateway-spool-")
	if err != nil {
		return nil, &spoolError{err}
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, &spoolError{err}
	}
	return f, nil
}

// A Blob is a whole message that is in no memory. Its methods may be called from
// many goroutines.
type Blob interface {
	// Size is the number of octets.
	Size() int64
	// Open reads all of it; an error of the reader means that the message is
	// damaged, or can not be read now.
	Open() (io.ReadCloser, error)
}

// spoolFile is a Blob in a file of the spool.
type spoolFile struct {
	f *os.File
	n int64
}

var _ Blob = (*spoolFile)(nil)

// Size implements [Blob].
func (s *spoolFile) Size() int64 { return s.n }

// Open implements [Blob].
func (s *spoolFile) Open() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.f, 0, s.n)), nil
}

func (s *spoolFile) close() { s.f.Close() }

// A BlobWriter writes a message that is to be stored, and is in no memory.
type BlobWriter interface {
	// Write adds octets; its error is, or wraps, ErrStoreBusy.
	io.Writer
	// Blob ends the writing. What it returns can be read, and be stored, as long as
	// the writer is not closed.
	Blob() (Blob, error)
	// Close lets go of the octets: if they were not stored, they are gone.
	Close() error
}

// fileAway makes what is read from out, up to its end, the message, in a file of
// the store. Every check has passed once it has returned.
func (c *call) fileAway(out io.Reader, dec *soapcodec.Decoder) error {
	if c.h.opt.Enqueuer == nil {
		return ErrStoreBusy
	}
	size := c.ex.Length
	if c.decoded {
		size = -1
	}
	w, err := c.h.opt.Enqueuer.NewBlob(size)
	if err != nil {
		return err
	}
	c.msg.also = append(c.msg.also, blobWriter{w})
	c.letGo() // of what was read first nothing is held but what is not checked yet
	if _, err := io.Copy(struct{ io.Writer }{w}, struct{ io.Reader }{out}); err != nil {
		return c.messageError(err, dec)
	}
	if c.msg.file, err = w.Blob(); err != nil {
		return err
	}
	c.msg.length = c.msg.file.Size()
	f := dec.Facts()
	c.take(f)
	return refuseSequence(f)
}

type blobWriter struct{ w BlobWriter }

func (w blobWriter) close() { _ = w.w.Close() } // what it could not let go of, the store removes at its next start

// spool reads r to its end into a file. The octets count as checked once it has
// returned.
func spool(dir string, r io.Reader) (f *os.File, n int64, err error) {
	f, err = newSpool(dir)
	if err != nil {
		return nil, 0, err
	}
	w := &spoolWriter{f: f}
	n, err = io.Copy(w, struct{ io.Reader }{r})
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, n, nil
}

// spoolWriter marks the errors of the file, and keeps io.Copy to a buffer of
// known size.
type spoolWriter struct{ f *os.File }

func (w *spoolWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = &spoolError{err}
	}
	return n, err
}
