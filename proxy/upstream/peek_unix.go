//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// A peeker looks at the receive queue of an idle connection without taking
// anything: octets wait there, or the peer has closed or reset it. It uses
// Control, since the raw Read would wait for the reader that is parked on the
// connection. It is made for the first look and kept, because every try looks
// (TestPeekAllocs). One goroutine at a time may use it.
type peeker struct {
	rc              syscall.RawConn
	look            func(fd uintptr)
	octet           [1]byte
	pending, closed bool // what look has seen
}

func (p *peeker) peek(c net.Conn) (pending, closed bool) {
	if p.rc == nil {
		sc, ok := c.(syscall.Conn)
		if !ok {
			return false, false
		}
		rc, err := sc.SyscallConn()
		if err != nil {
			return false, true
		}
		p.rc, p.look = rc, p.lookAt
	}
	p.pending, p.closed = false, false
	err := p.rc.Control(p.look)
	return p.pending, p.closed || err != nil
}

func (p *peeker) lookAt(fd uintptr) {
	n, _, err := syscall.Recvfrom(int(fd), p.octet[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
	case err != nil || n == 0:
		p.closed = true
	default:
		p.pending = true
	}
}
