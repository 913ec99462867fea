//go:build unix

package h1

import (
	"net"
	"syscall"
)

// socketState asks the kernel for what it knows about the peer.
func socketState(c net.Conn) (state peerState) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return peerHere
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return peerHere
	}
	rc.Control(func(fd uintptr) { state = peerOf(int(fd)) })
	return state
}
