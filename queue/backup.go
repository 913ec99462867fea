package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrBackup: this would move a message to where the backup that is being made
// has looked already.
var ErrBackup = errors.New("queue: a backup is being made")

// backupDamages bounds the damaged places that one backup lists.
const backupDamages = 1000

// Backup writes a backup of the store to w while the queue goes on, and returns
// what it contains. Every message that was accepted before the call is contained,
// unless it was finished; what is finished meanwhile may be contained. Damaged
// records are left out and counted. Until it ends no dead letter can be
// replayed, no message moved, and no other backup made ([ErrBackup]). A backup that could not be finished says so in its file.
func (q *Queue) Backup(ctx context.Context, w io.Writer) (*BackupCounts, error) {
	s, ok := q.store.(*Embedded)
	if !ok {
		return nil, errors.New("queue: this store has no backup")
	}
	// The log is read before the dead letters, so that a message that dies
	// meanwhile is seen in one of them. One that is replayed could be missed.
	if !q.backing.CompareAndSwap(false, true) {
		return nil, ErrBackup
	}
	defer q.backing.Store(false)
	q.moving.Lock()
	defer q.moving.Unlock()
	return s.backup(ctx, w)
}

func (s *Embedded) backup(ctx context.Context, w io.Writer) (*BackupCounts, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	defer s.follows.begin()()
	b := &backup{s: s, last: s.commit.durable.Load(), ctx: ctx, files: map[string]bool{}, damagedBodies: map[string]bool{}}
	var err error
	if b.w, err = newBackupWriter(w); err != nil {
		return nil, err
	}
	info := s.Info()
	err = b.w.json(frameHead, BackupHead{
		Format: BackupFormat, Store: info.ID, Epoch: info.Epoch, Made: time.Now().UTC(),
		Messages: info.Messages, Octets: info.Bytes, Keys: s.idNow().sealedBy(),
	})
	// What became of a message is durable before the message leaves the log, so
	// what is not found in the log is found in one of the others.
	if err == nil {
		err = b.all(ctx)
	}
	if e := b.w.end(err); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return &b.w.counts, nil
}

// backup is one in the making.
type backup struct {
	s    *Embedded
	w    *backupWriter
	last uint64 // of the log when it began
	told int    // damaged places
	ctx  context.Context
	// files are the bodies that are in it, by name, damagedBodies those that can
	// not be read.
	files, damagedBodies map[string]bool
	breathe              func()
	failed               error // writing a body
}

func (b *backup) damaged(d Damage) error {
	b.w.counts.Damaged++
	if b.told++; b.told > backupDamages {
		return nil
	}
	return b.w.json(frameDamage, &d)
}

// all reads the store in one look through its blocks: the log out of the blocks
// themselves, which takes nothing from those who write, the rest by the server when
// the log is done.
func (b *backup) all(ctx context.Context) error {
	look := &scrub{each: b.message}
	b.breathe = look.breathe
	look.ended = func() error {
		for _, part := range []func(context.Context) error{b.following, b.dead, b.states, b.replies} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	found, err := b.s.scrub(ctx, look)
	if err != nil {
		return err
	}
	for _, d := range found.Damage {
		if b.damagedBodies[strings.TrimPrefix(d.File, blobsName+"/")] {
			continue // told already
		}
		if err := b.damaged(d); err != nil {
			return err
		}
	}
	return nil
}

// message writes a message of the log, unless it is finished or came later than
// the backup began.
func (b *backup) message(r blockRecord, c *claim) error {
	if r.seq > b.last || b.s.trim.removed(r.seq) {
		return nil
	}
	if ok, err := b.body(&claimant{stream: streamLog, seq: r.seq, subject: r.subject}, c); err != nil || !ok {
		return err
	}
	for _, name := range recordHeaders {
		if v, ok := r.value(name); ok {
			b.w.counts.Messages++
			return b.w.record(record{r.subject, name, v, r.data})
		}
	}
	return nil
}

// body writes the file that has the body of a record, once, as it is kept; c is nil
// where there is none. false means that it can not be read: then the message is
// finished meanwhile, or damaged.
func (b *backup) body(of *claimant, c *claim) (bool, error) {
	if c == nil || b.files[c.name] {
		return true, nil
	}
	f, err := os.Open(b.s.blobs.path(c.name)) // from now on it can be read, whoever removes it
	if err == nil {
		defer f.Close()
		err = b.s.proof(b.ctx, c, b.breathe)
	}
	if b.ctx.Err() != nil || errors.Is(err, ErrKey) {
		return false, errors.Join(b.ctx.Err(), err)
	}
	if err != nil {
		of.claim = *c
		id, route, live := b.s.claims(of)
		if !live {
			return false, nil
		}
		b.damagedBodies[c.name] = true
		return false, b.damaged(Damage{Stream: "bodies", File: blobsName + "/" + c.name, ID: id, Route: route, Reason: err.Error()})
	}
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	b.files[c.name] = true
	return true, b.w.file(blobsName+"/"+c.name, st.Size(), f)
}

// write writes a record as it is kept: what is sealed stays sealed.
func (b *backup) write(r scanned) error {
	name, value := recordHeader(r.msg)
	return b.w.record(record{r.subject, name, value, r.msg.Data})
}

// rest writes the records of a stream; check is asked about each, as it was before
// it was sealed, and says by errSkip that it is not for a backup.
func (b *backup) rest(ctx context.Context, stream string, count *uint64, check func(r scanned) error) error {
	return b.s.js.records(ctx, stream, 1, 1<<63, func(r scanned) error {
		plain, err := b.s.js.opened(r)
		if err != nil {
			return err
		}
		switch err := check(plain); {
		case b.failed != nil: // it is not the record
			return b.failed
		case err == errSkip: //nolint:errorlint // our own value, never wrapped
			return nil
		case err != nil:
			return b.damaged(Damage{Stream: holds(stream), Seq: r.seq, ID: idOfSubject(r.subject), Reason: err.Error()})
		}
		*count++
		return b.write(r)
	})
}

var errSkip = errors.New("not for a backup")

// idOfSubject is what the last token of a subject says, for people.
func idOfSubject(subject string) string {
	return subject[strings.LastIndexByte(subject, '.')+1:]
}

func (b *backup) dead(ctx context.Context) error {
	return b.rest(ctx, streamDead, &b.w.counts.Dead, func(r scanned) error {
		if _, err := decodeDead(r.header(headerDead), r.msg.Data); err != nil {
			return err
		}
		ok, err := b.body(&claimant{stream: streamDead, seq: r.seq, subject: r.subject}, claimed(&r))
		switch {
		case err != nil:
			b.failed = err
			return err
		case !ok:
			return errSkip
		}
		return nil
	})
}

// backedUp tells the records of GW_STATE that mean something in another store: not
// those that speak of numbers in the log, nor what follows from the rest.
func backedUp(subject string) bool {
	return strings.HasPrefix(subject, subjectAttempt) || strings.HasPrefix(subject, subjectKnown) || strings.HasPrefix(subject, subjectState) ||
		strings.HasPrefix(subject, subjectAwait)
}

func (b *backup) states(ctx context.Context) error {
	return b.rest(ctx, streamState, &b.w.counts.States, func(r scanned) error {
		if !backedUp(r.subject) {
			return errSkip
		}
		key, err := decodeValue(r.header(headerValue), r.msg.Data)
		if err == nil && key == doubtState && strings.HasPrefix(r.subject, subjectState) {
			return errSkip // a number in the log, too
		}
		return err
	})
}

func (b *backup) replies(ctx context.Context) error {
	return b.rest(ctx, streamReply, &b.w.counts.Replies, func(r scanned) error {
		_, err := decodeReply(r.header(headerReply), r.msg.Data)
		return err
	})
}

// opened returns a record as it was before it was sealed; r stays as it is. What
// is damaged has no header of ours. It fails with [ErrKey].
func (j *js) opened(r scanned) (scanned, error) {
	if r.header(headerSealed) == "" {
		return r, nil
	}
	r.msg = &nats.Msg{Header: maps.Clone(r.msg.Header), Data: slices.Clone(r.msg.Data)}
	err := r.open(j.keys.Load(), true)
	return r, err
}

// records calls f for the messages of a stream in [from, last] that can be read,
// in order, with their data and as they are kept, sealed or not. It needs no consumer.
func (j *js) records(ctx context.Context, stream string, from, last uint64, f func(scanned) error) error {
	// A batch holds up who writes to the stream.
	const batch, octets = 16, 128 << 10
	inbox := nats.NewInbox()
	sub, err := j.api.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := sub.SetPendingLimits(-1, -1); err != nil { // batch and octets are the limits
		return err
	}
	for next := from; next <= last; {
		request := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d}`, next, batch, octets)
		if err := j.api.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
			return err
		}
		for more := true; more; {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return fmt.Errorf("queue: read %s: %w", stream, err)
			}
			switch st := m.Header.Get("Status"); st {
			case "":
			case "404": // none (left)
				return nil
			case "204": // end of the batch
				if m.Header.Get("Nats-Num-Pending") == "0" {
					return nil
				}
				more = false
				continue
			default:
				return fmt.Errorf("queue: read %s: status %s %s", stream, st, m.Header.Get("Description"))
			}
			r := scanned{subject: m.Header.Get("Nats-Subject"), msg: m, size: len(m.Data)}
			if r.seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil || r.seq < next {
				return fmt.Errorf("queue: read %s: sequence %d, want at least %d", stream, r.seq, next)
			}
			if r.seq > last {
				return nil
			}
			next = r.seq + 1
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}
