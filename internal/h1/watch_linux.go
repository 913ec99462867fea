package h1

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketState asks the kernel for what it has noted about the peer, whatever
// may still be unread.
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
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(fds, 0); n < 1 || err != nil {
			return
		}
		switch ev := fds[0].Revents; {
		case ev&(unix.POLLERR|unix.POLLHUP) != 0:
			state = peerGone
		case ev&unix.POLLRDHUP != 0:
			state = peerHalf
		}
	})
	return state
}
