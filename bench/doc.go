// Package bench is the self-test: it measures this machine, this network and a
// gateway on it, and says how far its own figures can be believed.
//
// It judges from outside. What is measured runs in another process and is
// reached through sockets, as callers reach it: the package knows the octets of
// SOAP, HTTP and framed TCP and nothing of the proxy or the queue. What it needs
// of them for a measure (a sender of the product, a look-up in a table of
// routes) the command hands it as a function.
//
// # From a scenario to a row
//
// A [Scenario] can do one thing over and over: start what it needs, do one run,
// stop. A [Runner] repeats it: one cold pass, which is shown and never averaged,
// then runs, then more of them while they disagree. During a run a [Meter] holds
// the clock, the histograms, the errors and what both sides cost in CPU time,
// system calls and context switches. The outcome is a [Test], a row of [Results]:
// what was measured, every run, the limit that this machine sets, how near the
// row came to it, what held it back, and a [Verdict].
//
// # What makes a figure true
//
//   - In a closed loop the next request waits for the reply before. Its time is
//     that of a service, not of a user, and says nothing of what a crowd would
//     see: its rows say "closed".
//   - In an open loop a request has a time at which it is due. Its latency counts
//     from there, also when the sender came late because the reply before had not
//     come. Lateness that is the sender's own fault is kept apart and makes a run
//     void when it is too large.
//   - Every reply is looked at: the counter of the request must come back. A fault
//     or another body is an error, however fast it was.
//   - Little's law must hold: the callers are the rate times the time of a cycle.
//   - A run during which others used the machine is marked with how much.
//   - Runs that differ by more than 5 % are repeated; if that does not help, the
//     row is INVALID. No run is dropped.
//
// # Values and concurrency
//
// Results are plain values and are written as JSON in schema 1
// (results.schema.json). A Meter may be used by any number of goroutines; all
// else belongs to one at a time. Every goroutine that a scenario starts has ended
// when its method returns, and every process that a [Lab] has started is gone
// when it is closed.
package bench
