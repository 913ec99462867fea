package queue

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an octet far behind the process number, so that others can read that.
func tryLock(f *os.File) (bool, error) {
	at := &windows.Overlapped{Offset: 1 << 20}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
