package frame

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrTooLong is the reason of a length above the limit: of a frame that was
// announced ([Reader.Next]), or of a payload whose length the prefix cannot
// express ([AppendLength]).
var ErrTooLong = errors.New("frame too long")

// ErrUnread is the reason of a call of [Reader.Next] before the payload of the
// current frame was read to its end.
var ErrUnread = errors.New("payload not read to its end")

// ValidWidth reports whether a length may have this many octets: 2 or 4.
func ValidWidth(width int) bool { return width == 2 || width == 4 }

// MaxPayload is the longest payload that a length of width octets can count.
func MaxPayload(width int) int64 { return 1<<(8*width) - 1 }

// AppendLength appends the prefix of a payload of n octets. It fails with
// [ErrTooLong], and appends nothing, when width octets cannot express n.
func AppendLength(dst []byte, width int, n int64) ([]byte, error) {
	if n < 0 || n > MaxPayload(width) {
		return dst, fmt.Errorf("frame: length %d does not fit %d octets: %w", n, width, ErrTooLong)
	}
	for shift := 8 * (width - 1); shift >= 0; shift -= 8 {
		dst = append(dst, byte(n>>shift))
	}
	return dst, nil
}

// Append appends a whole frame. It fails as [AppendLength] does.
func Append(dst []byte, width int, payload []byte) ([]byte, error) {
	dst, err := AppendLength(dst, width, int64(len(payload)))
	if err != nil {
		return dst, err
	}
	return append(dst, payload...), nil
}

// A Reader reads frames from a stream.
type Reader struct {
	src   *bufio.Reader
	width int
	limit int64
	left  int64 // octets of the current payload still to be read
	err   error // sticky
}

// NewReader returns a Reader of frames with lengths of width octets and
// payloads of at most limit octets. It buffers size octets of r, so that many
// short frames cost one read.
func NewReader(r io.Reader, width int, limit int64, size int) *Reader {
	return &Reader{src: bufio.NewReaderSize(r, size), width: width, limit: min(limit, MaxPayload(width))}
}

// Wait returns once the first octet of the next frame is there. It returns
// io.EOF when the stream ends instead.
func (r *Reader) Wait() error {
	if err := r.ready(); err != nil {
		return err
	}
	if _, err := r.src.Peek(1); err != nil {
		r.err = err
	}
	return r.err
}

// Next reads the length of the next frame. The payload of the one before must
// have been read to its end.
func (r *Reader) Next() (int64, error) {
	if err := r.ready(); err != nil {
		return 0, err
	}
	head, err := r.src.Peek(r.width)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		r.err = err
		return 0, err
	}
	n := length(head)
	if n > r.limit {
		r.err = fmt.Errorf("frame: length %d is over the limit of %d: %w", n, r.limit, ErrTooLong)
		return 0, r.err
	}
	// Peek has shown that these octets are buffered: Discard cannot fail.
	r.src.Discard(r.width)
	r.left = n
	return n, nil
}

// Ready reports whether the next frame is here as a whole, or it is known that
// there is none: then neither Next nor Take waits for the stream.
func (r *Reader) Ready() bool {
	if r.err != nil {
		return true
	}
	have := r.src.Buffered()
	if have < r.width {
		return false
	}
	head, _ := r.src.Peek(r.width)
	n := length(head)
	return n > r.limit || n <= int64(have-r.width)
}

// Take reads the payload of the current frame, of which nothing was read, and
// returns it where it lies: it is gone with the next call. The payload of a frame
// that does not fit the buffer is nil and still to be read.
func (r *Reader) Take() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.left > int64(r.src.Size()) {
		return nil, nil
	}
	b, err := r.src.Peek(int(r.left))
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		r.err = err
		return nil, err
	}
	r.src.Discard(len(b)) // cannot fail: they are buffered
	r.left = 0
	return b, nil
}

func length(head []byte) (n int64) {
	for _, b := range head {
		n = n<<8 | int64(b)
	}
	return n
}

func (r *Reader) ready() error {
	if r.err == nil && r.left > 0 {
		return fmt.Errorf("frame: %d octets left: %w", r.left, ErrUnread)
	}
	return r.err
}

// Read reads from the payload of the current frame: io.EOF at its end,
// io.ErrUnexpectedEOF when the stream ends before.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.src.Read(p)
	r.left -= int64(n)
	if err != nil && r.left > 0 {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		r.err = err
		return n, err
	}
	return n, nil
}

// Left is the number of octets of the current payload still to be read.
func (r *Reader) Left() int64 { return r.left }
