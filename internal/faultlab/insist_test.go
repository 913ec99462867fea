package faultlab

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// The routes on which messages have an order key, and an id of their sender's.
const (
	keyedRoute = "keyed"
	onceRoute  = "once"
	heardRoute = "heard" // keeps replies too
	stopsRoute = "stops" // as keyed, and a dead letter stops its key
)

// A memo is a message that was accepted, so that it can be sent again.
type memo struct {
	key  string
	name string // that the sender gave it; empty = it is in the body
	body []byte
}

// signed puts a wsa:MessageID into a body.
func signed(body []byte, key string) []byte {
	header := `<s:Header><a:MessageID xmlns:a="http://www.w3.org/2005/08/addressing">urn:soapway:faultlab:` + key + `</a:MessageID></s:Header>`
	return bytes.Replace(body, []byte("<s:Body>"), []byte(header+"<s:Body>"), 1)
}

// altered is another message, of the same key.
func altered(body []byte) []byte {
	return bytes.Replace(body, []byte(envelopeEnd), []byte("other"+envelopeEnd), 1)
}

// memos is how many a sender remembers.
const memos = 40

// insist sends a message until it is accepted, a few times at most, and sometimes
// once more, or twice at the same time; now and then it sends an old one again,
// or another under its name.
func (s *sender) insist(o *op, body []byte) {
	if n := len(s.sent); n > 0 && s.rnd.IntN(3) == 0 {
		old := s.sent[s.rnd.IntN(n)]
		if s.rnd.IntN(4) == 0 {
			s.impostor(old)
		} else {
			s.hear(nil, old.key, s.both(old.body, old.name, false))
		}
	}
	m := memo{o.Key, o.Key, body}
	if s.n%2 == 0 { // one body is the same message for both
		m.name = ""
	}
	o.Outcome = refused
	for range 4 {
		answers := s.both(body, m.name, s.rnd.IntN(3) == 0)
		s.hear(o, o.Key, answers)
		if o.Outcome == accepted && s.rnd.IntN(4) > 0 {
			break
		}
		pause(time.Duration(s.rnd.Int64N(int64(30 * time.Millisecond))))
	}
	if o.Outcome == accepted {
		if s.sent = append(s.sent, m); len(s.sent) > memos {
			s.sent = s.sent[1:]
		}
	}
}

// impostor sends another message under the name of one that was accepted. An
// answer that tells nothing, as of a gateway that is not there, is none.
func (s *sender) impostor(old memo) {
	switch a := s.post(s.http, altered(old.body), old.name); {
	case a.x == accepted:
		s.rec.echo(echo{Key: old.key, ID: a.id, Other: true, Why: "accepted"})
	case strings.Contains(a.why, reusedID):
		s.rec.echo(echo{Key: old.key, Other: true, Why: reusedID})
	case strings.Contains(a.why, "DeadLettered"):
		s.rec.echo(echo{Key: old.key, Other: true, Why: "DeadLettered"})
	}
}

// repeatAll sends everything that the senders remember once more, with nothing
// waiting and nothing broken: now each answer is known beforehand.
func (c *crowd) repeatAll() (asked int) {
	for _, s := range c.senders {
		for _, m := range s.sent {
			a := s.post(s.http, m.body, m.name)
			dead := strings.Contains(a.why, "DeadLettered")
			s.rec.echo(echo{Key: m.key, ID: a.id, Dead: dead, Why: a.why, Replied: a.replied, Final: true})
			s.impostor(m)
			asked++
		}
		s.hangUp()
	}
	return asked
}

// answer is what came back for one request.
type answer struct {
	x       outcome
	id, why string
	replied bool // what came is the backend's answer, as it was kept
}

// both sends a body, or the same body twice at once.
func (s *sender) both(body []byte, name string, twice bool) []answer {
	answers := make([]answer, 1, 2)
	var wg sync.WaitGroup
	if twice {
		answers = answers[:2]
		wg.Go(func() { answers[1] = s.post(s.second, body, name) })
	}
	answers[0] = s.post(s.http, body, name)
	wg.Wait()
	return answers
}

// hear takes up answers for a message: the first receipt is that of the op, if
// one is given, and all others must be echoes of it.
func (s *sender) hear(o *op, key string, answers []answer) {
	for _, a := range answers {
		dead := a.x == refused && strings.Contains(a.why, "DeadLettered")
		reused := a.x == refused && strings.Contains(a.why, reusedID)
		switch {
		case reused:
			s.rec.echo(echo{Key: key, Why: a.why})
		case o != nil && o.Outcome != accepted && dead:
			o.Outcome, o.Unnamed = accepted, true
			s.rec.echo(echo{Key: key, Dead: true})
		case o != nil && o.Outcome != accepted && a.x == accepted:
			o.Outcome, o.ID = accepted, a.id
			if a.replied {
				s.rec.echo(echo{Key: key, ID: a.id, Replied: true})
			}
		case a.x == accepted || dead:
			s.rec.echo(echo{Key: key, ID: a.id, Dead: dead, Replied: a.replied})
		case o != nil && o.Outcome != accepted && a.x == unknown:
			o.Outcome, o.Why = unknown, a.why
		case o != nil && o.Outcome == refused:
			o.Why = a.why
		}
	}
}
