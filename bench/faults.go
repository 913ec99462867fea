package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// Faults are what a peer does wrong on purpose, so that the bench can be shown to
// notice. The zero value is none.
type Faults struct {
	// Pause stops all replies of the peer for so long at the beginning of each
	// second.
	Pause time.Duration
	// WrongEvery answers every n-th request with another counter.
	WrongEvery int
	// Cap is how many replies the peer gives in a second at most; the rest wait.
	Cap int
	// Nagle leaves TCP_NODELAY off.
	Nagle bool
}

// faults are Faults at work.
type faults struct {
	Faults
	began time.Time
	count atomic.Int64

	mu   sync.Mutex
	slot time.Time // when the next reply of Cap may be given
}

func newFaults(f Faults) *faults { return &faults{Faults: f, began: time.Now()} }

// before is called with a request that was read, and returns the reply to give,
// when it is time.
func (f *faults) before(body []byte) []byte {
	if f.Pause > 0 {
		if into := time.Since(f.began) % time.Second; into < f.Pause {
			time.Sleep(f.Pause - into)
		}
	}
	if f.Cap > 0 {
		time.Sleep(time.Until(f.next()))
	}
	if n := f.count.Add(1); f.WrongEvery > 0 && n%int64(f.WrongEvery) == 0 && len(body) > 0 {
		return spoil(body)
	}
	return body
}

// next takes the next slot of Cap.
func (f *faults) next() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.slot.Before(now) {
		f.slot = now
	}
	at := f.slot
	f.slot = f.slot.Add(time.Second / time.Duration(f.Cap))
	return at
}

// spoil makes another digit of the last one in b.
func spoil(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] >= '0' && b[i] <= '9' {
			b[i] = '0' + (b[i]-'0'+1)%10
			break
		}
	}
	return b
}
