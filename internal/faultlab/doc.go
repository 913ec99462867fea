// Package faultlab breaks things under a gateway that stores messages, and
// judges by what its callers and its backends saw whether the promise of a 202
// was kept (SPEC.md §4). It has tests only, apart from this comment.
//
// # Parts
//
//   - Backends that answer by script, or not at all, and write every request
//     they get into a ledger.
//   - Senders that number their messages, and write what became of each into a
//     history: accepted, refused, or unknown.
//   - A gateway, which is the built binary and runs as a process, so that it
//     can be killed; its store lies on a real filesystem, which for power cuts
//     is an ext4 of its own on a loop device.
//   - One checker, a pure function from history and ledger to violations.
//
// History and ledger are kept by the process of the test, never on the disk
// that is cut off.
//
// # What is checked
//
// An accepted message was taken by its backend at least once, or is a dead
// letter with a reason; a refused one was never seen by a backend. Every body
// arrives octet for octet. On a route that keeps order, a message is given to
// the backend only once every message that was accepted before it was sent has
// been taken. Whoever gets a message again although an earlier delivery may
// have been processed sees the mark, and gets it again only where something had
// been broken. At the end, with everything healed, nothing is left waiting, and
// nobody had to help; on routes that keep replies each accepted message has its
// own, or is a dead letter.
//
// A power cut is FS_IOC_SHUTDOWN without a flush of the journal, then kill -9,
// unmount and mount. A device whose own cache lies is not modelled.
//
// # Flags
//
//   - -faults 60s: how long TestFaults goes on; without it, a few seconds, and
//     TestFrozen and most of TestFullDisk are left out.
//   - -versus: run TestVersusQueue, which measures; -waiting N: with so many
//     waiting messages for a start.
//   - -kills, -cuts: at least this many kill -9 and power cuts in TestFaults
//     and TestPowerCuts.
//   - -outage N: messages of each run of TestOutageAndKill.
//   - -seed: of everything random; printed by every run. What happens at which
//     moment is the scheduler's, and no seed brings that back.
//
// The environment may name another binary to be judged: GATEWAY.
package faultlab
