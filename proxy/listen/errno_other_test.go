//go:build !unix

package listen

// errTooManyFiles stands for what the system says when it has no descriptor.
const errTooManyFiles = temporaryError("too many open files")

type temporaryError string

func (e temporaryError) Error() string { return string(e) }
func (temporaryError) Temporary() bool { return true }
