// Command xmlversus measures the codec beside what one could use instead, in one
// run: encoding/xml and gosax in Go; libxml2's SAX2, expat with namespaces and
// pugixml in C and C++ (peers/). It is a module of its own, so that none of them is a
// dependency of the gateway.
//
//	make versus WHAT=xml
//
// # How it measures
//
// Every contender parses from memory, uses all events with the names resolved as far as
// it can, and the values of attributes with references replaced. What it saw is
// counted, and a contender that counts otherwise than encoding/xml does is an
// error, not a figure. Where a parser knows no namespaces its line says so.
//
// Contenders live in three processes: this program in its usual build, in a build
// with the tag purego (no assembly), and the peers. The driver gives them slices of
// some milliseconds by turns, so that all of them meet the same machine, and takes the
// medians of many rounds. All are pinned to one core where taskset is at hand, and are
// charged the CPU time of their whole process, garbage collection included.
//
// Small documents come in many variants that differ in their values, or the branch
// predictor would learn one by heart.
//
// # What it prints
//
// The machine, a table in MB/s (10^6 octets), then one line for each promise:
//
//	name ratio must goal verdict
//
// A missed one is said and is no failure, since other work on the machine moves the
// figures; the exit status is 1 only where something could not be measured.
package main
