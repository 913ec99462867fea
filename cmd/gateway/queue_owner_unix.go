//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// notOurs refuses to work as root on a store that belongs to somebody else:
// what root writes there the gateway, which runs as that user, could not open.
func notOurs(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return nil // opening it tells more
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && s.Uid != 0 {
		return &problem{fmt.Errorf("the store %s belongs to user %d, and its gateway could not open what root writes there", dir, s.Uid), "run this as that user"}
	}
	return nil
}
