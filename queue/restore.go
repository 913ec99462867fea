package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrNotEmpty: there is a store already, or what is left of one.
var ErrNotEmpty = errors.New("there is a store already")

// RestoreOptions configures [Restore]. Dir is needed.
type RestoreOptions struct {
	// Dir is the store's directory. It is made if it is missing.
	Dir string
	// Durability and MaxBytes are those of the store that will be opened there.
	Durability string
	MaxBytes   int64
	// Keys open what is sealed in the backup, and seal what is made of it.
	Keys *Keys

	// AtMostOnce says of a route whether its messages may be given to their
	// destination once only, and whether the route is known at all. Default: no
	// route is known.
	AtMostOnce func(route string) (once, known bool)

	// SetAside moves a store that is there into a directory replaced-TIME beside
	// it instead of refusing.
	SetAside bool

	// Log receives what an operator should know. Default: discard.
	Log *slog.Logger

	// Progress is told how many octets of how many are read, of both passes
	// over the file. Default: nobody is.
	Progress func(done, total int64)
}

// Restored says what a restore has made.
type Restored struct {
	Head   BackupHead   `json:"backup"`
	Counts BackupCounts `json:"counts"`
	// Unknown are the messages that were made dead letters, because they may
	// have been delivered after the backup and may not be delivered twice.
	Unknown int `json:"outcome_unknown"`
	// Dir is the store, Epoch its new one; Replaced is where the store that was
	// there has been moved, empty if there was none.
	Dir      string `json:"dir"`
	Epoch    uint64 `json:"epoch"`
	Replaced string `json:"replaced,omitempty"`
}

// Restore makes a store of a backup. The file is read to its end and checked before
// anything is touched. Then the store is made aside, and takes its place by one
// rename: a kill at any moment leaves no store, or the whole one, which the next
// start or restore puts in place. Records that are sealed in the backup are sealed anew,
// with the key in use.
//
// The store has the id of the one that was backed up and an epoch that none of its
// runs has had. Everything in it may have been delivered since: what waits and
// what is dead is marked as a possible duplicate, and what may be delivered once
// only becomes a dead letter. It must be run while no gateway has the directory
// open. Errors: [*BackupError], [ErrNotEmpty], [ErrLocked], [ErrKey], ErrFull.
func Restore(ctx context.Context, name string, o RestoreOptions) (_ *Restored, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.AtMostOnce == nil {
		o.AtMostOnce = func(string) (bool, bool) { return false, false }
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	if err := CheckDir(o.Dir, o.Durability); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("queue: restore: %s is no file that can be read twice", name)
	}
	r := &restore{opt: o, dir: dir, file: f, size: st.Size()}
	r.out.Dir = dir
	bodies := map[string]bool{}
	check := backupVisitor{
		file: func(f backupFile) error { bodies[filepath.Base(f.Path)] = true; return nil },
		record: func(rec record) error {
			rec, err := r.plain(rec)
			if err != nil {
				return err
			}
			c := claimed(&scanned{msg: &nats.Msg{Header: nats.Header{rec.name: []string{rec.header}}}})
			if c != nil && (!bodies[c.name] || c.key != "" && !o.Keys.has(c.key)) {
				return fmt.Errorf("%w: a message has its body in %s, which is not there or sealed with a key that was not given", ErrKey, c.name)
			}
			return nil
		},
	}
	if r.out.Head, r.out.Counts, err = readBackup(r.pass(ctx, 0), check); err != nil {
		return nil, err
	}
	if need := int64(r.out.Counts.Octets); o.MaxBytes > 0 && need > o.MaxBytes/100*95 {
		return nil, fmt.Errorf("%w: the backup has %d octets, and store.max_bytes is %d", ErrFull, need, o.MaxBytes)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if free, err := freeBytes(dir); err != nil || free < int64(r.out.Counts.Octets) {
		return nil, fmt.Errorf("%w: %d octets are free on the disk, the backup has %d (%v)", ErrFull, free, r.out.Counts.Octets, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := r.place(); err != nil {
		return nil, err
	}
	if err := r.make(ctx); err != nil {
		_ = os.RemoveAll(filepath.Join(dir, restoringName))
		return nil, err
	}
	return &r.out, r.commit()
}

// restore is one under way.
type restore struct {
	opt      RestoreOptions
	dir      string
	file     *os.File
	size     int64
	replaces bool // there is a store that is to be set aside
	out      Restored

	store   *Embedded
	open    []*job // under way
	octets  int
	seq     uint64     // of the last message
	mu      sync.Mutex // for out.Unknown
	once    []uint64   // numbers of messages that may be delivered once only
	foreign []string   // ids of messages of routes that nobody knows
	hours   map[string]bool
	keys    map[string]bool // that files of bodies are sealed with
	blob    *os.File
	left    int64 // octets that the file blob lacks
}

// restoredText is the reason of the note that says why a message is in doubt.
func (r *restore) restoredText() string {
	return "restored from a backup of " + r.out.Head.Made.UTC().Format(time.RFC3339) + ": it may have been delivered after that"
}

// pass reads the file from its start, as the n-th pass of two.
func (r *restore) pass(ctx context.Context, n int64) io.Reader {
	done := int64(0)
	return readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		m, err := r.file.ReadAt(b, done)
		done += int64(m)
		r.opt.Progress(n*r.size+done, 2*r.size)
		if m > 0 {
			err = nil
		}
		return m, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// place makes sure that the store has a place to be put.
func (r *restore) place() error {
	if err := finishRestore(r.dir, r.opt.Log); err != nil {
		return err
	}
	for _, e := range storeEntries {
		if _, err := os.Lstat(filepath.Join(r.dir, e)); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if !r.opt.SetAside {
			return fmt.Errorf("%w: %s is in %s", ErrNotEmpty, e, r.dir)
		}
		r.replaces = true
	}
	return os.RemoveAll(filepath.Join(r.dir, restoringName)) // of a restore that was broken off
}

// make makes the store aside.
func (r *restore) make(ctx context.Context) (err error) {
	dir := filepath.Join(r.dir, restoringName)
	o := StoreOptions{Dir: dir, Durability: Relaxed, MaxBytes: r.opt.MaxBytes, MinFree: -1, Keys: r.opt.Keys, Log: r.opt.Log}
	if r.store, err = OpenEmbedded(o); err != nil {
		return err
	}
	defer func() {
		if r.blob != nil {
			_ = r.blob.Close() // of a file that was not finished
		}
		if e := r.store.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = r.seal(dir)
		}
	}()
	r.hours, r.keys = map[string]bool{}, map[string]bool{}
	visit := backupVisitor{record: r.record, file: r.beginFile, chunk: r.chunk}
	if _, _, err := readBackup(r.pass(ctx, 1), visit); err != nil {
		return err
	}
	if err := r.wait(0); err != nil {
		return err
	}
	return r.doubt(ctx)
}

// plain returns a record as it was before it was sealed. Its data may alias that
// of the one given.
func (r *restore) plain(rec record) (record, error) {
	if rec.name != headerSealed {
		return rec, nil
	}
	m := &nats.Msg{Header: nats.Header{headerSealed: []string{rec.header}}, Data: slices.Clone(rec.data)}
	if _, err := r.opt.Keys.openRecord(rec.subject, m, true); err != nil {
		return rec, err
	}
	rec.name, rec.header = recordHeader(m)
	rec.data = m.Data
	return rec, verify(rec.header, rec.data)
}

// record appends a record of the backup.
func (r *restore) record(rec record) error {
	rec, err := r.plain(rec)
	if err != nil {
		return err
	}
	rec.data = slices.Clone(rec.data)
	j := &job{early: true}
	switch rec.name {
	case headerMessage:
		m, body, err := decodeHead(rec.header)
		if err != nil {
			return err
		}
		if c := body.blob; c != nil {
			m.Blob = &storedBlob{claim: *c, in: r.store.blobs}
			r.store.blobs.refs.begin(c.name) // for the record
			r.sealedBy(c)
		}
		rec.subject, j.msg = r.opt.Keys.logSubject(m.Destination), m
		once, known := r.opt.AtMostOnce(m.Route)
		r.seq++ // numbers begin at 1, and each message gets the next
		if once {
			r.once = append(r.once, r.seq)
		} else if !known {
			r.foreign = append(r.foreign, m.ID)
		}
	case headerDead:
		if err := r.doubtDead(&rec); err != nil {
			return err
		}
	case headerReply:
		if err := r.noteHour(rec.subject); err != nil {
			return err
		}
	case headerValue:
		name, err := decodeValue(rec.header, rec.data)
		if err != nil {
			return err
		}
		if strings.HasPrefix(rec.subject, subjectState) { // it depends on the key
			subjects, err := r.opt.Keys.stateSubjects(name)
			if err != nil {
				return err
			}
			rec.subject = subjects[0]
		}
	}
	j.rec = rec
	return r.append(j)
}

// doubtDead notes with a dead letter that it may have been delivered: replayed
// after the backup.
func (r *restore) doubtDead(rec *record) error {
	d, err := decodeDead(rec.header, rec.data)
	if err != nil {
		return err
	}
	if b, ok := d.Blob.(*storedBlob); ok {
		r.sealedBy(&b.claim)
	}
	d.Attempts = append(d.Attempts, AttemptRecord{At: time.Now(), Reason: r.restoredText(), Maybe: true})
	rec.header, rec.data, err = encodeDead(d)
	return err
}

// sealedBy notes with what the file of a body is sealed: it is put back as it was.
func (r *restore) sealedBy(c *claim) { r.keys[cmp.Or(c.key, noKey)] = true }

// noteHour notes that there are replies of an hour. The note is made anew: the
// backup may have looked for it before the reply came.
func (r *restore) noteHour(subject string) error {
	hour, _, _ := strings.Cut(strings.TrimPrefix(subject, subjectReply), ".")
	if _, err := strconv.ParseInt(hour, 10, 64); err != nil {
		return fmt.Errorf("queue: restore: a reply on %.60q", subject)
	}
	if r.hours[hour] {
		return nil
	}
	r.hours[hour] = true
	data := []byte(hour)
	return r.append(&job{early: true, rec: record{subjectReplyHour + hour, headerValue, encodeValue(hour, data), data}})
}

// The bounds of what is under way to the server.
const (
	restoreCount  = 512
	restoreOctets = 32 << 20
)

// append hands a record to the committer, in order, and waits for earlier ones
// if there are many.
func (r *restore) append(j *job) error {
	j.size = recordOverhead + len(j.rec.header) + len(j.rec.data)
	if err := r.store.commit.submit(j); err != nil {
		return err
	}
	r.open = append(r.open, j)
	r.octets += j.size
	if len(r.open) >= restoreCount || r.octets >= restoreOctets {
		return r.wait(len(r.open) / 2)
	}
	return nil
}

// wait waits until no more than most records are under way.
func (r *restore) wait(most int) error {
	for len(r.open) > most {
		j := r.open[0]
		r.open = r.open[1:]
		r.octets -= j.size
		select {
		case <-j.done:
		case <-r.store.commit.gone:
			return ErrClosed
		}
		if j.err != nil {
			return fmt.Errorf("queue: restore: %w", j.err)
		}
	}
	return nil
}

// doubt makes dead letters of messages that may be delivered once only, and notes
// with those of unknown routes that they may have been delivered: the route that
// takes them up may be such a one.
func (r *restore) doubt(ctx context.Context) error {
	err := atOnce(ctx, r.once, func(ctx context.Context, seq uint64) error {
		m, err := r.store.Get(seq)
		if err != nil {
			return err
		}
		if _, err := r.store.Dead(m.ID); err == nil {
			return r.store.Remove(seq) // it had died by the end of the backup
		}
		attempts, err := r.store.Attempts(m.ID)
		if err != nil {
			return err
		}
		now := time.Now()
		d := &DeadLetter{Message: m, Died: now, Reason: ReasonUnknown, Text: r.restoredText()}
		d.Attempts = append(attempts, AttemptRecord{At: now, Reason: r.restoredText(), Maybe: true})
		if err := r.store.Bury(ctx, d); err != nil {
			return err
		}
		if err := r.store.Remove(seq); err != nil {
			return err
		}
		r.mu.Lock()
		r.out.Unknown++
		r.mu.Unlock()
		return r.store.SaveAttempts(m.ID, nil)
	})
	if err != nil {
		return fmt.Errorf("queue: restore: %w", err)
	}
	for _, id := range r.foreign {
		attempts, err := r.store.Attempts(id)
		if err == nil {
			err = r.store.SaveAttempts(id, append(attempts, AttemptRecord{At: time.Now(), Reason: r.restoredText(), Open: true}))
		}
		if err != nil {
			return fmt.Errorf("queue: restore: %w", err)
		}
	}
	return ctx.Err()
}

// seal gives the closed store its identity and makes all of it durable.
func (r *restore) seal(dir string) error {
	id, err := readIdentity(dir)
	if err != nil {
		return err
	}
	// The seconds since 1970 are more than the openings of any earlier run, and
	// of an earlier restore.
	r.out.Epoch = max(r.out.Head.Epoch+1, uint64(time.Now().Unix()))
	id.ID, id.Epoch, id.Clean, id.Counts = r.out.Head.Store, r.out.Epoch, false, nil
	for k := range r.keys {
		if (k != noKey || len(id.Keys) > 0) && !slices.Contains(id.Keys, k) {
			id.Keys, id.Format = append(id.Keys, k), formatSealed
		}
	}
	if err := id.write(dir); err != nil {
		return err
	}
	for _, name := range []string{lockName, reserveName} { // of the directory, not of the store
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if r.replaces {
		r.out.Replaced = filepath.Join(r.dir, replacedPrefix+time.Now().UTC().Format("20060102T150405.000000Z"))
		if err := writeSynced(filepath.Join(dir, replacesName), strings.NewReader(filepath.Base(r.out.Replaced))); err != nil {
			return err
		}
	}
	return syncTree(dir)
}

// beginFile begins a file of the store.
func (r *restore) beginFile(f backupFile) error {
	name := filepath.Join(r.dir, restoringName, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	r.blob, r.left = out, f.Size
	return r.chunk(nil)
}

// chunk writes octets of the file that was begun.
func (r *restore) chunk(b []byte) error {
	_, err := r.blob.Write(b)
	if r.left -= int64(len(b)); err == nil && r.left > 0 {
		return nil
	}
	if err == nil {
		err = r.blob.Sync()
	}
	if e := r.blob.Close(); err == nil {
		err = e
	}
	r.blob = nil
	return err
}
