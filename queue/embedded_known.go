package queue

import (
	"context"
	"strconv"
	"strings"
	"time"
)

const (
	// keepEvery is the pause between two records of what became of messages with
	// an identity, unless keepMost of them wait: each record is one more to be
	// read at a start.
	keepEvery = 500 * time.Millisecond
	keepMost  = 4096
	// forgetEvery is the pause between two looks at what is over.
	forgetEvery = time.Minute
)

// RemoveKnown implements [Store].
func (s *Embedded) RemoveKnown(seq uint64, k Known) error {
	if err := s.usable(); err != nil {
		return err
	}
	if _, err := appendKnown(nil, &k); err != nil {
		return err
	}
	s.trim.owe(seq, k)
	return nil
}

// KeepKnown implements [Store].
func (s *Embedded) KeepKnown(ctx context.Context, known ...Known) error {
	if err := s.usable(); err != nil {
		return err
	}
	jobs, err := s.trim.records(known)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		j.urgent = true
		if err := s.commit.do(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// ScanKnown implements [Store].
func (s *Embedded) ScanKnown(ctx context.Context, f func(Known) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	now := hourOf(s.now())
	return s.js.values(ctx, subjectKnown+"*", func(r scanned) error {
		route, err := decodeValue(r.header(headerValue), r.msg.Data)
		hour, e := strconv.ParseInt(strings.TrimPrefix(r.subject, subjectKnown), 10, 64)
		if err != nil || e != nil || len(r.msg.Data)%knownSize != 0 {
			s.opt.Log.Error("a record of identities can not be read: repeats of its messages are not noticed", "subject", r.subject, "err", err)
			return nil
		}
		s.trim.hour(hour)
		if hour < now {
			return nil
		}
		return parseKnown(route, r.msg.Data, f)
	})
}

// now is the time of the wall clock, as it went on since the store was opened:
// a step of the clock must not make the store forget.
func (s *Embedded) now() time.Time { return s.started.Add(time.Since(s.started)) }

// hourOf is the hour in which a time lies.
func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// owed is a message that is finished, and that is noted so once what became of
// it is durable.
type owed struct {
	seq   uint64
	known Known
}

// debts are the messages with an identity that are finished and not yet noted.
type debts struct {
	list     []owed
	seqs     map[uint64]struct{}
	paidAt   time.Time      // when the last of them were
	hours    map[int64]bool // that have records
	forgotAt time.Time
}

// owe takes a message out of the log once what is known of it is durable.
func (t *trimmer) owe(seq uint64, k Known) {
	top := t.s.commit.durable.Load()
	t.mu.Lock()
	_, twice := t.debts.seqs[seq]
	fresh := !twice && seq >= t.floor && seq <= top && !t.gone.has(seq)
	if fresh {
		t.debts.seqs[seq] = struct{}{}
		t.debts.list = append(t.debts.list, owed{seq, k})
	}
	t.mu.Unlock()
	if fresh {
		t.s.messages.Add(-1)
		t.poke()
	}
}

// pay makes durable what is known of finished messages, and only then takes
// them as finished: a crash must not leave the note that a message is gone
// without what made that good. The last time it does not wait for others' syncs.
func (t *trimmer) pay(last bool) error {
	t.mu.Lock()
	d := &t.debts
	free := len(t.states) // their messages are not owed, or are in the list
	if len(d.list) == 0 {
		t.free = free
		t.mu.Unlock()
		return nil
	}
	if !last && len(d.list) < keepMost && time.Since(d.paidAt) < keepEvery {
		t.mu.Unlock()
		return nil
	}
	due := d.list
	d.list, d.paidAt = nil, time.Now()
	t.mu.Unlock()

	known := make([]Known, len(due))
	for i := range due {
		known[i] = due[i].known
	}
	jobs, err := t.records(known)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		j.urgent = last
	}
	if err := t.write(jobs); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = free
	for _, o := range due {
		delete(d.seqs, o.seq)
		if t.gone.add(o.seq) {
			t.finished(o.seq)
			t.between++
		}
	}
	return nil
}

// records writes what is known of messages, of one route and hour together.
func (t *trimmer) records(known []Known) (jobs []*job, err error) {
	type place struct {
		hour  int64
		route string
	}
	open := map[place]*job{}
	for i := range known {
		at := place{hourOf(known[i].Until), known[i].Route}
		j := open[at]
		if j == nil || len(j.rec.data) >= knownMost*knownSize {
			j = &job{rec: record{subject: subjectKnown + strconv.FormatInt(at.hour, 10), name: headerValue, header: at.route}}
			open[at] = j
			jobs = append(jobs, j)
			t.hour(at.hour)
		}
		if j.rec.data, err = appendKnown(j.rec.data, &known[i]); err != nil {
			return nil, err
		}
	}
	for _, j := range jobs {
		j.rec.header = encodeValue(j.rec.header, j.rec.data)
		j.size = recordOverhead + len(j.rec.data)
	}
	return jobs, nil
}

// hour takes up that there are records of an hour.
func (t *trimmer) hour(h int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.debts.hours[h] = true
}

// forgetHours removes the records of which all is over.
func (t *trimmer) forgetHours() (changed bool, err error) {
	var over []int64
	t.mu.Lock()
	if d := &t.debts; time.Since(d.forgotAt) >= forgetEvery {
		d.forgotAt = time.Now()
		now := hourOf(t.s.now())
		for h := range d.hours {
			if h < now {
				over = append(over, h)
				delete(d.hours, h)
			}
		}
	}
	t.mu.Unlock()
	for _, h := range over {
		if err := t.s.js.forget(streamState, subjectKnown+strconv.FormatInt(h, 10), 0); err != nil {
			return false, err
		}
	}
	return len(over) > 0, nil
}
