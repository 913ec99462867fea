package proxy

import (
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/google/uuid"
)

// randomness is what ids are made of: 16 octets for each, fetched for many at
// once, since asking the kernel for each was a tenth of the cost of a short
// message. Ids are no secrets.
var randomness entropy

// newID returns a UUIDv7 (RFC 9562 §5.7).
func newID() string {
	id, err := uuid.NewV7FromReader(&randomness)
	if err != nil {
		panic(fmt.Sprintf("proxy: no randomness for an id: %v", err))
	}
	return id.String()
}

// entropy hands out what [crypto/rand] gives, each octet once.
type entropy struct {
	mu   sync.Mutex
	left []byte
	buf  [4096]byte
}

func (e *entropy) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.left) == 0 {
		if _, err := rand.Read(e.buf[:]); err != nil {
			return 0, err
		}
		e.left = e.buf[:]
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}
