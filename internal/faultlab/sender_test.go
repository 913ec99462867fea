package faultlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"soapway/internal/frame"
)

// A door is where a gateway takes messages; it moves when the gateway is
// started again, and is closed while it is not running.
type door struct {
	mu   sync.Mutex
	addr map[string]string // listener → address
}

var errClosed = errors.New("no gateway is running")

func (d *door) set(addr map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addr = addr
}

// dialError is one that came before anything was sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

func (d *door) dial(ctx context.Context, listener string) (net.Conn, error) {
	d.mu.Lock()
	addr := d.addr[listener]
	d.mu.Unlock()
	if addr == "" {
		return nil, dialError{errClosed}
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError{err}
	}
	return c, nil
}

// A sender posts numbered messages on one connection, each once.
type sender struct {
	name   int
	route  string
	framed bool
	rec    *recorder
	door   *door
	w      *writer
	rnd    *rand.Rand
	think  time.Duration // at most so long between two messages
	deadly int           // one of so many is poison; 0 = none
	lanes  int           // of so many one is drawn for each message; 0 = none
	once   bool          // messages have an id of their sender's, and are sent again
	held   bool          // the backend's answer may come in place of a receipt
	others []string      // routes to go on with, one after the other
	fat    bool          // every message is as large as they get
	sent   []memo        // of the messages that were accepted, the last ones
	http   *http.Client
	second *http.Client // for what is sent at the same time
	conn   net.Conn
	reply  *frame.Reader
	n      int
}

// clientTimeout is how long a sender waits for its answer.
const clientTimeout = 20 * time.Second

func (l *lab) newSender(name int, route string) *sender {
	s := &sender{
		name: name, route: route, framed: route == framedRoute, rec: l.rec, door: &l.door, w: l.w,
		rnd: rand.New(rand.NewPCG(l.seed, 1000+uint64(name))), think: 20 * time.Millisecond,
	}
	tr := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return s.door.dial(ctx, "web") },
		MaxConnsPerHost: 1, DisableCompression: true,
	}
	s.http = &http.Client{Transport: tr, Timeout: clientTimeout}
	s.second = &http.Client{Transport: tr.Clone(), Timeout: clientTimeout}
	s.turn(l.rec.h.Once[route], l.held[route])
	return s
}

// turn sets how messages of the sender's route are sent.
func (s *sender) turn(once, held bool) {
	s.once, s.held, s.lanes = once, held, 0
	if s.route == keyedRoute || s.route == stopsRoute {
		s.lanes = 12
	}
}

// run sends until ctx ends or count messages are sent; 0 = no bound.
func (s *sender) run(ctx context.Context, count int) {
	defer s.hangUp()
	for i := 0; (count == 0 || i < count) && ctx.Err() == nil; i++ {
		if s.one() == refused {
			wait(ctx, 5*time.Millisecond)
		}
		if s.think > 0 {
			wait(ctx, time.Duration(s.rnd.Int64N(int64(s.think))))
		}
	}
}

func (s *sender) hangUp() {
	s.http.CloseIdleConnections()
	s.second.CloseIdleConnections()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// one sends one message and writes down what became of it.
func (s *sender) one() outcome {
	s.n++
	if n := len(s.others); n > 0 {
		s.route = s.others[s.n%n]
	}
	o := op{Key: fmt.Sprintf("%d-%d", s.name, s.n), Route: s.route, Unnamed: s.framed}
	octets := size(s.rnd)
	switch {
	case s.fat:
		octets = largest
	case s.route == bulkRoute:
		octets = bulk(s.rnd)
	}
	body := s.w.body(o.Key, octets, s.deadly > 0 && s.rnd.IntN(s.deadly) == 0, s.rnd)
	if s.lanes > 0 {
		o.Lane = fmt.Sprintf("k%d", s.rnd.IntN(s.lanes))
		body = inLane(body, o.Lane)
	}
	if s.once && s.n%2 == 0 {
		body = signed(body, o.Key)
	}
	o.Hash = hashOf(body)
	o.Start = s.rec.now()
	switch {
	case s.framed:
		o.Outcome, o.Why = s.postFrame(body)
	case s.once:
		s.insist(&o, body)
	default:
		a := s.post(s.http, body, "")
		o.Outcome, o.ID, o.Why = a.x, a.id, a.why
	}
	o.End = s.rec.now()
	s.rec.op(o)
	return o.Outcome
}

// post sends by HTTP. A connection that was refused is a definite error; one
// that broke after it was used leaves the outcome unknown.
func (s *sender) post(client *http.Client, body []byte, name string) answer {
	req, err := http.NewRequest(http.MethodPost, "http://gateway/"+s.route, bytes.NewReader(body))
	if err != nil {
		return answer{x: refused, why: err.Error()}
	}
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	req.Header.Set("SOAPAction", `"urn:soapway:faultlab#Place"`)
	if name != "" {
		// The transport must not send it again by itself, as it would for this
		// field: it would tell only how the last time ended.
		req.GetBody = nil
		req.Header.Set("Idempotency-Key", name)
	}
	res, err := client.Do(req)
	if err != nil {
		if _, ok := errors.AsType[dialError](err); ok {
			return answer{x: refused, why: err.Error()}
		}
		return answer{x: unknown, why: err.Error()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	return s.understand(res, text, err)
}

// understand takes an answer for what it says. The head is the promise, whatever
// becomes of the rest of it.
func (s *sender) understand(res *http.Response, text []byte, err error) answer {
	id, why := res.Header.Get("Gateway-Message-Id"), fmt.Sprintf("%s %.600q %v", res.Status, text, err)
	switch receipt := strings.HasPrefix(res.Header.Get("Location"), "/_gateway/messages/"); {
	case res.StatusCode == http.StatusAccepted && (receipt || !s.held):
		return answer{x: accepted, id: id}
	case res.Header.Get("Gateway-Outcome") == "unknown":
		return answer{x: unknown, why: res.Status}
	case s.held && res.StatusCode < 300:
		return answer{x: answered, why: why}
	case s.held && res.StatusCode != http.StatusServiceUnavailable:
		return answer{x: failed, why: why}
	case s.once && res.StatusCode == http.StatusOK && err == nil && string(text) == replyEnvelope:
		return answer{x: accepted, id: id, replied: true}
	}
	return answer{x: refused, why: why}
}

// postFrame sends a frame: a frame without a payload is the answer that it is
// accepted.
func (s *sender) postFrame(body []byte) (outcome, string) {
	if s.conn == nil {
		ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
		defer cancel()
		c, err := s.door.dial(ctx, "plant")
		if err != nil {
			return refused, err.Error()
		}
		s.conn, s.reply = c, frame.NewReader(c, 4, 1<<20, 4096)
	}
	answer, err := s.exchange(body)
	if err != nil {
		s.conn.Close()
		s.conn = nil
		return unknown, err.Error()
	}
	switch {
	case len(answer) == 0:
		return accepted, ""
	case strings.Contains(string(answer), "OutcomeUnknown"):
		return unknown, "OutcomeUnknown"
	}
	return refused, fmt.Sprintf("%.300q", answer)
}

func (s *sender) exchange(body []byte) ([]byte, error) {
	out, err := frame.Append(nil, 4, body)
	if err != nil {
		return nil, err
	}
	if err := s.conn.SetDeadline(time.Now().Add(clientTimeout)); err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(out); err != nil {
		return nil, err
	}
	if _, err := s.reply.Next(); err != nil {
		return nil, err
	}
	return io.ReadAll(s.reply)
}

// A crowd is senders at work.
type crowd struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	left    atomic.Int64
	senders []*sender
}

// send lets n senders work, the routes in turn; each sends count messages, or
// goes on until the crowd is stopped.
func (l *lab) send(n, count int, think time.Duration, deadly int, routes ...string) *crowd {
	c := &crowd{}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for i := range n {
		l.hire(ctx, c, count, func(s *sender) { s.think, s.deadly = think, deadly }, routes[i%len(routes)])
	}
	return c
}

// hire adds a sender to a crowd, after be has said what it is like. One with
// several routes sends to each in turn.
func (l *lab) hire(ctx context.Context, c *crowd, count int, be func(*sender), routes ...string) {
	l.senders++
	s := l.newSender(l.senders, routes[0])
	be(s)
	if len(routes) > 1 {
		s.others = routes
	}
	c.senders = append(c.senders, s)
	c.left.Add(1)
	c.wg.Go(func() {
		defer c.left.Add(-1)
		s.run(ctx, count)
	})
}

// wait returns once every sender has sent its count.
func (c *crowd) wait() { c.wg.Wait(); c.stop() }

// halt stops the senders after the message they are at.
func (c *crowd) halt() { c.stop(); c.wg.Wait() }
