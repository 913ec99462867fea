package queue

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// inlineMost is the most octets of a body that stand in its record; a larger one
// is a file of its own, and the record has the claim to it.
const inlineMost = 1 << 20

// Blob is the body of a message that is not held in memory. Its methods may be
// called from many goroutines.
type Blob interface {
	// Size is the number of octets.
	Size() int64

	// Open returns a reader of all of it, from the start; there may be many at a
	// time. The last octets are given only once all were found to be those that
	// were written: whoever got fewer than Size has nothing. The error is, or
	// wraps, ErrCorrupt when they are not, also when there are too few or too
	// many; other errors are those of the disk. A reader that is open goes on
	// when the message is forgotten.
	Open() (io.ReadCloser, error)
}

// BlobWriter writes the body of a message that is to come; see [Store.NewBlob].
// It is used by one goroutine at a time.
type BlobWriter interface {
	// Write adds octets. ErrFull; nothing can be written behind an error.
	io.Writer

	// Blob ends the writing and returns the body. It can be read at once, and be
	// given to Put of the store that it came from as long as the writer is not
	// closed.
	Blob() (Blob, error)

	// Close lets go of the body. If no Put has taken it, it is gone.
	Close() error
}

// Size is the number of octets of the body, wherever it is kept.
func (m *Message) Size() int64 {
	if m.Blob != nil {
		return m.Blob.Size()
	}
	return int64(len(m.Body))
}

// claim is what a record says of a body that is kept beside it.
type claim struct {
	name string // of the file
	size int64  // octets of the body
	sum  uint32 // CRC-32C of the body
	key  string // that it is sealed with, see Keys.ID; "" where it is not
}

// newBlobName returns a name that no blob has or will have.
func newBlobName() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}

// option writes the claim as an option of a record.
func (c *claim) option() string {
	s := c.name + "." + strconv.FormatInt(c.size, 10) + "." + strconv.FormatUint(uint64(c.sum), 16)
	if c.key != "" {
		s += "." + c.key
	}
	return s
}

// parseClaim reads what option wrote. A claim that is not understood must not be
// passed over: the message would be one without a body.
func parseClaim(s string) (c claim, err error) {
	part := strings.Split(s, ".")
	if len(part) == 4 && part[3] != "" {
		c.key, part = part[3], part[:3]
	}
	if len(part) != 3 || !isBlobName(part[0]) {
		return claim{}, fmt.Errorf("%w: claim %q", errFormat, cut(s, 100))
	}
	c.name = part[0]
	size, err := strconv.ParseUint(part[1], 10, 62)
	if err != nil {
		return claim{}, fmt.Errorf("%w: claim %q", errFormat, cut(s, 100))
	}
	sum, err := strconv.ParseUint(part[2], 16, 32)
	if err != nil {
		return claim{}, fmt.Errorf("%w: claim %q", errFormat, cut(s, 100))
	}
	c.size, c.sum = int64(size), uint32(sum)
	return c, nil
}

// isBlobName keeps what is read from a record from leaving the directory.
func isBlobName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c == '-') {
			return false
		}
	}
	return len(s) == 36
}

// storedBlob is a Blob that a store keeps.
type storedBlob struct {
	claim
	in   shelf
	work *blobWriter // that has written it in this run; nil once it is settled, or in memory
}

var _ Blob = (*storedBlob)(nil)

// shelf is where the octets of blobs are.
type shelf interface {
	open(name string) (io.ReadCloser, error)
	unseal(r io.Reader, c *claim) (io.Reader, error)
}

// Size implements [Blob].
func (b *storedBlob) Size() int64 { return b.size }

// Open implements [Blob].
func (b *storedBlob) Open() (io.ReadCloser, error) {
	if b.in == nil {
		return nil, fmt.Errorf("%w: its body was not looked up", ErrCorrupt)
	}
	f, err := b.in.open(b.name)
	if err != nil {
		return nil, err
	}
	r, err := b.in.unseal(f, &b.claim)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &blobReader{c: &b.claim, src: r, file: f, left: b.size}, nil
}

// bound makes the body of a message that was read from a record one that can be
// opened.
func bound(m *Message, in shelf) *Message {
	if b, ok := m.Blob.(*storedBlob); ok {
		b.in = in
	}
	return m
}

// provenTail is how many octets at the end of a blob are given only once its
// checksum was found right.
const provenTail = 16 << 10

// blobReader gives the octets of a blob, the last of them only once all are
// proven.
type blobReader struct {
	c    *claim
	src  io.Reader
	file io.Closer
	left int64 // octets that are not read yet
	sum  uint32
	tail []byte // proven, not given yet
	err  error  // sticks, once tail is empty
}

// Read implements [io.Reader].
func (r *blobReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.err == nil && r.left > provenTail {
		n, err := r.src.Read(p[:min(int64(len(p)), r.left-provenTail)])
		r.sum = crc32.Update(r.sum, castagnoli, p[:n])
		r.left -= int64(n)
		if err == io.EOF {
			err = r.damaged("it ends too early")
		}
		if r.err = err; n > 0 || err != nil {
			return n, err
		}
		return 0, nil
	}
	if r.err == nil {
		r.prove()
	}
	if n := copy(p, r.tail); n > 0 {
		r.tail = r.tail[n:]
		return n, nil
	}
	return 0, r.err
}

// prove reads the last octets and the end.
func (r *blobReader) prove() {
	b := make([]byte, r.left+1)
	n, err := io.ReadFull(r.src, b)
	switch {
	case err == nil:
		r.err = r.damaged("it is too long")
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		r.err = err
	case int64(n) < r.left:
		r.err = r.damaged("it ends too early")
	case crc32.Update(r.sum, castagnoli, b[:n]) != r.c.sum:
		r.err = r.damaged("its checksum differs")
	default:
		r.tail, r.err = b[:n], io.EOF
	}
}

func (r *blobReader) damaged(how string) error {
	return fmt.Errorf("%w: body %s of %d octets: %s", ErrCorrupt, r.c.name, r.c.size, how)
}

// Close implements [io.Closer].
func (r *blobReader) Close() error { return r.file.Close() }
