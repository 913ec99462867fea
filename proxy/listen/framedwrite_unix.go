//go:build unix

package listen

import (
	"net"
	"syscall"
)

// A tryWriter writes to a connection as much as goes at once.
type tryWriter struct {
	rc  syscall.RawConn
	now func(fd uintptr) bool
	b   []byte
	n   int
	err error
}

// newTryWriter returns nil where octets do not go to the system as they are.
func newTryWriter(c net.Conn) *tryWriter {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &tryWriter{rc: rc}
	w.now = w.write
	return w
}

// try writes b as far as there is room for it, which may be not at all. One
// goroutine at a time may call it.
func (w *tryWriter) try(b []byte) (int, error) {
	w.b, w.n, w.err = b, 0, nil
	err := w.rc.Write(w.now)
	w.b = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

func (w *tryWriter) write(fd uintptr) bool {
	n, err := syscall.Write(int(fd), w.b)
	switch err {
	case nil:
		w.n = n
	case syscall.EAGAIN, syscall.EINTR:
	default:
		w.err = err
	}
	return true // whatever is left is for somebody who can wait
}
