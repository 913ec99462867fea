//go:build unix

package casetest

import (
	"os"
	"syscall"
)

// makePipe makes a named pipe.
func makePipe(name string) error { return syscall.Mkfifo(name, 0o600) }

// isRead reports whether somebody has a named pipe open to read it.
func isRead(name string) bool {
	w, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	w.Close()
	return true
}
