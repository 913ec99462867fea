package listen

import (
	"errors"
	"io"
	"sync"
	"time"
)

// errBodyClosed is what a request body gives once its exchange is over.
var errBodyClosed = errors.New("listen: the request body is closed")

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// reading is how a body is read that net/http gives: by one goroutine at a time, which
// need not be that of the exchange, until it is closed; errors are sticky.
type reading struct {
	mu     sync.Mutex
	still  sync.Cond // signalled when busy becomes false
	busy   bool      // somebody reads
	closed bool      // no further reads
	eof    bool      // read to its end
	err    error     // sticky, never io.EOF
}

// begin begins a read into p, or says why there is none; ready is called with mu
// held before one.
func (r *reading) begin(p []byte, ready func()) (begun bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return false, r.err
	case r.eof:
		return false, io.EOF
	case r.closed || r.busy:
		return false, errBodyClosed
	case len(p) == 0:
		return false, nil
	}
	r.busy = true
	ready()
	return true, nil
}

// end ends a read with the error that it met, of which reason, which is called with
// mu held, makes that of the body.
func (r *reading) end(err error, reason func(error) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	r.still.Broadcast()
	switch err {
	case nil:
		return nil
	case io.EOF:
		r.eof = true
		return io.EOF
	}
	r.err = reason(err)
	return r.err
}

// close makes later reads fail; interrupt is called with mu held if one is under
// way.
func (r *reading) close(interrupt func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.busy {
		interrupt()
	}
}

// wait returns once nobody reads.
func (r *reading) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy {
		r.still.Wait()
	}
}
