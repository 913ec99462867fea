package h1

import "golang.org/x/sys/unix"

// peerOf asks for what the kernel has noted, whatever may still be unread.
func peerOf(fd int) peerState {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	if n, err := unix.Poll(fds, 0); n < 1 || err != nil {
		return peerHere
	}
	switch ev := fds[0].Revents; {
	case ev&(unix.POLLERR|unix.POLLHUP) != 0:
		return peerGone
	case ev&unix.POLLRDHUP != 0:
		return peerHalf
	}
	return peerHere
}
