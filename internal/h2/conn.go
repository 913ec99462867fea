package h2

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"soapway/internal/h1"
)

const (
	// mostLost is how many exchanges a client may give up on one connection
	// before it has to make another one: whoever opens streams only to reset
	// them pays for each hundred with a handshake.
	mostLost = 100

	// lingerFor and lingerMost bound what a client may go on sending on a
	// connection that has ended, so that the last frames are not lost in a reset.
	lingerFor  = time.Second
	lingerMost = 256 << 10

	// parkAfter is how long a silent connection keeps its buffers.
	parkAfter = time.Second

	// mostReset is how many streams are remembered that ended before their
	// client's part had come: the rest of it may still be on its way.
	mostReset = 256
)

// errTooSlow ends a connection whose client takes too long for what it has begun.
var errTooSlow = errors.New("h2: the client is too slow")

// conn is one connection.
type conn struct {
	srv    *Server
	outer  net.Conn // to be closed
	raw    net.Conn // to be read and written
	remote netip.AddrPort
	ctx    context.Context // of its exchanges
	cancel context.CancelCauseFunc
	began  time.Time

	// Only the reader touches these.
	in      source
	decode  *hpack.Decoder
	head    head
	ready   []*stream // that have not begun yet
	settled bool      // the first frame has come
	partial time.Time // when we began to wait for the rest of a frame; zero for one of a body

	writeBy time.Time // the write deadline that is set; only who flushes touches it

	mu      sync.Mutex
	streams map[uint32]*stream
	last    uint32 // the highest stream
	reset   [mostReset]uint32
	resets  int
	serving int // exchanges that run
	over    int // of these, whose streams have ended for both sides
	lost    int // exchanges that the client gave up
	budget  budget

	window   int // octets of bodies that the client may still send
	returned int // octets that were read and are not yet given back

	sendWindow int64
	initial    int64 // the first window of a stream
	maxFrame   int
	encode     *hpack.Encoder
	block      bytes.Buffer // what encode writes

	out      []byte // frames that wait to be written
	spare    []byte
	flushing bool
	booked   bool      // somebody is about to flush
	room     sync.Cond // something was written, or the connection's window has grown

	greeted bool      // the preface has come
	away    bool      // a GOAWAY is on its way
	promise uint32    // the last stream that one named: the next may not name a higher one
	closing bool      // and nothing more: what comes is not read
	idle    time.Time // since when there is no stream
	err     error     // the connection has ended
}

func newConn(s *Server, outer net.Conn) *conn {
	c := &conn{
		srv: s, outer: outer, raw: outer, began: time.Now(),
		streams: map[uint32]*stream{},
		promise: maxWindow,
		window:  connWindow, sendWindow: firstWindow, initial: firstWindow, maxFrame: frameSize,
	}
	if i, ok := outer.(interface{ Inner() net.Conn }); ok {
		c.raw = i.Inner()
	}
	c.remote = h1.AddrPort(outer.RemoteAddr())
	c.idle = c.began
	c.budget = budget{left: mostFrames, at: c.began}
	c.room.L = &c.mu
	c.in.conn, c.in.at = c.raw, c.began
	c.encode = hpack.NewEncoder(&c.block)
	c.decode = hpack.NewDecoder(tableSize, c.field)
	c.decode.SetMaxStringLength(s.opt.HeaderBytes)
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	if e, ok := outer.(interface{ Early() []byte }); ok {
		c.in.put(e.Early())
	}
	return c
}

// run has f run beside everything else; the server's Close waits for it.
func (s *Server) run(f func()) {
	s.open.Add(1)
	s.opt.Run(func() {
		defer s.open.Done()
		f()
	})
}

// serve is the life of the connection.
func (c *conn) serve() {
	err := errPanic
	defer func() {
		if v := recover(); v != nil {
			c.srv.opt.Log.Error("connection panicked", "panic", v, "stack", string(debug.Stack()))
		}
		c.outer.Close()
		c.end(err)
		c.in.release()
	}()
	err = c.open()
	for err == nil {
		err = c.frame()
	}
	if why, ok := errors.AsType[*connError](err); ok {
		c.say(why)
		c.end(err)
		c.linger()
	}
}

// open exchanges what both sides say first (RFC 9113 §3.4).
func (c *conn) open() error {
	if err := c.need(len(preface)); err != nil {
		return err
	}
	if string(c.in.next(len(preface))) != preface {
		return errors.New("h2: no connection preface")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeted = true
	c.out = appendSettings(c.out,
		setStreams, maxStreams,
		setWindow, streamWindow,
		setHeaderList, uint32(c.srv.opt.HeaderBytes+10*32)) // what RFC 9113 §6.5.2 counts for a field
	c.out = append4(c.out, kindWindow, 0, connWindow-firstWindow)
	c.flushElsewhere()
	return nil
}

// preface is what a client says first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// need reads until n octets are there, which are then valid until the next call.
func (c *conn) need(n int) error {
	for c.in.here() < n {
		if len(c.ready) > 0 {
			c.launch()
		}
		if err := c.patience(); err != nil {
			return err
		}
		if err := c.in.fill(); err != nil {
			return err
		}
	}
	return nil
}

// patience sets the time at which the next octet must have come. It is an error
// if the client has taken too long already, or nothing is to be read any more.
func (c *conn) patience() error {
	opt := &c.srv.opt
	var by time.Time
	switch {
	case !c.settled:
		by = c.began.Add(opt.HeaderTimeout)
	case !c.head.since.IsZero():
		by = c.head.since.Add(opt.HeaderTimeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if by.IsZero() && c.in.here() > 0 {
		by = c.frameBy()
	}
	for len(c.out) >= 2*mostOut && c.err == nil {
		c.room.Wait() // who does not take what it has asked for cannot ask for more
	}
	switch {
	case c.err != nil:
		return c.err
	case c.closing:
		return errClosing
	case by.IsZero() && len(c.streams) == 0:
		by = c.idle.Add(opt.IdleTimeout)
		if c.in.timeIsUp(by) {
			return errIdle
		}
		if park := c.in.at.Add(parkAfter); c.in.buf != nil && park.Before(by) {
			if c.in.timeIsUp(park) {
				c.in.release()
				if !c.flushing && len(c.out) == 0 {
					c.out, c.spare = nil, nil
				}
			} else {
				by = park
			}
		}
	case !by.IsZero() && c.in.timeIsUp(by):
		return errTooSlow
	}
	// With mu held, so that leave has the last word.
	c.in.arm(by)
	return nil
}

// frameBy is when more must have come of a frame that is here in part. Only a body
// may come as slowly as it likes, as long as it is not silent; whatever else comes
// octet by octet would keep a connection for ever that does nothing.
func (c *conn) frameBy() time.Time {
	if c.in.here() >= headSize {
		f := parseHead(c.in.peek(headSize))
		if s := c.streams[f.stream]; f.kind == kindData && s != nil && !s.body.whole {
			return c.in.at.Add(c.srv.opt.BodyTimeout)
		}
	}
	if c.partial.IsZero() {
		c.partial = time.Now()
	}
	return c.partial.Add(c.srv.opt.HeaderTimeout)
}

// The ends of a connection at which nobody has done anything wrong.
var (
	errClosing = &connError{codeNone, "nothing is left to be done"}
	errIdle    = &connError{codeNone, "no stream for too long"}
)

// frame reads a frame and does what it says.
func (c *conn) frame() error {
	if err := c.need(headSize); err != nil {
		return err
	}
	f := parseHead(c.in.peek(headSize))
	if f.length > frameSize {
		return &connError{codeFrameSize, "a frame that is too long"}
	}
	if err := c.need(headSize + f.length); err != nil {
		return err
	}
	p := c.in.next(headSize + f.length)[headSize:]
	c.partial = time.Time{}
	switch {
	case !c.settled && (f.kind != kindSettings || f.has(flagAck)):
		return violation("the first frame is not SETTINGS")
	case c.head.open != (f.kind == kindContinuation), c.head.open && f.stream != c.head.id:
		return violation("a head that is interrupted, or a CONTINUATION of none")
	}
	c.settled = true
	switch f.kind {
	case kindData:
		return c.data(&f, p)
	case kindHeaders:
		return c.headers(&f, p)
	case kindContinuation:
		return c.fragment(&f, p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.budget.spend(); err != nil {
		return err
	}
	err := c.control(&f, p)
	c.flushElsewhere()
	return err
}

// data takes in a DATA frame (RFC 9113 §6.1).
func (c *conn) data(f *frame, p []byte) error {
	if f.stream == 0 {
		return violation("DATA on stream 0")
	}
	p, err := unpad(f, p)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 && !f.has(flagEndStream) {
		if err := c.budget.spend(); err != nil {
			return err
		}
	}
	if c.window -= f.length; c.window < 0 {
		return &connError{codeFlow, "more DATA than the connection's window"}
	}
	padding := f.length - len(p)
	c.giveBack(padding)
	defer c.flushElsewhere()
	s := c.streams[f.stream]
	if s == nil || s.body.whole {
		c.giveBack(len(p))
		switch {
		case f.stream > c.last || f.stream%2 == 0:
			return violation("DATA on a stream that was never opened")
		case s != nil:
			c.abandon(s, codeClosed)
		case f.length >= octetsPerFrame:
			return nil // the rest of an upload that was answered early
		}
		return c.budget.spend()
	}
	b := &s.body
	if b.window -= f.length; b.window < 0 {
		c.giveBack(len(p))
		c.abandon(s, codeFlow)
		return c.budget.spend()
	}
	if padding > 0 && !b.closed && !f.has(flagEndStream) {
		b.widen(padding) // nobody reads it
	}
	if !b.receive(p) {
		c.giveBack(len(p))
		c.abandon(s, codeProtocol)
		return c.budget.spend()
	}
	if f.has(flagEndStream) {
		b.end()
	}
	return nil
}

// headers takes in a HEADERS frame (RFC 9113 §6.2).
func (c *conn) headers(f *frame, p []byte) error {
	if f.stream%2 == 0 {
		return violation("HEADERS on a stream that is no client's")
	}
	p, err := unpad(f, p)
	if err != nil {
		return err
	}
	selfish := false // depends on itself, which priorities forbade when they meant something
	if f.has(flagPriority) {
		if len(p) < prioritySize {
			return &connError{codeFrameSize, "HEADERS without the priority that they announce"}
		}
		selfish = be32(p)&maxWindow == f.stream
		p = p[prioritySize:]
	}
	c.mu.Lock()
	s := c.streams[f.stream]
	late := s == nil && f.stream <= c.last
	if late && !c.wasReset(f.stream) {
		c.mu.Unlock()
		return &connError{codeClosed, "HEADERS on a stream that is closed"}
	}
	c.last = max(c.last, f.stream)
	c.mu.Unlock()
	c.head.begin(f.stream, f.has(flagEndStream), s)
	c.head.broken = selfish
	c.head.late = late
	if !f.has(flagEndHeaders) {
		c.head.since = time.Now()
	}
	return c.fragment(f, p)
}

// fragment takes in a part of a head.
func (c *conn) fragment(f *frame, p []byte) error {
	c.mu.Lock()
	err := c.budget.spend()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	h := &c.head
	if h.block += len(p); h.block > 4*c.srv.opt.HeaderBytes {
		return &connError{codeCalm, "a head without end"}
	}
	if _, err := c.decode.Write(p); err != nil {
		return &connError{codeCompression, "malformed HPACK"}
	}
	if !f.has(flagEndHeaders) {
		return nil
	}
	err = c.decode.Close()
	c.decode.SetEmitEnabled(true)
	if err != nil {
		return &connError{codeCompression, "malformed HPACK"}
	}
	h.open, h.since = false, time.Time{}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.flushElsewhere()
	switch {
	case h.late:
	case h.of != nil:
		c.trailers(h.of)
	default:
		c.request()
	}
	return nil
}

// field takes in a field of the head that is being read.
func (c *conn) field(f hpack.HeaderField) {
	h := &c.head
	h.add(f)
	if h.size > c.srv.opt.HeaderBytes {
		h.large = true
		c.decode.SetEmitEnabled(false)
	}
}

// trailers takes in the end of a stream that ends with them.
func (c *conn) trailers(s *stream) {
	switch h := &c.head; {
	case s.gone:
	case s.body.whole:
		c.abandon(s, codeClosed)
	case h.broken, h.large, !h.end:
		c.abandon(s, codeProtocol)
	default:
		s.body.end()
	}
}

// request takes in the head of a request.
func (c *conn) request() {
	h := &c.head
	s := &stream{c: c, id: h.id, sendWindow: c.initial}
	switch ok := h.request(&s.Request); {
	case !ok:
		c.refuse(h, codeProtocol)
		c.giveUp()
		return
	case c.away || c.serving-c.over >= maxStreams || c.serving >= 2*maxStreams:
		c.refuse(h, codeRefused)
		return
	case h.status != 0:
		c.appendStatus(h.id, h.status, flagEndStream)
		if !h.end {
			c.refuse(h, codeNone)
		}
		return
	}
	s.changed.L = &c.mu
	s.body = Body{s: s, left: s.Length, window: streamWindow, whole: h.end, expect: h.expect}
	if h.end {
		s.Length = 0
	}
	s.Body, s.Received, s.Remote, s.Conn = &s.body, time.Now(), c.remote, c.outer
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
	c.streams[s.id] = s
	c.serving++
	c.ready = append(c.ready, s)
}

// refuse resets a stream that was not opened.
func (c *conn) refuse(h *head, why code) {
	c.out = appendReset(c.out, h.id, why)
	if !h.end {
		c.remember(h.id)
	}
}

// remember notes that a stream has ended before its client's part has come.
func (c *conn) remember(id uint32) {
	c.reset[c.resets%mostReset] = id
	c.resets++
}

// wasReset reports whether remember was told of a stream, not too long ago.
func (c *conn) wasReset(id uint32) bool {
	for _, r := range c.reset {
		if r == id {
			return true
		}
	}
	return false
}

// launch begins the exchanges of the streams that are ready.
func (c *conn) launch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.ready {
		c.ready[i] = nil
		if s.gone {
			c.finish(s)
			continue
		}
		if s.body.whole && s.body.err == nil {
			s.Length = int64(len(s.body.got))
		}
		c.srv.run(s.serve)
	}
	c.ready = c.ready[:0]
	c.flushElsewhere()
}

// serve is the life of an exchange.
func (s *stream) serve() {
	c := s.c
	defer func() {
		if v := recover(); v != nil {
			c.srv.opt.Log.Error("exchange panicked", "panic", v, "stack", string(debug.Stack()))
			s.tell(errPanic)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.finish(s)
			c.flush()
		}
	}()
	c.srv.handler.Serve(s.ctx, &s.Request, &s.resp)
	s.answer()
}

// answer writes the answer and ends the exchange.
func (s *stream) answer() {
	c := s.c
	c.mu.Lock()
	cut := s.respond()
	if s.over = s.ended && s.body.whole; s.over {
		c.over++ // another one may write it at once, and the client open its next stream
	}
	c.mu.Unlock()
	s.tell(cut) // before it is written, so that what it counts is done when the client has it
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget.earned += framesPerRequest
	c.finish(s)
	c.flush()
}

// tell tells the handler what becomes of its response, once.
func (s *stream) tell(cut error) {
	if s.told {
		return
	}
	s.told = true
	s.c.srv.handler.Done(&s.resp, cut)
}

// finish ends the exchange of s.
func (c *conn) finish(s *stream) {
	s.body.shut()
	c.serving--
	if s.over {
		c.over--
	}
	lost := s.gone
	if !s.gone {
		switch {
		case !s.ended:
			c.out = appendReset(c.out, s.id, codeInternal)
		case !s.body.whole: // the client need not send the rest (RFC 9113 §8.1)
			c.out = appendReset(c.out, s.id, codeNone)
		}
		c.close(s)
	}
	s.gone = true
	s.changed.Broadcast()
	s.cancel(nil)
	if lost {
		c.giveUp()
	}
}

// close takes a stream off those that are open.
func (c *conn) close(s *stream) {
	if c.streams[s.id] != s {
		return
	}
	if !s.body.whole {
		c.remember(s.id)
	}
	delete(c.streams, s.id)
	if len(c.streams) == 0 {
		c.idle = time.Now()
	}
}

// giveUp counts an exchange that the client did not want in the end.
func (c *conn) giveUp() {
	if c.lost++; c.lost >= mostLost {
		c.goAway(codeNone)
	}
}

// abandon resets a stream because of what its client did.
func (c *conn) abandon(s *stream, why code) {
	if s.gone {
		return
	}
	c.out = appendReset(c.out, s.id, why)
	c.close(s)
	s.lose()
}

// giveBack gives the client room on the connection for what is read.
func (c *conn) giveBack(n int) {
	if c.returned += n; c.returned >= connStep && c.err == nil {
		c.window += c.returned
		c.out = append4(c.out, kindWindow, 0, uint32(c.returned))
		c.returned = 0
	}
}

// goAway tells the client to send no further requests here.
func (c *conn) goAway(why code) {
	if !c.away {
		c.away = true
		c.promise = min(c.promise, c.last)
		c.out = appendGoAway(c.out, c.promise, why)
	}
}

// drain has the connection end with its last stream.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.greeted {
		c.outer.Close()
		return
	}
	c.goAway(codeNone)
	c.flushElsewhere()
}

// leave has the reader stop once nothing is left to be done. A connection that has
// ended has its last frames to be waited for (linger).
func (c *conn) leave() {
	if c.away && !c.closing && !c.flushing && c.err == nil && len(c.streams) == 0 && len(c.out) == 0 {
		c.closing = true
		c.raw.SetReadDeadline(past)
	}
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// say tells the client why the connection ends, unless that was done.
func (c *conn) say(why *connError) {
	if why.code != codeNone {
		c.srv.opt.Log.Info("connection closed", "client", c.outer.RemoteAddr().String(), "err", why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if why.code != codeNone {
		c.away = false
	}
	c.goAway(why.code)
	for c.flushing && c.err == nil {
		c.room.Wait()
	}
	c.flush()
}

// linger takes in what the client still sends after the last frame. Anything may
// end it.
func (c *conn) linger() {
	half, ok := c.raw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.raw.SetReadDeadline(time.Now().Add(lingerFor))
	var waste [4 << 10]byte
	for total := 0; total < lingerMost; {
		n, err := c.raw.Read(waste[:])
		if err != nil {
			return
		}
		total += n
	}
}

// fail ends the connection because it cannot be written to.
func (c *conn) fail(err error) {
	if c.err == nil {
		c.err = err
		c.outer.Close()
	}
}

// end ends what is left of the streams.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	for _, s := range c.streams {
		c.close(s)
		s.lose()
	}
	for _, s := range c.ready { // they will never begin
		c.finish(s)
	}
	c.ready = nil
	c.room.Broadcast()
	c.cancel(h1.ErrGone)
}
