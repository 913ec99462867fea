//go:build !windows

package bench

import "syscall"

// maxFiles raises the limit of descriptors of this process as far as it may and
// returns it; 0 when it is not known. The runtime of Go does the raising.
func maxFiles() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return uint64(r.Cur)
}
