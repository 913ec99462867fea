// Package lifecycle runs the long-lived parts of a process in order and stops
// them in reverse: listeners before the proxy that serves them, the proxy
// before the files below it.
//
// # Stopping
//
// A part is told to stop only when the part started after it is gone. The
// whole stop has one budget, [Options.Drain]; a part may use what the parts
// before it left over. When the budget is spent, or [Group.Cut] is called, the
// parts still there are cut: their second context is cancelled with a cause
// that tells which of the two it was ([ErrDrainSpent], [ErrCut]).
//
// # Errors
//
// A part that returns before it was told to stop ends the group, whether it
// returns an error or nil. [Group.Run] returns the errors of all parts, each
// prefixed with the part's name; a clean stop is nil. A part that panics takes
// the process down: nothing here hides a bug.
//
// # Concurrency
//
// Run waits for every goroutine that it started, without a limit: a part that
// ignores both of its contexts hangs the stop, which is a bug in that part.
package lifecycle
