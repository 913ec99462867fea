package proxy

import (
	"io"
	"sync"
	"sync/atomic"
)

// keepBuffer is the largest buffer that goes back to the pool: a few large
// messages must not pin their size for ever.
const keepBuffer = 256 << 10

// buffer is pooled memory for one message. It is shared by the exchange and by
// the readers that nodes have opened, and goes back when the last has let go:
// an HTTP client may read a request body after its answer has come.
type buffer struct {
	b    []byte
	refs atomic.Int32
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// newBuffer returns an empty buffer with one reference.
func newBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.b = b.b[:0]
	b.refs.Store(1)
	return b
}

// detach takes the memory out of the pool's hands: it lives as long as the
// octets are used. Only the one owner of a buffer may call it.
func (b *buffer) detach() []byte {
	d := b.b
	b.b = nil
	return d
}

func (b *buffer) retain() { b.refs.Add(1) }

func (b *buffer) release() {
	if b.refs.Add(-1) != 0 {
		return
	}
	if cap(b.b) > keepBuffer {
		b.b = nil
	}
	buffers.Put(b)
}

// fill reads r until its end or until more than limit octets are there, and
// reports whether it met the end. hint is the expected size, -1 if unknown; it
// is what the sender says, so memory follows what has arrived.
func (b *buffer) fill(r io.Reader, limit, hint int64) (whole bool, err error) {
	const (
		least = 4 << 10
		trust = 64 << 10 // of hint, before an octet is there
	)
	want := int64(least)
	if hint >= 0 && hint < limit {
		want = hint + 1 // one more, so that the end is seen without growing
	}
	b.grow(int(min(max(want, 512), trust)))
	for int64(len(b.b)) <= limit {
		if size := int64(len(b.b)); size == int64(cap(b.b)) {
			more := size
			if want > size {
				more = min(3*size, want-size)
			}
			b.grow(int(min(more, limit+1-size)))
		}
		free := b.b[len(b.b):cap(b.b)]
		if over := limit + 1 - int64(len(b.b)); int64(len(free)) > over {
			free = free[:over]
		}
		n, err := r.Read(free)
		b.b = b.b[:len(b.b)+n]
		if err == io.EOF {
			return int64(len(b.b)) <= limit, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// grow makes room for n more octets.
func (b *buffer) grow(n int) {
	if cap(b.b)-len(b.b) >= n {
		return
	}
	grown := make([]byte, len(b.b), len(b.b)+n)
	copy(grown, b.b)
	b.b = grown
}
