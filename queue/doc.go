// Package queue keeps messages until they are delivered.
//
// It owns durable acceptance, the turn of every waiting message, retries,
// circuits and dead letters. A message is bytes, a destination and an order to
// it: SOAP, HTTP and the meaning of an answer belong to the [Deliverer], which
// package proxy is in the product.
//
// # Parts
//
// A [Store] is the durable side: the log of accepted messages, dead letters,
// attempts, replies, small states. [Embedded] keeps them by a JetStream server inside
// the process, [Memory] is its twin for tests; one contract suite holds both.
// A [Queue] is the side that decides: an index in memory, and one dispatcher for
// all destinations.
//
//	Put ──→ committer: append the group, await, sync once ──→ OnCommit ──→ index ──→ dispatcher ──→ Deliverer
//	                                                                        ↑                         │
//	                        Scan, once at the start ────────────────────────┘      done, again, dead ←┘
//
// # Guarantees
//
// Put returns nil once the message is durable; from then on it is delivered or
// becomes a dead letter, through kill -9 and power cuts. Nothing is given to a
// Deliverer that is not durable. What may have been given before is marked as
// a possible duplicate: after an attempt whose outcome is not known, and, after
// a stop that was not clean, everything that waits. docs/guarantees.md argues
// each case.
//
// Messages of one lane are delivered one at a time in the order of their
// acceptance; those without a lane in no promised order, [Destination.Parallel]
// at once. The lane of a dead message stands still where its route asks for it.
// A message with an [Identity] is kept once within its window ([Queue.PutOnce]),
// whatever has become of it. A destination that is down has a clock of its own and charges no
// attempt to the messages that wait for it.
//
// The answer to a message ([Outcome.Keep]) is durable before the message goes, and
// what a crash brings back is looked up among the answers before it is given
// again; [Queue.Follow] tells a caller what has become of its message. A message
// may lead to another one, its answer on the way to somebody else ([Outcome.Next]):
// the same holds for that, and its id tells which message it follows from.
//
// # Errors
//
// Put fails definitely ([ErrFull], [ErrTooLarge], [ErrClosed]: nothing is kept
// and nothing will be delivered) or with [ErrUnknown]. A store that could not
// sync or write is never trusted again: see [Store.Failed]. One whose write found no
// room ([ErrNoRoom]) can be closed and opened again, as after a kill.
//
// # Format
//
// The octets on disk belong to JetStream; ours are subjects, headers and
// records, versioned by [Format] and drawn there.
//
//	store.dir/LOCK         flock of the process that has the store
//	store.dir/store.json   id, epoch, whether the last stop was clean, format, names of the keys that are needed
//	store.dir/jetstream/   GW_IN_00 (accepted messages), GW_DEAD, GW_STATE, GW_ANSWER, GW_DONE
//	store.dir/twins/       second names of the blocks in jetstream/, hard links; gone after an orderly stop
//	store.dir/restoring/   a store that a restore is making; restored/ is one that is whole and not yet in place
//	store.dir/replaced-*/  a store that a restore has set aside
//	store.dir/damaged-*/   files that were found damaged, as they were; nothing here reads or removes them
//	store.dir/blobs/       bodies of more than 1 MiB, a file each; records claim them
//	store.dir/reserve      zeros, given up when the disk is full
//
// With [StoreOptions.Keys] records and files are sealed: AES-256-GCM (NIST SP 800-38D,
// C2SP XAES-256-GCM) under keys derived from the one in use (RFC 5869). What is sealed
// with an older key can be read while that key is given; without a key that
// something is sealed with the store is not opened ([ErrKey]).
//
// # Bodies
//
// A body of up to 1 MiB stands in the record of its message, compressed (RFC 8878)
// from 16 KiB on where that makes it smaller. A larger one is a [Blob], a file that
// is durable before its record is: the record has its name, length and checksum.
// Nothing ever holds it in memory. The checksum of what goes to a destination is
// compared while it goes, and the last octets go only if it is right.
//
// # Concurrency
//
// Everything here may be called from many goroutines. The Queue has one lock;
// no call to a Store or a Deliverer is made under it, but for reading a state
// when a route is first seen.
package queue
