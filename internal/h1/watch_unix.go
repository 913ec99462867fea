//go:build unix && !linux

package h1

import (
	"net"
	"syscall"
)

// socketState looks at the receive queue without taking anything. A FIN behind
// unread octets is not seen.
func socketState(c net.Conn) (state peerState) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return peerHere
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return peerHere
	}
	rc.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR || n > 0:
		case err != nil:
			state = peerGone
		default:
			state = peerHalf
		}
	})
	return state
}
