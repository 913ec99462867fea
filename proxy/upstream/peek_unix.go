//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// peekConn looks at the receive queue of an idle connection without taking
// anything: octets wait there, or the peer has closed or reset it. It uses
// Control, since the raw Read would wait for the reader that is parked on the
// connection.
func peekConn(c net.Conn) (pending, closed bool) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false, false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return false, true
	}
	err = rc.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR:
		case err != nil || n == 0:
			closed = true
		default:
			pending = true
		}
	})
	return pending, closed || err != nil
}
