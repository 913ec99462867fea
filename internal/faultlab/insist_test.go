package faultlab

import (
	"strings"
	"sync"
	"time"
)

// The routes on which messages have an order key, and an id of their sender's.
const (
	keyedRoute = "keyed"
	onceRoute  = "once"
)

// A memo is a message that was accepted, so that it can be sent again.
type memo struct {
	key  string
	body []byte
}

// memos is how many a sender remembers.
const memos = 40

// insist sends a message until it is accepted, a few times at most, and sometimes
// once more, or twice at the same time; now and then it sends an old one again.
func (s *sender) insist(o *op, body []byte) {
	if n := len(s.sent); n > 0 && s.rnd.IntN(3) == 0 {
		old := s.sent[s.rnd.IntN(n)]
		s.hear(nil, old.key, s.both(old.body, old.key, false))
	}
	o.Outcome = refused
	for range 4 {
		answers := s.both(body, o.Key, s.rnd.IntN(3) == 0)
		s.hear(o, o.Key, answers)
		if o.Outcome == accepted && s.rnd.IntN(4) > 0 {
			break
		}
		pause(time.Duration(s.rnd.Int64N(int64(30 * time.Millisecond))))
	}
	if o.Outcome == accepted {
		if s.sent = append(s.sent, memo{o.Key, body}); len(s.sent) > memos {
			s.sent = s.sent[1:]
		}
	}
}

// answer is what came back for one request.
type answer struct {
	x       outcome
	id, why string
}

// both sends a body, or the same body twice at once.
func (s *sender) both(body []byte, name string, twice bool) []answer {
	answers := make([]answer, 1, 2)
	var wg sync.WaitGroup
	if twice {
		answers = answers[:2]
		wg.Go(func() { answers[1].x, answers[1].id, answers[1].why = s.post(s.second, body, name) })
	}
	answers[0].x, answers[0].id, answers[0].why = s.post(s.http, body, name)
	wg.Wait()
	return answers
}

// hear takes up answers for a message: the first receipt is that of the op, if
// one is given, and all others must be echoes of it.
func (s *sender) hear(o *op, key string, answers []answer) {
	for _, a := range answers {
		dead := a.x == refused && strings.Contains(a.why, "DeadLettered")
		reused := a.x == refused && strings.Contains(a.why, "IDReused")
		switch {
		case reused:
			s.rec.echo(echo{Key: key, Why: a.why})
		case o != nil && o.Outcome != accepted && dead:
			o.Outcome, o.Unnamed = accepted, true
			s.rec.echo(echo{Key: key, Dead: true})
		case o != nil && o.Outcome != accepted && a.x == accepted:
			o.Outcome, o.ID = accepted, a.id
		case a.x == accepted || dead:
			s.rec.echo(echo{Key: key, ID: a.id, Dead: dead})
		case o != nil && o.Outcome != accepted && a.x == unknown:
			o.Outcome, o.Why = unknown, a.why
		case o != nil && o.Outcome == refused:
			o.Why = a.why
		}
	}
}
