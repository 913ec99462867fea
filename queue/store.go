package queue

import (
	"context"
	"errors"
	"time"
)

// The reasons for which a store refuses or fails.
var (
	// ErrFull: the store has no room; nothing was kept.
	ErrFull = errors.New("queue: store is full")
	// ErrTooLarge: the message is larger than a store can keep; nothing was kept.
	ErrTooLarge = errors.New("queue: message is too large to be stored")
	// ErrUnknown: whether the message was kept is not known. The caller may send it again under the same id.
	ErrUnknown = errors.New("queue: outcome unknown")
	// ErrClosed: the store is closed or closing; nothing was kept.
	ErrClosed = errors.New("queue: store is closed")
	// ErrNotFound: there is no such message.
	ErrNotFound = errors.New("queue: no such message")
	// ErrCorrupt: a message can not be read as it was written.
	ErrCorrupt = errors.New("queue: message is damaged")
	// ErrBehind: the message before it, without which it must not be kept, was not; nor is it.
	ErrBehind = errors.New("queue: the message before it was not kept")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("queue: store is in use by another process")
)

// Store is the durable side of a queue: the log of accepted messages, the dead
// letters, the attempts made so far, replies, what is awaited of other sites, and a few small states. Its methods may be
// called from many goroutines. The embedded store and its in-memory twin pass
// one contract suite.
type Store interface {
	// NewBlob begins the body of a message that is not to be held in memory; size
	// is how many octets are expected, -1 if that is not known. ErrFull, ErrClosed.
	NewBlob(size int64) (BlobWriter, error)

	// Put appends m and returns once it is durable. Calls that wait at the same
	// time share one sync of the disk. Before it returns, and in the order of the
	// sequence numbers, the function given to OnCommit has been called. m belongs to
	// the store: a large Body becomes a Blob. The Blob may be one of NewBlob, that of
	// a message that the store still has, or one from elsewhere, which is copied.
	// A message that follows from another may take what KeepReply may.
	// Errors: ErrFull, ErrTooLarge, ErrClosed (definite), ErrUnknown; for a Blob
	// also ErrNotFound, when the store has forgotten it, and those of its Open.
	Put(ctx context.Context, m *Message) (seq uint64, err error)

	// PutAll is Put for many messages, which share a sync; the errors are theirs, nil for
	// each that is kept. One that is Behind the one before it follows that in the log, and
	// is written only once that is: if that is not kept the error is ErrBehind, definite,
	// and where nobody knows of that one nobody may know of this one.
	PutAll(ctx context.Context, ms []*Message) []error

	// OnCommit registers the function that is told of every durable message; call it once, before the first Put.
	OnCommit(func(seq uint64, m *Message))

	// Get reads one message; its Blob is read when it is opened. ErrNotFound, ErrCorrupt.
	Get(seq uint64) (*Message, error)

	// Remove forgets messages that were delivered, buried or dropped. It is
	// durable with the next sync, not at once: after a crash a message may be there again.
	Remove(seqs ...uint64) error

	// RemoveKnown is Remove for a message with an identity. What became of it is
	// kept until k.Until, and is durable before the message is forgotten, so that
	// no crash loses both.
	RemoveKnown(seq uint64, k Known) error
	// KeepKnown keeps what became of messages that are not in the log, and
	// returns once that is durable.
	KeepKnown(ctx context.Context, k ...Known) error
	// ScanKnown calls f for all that RemoveKnown and KeepKnown have kept, the
	// older before the newer for one message; it may call it for what is over.
	ScanKnown(ctx context.Context, f func(Known) error) error

	// Scan calls f in order for every message in the log at the time of the call, without its Meta and body; size is that of the body.
	Scan(ctx context.Context, f func(seq uint64, m *Message, size int64) error) error

	// Bury keeps a dead letter under its message's id, replacing an older one, and returns once it is durable; its Blob is taken as by Put. It does not remove the message from the log.
	Bury(ctx context.Context, d *DeadLetter) error
	// ScanDead calls f for each dead letter, without Meta, body and Reply, in order of ids; size is that of the body.
	ScanDead(ctx context.Context, f func(d *DeadLetter, size int64) error) error
	// Dead reads one. ErrNotFound.
	Dead(id string) (*DeadLetter, error)
	// Unbury forgets dead letters; durable when it returns.
	Unbury(ctx context.Context, ids ...string) error

	// SaveAttempts replaces what is known of a message's attempts; durable with the next sync (≤ 1 s). An empty list forgets.
	SaveAttempts(id string, a []AttemptRecord) error
	// Attempts returns what SaveAttempts kept for one message, nil if nothing.
	Attempts(id string) ([]AttemptRecord, error)

	// ScanAttempts calls f for every message that has attempts.
	ScanAttempts(ctx context.Context, f func(id string, a []AttemptRecord) error) error

	// KeepReply keeps the answer to a message and returns once it is durable; an
	// older one of the same message does not count any more. Replies may take
	// what is kept for dead letters, and half of what is to stay free on the disk:
	// they must not stop what drains the store.
	// Errors: ErrFull, ErrTooLarge, ErrClosed (definite), ErrUnknown.
	KeepReply(ctx context.Context, r *Reply) error
	// Reply reads one, also for about an hour after it has expired; then it is
	// forgotten. ErrNotFound, ErrCorrupt.
	Reply(id string) (*Reply, error)

	// KeepAwaited keeps what is awaited of another site and returns once it is durable;
	// an older one of the same message does not count any more. It may take what
	// KeepReply may.
	// Errors: ErrFull, ErrTooLarge, ErrClosed (definite), ErrUnknown.
	KeepAwaited(ctx context.Context, a *Awaited) error
	// Awaited reads one. ErrNotFound, ErrCorrupt.
	Awaited(id string) (*Awaited, error)
	// ScanAwaited calls f for each.
	ScanAwaited(ctx context.Context, f func(*Awaited) error) error
	// ForgetAwaited forgets one; durable when it returns.
	ForgetAwaited(ctx context.Context, id string) error

	// SetKeepDelivered says how long messages stay that were delivered; 0 forgets
	// all of them. It may be called at any time.
	SetKeepDelivered(keep time.Duration) error
	// KeepDelivered keeps a message that was delivered, at Died, in the form of a
	// dead letter; its Body is in memory. It is a help for people: it promises nothing, does not wait, and
	// gives way to all else that needs room. Nil where nothing is kept.
	KeepDelivered(d *DeadLetter) error
	// ScanDelivered calls f for those that are kept, without Meta, Body and Reply, in the order
	// of their delivery, from a number on; one message may be among them more than
	// once. An error of f ends it and is returned.
	ScanDelivered(ctx context.Context, from uint64, f func(seq uint64, d *DeadLetter, size int64) error) error
	// Delivered reads the latest of a message. ErrNotFound.
	Delivered(id string) (*DeadLetter, error)
	// ForgetDelivered forgets all of a message; durable when it returns.
	ForgetDelivered(ctx context.Context, id string) error

	// SaveState keeps a small named value (empty = forget) and returns once it is durable; State reads it, nil if there is none.
	SaveState(ctx context.Context, name string, value []byte) error
	State(name string) ([]byte, error)

	// Sync returns once everything that was written before is durable.
	Sync(ctx context.Context) error

	// Info describes the store.
	Info() Info

	// Failed is closed when the store can not be trusted any more (a sync or write error); Err then tells why. Every Put fails from then on.
	Failed() <-chan struct{}
	Err() error

	// Close syncs, marks the stop as clean and lets go of the lock. No call may be under way.
	Close() error
}

// Info describes a store.
type Info struct {
	ID    string // given when the store was made
	Epoch uint64 // higher at each opening, and after a restore than it ever was
	// Clean says that the last stop was orderly. If it was not, everything in the log may have been sent already.
	Clean      bool
	Dir        string // absolute; empty in memory
	Messages   uint64
	Bytes      uint64
	Opened     time.Time
	Durability string // strict or relaxed
}
