package enrol

// syncDir has nothing to do: NTFS keeps names by its journal.
func syncDir(string) error { return nil }
