package queue

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The durabilities of a store.
const (
	// Strict answers a Put after the disk was synced.
	Strict = "strict"
	// Relaxed answers a Put once the operating system has the message, and
	// syncs every second: a kill of the process loses nothing, a power cut up
	// to that second.
	Relaxed = "relaxed"
)

// StoreOptions configures [OpenEmbedded]. Dir is needed; every other field's
// zero value works.
type StoreOptions struct {
	// Dir is the store's directory; it is made if it is missing.
	Dir string

	// Durability is [Strict] (the default) or [Relaxed].
	Durability string

	// MaxBytes is how much the store may hold, as records are counted. 5 % of
	// it are kept for dead letters. Default 10 GiB.
	MaxBytes int64

	// MinFree is how much of the filesystem must stay free: below it messages
	// are refused, while deliveries and dead letters go on. Default 1 GiB;
	// negative means no watermark.
	MinFree int64

	// KeepDelivered is how long messages stay that were delivered, see
	// [Store].SetKeepDelivered. Default: they do not.
	KeepDelivered time.Duration

	// Inspect is for a tool that works on a stopped gateway's store and sends
	// nothing: the store must exist, and its next start is told what this one
	// was told about the last stop (Info.Clean), however the tool ends.
	Inspect bool

	// Keys encrypt what the store keeps. A store that was sealed is not opened
	// without the keys that it needs. Default: nothing is sealed.
	Keys *Keys

	// Log receives what an operator should know. Default: discard.
	Log *slog.Logger

	// Observer is told of syncs, errors and gaps. Default: nobody is.
	Observer StoreObserver

	// syncWith lets a test stand between the committer and the disk.
	syncWith func(real func() error) func() error
	// scrubEvery is the pause between two looks of a running store at itself.
	scrubEvery time.Duration
	// free lets a test say how much room the filesystem has.
	free func(dir string) (int64, error)
	// serve lets a test give the embedded server what no configuration gives it.
	serve func(*server.Options)
}

// A StoreObserver is told what happens in a store. Its methods are called from
// the store's own goroutines and must not block or call the store.
type StoreObserver interface {
	// Synced reports one sync of the disk: how long it took and how many
	// messages were made durable by it.
	Synced(took time.Duration, messages int)
	// StoreError reports an error after which the store is not trusted.
	StoreError(err error)
	// Gap reports messages, by their sequence numbers, that were in the log and
	// can not be read any more, though nothing removed them.
	Gap(from, to uint64)
	// Damage reports something else that is not as it was written, a [*Damage].
	Damage(err error)
}

type noObserver struct{}

func (noObserver) Synced(time.Duration, int) {}
func (noObserver) StoreError(error)          {}
func (noObserver) Gap(uint64, uint64)        {}
func (noObserver) Damage(error)              {}

func (o StoreOptions) withDefaults() StoreOptions {
	if o.Durability == "" {
		o.Durability = Strict
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 10 << 30
	}
	if o.MinFree == 0 {
		o.MinFree = 1 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.syncWith == nil {
		o.syncWith = func(real func() error) func() error { return real }
	}
	if o.scrubEvery == 0 {
		o.scrubEvery = scrubEvery
	}
	if o.free == nil {
		o.free = freeBytes
	}
	return o
}

func (o StoreOptions) validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("option Dir: got none, want a directory"))
	}
	if o.Durability != Strict && o.Durability != Relaxed {
		errs = append(errs, fmt.Errorf("option Durability: got %q, want %s or %s", o.Durability, Strict, Relaxed))
	}
	if o.MaxBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("option MaxBytes: got %d, want at least 1 MiB", o.MaxBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("queue: options: %w", err)
	}
	return nil
}

// CheckDir says why a store with this durability can not live in dir, which
// need not exist yet: then the nearest directory above it is looked at. Strict
// is refused, with a [FilesystemError], where a sync of the filesystem proves
// nothing.
func CheckDir(dir, durability string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if durability == Relaxed {
		return nil
	}
	at, err := nearestDir(abs)
	if err != nil {
		return err
	}
	if kind := unsafeFilesystem(at); kind != "" {
		return &FilesystemError{Dir: abs, Kind: kind}
	}
	return nil
}
