// Package selftest runs the self-test of this program (package bench) for the
// operator of a gateway that is at work, and keeps the last reports.
//
// # Apart
//
// A self-test is a process of its own, `gateway bench`, with a folder of its own: it
// starts gateways of its own there, and nothing of the one at work is touched but the
// machine, which it loads. It gets no configuration and, of the environment, only what
// a process needs to run. One runs at a time, for a time that is bounded; then, when it
// is cancelled, or when the gateway stops, it is asked to stop and in the end killed.
// On Linux it does not outlive a gateway that was killed.
//
// # Reports
//
//	DIR/ID/report.json   a [Report]
//	DIR/ID/results.json  the results as bench writes them (bench/results.schema.json)
//	DIR/ID/report.html   the same as one page
//	DIR/ID/work          stores and configurations of the self-test; gone at its end
//
// An ID begins with the time of the start, so that names sort by age. The last
// [Options.Keep] are kept. A folder without a report is what a killed gateway has left:
// the next start removes it.
//
// # Concurrency
//
// All methods may be called at any time. [Runner.Run] is the part of a process that
// owns the goroutine of a self-test: without it none is started.
package selftest
