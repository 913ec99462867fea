package queue

import (
	"hash/fnv"
	"strconv"
	"time"
)

const (
	// removeEvery is the pause between two removals of what is finished above
	// the floor. It is noted in every pass, unless that takes more than
	// noteMost records of up to 8 KiB: then as often as it is removed.
	removeEvery = 500 * time.Millisecond
	noteMost    = 8
	// singleMost is how many messages one pass deletes singly, at 29–71 µs
	// each where cutting off costs 0.1–2.6 µs (BenchmarkTrim).
	singleMost = 2048
	// singleFrom is how many finished messages must lie between unfinished ones
	// before it is worth while.
	singleFrom = 1024
)

// logSubject is where the messages of a destination are kept in the log. Those
// of one subject can be cut off below a number by one request, so a destination
// that is down keeps only its own messages from being removed.
func logSubject(destination string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(destination)) // never fails
	sum := h.Sum32()
	return subjectLog + strconv.FormatUint(uint64(sum>>16^sum&0xffff), 16)
}

// strand is what is known of the messages of one subject of the log.
type strand struct {
	// In the order of the log: those from before this run, once they have been
	// scanned, and those of this run. The head of old, or of fresh if old is
	// empty, is unfinished.
	old, fresh []uint64
	top        uint64 // highest number taken from the heads
	cut        uint64 // the subject is cut off up to here
}

// stored takes up a message of this run.
func (t *trimmer) stored(seq uint64, subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.strand(subject)
	l.fresh = append(l.fresh, seq)
}

// strand must be called with mu held.
func (t *trimmer) strand(subject string) *strand {
	l := t.strands[subject]
	if l == nil {
		l = &strand{}
		t.strands[subject] = l
	}
	return l
}

// scanned takes up the messages that the run began with, after the first whole scan.
func (t *trimmer) scanned(old map[string][]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.complete {
		return
	}
	t.complete = true
	for subject, seqs := range old {
		t.strand(subject).old = seqs
	}
}

// advance takes the finished messages from the heads. It must be called with mu held.
func (t *trimmer) advance() {
	pop := func(l *strand, seqs []uint64, gone bool) []uint64 {
		n := 0
		for n < len(seqs) && (seqs[n] < t.floor || gone && t.gone.has(seqs[n])) {
			n++
		}
		if n == 0 {
			return seqs
		}
		l.top = max(l.top, seqs[n-1])
		t.between -= n
		if n == len(seqs) {
			return nil
		}
		return seqs[n:]
	}
	for _, l := range t.strands {
		l.old = pop(l, l.old, true)
		l.fresh = pop(l, l.fresh, len(l.old) == 0 && t.complete)
	}
	t.between = max(0, t.between)
}

// cuts returns the subjects that can be cut off, and up to which number. It
// must be called with mu held, after advance.
func (t *trimmer) cuts() map[string]uint64 {
	if !t.complete { // a cut would take older messages along
		return nil
	}
	var cuts map[string]uint64
	for subject, l := range t.strands {
		if l.top > l.cut && l.top >= t.floor {
			if cuts == nil {
				cuts = make(map[string]uint64)
			}
			cuts[subject] = l.top
		}
		l.cut = l.top
		if len(l.old) == 0 && len(l.fresh) == 0 {
			delete(t.strands, subject)
		}
	}
	return cuts
}

// singles returns finished messages that no cut reaches, at most singleMost,
// and forgets them. It must be called with mu held, after advance.
func (t *trimmer) singles() (seqs []uint64) {
	left := 0
	sift := func(all []uint64) []uint64 {
		keep := all[:0]
		for _, seq := range all {
			switch {
			case !t.gone.has(seq):
				keep = append(keep, seq)
			case len(seqs) < singleMost:
				seqs = append(seqs, seq)
			default:
				left++
				keep = append(keep, seq)
			}
		}
		return keep
	}
	for _, l := range t.strands {
		l.old, l.fresh = sift(l.old), sift(l.fresh)
	}
	t.between = left
	return seqs
}
