//go:build unix && !linux

package h1

import "syscall"

// peerOf looks at the receive queue without taking anything. A FIN behind
// unread octets is not seen.
func peerOf(fd int) peerState {
	var b [1]byte
	n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR || n > 0:
		return peerHere
	case err != nil:
		return peerGone
	}
	return peerHalf
}
