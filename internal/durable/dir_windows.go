package durable

// SyncDir does nothing: Windows offers no sync of a directory, and its rename
// is written through by the filesystem's own log.
func SyncDir(string) error { return nil }
