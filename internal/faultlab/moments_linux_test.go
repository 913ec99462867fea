package faultlab

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A watch waits for something to happen in a directory.
type watch struct{ f *os.File }

// The changes that a watch looks for.
const (
	isWritten = unix.IN_MODIFY
	isRemoved = unix.IN_DELETE | unix.IN_MOVED_TO
)

// watchDir watches a directory, which must exist, for one kind of change.
func watchDir(dir string, change uint32) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, change); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &watch{os.NewFile(uintptr(fd), "inotify")}, nil
}

// wait returns whether it happened within the time, and ends the watch.
func (w *watch) wait(within time.Duration) bool {
	defer w.f.Close()
	if w.f.SetReadDeadline(time.Now().Add(within)) != nil {
		return false
	}
	n, _ := w.f.Read(make([]byte, 4096))
	return n > 0
}

// hungUp reports whether the other side of a connection has closed it, be there
// still something to read or not.
func hungUp(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}

// messagesOf is where the server keeps the messages of a stream, for a look from
// outside.
func messagesOf(store, stream string) string {
	return filepath.Join(store, "jetstream", "$G", "streams", stream, "msgs")
}
