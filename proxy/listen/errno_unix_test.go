//go:build unix

package listen

import "syscall"

const errTooManyFiles = syscall.EMFILE
