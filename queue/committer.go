package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	groupCount = 1024    // records of one group at most
	groupBytes = 8 << 20 // and their octets, once one record is in
	waitCount  = 8192    // records that may wait for a group
	waitBytes  = 128 << 20

	// idleSync is how long something may be written without being synced.
	idleSync = time.Second
	// ackTimeout is how long the server may take to acknowledge a record; then
	// nobody knows what became of it, and the store is given up.
	ackTimeout = 10 * time.Second
)

// job is one change of the store on its way through the committer.
type job struct {
	rec  record
	size int
	msg  *Message     // of a Put: told to onCommit
	call func() error // in place of a record: a request to the server

	urgent bool // sync for it at once; otherwise within idleSync
	early  bool // answer as soon as it is written, before it is durable

	next  *job // to be written once this one is, and not otherwise
	begun bool // it is in a group, in line for one, or refused

	seq  uint64
	err  error
	done chan struct{}
}

// record is what the log beneath the committer is asked to append.
type record struct {
	subject, name, header string
	data                  []byte
}

// appender is the log beneath a committer. Appends are acknowledged out of
// band, so that many are under way at once.
type appender interface {
	// append starts to write r, which is record slot of its group.
	append(slot int, r record) error
	// acks delivers the outcome of every append.
	acks() <-chan ack
	// healthy reports an error that the log knows of by itself.
	healthy() error
}

type ack struct {
	slot int
	seq  uint64
	err  error // definite: the record was not written
}

// committer makes records durable in groups: it appends what is waiting, also
// what comes while acknowledgements are awaited, then syncs the disk once, then
// answers. What arrives during the sync is the next group, so that groups grow
// with the load and a lone caller waits for nothing. A job that follows another is
// appended once that is acknowledged, so that it is in no log without it.
//
// Invariant: a job is answered only by a sync that began after the server had
// acknowledged its record, and onCommit was called for it before, in the order
// of the sequence numbers. After one failed sync there is never another: the
// kernel may have dropped the pages and would report success.
type committer struct {
	log      appender
	sync     func() error // nil where an acknowledgement is as good as a sync
	failed   func(error)
	observer StoreObserver
	onCommit func(uint64, *Message)
	stored   func(*job)                   // of each message, before onCommit; may be nil
	seal     func(record) (record, error) // what is written of it; may be nil

	in       chan *job
	bytes    atomic.Int64 // of the jobs that wait
	stopping chan struct{}
	gone     chan struct{} // closed when run has returned
	stop     sync.Once

	durable atomic.Uint64 // highest sequence of the log that is durable

	// Of the goroutine in run only:
	group   []*job
	line    []*job    // those before them are written, and the group had no room for more
	lazy    []*job    // written, waiting for the next sync
	owed    time.Time // since when something has not been synced, if any
	unsaved int       // messages written since the last sync
	broken  error
}

func newCommitter(log appender, sync func() error, failed func(error), o StoreObserver) *committer {
	return &committer{
		log: log, sync: sync, failed: failed, observer: o,
		in:       make(chan *job, waitCount),
		stopping: make(chan struct{}), gone: make(chan struct{}),
		group: make([]*job, 0, groupCount),
	}
}

// submit hands j over, with all that are to follow it; ErrFull if too much is waiting
// already, ErrClosed.
func (c *committer) submit(j *job) error {
	size := int64(0)
	for k := j; k != nil; k = k.next {
		k.done = make(chan struct{})
		size += int64(k.size)
	}
	select {
	case <-c.stopping:
		return ErrClosed
	default:
	}
	if c.seal != nil {
		for k := j; k != nil; k = k.next {
			var err error
			if k.rec, err = c.seal(k.rec); err != nil {
				return err
			}
		}
	}
	if c.bytes.Add(size) > waitBytes && j.msg != nil {
		c.bytes.Add(-size)
		return fmt.Errorf("%w: too much is waiting for the disk", ErrFull)
	}
	if j.msg == nil { // bookkeeping is never turned away for load
		select {
		case c.in <- j:
			return nil
		case <-c.gone:
			c.bytes.Add(-size)
			return ErrClosed
		}
	}
	select {
	case c.in <- j:
		return nil
	default:
		c.bytes.Add(-size)
		return fmt.Errorf("%w: too much is waiting for the disk", ErrFull)
	}
}

// do hands j over and waits for its outcome.
func (c *committer) do(ctx context.Context, j *job) error {
	if err := c.submit(j); err != nil {
		return err
	}
	return c.await(ctx, j)
}

// await waits for the outcome of a job that was handed over.
func (c *committer) await(ctx context.Context, j *job) error {
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	case <-c.gone:
	}
	select {
	case <-j.done:
		return j.err
	default: // came after the last group: nothing looked at it
		return ErrClosed
	}
}

// close lets run finish what was submitted, sync, and return.
func (c *committer) close() {
	c.stop.Do(func() { close(c.stopping) })
	<-c.gone
}

func (c *committer) run() {
	defer close(c.gone)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if len(c.line) > 0 {
			first := c.line[0]
			c.line = c.line[1:]
			c.commit(first)
			continue
		}
		var first *job
		var idle <-chan time.Time
		if !c.owed.IsZero() {
			timer.Reset(time.Until(c.owed.Add(idleSync)))
			idle = timer.C
		}
		select {
		case first = <-c.in:
		case <-idle:
			c.flush()
			continue
		case <-c.stopping:
			select {
			case first = <-c.in:
			default:
				c.flush()
				return
			}
		}
		if c.broken != nil {
			c.refuse(first, fmt.Errorf("%w: %w", ErrClosed, c.broken))
			continue
		}
		c.commit(first)
	}
}

// refuse answers a job of which nothing was written, and all that were to follow it.
func (c *committer) refuse(j *job, err error) {
	for ; j != nil; j = j.next {
		c.bytes.Add(-int64(j.size))
		j.begun, j.err = true, err
		close(j.done)
	}
}

// commit appends first and what is waiting behind it, and answers.
func (c *committer) commit(first *job) {
	c.group = c.group[:0]
	err := c.write(first)
	urgent, written := false, false
	for _, j := range c.group {
		if j.err == nil {
			written = true
			urgent = urgent || j.urgent
		}
	}
	if err != nil {
		c.breakDown(err)
		return
	}
	if written && c.owed.IsZero() {
		c.owed = time.Now()
	}
	for _, j := range c.group {
		if j.msg != nil && j.err == nil {
			c.unsaved++
		}
	}
	if (urgent || c.sync == nil) && written {
		if err := c.syncNow(); err != nil {
			c.breakDown(err)
			return
		}
	}
	// Everything in order of the log first, then the answers: whoever hears of
	// a later message finds the earlier ones known.
	for _, j := range c.group {
		if j.msg != nil && j.err == nil {
			c.durable.Store(j.seq)
			if c.stored != nil {
				c.stored(j)
			}
			if c.onCommit != nil {
				c.onCommit(j.seq, j.msg)
			}
		}
	}
	synced := c.owed.IsZero()
	for _, j := range c.group {
		if j.err == nil && !synced && !j.early {
			c.lazy = append(c.lazy, j)
			continue
		}
		close(j.done)
	}
	clear(c.group)
}

// write appends records until none is unacknowledged or the group is full. An
// error means that the fate of at least one record is not known.
func (c *committer) write(first *job) error {
	open, octets := 0, 0
	full := func() bool { return len(c.group) == cap(c.group) || octets >= groupBytes }
	start := func(j *job) error {
		c.bytes.Add(-int64(j.size))
		j.begun = true
		c.group = append(c.group, j)
		octets += j.size
		if j.call != nil {
			j.err = j.call()
			return nil
		}
		if j.rec.subject == "" {
			return nil // asks for a sync only
		}
		if err := c.log.append(len(c.group)-1, j.rec); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		open++
		return nil
	}
	if err := start(first); err != nil {
		return err
	}
	for len(c.line) > 0 && !full() {
		j := c.line[0]
		c.line = c.line[1:]
		if err := start(j); err != nil {
			return err
		}
	}
	// One timer per group; health is looked at while acknowledgements are late,
	// because a log that can not write any more may simply stay silent.
	// Ticks are counted and not time: a process that is frozen, as on a paused
	// machine, misses them, and has not waited in vain.
	const patience = 20
	late := time.NewTicker(ackTimeout / patience)
	defer late.Stop()
	quiet := 0
	for {
		in := c.in
		if full() {
			in = nil
		}
		if open == 0 {
			select {
			case j := <-in:
				if err := start(j); err != nil {
					return err
				}
				continue
			default:
				return nil
			}
		}
		select {
		case a := <-c.log.acks():
			if a.slot < 0 || a.slot >= len(c.group) {
				return fmt.Errorf("acknowledgement of record %d in a group of %d", a.slot, len(c.group))
			}
			open--
			quiet = 0
			j := c.group[a.slot]
			j.seq, j.err = a.seq, a.err
			if a.err != nil && !errors.Is(a.err, ErrFull) && !errors.Is(a.err, ErrTooLarge) {
				return a.err
			}
			switch next := j.next; {
			case next == nil:
			case a.err != nil:
				c.refuse(next, ErrBehind)
			case full():
				next.begun = true
				c.line = append(c.line, next)
			default:
				if err := start(next); err != nil {
					return err
				}
			}
		case j := <-in:
			if err := start(j); err != nil {
				return err
			}
		case <-late.C:
			if err := c.log.healthy(); err != nil {
				return err
			}
			if quiet++; quiet >= patience {
				return fmt.Errorf("%d records are not acknowledged after %v", open, ackTimeout)
			}
		}
	}
}

// syncNow makes everything durable that was written before.
func (c *committer) syncNow() error {
	if c.sync != nil {
		began := time.Now()
		if err := c.sync(); err != nil {
			return &syncError{err}
		}
		c.observer.Synced(time.Since(began), c.unsaved)
	}
	c.unsaved = 0
	c.owed = time.Time{}
	for _, j := range c.lazy {
		close(j.done)
	}
	clear(c.lazy)
	c.lazy = c.lazy[:0]
	return nil
}

// flush syncs if something is not.
func (c *committer) flush() {
	if c.owed.IsZero() || c.broken != nil {
		c.owed = time.Time{}
		return
	}
	if err := c.syncNow(); err != nil {
		c.group = c.group[:0]
		c.breakDown(err)
	}
}

// breakDown ends the trust in the store: whatever is under way has an unknown
// outcome, whatever comes later is refused.
func (c *committer) breakDown(err error) {
	c.broken = err
	c.owed = time.Time{}
	c.failed(err)
	for _, j := range append(c.group, c.lazy...) {
		if j.err == nil || !errors.Is(j.err, ErrFull) && !errors.Is(j.err, ErrTooLarge) {
			j.err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		close(j.done)
		if j.next != nil && !j.next.begun {
			c.refuse(j.next, fmt.Errorf("%w: %w", ErrClosed, err))
		}
	}
	for _, j := range c.line {
		c.refuse(j, fmt.Errorf("%w: %w", ErrClosed, err))
	}
	clear(c.group)
	c.group, c.lazy, c.line = c.group[:0], nil, nil
}
