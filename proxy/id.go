package proxy

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// ids makes the ids of this process.
var ids idSource

// newID returns a UUIDv7 (RFC 9562 §5.7) of that time or a little later, later ones being greater: the twelve
// bits behind the milliseconds are a fraction of them (§6.2, method 3). Ids are no
// secrets.
//
// Hot path: allocates the string and nothing else (TestNewIDAllocs).
func newID(now time.Time) string { return ids.next(now) }

type idSource struct {
	mu     sync.Mutex
	last   int64 // milliseconds << 12 | fraction, of the last id
	random entropy
}

func (s *idSource) next(now time.Time) string {
	s.mu.Lock()
	ns := now.UnixNano()
	ms := ns / 1e6
	at := ms<<12 | (ns-ms*1e6)>>8 // a millisecond has 3906.25 times 256 ns
	if at <= s.last {
		at = s.last + 1
	}
	s.last = at
	tail := s.random.uint64()
	s.mu.Unlock()

	head := uint64(at)>>12<<16 | 7<<12 | uint64(at)&0xfff
	tail = tail>>2 | 2<<62
	var b [36]byte
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	hexDigits(b[0:8], head>>32)
	hexDigits(b[9:13], head>>16)
	hexDigits(b[14:18], head)
	hexDigits(b[19:23], tail>>48)
	hexDigits(b[24:36], tail)
	return string(b[:])
}

// hexDigits writes as many of the last digits of v as there is room for.
func hexDigits(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789abcdef"[v&15]
		v >>= 4
	}
}

// entropy hands out what [crypto/rand] gives, each octet once. It is fetched for
// many ids at once, since asking the kernel for each was a tenth of the cost of a
// short message.
type entropy struct {
	left []byte
	buf  [4096]byte
}

func (e *entropy) uint64() uint64 {
	if len(e.left) == 0 {
		if _, err := rand.Read(e.buf[:]); err != nil {
			panic(fmt.Sprintf("proxy: no randomness for an id: %v", err))
		}
		e.left = e.buf[:]
	}
	v := binary.LittleEndian.Uint64(e.left)
	e.left = e.left[8:]
	return v
}
