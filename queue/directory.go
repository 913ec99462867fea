package queue

import "fmt"

// A FilesystemError says that a strict store can not live on a filesystem of
// this kind.
type FilesystemError struct {
	Dir  string // absolute
	Kind string // such as tmpfs
}

// Error names the directory, the kind, and what can be done.
func (e *FilesystemError) Error() string {
	return fmt.Sprintf("queue: %s (use a directory on a local disk, or durability: relaxed)", e.Reason())
}

// Reason is the error without what can be done.
func (e *FilesystemError) Reason() string {
	return fmt.Sprintf("%s is on %s, where a sync does not prove that data is on the disk", e.Dir, e.Kind)
}

// FreeBytes is the room an unprivileged process has on the filesystem of dir.
func FreeBytes(dir string) (int64, error) { return freeBytes(dir) }
