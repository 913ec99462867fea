package queue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Label is the number of a message on a link to another site (SPEC.md §6). It
// stands in the record of the message, so that it is durable as soon as the
// message is, and no number is ever given to two: a queue begins a new epoch each
// time that it is made, and a number of an epoch is given again only if the store
// has definitely not taken the message that had it.
type Label struct {
	Stream
	N uint64 // from 1
}

// A Stream is what the numbers of labels are dense in.
type Stream struct {
	// Origin is whose number it is, as the far side knows it; "" at home.
	Origin string
	// Epoch is a random number that the queue has drawn when it was made. Zero is
	// for messages that had entered the log before their route led to a link.
	Epoch uint64
	// Link is the name of the link, and Class its priority, when the message
	// entered the log.
	Link  string
	Class uint8
}

// maxOrigin bounds an Origin.
const maxOrigin = 128

// option is the label as an option of a record: epoch in hexadecimal, class,
// number and link, and behind a slash the origin, if it is not this store.
func (l *Label) option() string {
	b := strconv.AppendUint(nil, l.Epoch, 16)
	b = strconv.AppendUint(append(b, '.'), uint64(l.Class), 10)
	b = strconv.AppendUint(append(b, '.'), l.N, 10)
	b = append(append(b, '.'), l.Link...)
	if l.Origin != "" {
		b = append(append(b, '/'), l.Origin...)
	}
	return string(b)
}

// parseLabel reads an option; nil for what is none.
func parseLabel(s string) *Label {
	s, origin, _ := strings.Cut(s, "/")
	part := strings.SplitN(s, ".", 4)
	if len(part) != 4 {
		return nil
	}
	epoch, err := strconv.ParseUint(part[0], 16, 64)
	class, e := strconv.ParseUint(part[1], 10, 8)
	n, e2 := strconv.ParseUint(part[2], 10, 64)
	l := &Label{Stream{origin, epoch, part[3], uint8(class)}, n}
	if err != nil || e != nil || e2 != nil || l.Validate() != nil {
		return nil
	}
	return l
}

// Validate says why a label that comes from elsewhere cannot be one.
func (l *Label) Validate() error {
	switch {
	case l.N == 0 || l.N == 1<<64-1:
		return fmt.Errorf("queue: label: number %d", l.N)
	case l.Link == "" || len(l.Link) > maxOrigin || strings.ContainsFunc(l.Link, notName):
		return fmt.Errorf("queue: label: %.40q is no name of a link", l.Link)
	case len(l.Origin) > maxOrigin || strings.ContainsFunc(l.Origin, notOrigin):
		return fmt.Errorf("queue: label: %.40q is no origin", l.Origin)
	}
	return nil
}

func notName(r rune) bool   { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
func notOrigin(r rune) bool { return notName(r) && r != '/' && (r < 'A' || r > 'Z') }

// numbering gives the numbers of one stream. Guarded by Queue.mu.
type numbering struct {
	next uint64
	// spare are numbers of messages that the store has refused: they are given
	// again, so that a store that is full makes no gaps.
	spare []uint64
}

func (n *numbering) take() uint64 {
	if last := len(n.spare) - 1; last >= 0 {
		v := n.spare[last]
		n.spare = n.spare[:last]
		return v
	}
	n.next++
	return n.next
}

func newEpoch() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                          // never fails
	return binary.BigEndian.Uint64(b[:])>>1 | 1<<62 // never 0
}

// put makes a message durable, with a label if its route leads to a link. A message
// that is put anew is another one on its link: an operator has asked for it.
func (q *Queue) put(ctx context.Context, m *Message) (seq uint64, err error) {
	q.mu.Lock()
	from := q.label(m)
	label := m.Link
	q.mu.Unlock()
	seq, err = q.store.Put(ctx, m)
	if from != nil && err != nil && !errors.Is(err, ErrUnknown) {
		q.mu.Lock()
		from.spare = append(from.spare, label.N)
		q.mu.Unlock()
	}
	return seq, err
}

// label gives a message its label, if its route leads to a link, and returns what its
// number is from, which gets it back if the store definitely does not take the message.
// mu is held.
func (q *Queue) label(m *Message) *numbering {
	m.Link = nil
	d := q.route(m.Route).dest
	if d == nil || d.cfg.Link == "" {
		return nil
	}
	s := Stream{Epoch: q.epoch, Link: d.cfg.Link, Class: d.cfg.Class}
	from := q.numbers[s]
	if from == nil {
		from = &numbering{}
		q.numbers[s] = from
	}
	m.Link = &Label{s, from.take()}
	return from
}

// labelOf is the label of a message on its way over a link. One that has none, or
// that of another link, entered the log before its route led there: its number is
// made of what tells it from all others, so that it is the same after a crash.
func labelOf(m *Message, link string, class uint8) *Label {
	if m.Link != nil && m.Link.Link == link {
		return m.Link
	}
	sum := sha256.Sum256([]byte("link " + m.ID + " " + strconv.FormatInt(m.Accepted.UnixNano(), 10)))
	return &Label{Stream{Link: link, Class: class}, binary.BigEndian.Uint64(sum[:8])>>2 | 1}
}

// Mark is how far the numbers of a stream of this store have come.
type Mark struct {
	Stream
	Given uint64 // the highest number that was given
}

// Marks are those of the streams of a link that have given numbers since the queue
// was made.
func (q *Queue) Marks(link string) (marks []Mark) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for s, n := range q.numbers {
		if s.Link == link {
			marks = append(marks, Mark{s, n.next})
		}
	}
	return marks
}

// NewEpoch begins a new epoch: somebody else gives numbers of the present one, as a
// copy of a running machine would.
func (q *Queue) NewEpoch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.epoch = newEpoch()
	q.numbers = map[Stream]*numbering{}
}
