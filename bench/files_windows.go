package bench

// maxFiles is 0, not known: Windows has no such limit.
func maxFiles() uint64 { return 0 }
