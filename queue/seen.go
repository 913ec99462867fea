package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrSeen: a message with this label has come before; nothing was kept.
var ErrSeen = errors.New("queue: a message with this label has come before")

// seen is the index of the labels under which messages have come from other sites.
// It is derived from the store: from the records of the messages, which have their
// labels, and, of those that are gone, from a state for each site. That state is
// durable before the store forgets a message, so that no crash loses a label, and
// it has no label of a message that is not gone, so that it is never ahead of the
// log, also not in a backup. Guarded by Queue.mu.
type seen struct {
	streams map[Stream]*seenStream
	sites   []string // those that have a state, in the order of their names
	dirty   map[string]bool
	owed    []owedLabel
}

// seenStream is what has come of one stream.
type seenStream struct {
	all, gone spans
	pending   map[uint64]chan struct{} // being committed; closed when that is over
	touched   time.Time
	// lost is the highest number below which some were forgotten.
	lost uint64
}

// owedLabel is a finished message whose removal waits until its label is in a state.
type owedLabel struct {
	seq      uint64
	known    Known
	identity bool // known counts
}

const (
	seenState = "seen" // names the sites
	seenOf    = "seen."
	// mostSpans and mostStreams bound what one site may make us remember. Beyond
	// them the oldest is forgotten; what comes again from there is marked.
	mostSpans   = 1 << 16
	mostStreams = 1 << 10
	seenEvery   = 500 * time.Millisecond
)

func newSeen() seen { return seen{streams: map[Stream]*seenStream{}, dirty: map[string]bool{}} }

// site is the part of an origin that is its site.
func (s *Stream) site() string {
	site, _, _ := strings.Cut(s.Origin, "/")
	return site
}

// stream returns what is known of a stream, made if need be.
func (x *seen) stream(s Stream) *seenStream {
	t := x.streams[s]
	if t == nil {
		x.bound(s.site())
		t = &seenStream{pending: map[uint64]chan struct{}{}}
		x.streams[s] = t
	}
	t.touched = time.Now()
	return t
}

// bound forgets the stream of a site that has been quiet for longest, if it has as
// many as it may.
func (x *seen) bound(site string) {
	var oldest *Stream
	n := 0
	for s, t := range x.streams {
		if s.site() != site || len(t.pending) > 0 {
			continue
		}
		if n++; oldest == nil || t.touched.Before(x.streams[*oldest].touched) {
			oldest = &s
		}
	}
	if n >= mostStreams {
		delete(x.streams, *oldest)
		x.dirty[site] = true
	}
}

// add takes up a label of a message that is durable.
func (x *seen) add(l *Label) {
	t := x.stream(l.Stream)
	t.all.add(l.N)
	t.trim()
}

// take takes up the label of a message that is found in the log. It reports false if
// that was finished: a crash has brought it back.
func (x *seen) take(m *Message) bool {
	t := x.stream(m.Came.Stream)
	if !m.Anew && t.gone.has(m.Came.N) {
		return false
	}
	t.all.add(m.Came.N)
	t.trim()
	return true
}

// finish takes up that a message with the label is gone, or about to be.
func (x *seen) finish(l *Label) {
	t := x.stream(l.Stream)
	t.all.add(l.N)
	if t.gone.add(l.N) {
		x.dirty[l.site()] = true
	}
	t.trim()
}

// trim forgets the lowest numbers where there are too many gaps.
func (t *seenStream) trim() {
	if len(t.all) > mostSpans {
		t.lost = t.all[mostSpans/4].to
		t.all = slices.Delete(t.all, 0, mostSpans/4+1)
	}
	if len(t.gone) > mostSpans {
		t.lost = max(t.lost, t.gone[mostSpans/4].to)
		t.gone = slices.Delete(t.gone, 0, mostSpans/4+1)
	}
}

// Seen tells whether a message with the label has come before. doubt says that it
// may have, and that this is not remembered any more. ErrFull while the index is not
// complete after a start.
func (q *Queue) Seen(ctx context.Context, l *Label) (before, doubt bool, err error) {
	if err := q.indexed(ctx); err != nil {
		return false, false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.seen.streams[l.Stream]
	if t == nil {
		return false, false, nil
	}
	return t.all.has(l.N), l.N <= t.lost, nil
}

// indexed waits until the index is complete, for some time.
func (q *Queue) indexed(ctx context.Context) error {
	select {
	case <-q.complete:
		return nil
	default:
	}
	patience := time.NewTimer(loadPatience)
	defer patience.Stop()
	select {
	case <-q.complete:
		return nil
	case <-patience.C:
		return fmt.Errorf("%w: the index is being rebuilt", ErrFull)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrClosed, context.Cause(ctx))
	}
}

// once calls put for a message that has come under a label, unless one with that
// label was, or is just being, made durable.
func (q *Queue) once(ctx context.Context, l *Label, put func() error) error {
	if err := q.indexed(ctx); err != nil {
		return err
	}
	for {
		q.mu.Lock()
		t := q.seen.stream(l.Stream)
		if t.all.has(l.N) {
			q.mu.Unlock()
			return ErrSeen
		}
		other := t.pending[l.N]
		done := make(chan struct{})
		if other == nil {
			t.pending[l.N] = done
		}
		q.mu.Unlock()
		if other == nil {
			err := put()
			q.mu.Lock()
			delete(t.pending, l.N)
			q.mu.Unlock()
			close(done)
			return err
		}
		select {
		case <-other:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
		}
	}
}

// Consume notes durably that the messages with these labels need no places of their
// own: they repeat others that were accepted before, or an operator drops them.
func (q *Queue) Consume(ctx context.Context, labels ...*Label) error {
	// A state of what is known so far would take the place of the whole one.
	if err := q.indexed(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	for _, l := range labels {
		q.seen.finish(l)
	}
	q.mu.Unlock()
	return q.saveSeen(ctx)
}

// settleLabel lets a finished message go whose label has to be remembered.
func (q *Queue) settleLabel(it *item, l *Label, known Known, identity bool) {
	q.seen.finish(l)
	q.seen.owed = append(q.seen.owed, owedLabel{it.seq, known, identity})
}

// repayLabels writes from time to time which labels are gone, and removes their
// messages.
func (q *Queue) repayLabels(ctx context.Context) {
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			q.repay(ctx)
		}
	}
}

func (q *Queue) repay(ctx context.Context) {
	q.mu.Lock()
	due := q.seen.owed
	q.seen.owed = nil
	q.mu.Unlock()
	if len(due) == 0 {
		return
	}
	err := q.saveSeen(ctx)
	if err != nil {
		q.mu.Lock()
		q.seen.owed = append(due, q.seen.owed...)
		q.mu.Unlock()
	} else {
		err = q.removeOwed(due)
	}
	if err != nil && !errors.Is(err, ErrClosed) {
		q.opt.Log.Warn("finished messages of other sites stay in the store", "messages", len(due), "err", err)
	}
}

func (q *Queue) removeOwed(due []owedLabel) error {
	var errs []error
	var seqs []uint64
	for _, o := range due {
		if o.identity {
			errs = append(errs, q.store.RemoveKnown(o.seq, o.known))
		} else {
			seqs = append(seqs, o.seq)
		}
	}
	if len(seqs) > 0 {
		errs = append(errs, q.store.Remove(seqs...))
	}
	return errors.Join(errs...)
}

// seenRecord is a stream as a state has it, and one state is a list of them.
type seenRecord struct {
	Origin  string    `json:"origin"`
	Epoch   uint64    `json:"epoch"`
	Link    string    `json:"link"`
	Class   uint8     `json:"class,omitempty"`
	Gone    []byte    `json:"gone"` // see spans.append
	Lost    uint64    `json:"lost,omitempty"`
	Touched time.Time `json:"touched"`
}

// saveSeen makes the labels of what is gone durable.
func (q *Queue) saveSeen(ctx context.Context) error {
	q.saving.Lock()
	defer q.saving.Unlock()
	q.mu.Lock()
	names := slices.Clone(q.seen.sites)
	states := map[string][]byte{}
	for site := range q.seen.dirty {
		states[site] = q.seen.encode(site)
		if i, found := slices.BinarySearch(names, site); !found {
			names = slices.Insert(names, i, site)
		}
	}
	clear(q.seen.dirty)
	fresh := len(names) > len(q.seen.sites)
	q.mu.Unlock()

	err := error(nil)
	if fresh {
		err = q.store.SaveState(ctx, seenState, []byte(strings.Join(names, " ")))
	}
	for site, b := range states {
		if err == nil {
			err = q.store.SaveState(ctx, seenOf+site, b)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		for site := range states {
			q.seen.dirty[site] = true
		}
		return fmt.Errorf("queue: labels of other sites: %w", err)
	}
	q.seen.sites = names
	return nil
}

// encode is the state of a site.
func (x *seen) encode(site string) []byte {
	records := []seenRecord{}
	for s, t := range x.streams {
		if s.site() == site && (len(t.gone) > 0 || t.lost > 0) {
			records = append(records, seenRecord{s.Origin, s.Epoch, s.Link, s.Class, t.gone.append(nil), t.lost, t.touched.UTC()})
		}
	}
	slices.SortFunc(records, func(a, b seenRecord) int {
		return cmp.Or(a.Touched.Compare(b.Touched), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Class, b.Class))
	})
	b, err := json.Marshal(records)
	if err != nil {
		panic(err) // of these types it always can be
	}
	return b
}

// loadSeen reads the states. One that cannot be read ends the start: to forget it
// would deliver messages twice without a mark.
func (q *Queue) loadSeen() error {
	v, err := q.store.State(seenState)
	if err != nil {
		return fmt.Errorf("queue: labels of other sites: %w", err)
	}
	names := strings.Fields(string(v))
	for _, site := range names {
		b, err := q.store.State(seenOf + site)
		if err != nil {
			return fmt.Errorf("queue: labels of site %s: %w", site, err)
		}
		var records []seenRecord
		if len(b) > 0 {
			if err := json.Unmarshal(b, &records); err != nil {
				return fmt.Errorf("queue: labels of site %s: %w: %w", site, ErrCorrupt, err)
			}
		}
		if err := q.takeSeen(records); err != nil {
			return fmt.Errorf("queue: labels of site %s: %w: %w", site, ErrCorrupt, err)
		}
	}
	q.mu.Lock()
	q.seen.sites = names
	q.mu.Unlock()
	return nil
}

func (q *Queue) takeSeen(records []seenRecord) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range records {
		gone, err := parseSpans(r.Gone)
		if err != nil {
			return err
		}
		t := q.seen.stream(Stream{r.Origin, r.Epoch, r.Link, r.Class})
		t.gone, t.lost, t.touched = gone, r.Lost, r.Touched
		t.all = slices.Clone(gone)
	}
	return nil
}

// SeenMark is what is known of a stream of another site.
type SeenMark struct {
	Stream
	Top  uint64 // the highest number that has come
	Gaps int    // between those that have come
}

// SeenMarks are the streams that have come from an origin.
func (q *Queue) SeenMarks(origin string) (marks []SeenMark) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for s, t := range q.seen.streams {
		if s.Origin == origin && len(t.all) > 0 {
			marks = append(marks, SeenMark{s, t.all.top(), len(t.all) - 1})
		}
	}
	return marks
}
