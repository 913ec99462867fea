package queue

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserveBehind reserves so many octets of disk behind the end of a file,
// without making it longer. The error is ErrNoRoom if there is no room; any other
// says that it cannot be done.
func reserveBehind(name string, octets int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for {
		switch err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, st.Size(), octets); {
		case err == unix.EINTR:
		case err != nil && saysNoRoom(err):
			return fmt.Errorf("%w: %w", ErrNoRoom, err)
		default:
			return err
		}
	}
}
