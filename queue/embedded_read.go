package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// How many messages are asked for at once, and so what a scan holds in memory.
const (
	scanBatch  = 1024
	valueBatch = 256
)

// scanned is a message as a scan sees it.
type scanned struct {
	seq     uint64
	subject string
	size    int // of the data
	msg     *nats.Msg
	sealed  string // the key it was sealed with, or noKey
}

func (r scanned) header(name string) string { return r.msg.Header.Get(name) }

// open makes of a sealed message what was written. One that is damaged has no
// header of ours then, so that whoever reads it finds it unreadable; only a
// missing key is an error, because nothing of it may be taken for damaged.
func (r *scanned) open(k *Keys, withData bool) error {
	var err error
	if r.sealed, err = k.openRecord(r.subject, r.msg, withData); errors.Is(err, ErrKey) {
		return err
	}
	if err == nil && r.sealed != noKey {
		r.size -= sealTag
	}
	return nil
}

// values calls f for every message of GW_STATE whose subject matches, in order.
// It needs no consumer, whose making and ending take longer than all of it.
func (j *js) values(ctx context.Context, subject string, f func(scanned) error) error {
	inbox := nats.NewInbox()
	sub, err := j.api.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := sub.SetPendingLimits(-1, -1); err != nil { // valueBatch is the limit
		return err
	}
	for next := uint64(1); ; {
		request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":%d}`, next, subject, valueBatch)
		if err := j.api.PublishRequest("$JS.API.DIRECT.GET."+streamState, inbox, request); err != nil {
			return err
		}
		for {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return fmt.Errorf("queue: scan %s: %w", streamState, err)
			}
			switch st := m.Header.Get("Status"); st {
			case "":
			case "404": // none (left)
				return nil
			case "204": // end of the batch
				if m.Header.Get("Nats-Num-Pending") == "0" {
					return nil
				}
			default:
				return fmt.Errorf("queue: scan %s: status %s %s", streamState, st, m.Header.Get("Description"))
			}
			if m.Header.Get("Status") != "" {
				break
			}
			r := scanned{subject: m.Header.Get("Nats-Subject"), msg: m, size: len(m.Data)}
			if r.seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil || r.seq < next {
				return fmt.Errorf("queue: scan %s: sequence %d, want at least %d", streamState, r.seq, next)
			}
			next = r.seq + 1
			if err := r.open(j.keys.Load(), true); err != nil {
				return err
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
}

// heads calls f for the headers of every message of a stream in order, from a
// sequence number on, by way of a consumer that acknowledges nothing and lives
// no longer than the call.
func (j *js) heads(ctx context.Context, stream string, from uint64, f func(scanned) error) (err error) {
	name := "scan-" + strings.ReplaceAll(nats.NewInbox(), ".", "-")
	cfg := server.ConsumerConfig{
		Name: name, AckPolicy: server.AckNone, HeadersOnly: true,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute, DeliverPolicy: server.DeliverAll,
	}
	if from > 1 {
		cfg.DeliverPolicy, cfg.OptStartSeq = server.DeliverByStartSequence, from
	}
	if err := j.call("CONSUMER.CREATE."+stream+"."+name, server.CreateConsumerRequest{Stream: stream, Config: cfg}, nil); err != nil {
		return err
	}
	defer func() {
		if e := j.call("CONSUMER.DELETE."+stream+"."+name, nil, nil); err == nil {
			err = e
		}
	}()
	inbox := nats.NewInbox()
	sub, err := j.api.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	next := "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + name
	if err := sub.SetPendingLimits(-1, -1); err != nil { // scanBatch is the limit
		return err
	}
	request := []byte(`{"no_wait":true,"batch":` + strconv.Itoa(scanBatch) + `}`)
	expect := uint64(1) // delivery number: nothing may be lost between server and us
	for {
		if err := j.api.PublishRequest(next, inbox, request); err != nil {
			return err
		}
		for range scanBatch {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return fmt.Errorf("queue: scan %s: %w", stream, err)
			}
			if st := m.Header.Get("Status"); st != "" && m.Reply == "" {
				switch st {
				case "404", "408": // nothing (more) is there
					return nil
				default:
					return fmt.Errorf("queue: scan %s: status %s %s", stream, st, m.Header.Get("Description"))
				}
			}
			r := scanned{subject: m.Subject, msg: m}
			delivery, err := r.place(m.Reply)
			if err != nil || delivery != expect {
				return fmt.Errorf("queue: scan %s: delivery %d, want %d (%q)", stream, delivery, expect, m.Reply)
			}
			expect++
			if r.size, err = strconv.Atoi(m.Header.Get("Nats-Msg-Size")); err != nil {
				return fmt.Errorf("queue: scan %s: size: %w", stream, err)
			}
			if err := r.open(j.keys.Load(), false); err != nil {
				return err
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
}

// place reads the sequence numbers of stream and consumer from a reply subject
// $JS.ACK.STREAM.CONSUMER.DELIVERED.SEQ.DELIVERY.TIME.PENDING, of which newer
// servers write a longer form with two more tokens in front of the stream and
// possibly one behind.
func (r *scanned) place(reply string) (delivery uint64, err error) {
	at := 5
	if n := strings.Count(reply, ".") + 1; n >= 11 {
		at = 7
	} else if n != 9 {
		return 0, errFormat
	}
	for range at {
		_, reply, _ = strings.Cut(reply, ".")
	}
	seq, reply, _ := strings.Cut(reply, ".")
	if r.seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
		return 0, err
	}
	count, _, _ := strings.Cut(reply, ".")
	return strconv.ParseUint(count, 10, 64)
}

// Scan implements [Store]. What is missing in the log without having been
// removed is reported to the observer and the log, and taken as removed from then on.
func (s *Embedded) Scan(ctx context.Context, f func(seq uint64, m *Message, size int64) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	last := s.commit.durable.Load()
	next := s.trim.start()           // what comes next if nothing is missing
	old := make(map[string][]uint64) // what was there when the store was opened
	stop := errors.New("end")
	err := s.js.heads(ctx, streamLog, next, func(r scanned) error {
		if r.seq > last {
			return stop
		}
		if r.seq > next {
			s.trim.missing(next, r.seq-1)
		}
		next = r.seq + 1
		if r.seq <= s.opened {
			old[r.subject] = append(old[r.subject], r.seq)
		}
		if s.trim.removed(r.seq) {
			s.trim.again(r.seq) // noted as removed, but a crash came before the deed
			return nil
		}
		m, body, err := decodeHead(r.header(headerMessage))
		if err != nil { // let the caller see it: Get tells more
			s.opt.Log.Error("a message of the log can not be read", "seq", r.seq, "err", err)
			m, body = &Message{}, form{}
			s.blobs.doubt.Store(true)
		}
		if body.blob != nil && r.seq <= s.opened {
			s.blobs.refs.foundInLog(r.seq, body.blob.name)
		}
		return f(r.seq, m, body.size(r.size-body.meta))
	})
	if err != nil && err != stop { //nolint:errorlint // our own value, never wrapped
		return err
	}
	if next <= last {
		s.trim.missing(next, last)
	}
	s.trim.scanned(old)
	s.known(true, false)
	return nil
}

// known notes that all records of the log, or all dead letters, were read; once
// both were, bodies that none of them claims are removed. A tool that only
// inspects removes nothing.
func (s *Embedded) known(log, dead bool) {
	if s.blobs.refs.read(log, dead) && !s.opt.Inspect && s.blobs.sweep() {
		s.bodiesSettled()
	}
}

// Get implements [Store].
func (s *Embedded) Get(seq uint64) (*Message, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	if seq == 0 || seq > s.commit.durable.Load() || s.trim.removed(seq) {
		return nil, ErrNotFound
	}
	r, err := s.js.get(streamLog, seq, "")
	if errors.Is(err, ErrNotFound) {
		if s.trim.removed(seq) {
			return nil, ErrNotFound
		}
		// Nothing removed it: the server says "not found" of what it can not read, too.
		return nil, fmt.Errorf("%w: sequence %d is missing in the log", ErrCorrupt, seq)
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeMessage(r.Header.Get(headerMessage), r.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: sequence %d: %w", ErrCorrupt, seq, err)
	}
	return bound(m, s.blobs), nil
}

// ScanDead implements [Store].
func (s *Embedded) ScanDead(ctx context.Context, f func(d *DeadLetter, size int64) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	before, err := s.js.info(streamDead)
	if err != nil {
		return err
	}
	type entry struct {
		d    *DeadLetter
		size int64
	}
	all := make(map[string]entry) // the latest of each: a crash can leave the one before it
	seen := uint64(0)
	err = s.js.heads(ctx, streamDead, 1, func(r scanned) error {
		seen++
		h, err := decodeDeadHead(r.header(headerDead))
		if err == nil {
			s.blobs.refs.foundDead(h.ID, h.body.claimed())
		} else {
			s.blobs.doubt.Store(true)
		}
		if err == nil && h.attempts == "" { // so many that they are in the data
			var full *DeadLetter
			if full, err = s.Dead(h.ID); err == nil {
				h.Attempts = full.Attempts
			} else if errors.Is(err, ErrNotFound) {
				return nil
			}
		}
		if err != nil {
			s.opt.Log.Error("a dead letter can not be read", "subject", r.subject, "err", err)
			return nil
		}
		all[h.ID] = entry{h.DeadLetter, h.size()}
		return nil
	})
	if err != nil {
		return err
	}
	if seen < before.State.Messages { // the server passes over a damaged record in silence
		s.blobs.doubt.Store(true)
	}
	s.known(false, true)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(all[id].d, all[id].size); err != nil {
			return err
		}
	}
	return nil
}

// Dead implements [Store].
func (s *Embedded) Dead(id string) (*DeadLetter, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.letter(streamDead, subjectDead, id)
}

// letter reads the latest record of a message in the form of dead letters.
func (s *Embedded) letter(stream, subject, id string) (*DeadLetter, error) {
	token, err := subjectToken(id)
	if err != nil {
		return nil, ErrNotFound
	}
	r, err := s.js.get(stream, 0, subject+token)
	if err != nil {
		return nil, err
	}
	data := r.Data
	if data == nil {
		data = []byte{}
	}
	d, err := decodeDead(r.Header.Get(headerDead), data)
	if err != nil {
		return nil, fmt.Errorf("%w: record of %s: %w", ErrCorrupt, cut(id, 100), err)
	}
	bound(d.Message, s.blobs)
	return d, nil
}
