package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const (
	// trimEvery is the pause between two passes of the trimmer.
	trimEvery = 100 * time.Millisecond
)

// mark is the record gw.mark.
type mark struct {
	Floor   uint64 `json:"floor"`   // everything below is finished
	Durable uint64 `json:"durable"` // everything up to here was on the disk
}

// trimmer removes finished messages from the log, in passes of its own.
//
// The log is cut off below the floor, the lowest unfinished sequence number, and
// each destination's messages below that destination's own. What is finished
// above those stays until there is much of it, and is then deleted singly.
// Before any of this is done it is noted on the disk: the floor in gw.mark, the
// numbers above it in gw.gone.N, one bit map for each chunk of numbers. So every
// number that is missing in the log can be told from a loss (Embedded.Scan),
// and a kill between a delivery's end and the deed repeats nothing that was noted.
type trimmer struct {
	s *Embedded

	mu                 sync.Mutex
	floor              uint64
	gone               seqSet             // finished, at or above floor
	strands            map[string]*strand // by subject of the log
	complete           bool               // strands know the messages from before this run
	between            int                // finished messages that no cut reaches, about
	dirty              map[uint64]bool    // chunks with deletions that their record lacks
	states             []uint64           // sequences of GW_STATE to delete
	free               int                // of these, the first ones that no message hangs on that is owed
	measure            bool               // something made room
	inherited, revived seqSet             // noted as finished in an earlier run; of these, found in the log all the same
	debts              debts
	bodies             []uint64 // finished messages whose body is a file that goes once that is noted

	// Of the goroutine in run only:
	noted     mark
	notedAt   time.Time
	removedAt time.Time
	markSeq   uint64            // of the mark in GW_STATE
	recorded  map[uint64]uint64 // chunks that have a record, and its sequence
	cutAt     uint64            // the log is cut off below

	wake     chan struct{}
	stopping chan struct{}
	stop     sync.Once
	done     chan struct{}
	unnoted  error // of the last pass: what is removed may not be known at the next start; set before done is closed
}

// openTrimmer reads what was noted, and compares it with the state of the log.
func openTrimmer(s *Embedded, log *streamInfo) (*trimmer, error) {
	t := &trimmer{
		s: s, floor: 1, dirty: make(map[uint64]bool), recorded: make(map[uint64]uint64), strands: make(map[string]*strand),
		debts: debts{seqs: make(map[uint64]struct{}), hours: make(map[int64]bool)},
		wake:  make(chan struct{}, 1), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	first, last := max(1, log.State.First), log.State.Last
	b, seq, err := s.value(subjectMark)
	t.markSeq = seq
	if err == nil && b != nil {
		err = json.Unmarshal(b, &t.noted)
	}
	if err != nil { // costs repeats of what is finished, no message
		s.opt.Log.Error("the mark of the log can not be read: finished messages may be delivered again", "err", err)
		t.noted = mark{}
	}
	t.floor = max(1, t.noted.Floor)
	err = s.js.values(context.Background(), subjectGone+"*", func(r scanned) error {
		k, err := chunkOf(r.subject)
		if err == nil {
			if _, err = decodeValue(r.header(headerValue), r.msg.Data); err == nil {
				err = t.gone.unmarshalChunk(k, r.msg.Data)
			}
		}
		if err != nil {
			s.opt.Log.Error("a record of removed messages can not be read: they may be reported as missing", "subject", r.subject, "err", err)
			return nil
		}
		if old := t.recorded[k]; old != 0 {
			t.states = append(t.states, old)
		}
		t.recorded[k] = r.seq
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.gone.dropBelow(t.floor)
	// The log may have lost its end, which nothing in it shows. Its next
	// numbers must not be ones that are noted as finished.
	if t.noted.Durable > last {
		t.report(last+1, t.noted.Durable)
	}
	for _, k := range t.gone.dropAbove(last) {
		t.dirty[k] = true
	}
	t.inherited = t.gone.clone()
	if t.cutAt = first; t.floor > first || t.floor > last+1 {
		// A crash came between the note and the deed. Above the last message
		// this also moves the next number up to the floor.
		if err := s.js.purge(streamLog, t.floor); err != nil {
			return nil, err
		}
		i, err := s.js.info(streamLog)
		if err != nil {
			return nil, err
		}
		t.cutAt = t.floor
		s.commit.durable.Store(i.State.Last)
		s.messages.Store(int64(i.State.Messages))
		t.measure = true
	}
	t.complete = s.messages.Load() == 0
	return t, nil
}

// report tells of the numbers in [from, to] that are missing and not known as finished.
func (t *trimmer) report(from, to uint64) {
	for from <= to {
		from = max(from, t.floor)
		if from = t.gone.skip(from); from > to {
			return
		}
		end := from
		for end < to && !t.gone.has(end+1) {
			end++
		}
		t.s.opt.Log.Error("messages are missing in the log though nothing removed them", "from", from, "to", end)
		t.s.opt.Observer.Gap(from, end)
		t.s.doubtBodies()
		t.s.finding(Damage{Stream: holds(streamLog), Seq: from, Reason: fmt.Sprintf("messages %d to %d are missing in the log", from, end)})
		from = end + 1
	}
}

// start is the first number that can be in the log.
func (t *trimmer) start() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.floor
}

func (t *trimmer) removed(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, owed := t.debts.seqs[seq]
	return owed || seq < t.floor || t.gone.has(seq)
}

// missing reports what is lost of [from, to] and takes it as finished.
func (t *trimmer) missing(from, to uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report(from, to)
	for seq := max(from, t.floor); seq <= to; seq++ {
		if t.gone.add(seq) {
			t.dirty[seq/chunkBits] = true
		}
	}
}

// remove notes finished messages; the next passes do the rest.
func (t *trimmer) remove(seqs []uint64) {
	top := t.s.commit.durable.Load()
	t.mu.Lock()
	n := 0
	for _, seq := range seqs {
		if _, owed := t.debts.seqs[seq]; owed {
			continue
		}
		if seq >= t.floor && seq <= top && t.gone.add(seq) {
			t.finished(seq)
			n++
		}
	}
	t.between += n
	t.mu.Unlock()
	if n > 0 {
		t.s.messages.Add(-int64(n))
		t.poke()
	}
}

// finished takes up that a message is noted as gone. It must be called with mu held.
func (t *trimmer) finished(seq uint64) {
	t.dirty[seq/chunkBits] = true
	if t.s.blobs.refs.inTheLog(seq) {
		t.bodies = append(t.bodies, seq)
	}
}

// again takes up a removal that was noted in an earlier run.
func (t *trimmer) again(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq < t.floor || !t.inherited.has(seq) || !t.revived.add(seq) {
		return
	}
	t.between++
	t.s.messages.Add(-1)
}

// forget deletes a message of GW_STATE with the next pass.
func (t *trimmer) forget(seq uint64) {
	t.mu.Lock()
	t.states = append(t.states, seq)
	t.mu.Unlock()
	t.poke()
}

// poke makes a pass happen soon.
func (t *trimmer) poke() {
	t.mu.Lock()
	t.measure = true
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *trimmer) close() {
	t.stop.Do(func() { close(t.stopping) })
	<-t.done
}

func (t *trimmer) run() {
	defer close(t.done)
	pause := time.NewTimer(trimEvery)
	defer pause.Stop()
	for {
		select {
		case <-t.wake:
		case <-pause.C: // the mark follows what is stored, and patience ends
		case <-t.stopping:
			t.finish()
			return
		}
		if err := t.pass(false); err != nil {
			t.s.fail(fmt.Errorf("trim: %w", err))
			<-t.stopping
			return
		}
		wait := trimEvery
		if t.idle() {
			wait = idleSync
		}
		select {
		case <-time.After(trimEvery):
		case <-t.stopping:
			t.finish()
			return
		}
		pause.Reset(wait)
	}
}

func (t *trimmer) finish() {
	if t.s.Err() == nil {
		if err := t.pass(true); err != nil {
			t.unnoted = err
			t.s.opt.Log.Warn("removed messages stay in the log until the next start", "err", err)
		}
	}
}

func (t *trimmer) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.dirty) == 0 && len(t.states) == 0 && len(t.debts.list) == 0 && t.between < singleFrom
}

// pass notes what is finished, waits until the notes are durable, and then
// removes it. The last one keeps no pauses.
func (t *trimmer) pass(last bool) error {
	if t.s.brim() || t.s.footing(streamState) != nil {
		return nil // it waits for room, or for the reserve
	}
	t.s.twins.name()
	if last || time.Since(t.removedAt) >= removeEvery {
		if t.s.twins.keep(allStreams...) && !last { // or what was removed takes room until somebody sends something
			if err := t.s.commit.submit(&job{early: true}); err != nil {
				return err
			}
		}
	}
	if err := t.pay(last); err != nil {
		return err
	}
	t.mu.Lock()
	t.floor = t.gone.skip(t.floor)
	now := mark{Floor: t.floor, Durable: t.s.commit.durable.Load()}
	dropped := t.gone.dropBelow(t.floor)
	t.advance()
	var chunks map[uint64][]byte
	var cuts map[string]uint64
	var single, bodies, states []uint64
	due := last || time.Since(t.removedAt) >= removeEvery
	if due || len(t.dirty) <= noteMost {
		chunks = make(map[uint64][]byte, len(t.dirty))
		for k := range t.dirty {
			if (k+1)*chunkBits > t.floor {
				chunks[k] = t.gone.marshalChunk(k)
			}
		}
		clear(t.dirty)
		bodies, t.bodies = t.bodies, nil
		// Not before: the attempts of a message must be known as long as a kill can
		// bring it back.
		states, t.states = t.states[:t.free:t.free], t.states[t.free:]
		t.free = 0
	}
	if due {
		t.removedAt = time.Now()
		cuts = t.cuts()
		if t.crowded() || last && t.between > 0 {
			single = t.singles()
		}
	}
	measure := t.measure
	t.measure = false
	t.mu.Unlock()

	var notes []*job
	note := func(subject string, data []byte) *job {
		j := &job{rec: record{subject, headerValue, encodeValue(subject, data), data}, size: recordOverhead + len(data), urgent: last}
		notes = append(notes, j)
		return j
	}
	var marked *job
	if now.Floor != t.noted.Floor || now.Durable != t.noted.Durable && (last || time.Since(t.notedAt) >= idleSync) {
		b, err := json.Marshal(now)
		if err != nil {
			return err
		}
		marked = note(subjectMark, b)
		t.noted, t.notedAt = now, time.Now()
	}
	records := make(map[uint64]*job, len(chunks))
	for k, b := range chunks {
		records[k] = note(chunkSubject(k), b)
	}
	if err := t.write(notes); err != nil {
		return err
	}
	// What was replaced goes, now that its successor is durable.
	replace := func(old *uint64, j *job) {
		if *old != 0 {
			states = append(states, *old)
		}
		*old = j.seq
	}
	if marked != nil {
		replace(&t.markSeq, marked)
	}
	for k, j := range records {
		old := t.recorded[k]
		replace(&old, j)
		t.recorded[k] = old
	}

	for _, seq := range bodies { // now that no crash brings their messages back
		if name, gone := t.s.blobs.refs.leftLog(seq); gone {
			t.s.blobs.remove(name)
		}
	}

	changed, err := t.forgetHours()
	if err != nil {
		return err
	}
	if over, err := t.s.forgetReplies(); err != nil {
		return err
	} else if over {
		changed = true
	}
	if now.Floor > t.cutAt && t.roomy(streamLog) {
		if err := t.s.js.purge(streamLog, now.Floor); err != nil {
			return err
		}
		t.cutAt, changed = now.Floor, true
	}
	for subject, seq := range cuts {
		if !t.roomy(streamLog) {
			return nil
		}
		if err := t.s.js.cut(streamLog, subject, seq+1); err != nil {
			return err
		}
		changed = true
	}
	if len(single) > 0 && t.roomy(streamLog) {
		if err := t.s.js.remove(streamLog, single); err != nil {
			return err
		}
		changed = true
	}
	if len(states) > 0 && t.roomy(streamState) {
		if err := t.s.js.remove(streamState, states); err != nil {
			return err
		}
		changed = true
	}
	for _, k := range dropped {
		if t.recorded[k] != 0 {
			if err := t.s.js.forget(streamState, chunkSubject(k), 0); err != nil {
				return err
			}
			delete(t.recorded, k)
			changed = true
		}
	}
	if !changed && !measure {
		return nil
	}
	if changed {
		// Written by the server, not yet by the disk: the committer syncs within idleSync.
		if err := t.s.commit.submit(&job{early: true}); err != nil {
			return err
		}
	}
	return t.s.measure()
}

// roomy waits until the server may be asked to remove something of a stream, see
// brim and footing; false if that does not come before the store is closed: it
// stays until the next start.
func (t *trimmer) roomy(stream string) bool {
	for t.s.brim() || t.s.footing(stream) != nil {
		select {
		case <-time.After(trimEvery):
		case <-t.stopping:
			return false
		}
	}
	return true
}

// crowded says whether what lies between unfinished messages must go: because
// there is much of it beside them, or little room. It must be called with mu held.
func (t *trimmer) crowded() bool {
	return t.between >= singleFrom && int64(t.between) > t.s.messages.Load()/4 ||
		t.between > 0 && t.s.used.Load() > t.s.limit/2
}

// write makes notes durable. They share the sync of whatever is stored
// meanwhile; without any it comes within idleSync.
func (t *trimmer) write(notes []*job) error {
	for _, j := range notes {
		if err := t.s.commit.submit(j); err != nil {
			return err
		}
	}
	for _, j := range notes {
		select {
		case <-j.done:
			if j.err != nil {
				return j.err
			}
		case <-t.stopping: // Close waits for the pass: make the sync happen
			if err := t.s.commit.do(context.Background(), &job{urgent: true}); err != nil {
				return err
			}
			<-j.done
			if j.err != nil {
				return j.err
			}
		}
	}
	return nil
}
