package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Embedded is a [Store] in a directory of this machine, kept by a JetStream
// server inside the process. It is safe for use by many goroutines.
type Embedded struct {
	opt      StoreOptions
	dir      string
	lock     *os.File
	js       *js
	commit   *committer
	syncDone func() error
	identify sync.Mutex // id and store.json
	id       identity
	info     Info
	keys     keyring
	trim     *trimmer
	twins    *twins // nil where nothing has to be synced, or nothing is written
	blobs    *blobDir
	follows  follows
	opened   uint64 // last sequence of the log when it was opened

	used     atomic.Int64 // octets of all streams, as last told, plus what came since
	messages atomic.Int64
	limit    int64 // for used
	room     atomic.Pointer[room]
	started  time.Time // waits are monotonic
	life     context.Context
	end      context.CancelFunc

	replies       replyHours
	done          doneStream
	attempts      sync.Map    // id -> sequence in GW_STATE of its attempts, as far as known
	attemptsKnown atomic.Bool // all of them are

	closing  atomic.Bool
	failOnce sync.Once
	failed   chan struct{}
	err      error // set before failed is closed
	// What the start has found damaged or missing, and the files that a scrub
	// has kept since.
	foundMu   sync.Mutex
	found     []Damage
	keptFiles sync.Map
	run       sync.WaitGroup
}

var _ Store = (*Embedded)(nil)

// OpenEmbedded opens the store in o.Dir, or makes it. It takes the store's
// lock, starts the server, and reads nothing of the messages: [Embedded.Scan]
// does. It fails with [ErrLocked] while another process has the store open,
// with [ErrNoStore] if it was to inspect one that does not exist, and rather
// than touching anything it does not understand.
func OpenEmbedded(o StoreOptions) (_ *Embedded, err error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := CheckDir(o.Dir, o.Durability); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Inspect {
		err = hasStore(dir)
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	s := &Embedded{opt: o, dir: dir, failed: make(chan struct{}), started: time.Now()}
	s.life, s.end = context.WithCancel(context.Background())
	var undo []func()
	defer func() {
		if err != nil {
			if s.lacksRoom(err) && !errors.Is(err, ErrNoRoom) {
				err = fmt.Errorf("%w: %w", ErrNoRoom, err)
			}
			s.end()
			s.closing.Store(true)
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = s.lock.Close() })
	if err := finishRestore(dir, o.Log); err != nil {
		return nil, err
	}
	s.openReserve()
	if s.id, err = readIdentity(dir); err != nil {
		return nil, err
	}
	found := s.id.Streams
	if !found {
		if _, e := os.Stat(filepath.Join(dir, "jetstream", "$G", "streams", streamLog)); e == nil {
			o.Log.Warn("store.json is missing or was written before the streams: their content is taken over", "dir", dir)
			s.id.Clean, found = false, true
		}
	}
	if err := s.id.seal(o.Keys, found); err != nil {
		return nil, fmt.Errorf("%w (%s)", err, dir)
	}
	check := &startCheck{dir: dir, id: &s.id, log: o.Log, observer: o.Observer}
	if err := check.run(); err != nil {
		return nil, err
	}
	if s.found = check.found; len(s.found) > 0 {
		s.id.Clean = false // what says that a message is in doubt may be lost
	}
	s.id.Doubt = s.id.Doubt || len(check.found) > 0 || len(check.remade) > 0
	s.info = Info{ID: s.id.ID, Epoch: s.id.Epoch + 1, Clean: s.id.Clean, Dir: dir, Opened: time.Now(), Durability: o.Durability}
	counts := s.id.Counts
	s.id.Format = max(s.id.Format, Format) // an earlier program must not open what this one may write
	s.id.Epoch, s.id.Clean, s.id.Opened, s.id.Counts = s.info.Epoch, o.Inspect && s.id.Clean, s.info.Opened, nil
	if err := s.id.write(dir); err != nil {
		return nil, fmt.Errorf("queue: %s: %w", identityName, err)
	}

	// Before the server writes anything: see openSync.
	disk, done, err := openSync(dir)
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	s.syncDone = done
	undo = append(undo, func() { _ = done() })
	if disk != nil {
		disk = o.syncWith(disk)
	}
	if disk != nil {
		var syncs syncCount
		disk = syncs.count(disk)
		if !o.Inspect {
			s.twins = &twins{store: dir, log: o.Log, syncs: &syncs, stale: map[string]replaced{}}
		}
	}
	s.limit = o.MaxBytes / 100 * 95
	conf := &server.Options{
		ServerName: "soapway-" + s.id.ID, StoreDir: dir,
		// Bounds nothing: admit does, and each stream has a bound of its own. Without
		// it the server would take a share of what is free today; and it counts what
		// the streams were allowed by an earlier, perhaps far larger, MaxBytes.
		JetStreamMaxStore: math.MaxInt64 / 2,
	}
	if disk == nil {
		conf.SyncAlways, conf.SyncInterval = o.Durability == Strict, idleSync
	}
	if o.serve != nil {
		o.serve(conf)
	}
	if s.js, err = startServer(conf, o.Keys, o.Log, s.fail); err != nil {
		return nil, err
	}
	undo = append(undo, s.js.stop)
	s.js.footing = s.footing
	logInfo, err := s.openStreams(check.remade, counts)
	if err != nil {
		return nil, err
	}
	if err := s.openDone(); err != nil {
		return nil, err
	}
	if err := s.openKeys(); err != nil {
		return nil, err
	}
	if !s.id.Streams || !s.id.Replies {
		if disk != nil {
			if err := disk(); err != nil {
				return nil, err
			}
		}
		s.id.Streams, s.id.Replies = true, true
		if err := s.id.write(dir); err != nil {
			return nil, fmt.Errorf("queue: %s: %w", identityName, err)
		}
	}
	s.commit = newCommitter(s.js, disk, s.fail, o.Observer)
	s.commit.seal = func(r record) (record, error) { return s.js.keys.Load().sealRecord(r) }
	s.commit.durable.Store(logInfo.State.Last)
	s.messages.Store(int64(logInfo.State.Messages))
	eachSynced := disk == nil || o.Durability == Strict // else within idleSync, with all the rest
	if s.blobs, err = openBlobs(dir, eachSynced, s.roomForBlob, s.js.keys.Load, o.Log); err != nil {
		return nil, fmt.Errorf("queue: %s: %w", blobsName, err)
	}
	if len(s.found) > 0 || s.id.Doubt {
		s.doubtBodies()
	}
	s.twins.keep(allStreams...)
	if s.trim, err = openTrimmer(s, logInfo); err != nil {
		return nil, err
	}
	if err := s.openReplies(); err != nil {
		return nil, err
	}
	s.opened = s.commit.durable.Load()
	if err := s.SetKeepDelivered(o.KeepDelivered); err != nil {
		return nil, err
	}
	s.commit.stored = func(j *job) {
		s.trim.stored(j.seq, j.rec.subject)
		s.follows.stored(j.seq, j.msg)
		if b, ok := j.msg.Blob.(*storedBlob); ok {
			s.blobs.refs.logged(j.seq, b.name)
		}
	}
	s.run.Go(s.commit.run)
	s.run.Go(s.trim.run)
	s.run.Go(s.keys.run)
	s.run.Go(s.keepRoom)
	if !o.Inspect {
		s.run.Go(func() { s.scrubber(s.life) })
	}
	return s, nil
}

// openStreams opens the streams or makes them; remade are those to be made around
// blocks that are there. counts are the records that each had at the last orderly stop.
func (s *Embedded) openStreams(remade map[string]bool, counts map[string]uint64) (*streamInfo, error) {
	var octets uint64
	open := func(name string, most int64, must bool, subjects ...string) (*streamInfo, error) {
		i, err := s.js.openStream(server.StreamConfig{Name: name, Subjects: subjects, MaxBytes: most}, must && !remade[name])
		if err == nil {
			octets += i.State.Bytes
			s.lost(name, i, counts)
		}
		return i, err
	}
	// Each may take what the others leave: used is compared with the sum.
	info, err := open(streamLog, s.opt.MaxBytes, s.id.Streams, subjectLog+"*")
	if err != nil {
		return nil, err
	}
	if _, err := open(streamDead, s.opt.MaxBytes, s.id.Streams, subjectDead+"*"); err != nil {
		return nil, err
	}
	subjects := []string{subjectAttempt + "*", subjectState + "*", subjectMark, subjectGone + "*", subjectKnown + "*", subjectReplyHour + "*", subjectAwait + "*"}
	if _, err := open(streamState, -1, s.id.Streams, subjects...); err != nil {
		return nil, err
	}
	if _, err := open(streamReply, s.opt.MaxBytes, s.id.Replies, subjectReply+"*.*"); err != nil {
		return nil, err
	}
	s.used.Store(int64(octets))
	return info, nil
}

// measure learns from the server how much the store holds.
func (s *Embedded) measure() error {
	var octets int64
	for _, name := range s.streams() {
		i, err := s.js.info(name)
		if err != nil {
			return err
		}
		if name == streamDone {
			s.done.octets.Store(int64(i.State.Bytes))
			continue
		}
		octets += int64(i.State.Bytes)
	}
	s.used.Store(octets)
	s.boundDone()
	return nil
}

// counts learns from the server how many records each stream has; of one that it
// can not tell about the next start knows nothing to compare with.
func (s *Embedded) counts() map[string]uint64 {
	counts := map[string]uint64{}
	for _, name := range s.streams() {
		if name == streamDone {
			continue // they go without a note
		}
		i, err := s.js.info(name)
		if err != nil {
			s.opt.Log.Warn("the records of a stream can not be counted", "kind", holds(name), "err", err)
			continue
		}
		counts[name] = i.State.Messages
	}
	return counts
}

// fail ends the trust in the store, once.
func (s *Embedded) fail(err error) {
	if s.closing.Load() {
		return
	}
	s.failOnce.Do(func() {
		s.err = s.failure(err)
		close(s.failed)
		s.opt.Log.Error("the store can not be trusted any more and takes no messages", "dir", s.dir, "err", err)
		s.opt.Observer.StoreError(err)
	})
}

// failure is what an error that ends the trust in the store is told as.
func (s *Embedded) failure(err error) error {
	if s.lacksRoom(err) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return fmt.Errorf("queue: store failed: %w", err)
}

// Failed implements [Store].
func (s *Embedded) Failed() <-chan struct{} { return s.failed }

// Err implements [Store].
func (s *Embedded) Err() error {
	select {
	case <-s.failed:
		return s.err
	default:
		return nil
	}
}

// usable says why a call can not even begin.
func (s *Embedded) usable() error {
	if s.closing.Load() {
		return ErrClosed
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return nil
}

// OnCommit implements [Store]. f runs on the goroutine that makes messages
// durable, so it must not wait for another to become so.
func (s *Embedded) OnCommit(f func(seq uint64, m *Message)) { s.commit.onCommit = f }

// bounds are how much the store may hold with m, and how much of the disk must
// stay free.
func (s *Embedded) bounds(m *Message) (limit, free int64) {
	if m != nil && m.After != FateWaiting { // it must not stop what drains the store
		return s.opt.MaxBytes, s.watermark() / 2
	}
	return s.limit, s.watermark()
}

// roomForBlob refuses when so many octets more of the body of m would be too many;
// m is nil where it is not known.
func (s *Embedded) roomForBlob(size int64, m *Message) error {
	if err := s.usable(); err != nil {
		return err
	}
	limit, free := s.bounds(m)
	return s.admit(size, limit, free, size)
}

// NewBlob implements [Store].
func (s *Embedded) NewBlob(size int64) (BlobWriter, error) {
	w, err := s.blobs.create(size, nil)
	if err != nil {
		return nil, err // no typed nil
	}
	return w, nil
}

// Remove implements [Store].
func (s *Embedded) Remove(seqs ...uint64) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.trim.remove(seqs)
	return nil
}

// Bury implements [Store].
func (s *Embedded) Bury(ctx context.Context, d *DeadLetter) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.keys.renew.RLock()
	defer s.keys.renew.RUnlock()
	return s.bury(ctx, d)
}

func (s *Embedded) bury(ctx context.Context, d *DeadLetter) error {
	token, err := subjectToken(d.ID)
	if err != nil {
		return err
	}
	m := *d.Message
	blob, err := s.blobs.take(&m, maxData)
	if err != nil {
		return err
	}
	own := *d
	own.Message = &m
	replaces, err := s.buryRecord(ctx, subjectDead+token, &own)
	if err != nil {
		if blob != "" && !errors.Is(err, ErrUnknown) {
			s.blobs.release(blob)
		}
		return err
	}
	if replaces {
		if err := s.js.forget(streamDead, subjectDead+token, 1); err != nil {
			return err
		}
	}
	if old, gone := s.blobs.refs.buried(d.ID, blob); gone {
		s.blobs.remove(old)
	}
	return nil
}

// buryRecord keeps a dead letter whose body is where its record wants it, and
// reports whether there is an older one.
func (s *Embedded) buryRecord(ctx context.Context, subject string, d *DeadLetter) (replaces bool, err error) {
	header, data, err := encodeDead(d)
	if err != nil {
		return false, err
	}
	rec := record{subject, headerDead, header, data}
	size := s.sizeOf(&rec)
	if err := s.admit(int64(size), s.opt.MaxBytes, anyDisk, 0); err != nil {
		return false, err
	}
	_, err = s.js.get(streamDead, 0, rec.subject)
	replaces = !errors.Is(err, ErrNotFound)
	if err := s.commit.do(ctx, &job{rec: rec, size: size, urgent: true}); err != nil {
		return replaces, err
	}
	s.used.Add(int64(size))
	return replaces, nil
}

// Unbury implements [Store].
func (s *Embedded) Unbury(ctx context.Context, ids ...string) error {
	if err := s.usable(); err != nil {
		return err
	}
	subjects := make([]string, len(ids))
	for i, id := range ids {
		token, err := subjectToken(id)
		if err != nil {
			return err
		}
		subjects[i] = subjectDead + token
	}
	s.keys.renew.RLock()
	defer s.keys.renew.RUnlock()
	err := s.commit.do(ctx, &job{urgent: true, call: func() error {
		for _, subject := range subjects {
			if err := s.js.forget(streamDead, subject, 0); err != nil {
				return err
			}
		}
		s.trim.poke() // room was made
		return nil
	}})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if name, gone := s.blobs.refs.unburied(id); gone {
			s.blobs.remove(name)
		}
	}
	return nil
}

// SaveAttempts implements [Store].
func (s *Embedded) SaveAttempts(id string, a []AttemptRecord) error {
	if err := s.usable(); err != nil {
		return err
	}
	token, err := subjectToken(id)
	if err != nil {
		return err
	}
	if len(a) == 0 {
		if seq, ok := s.attempts.LoadAndDelete(id); ok {
			s.trim.forget(seq.(uint64)) // with the next pass: one request for each message that was tried twice is dear
			return nil
		}
		if s.attemptsKnown.Load() {
			return nil
		}
		_, seq, err := s.value(subjectAttempt + token)
		if seq != 0 { // also one that can not be read
			s.trim.forget(seq)
			return nil
		}
		return err
	}
	data, err := attemptsJSON(a)
	if err != nil {
		return err
	}
	j := &job{rec: record{subjectAttempt + token, headerValue, encodeValue(id, data), data}, size: recordOverhead + len(data), early: true}
	if err := s.commit.do(context.Background(), j); err != nil {
		return err
	}
	if old, ok := s.attempts.Swap(id, j.seq); ok {
		s.trim.forget(old.(uint64))
	} else if !s.attemptsKnown.Load() {
		return s.js.forget(streamState, subjectAttempt+token, 1)
	}
	return nil
}

// Attempts implements [Store].
func (s *Embedded) Attempts(id string) (a []AttemptRecord, err error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	token, err := subjectToken(id)
	if err != nil {
		return nil, err
	}
	b, _, err := s.value(subjectAttempt + token)
	if err != nil || b == nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("%w: attempts of %s: %w", ErrCorrupt, cut(id, 100), err)
	}
	return a, nil
}

// ScanAttempts implements [Store].
func (s *Embedded) ScanAttempts(ctx context.Context, f func(id string, a []AttemptRecord) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	latest := make(map[string][]AttemptRecord)
	err := s.js.values(ctx, subjectAttempt+"*", func(r scanned) error {
		id, err := decodeValue(r.header(headerValue), r.msg.Data)
		var a []AttemptRecord
		if err == nil {
			err = json.Unmarshal(r.msg.Data, &a)
		}
		if err != nil { // costs a count, no message
			s.opt.Log.Error("attempts of a message can not be read", "subject", r.subject, "err", err)
			return nil
		}
		old, ok := s.attempts.Swap(id, r.seq)
		switch {
		case ok && old.(uint64) > r.seq: // written since the scan began
			s.attempts.Store(id, old)
			s.trim.forget(r.seq)
		case ok && old.(uint64) < r.seq:
			s.trim.forget(old.(uint64))
		}
		latest[id] = a
		return nil
	})
	if err != nil {
		return err
	}
	s.attemptsKnown.Store(true)
	for id, a := range latest {
		if err := f(id, a); err != nil {
			return err
		}
	}
	return nil
}

// SaveState implements [Store].
func (s *Embedded) SaveState(ctx context.Context, name string, value []byte) error {
	if err := s.usable(); err != nil {
		return err
	}
	if len(value) > maxData {
		return fmt.Errorf("%w: a state of %d octets", ErrTooLarge, len(value))
	}
	s.keys.renew.RLock()
	defer s.keys.renew.RUnlock()
	return s.saveState(ctx, name, value)
}

func (s *Embedded) saveState(ctx context.Context, name string, value []byte) error {
	subjects, err := s.js.keys.Load().stateSubjects(name)
	if err != nil {
		return err
	}
	if len(value) == 0 {
		return s.commit.do(ctx, &job{urgent: true, call: func() error {
			// The one that counts goes last: a crash must not bring an older one back.
			for _, subject := range slices.Backward(subjects) {
				if err := s.js.forget(streamState, subject, 0); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	j := &job{
		rec:    record{subjects[0], headerValue, encodeValue(name, value), append([]byte(nil), value...)},
		size:   recordOverhead + len(value),
		urgent: true,
	}
	if err := s.commit.do(ctx, j); err != nil {
		return err
	}
	for i, subject := range subjects {
		keep := uint64(0)
		if i == 0 {
			keep = 1
		}
		if err := s.js.forget(streamState, subject, keep); err != nil {
			return err
		}
	}
	return nil
}

// State implements [Store].
func (s *Embedded) State(name string) ([]byte, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	for {
		k := s.js.keys.Load()
		subjects, err := k.stateSubjects(name)
		if err != nil {
			return nil, err
		}
		// The first one once more: a state that is sealed anew meanwhile is there
		// before it is gone from the others.
		for _, subject := range append(subjects, subjects[0]) {
			if b, _, err := s.value(subject); b != nil || err != nil {
				return b, err
			}
			if len(subjects) == 1 {
				return nil, nil
			}
		}
		if s.js.keys.Load() == k {
			return nil, nil
		}
	}
}

// value reads the last value of a subject of GW_STATE and its sequence there,
// nil if there is none.
func (s *Embedded) value(subject string) (b []byte, seq uint64, err error) {
	m, err := s.js.get(streamState, 0, subject)
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err == nil {
		seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	}
	if err != nil {
		return nil, 0, err
	}
	if _, err := decodeValue(m.Header.Get(headerValue), m.Data); err != nil {
		return nil, seq, fmt.Errorf("%w: %s: %w", ErrCorrupt, subject, err)
	}
	return m.Data, seq, nil
}

// Sync implements [Store].
func (s *Embedded) Sync(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	return s.commit.do(ctx, &job{urgent: true})
}

// Info implements [Store].
func (s *Embedded) Info() Info {
	i := s.info
	i.Messages, i.Bytes = uint64(max(0, s.messages.Load())), uint64(max(0, s.holds()))
	return i
}

// Close implements [Store].
func (s *Embedded) Close() error {
	if s.closing.Swap(true) {
		return nil
	}
	s.end()
	s.trim.close() // its last pass goes through the committer
	s.commit.close()
	s.run.Wait()
	err := s.Err()
	if late := cmp.Or(s.commit.broken, s.trim.unnoted); err == nil && late != nil {
		err = s.failure(late) // fail hears nothing any more
	}
	var counts map[string]uint64
	if err == nil {
		counts = s.counts()
	}
	s.js.stop()
	// The server has written its last; the descriptor is still the first one,
	// so an error of any write since the start comes up here.
	if s.commit.sync != nil {
		switch {
		case err == nil:
			err = s.commit.sync()
		case errors.Is(err, ErrNoRoom):
			// No sync has failed so far. Only if this one does not either, all that
			// was accepted is on the disk, and the store may be opened again.
			if e := s.commit.sync(); e != nil {
				err = fmt.Errorf("queue: store failed: %v; then: %w", err, e)
			}
		}
	}
	if err == nil {
		err = s.identity(func(id *identity) { id.Clean, id.Counts = id.Clean || !s.opt.Inspect, counts })
	}
	if err == nil && s.twins != nil {
		err = removeTwins(s.dir)
	}
	if e := s.syncDone(); err == nil {
		err = e
	}
	if e := s.lock.Close(); err == nil {
		err = e
	}
	return err
}

// chunkSubject names the record of what is removed in chunk k.
func chunkSubject(k uint64) string { return subjectGone + strconv.FormatUint(k, 10) }

func chunkOf(subject string) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(subject, subjectGone), 10, 64)
}
