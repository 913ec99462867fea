// Package faultlab breaks things under a gateway that stores messages, and
// judges by what its callers and its backends saw whether the promise of a 202
// was kept (SPEC.md §4). It has tests only, apart from this comment.
//
// # Parts
//
//   - Backends that answer by script, or not at all, and write every request
//     they get into a ledger. Before each can stand one who makes trouble on
//     the way.
//   - Senders that number their messages, and write what became of each into a
//     history: accepted, refused, answered, failed, or unknown.
//   - A gateway, which is the built binary and runs as a process, so that it
//     can be killed; its store lies on a real filesystem, which for power cuts
//     is an ext4 of its own on a loop device.
//   - One checker, a pure function from history and ledger to violations.
//
// History and ledger are kept by the process of the test, never on the disk
// that is cut off.
//
// # What is done
//
// TestFaults does everything to one gateway under load, in an order that is
// drawn: kill -9 and power cuts at moments that are aimed at by what shows in
// the store's files and in the log (a group in flight, a reply, a dead letter,
// notes, the trimming of the log, a circuit that opens, a start over a full
// store, an orderly stop); the gateway, or a backend, frozen; latency, resets,
// black holes, connections cut in a request, between request and reply, in a
// reply, slow readers, half-open and half-closed ones; a stranger who fills the
// disk, a neighbour who writes 200 MiB/s; EIO for syncfs and for a write of the
// log, a note or a reply; reloads; operators who pause, hold, flush, replay and
// drop. Its fifty backends come and go meanwhile, and one is down
// throughout. Then first starts are broken off, and two gateways with fifty
// backends tell what one dead backend costs the others.
//
// # What is checked
//
// An accepted message was taken by its backend at least once, or is a dead
// letter with a reason; a refused one was never seen by a backend. Every body
// arrives octet for octet. On a route that keeps order, a message is given to
// the backend only once every message that was accepted before it was sent has
// been taken. Whoever gets a message again although an earlier delivery may
// have been processed sees the mark, and gets it again only where something had
// been broken; on a route that delivers at most once nobody gets it again, and
// its dead letter says that the outcome is unknown. A message whose caller got
// the backend's answer, or a fault in its place, is not delivered afterwards.
// What is sent again under its id is one message, and is told what SPEC.md §4
// says: first as it happens, and in the end once more for what the senders
// remember. At the end, with everything healed, nothing is left waiting, and
// nobody had to help; on routes that keep replies each accepted message has its
// own, or is a dead letter.
//
// A request that its sender had given up before the backend came to read it may
// come after its own repeat: then it needs no mark.
//
// A power cut is FS_IOC_SHUTDOWN without a flush of the journal, then kill -9,
// unmount and mount. A device whose own cache lies is not modelled. A frozen
// backend is one that looks at nothing: for its peers that is a stopped process.
//
// TestLink has two gateways with a link between them (SPEC.md §6): two network namespaces
// with a veth pair, which is taken away and brought back, two disks, and a checker of its
// own, since what is judged there has passed two stores. TestLinkFaults does to such a
// pair what is not a cable or a kill: frames that vanish in one direction, black holes,
// ways of 2 s, a full disk of either side, certificates that expire, either store restored
// from a backup, clocks more than an hour apart, and a year of renewals. For the clocks
// the gateway is built with a package time whose wall clock can be shifted.
//
// TestLabCanFail breaks the promises, one after the other, and the checker has to
// say which.
//
// # Results
//
// The last line of a run is that of the checker over all, with four zeros; the
// lines before it say the seed and how often each fault was met. A run that
// fails leaves history, ledger, violations, the store, the log of all starts and
// the configuration in a folder that it names.
//
// # Flags
//
//   - -faults 60s: how long TestFaults goes on; without it, a few seconds, and
//     most of TestFullDisk is left out. However short, each fault is met once,
//     which takes a minute or two. TestFrozen asks for 2m; from 10m on the ratio
//     of latencies is asserted.
//   - -era 5m: how long TestFaults goes on before everything is healed, judged,
//     and begun anew with the same gateway and store.
//   - -versus: run TestVersusQueue, which measures; -waiting N: with so many
//     waiting messages for a start.
//   - -kills, -cuts: at least this many kill -9 and power cuts in TestFaults
//     and TestPowerCuts.
//   - -link N: messages of TestLink, and with it everything of TestLinkFaults, with up
//     to 2000 messages each; -flaps: how often TestLink takes the cable away.
//   - -outage N: messages of each run of TestOutageAndKill.
//   - -seed: of everything random; printed by every run. What happens at which
//     moment is the scheduler's, and no seed brings that back. With an even seed
//     the store of the storm is encrypted.
//
// Power cuts, tmpfs and injected errors need root and Linux, and the last strace:
// what is left out says so. The environment may name another binary to be
// judged: GATEWAY.
package faultlab
