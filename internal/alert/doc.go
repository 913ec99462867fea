// Package alert tells somebody of trouble by a webhook: once when a condition
// opens and once when it closes, and not once for each message or try.
//
// # Conditions
//
// A [Source] lists the conditions that hold; it is asked every few seconds. A
// condition is known by its kind and subject. It opens when it is listed, and
// closes when it has not been for [Options.Calm], so that one that comes and goes
// is one alarm. One that is back soon after it has closed needs twice as long the
// next time, up to [Options.MaxCalm]: what goes up and down all night is told a few
// times. Of what a source is not sure of, as while a store is still being read,
// nothing closes.
//
// # Notices
//
// Changes go out as one POST for all that are due (docs/operations.md has the
// document), and again with growing waits until an answer of success. What is
// told is noted in a file, so that a restart neither repeats an alarm nor forgets
// its end. An alarm that opens and closes while nobody can be told is not told.
//
// # Bounds
//
// At most [maxAlarms] alarms are known at a time and [maxNotice] stand in one
// document; texts are cut. One POST is under way at a time, and has
// [sendTimeout].
//
// A Watcher belongs to the goroutine of its Run.
//
// Specifications: RFC 9110 (POST, Retry-After is not looked at), RFC 8259.
package alert
