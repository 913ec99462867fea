package queue

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lockName is the file whose lock says that a process has the store open. The
// embedded server takes none: two of them would open one store and ruin it.
const lockName = "LOCK"

// lockDir takes the lock of the store in dir and writes the process's number
// into it. The lock goes with the process, however it ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := tryLock(f)
	if err == nil && !locked {
		who := ""
		if b, e := io.ReadAll(io.LimitReader(f, 32)); e == nil {
			if pid, e := strconv.Atoi(strings.TrimSpace(string(b))); e == nil {
				who = fmt.Sprintf(" (process %d)", pid)
			}
		}
		err = fmt.Errorf("%w%s: %s", ErrLocked, who, dir)
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
