package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"soapway/internal/frame"
	"soapway/soapcodec"
)

// errNetAnswer means that an answer over the data connection is not the one that
// the request asked for.
var errNetAnswer = errors.New("wrong answer")

// exchangeWire is a protocol in which every buffer is asked for or answered.
type exchangeWire struct {
	framing netFraming
	cargo   netCargo
	window  int
	// Of the requests and answers, octets of payload; 0 is the least there is.
	request, reply int
	number         int64 // of the next exchange at this end
}

// A netFraming puts payloads on a connection.
type netFraming interface {
	// request and reply write one message. An empty request asks for a buffer.
	request(w *bufio.Writer, key string, payload []byte) error
	reply(w *bufio.Writer, payload []byte) error
	// take reads a message into buf, which grows as needed up to limit.
	takeRequest(r *bufio.Reader, key string, buf []byte, limit int) ([]byte, error)
	takeReply(r *bufio.Reader, buf []byte, limit int) ([]byte, error)
}

// A netCargo is what buffers hold.
type netCargo interface {
	// load returns the payload number i of size octets, which is valid until
	// the next call for the same direction; nil for size 0 where the protocol
	// has an empty message for that.
	load(size int, i int64) []byte
	// check reports whether payload is number i.
	check(payload []byte, size int, i int64) error
}

func newExchangeWire(p netParams, f netFraming, c netCargo) *exchangeWire {
	return &exchangeWire{framing: f, cargo: c, window: p.Window, request: p.requestSize(), reply: p.replySize()}
}

// show opens the conversation with a request that is the key.
func (x *exchangeWire) show(e *netTCP, key string) error {
	w := bufio.NewWriter(e.conn)
	if err := x.framing.request(w, key, []byte(key)); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	got, err := x.framing.takeReply(e.r, nil, netLineLimit)
	if err == nil && len(got) > 0 {
		err = errNetAnswer
	}
	return err
}

func (x *exchangeWire) see(conn net.Conn, r *bufio.Reader, key string) bool {
	got, err := x.framing.takeRequest(r, key, nil, 2*len(key))
	if err != nil || !sameKey(got, key) {
		return false
	}
	w := bufio.NewWriter(conn)
	return x.framing.reply(w, nil) == nil && w.Flush() == nil
}

// client keeps up to window requests under way. With more than one a goroutine
// of its own writes: else both ends could wait for the other to read.
func (x *exchangeWire) client(e *netTCP, n int64) error {
	first := x.number
	x.number += n
	var buf []byte
	w := bufio.NewWriterSize(e.conn, netBuffer)
	if x.window == 1 {
		for i := range n {
			if err := x.ask(e, w, first+i); err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if err := x.hear(e, &buf, first+i); err != nil {
				return err
			}
		}
		return nil
	}
	room, stop, wrote := make(chan struct{}, x.window), make(chan struct{}), make(chan error, 1)
	for range x.window {
		room <- struct{}{}
	}
	go func() { wrote <- x.askAll(e, w, first, n, room, stop) }()
	var err error
	for i := range n {
		if err = x.hear(e, &buf, first+i); err != nil {
			_ = e.conn.Close() // the writer may be waiting for the other end to read
			break
		}
		select {
		case room <- struct{}{}:
		default:
			err = errNetAnswer // an answer to nothing
		}
	}
	close(stop)
	return errors.Join(err, <-wrote)
}

// askAll writes n requests as room comes for them, and what has gathered when
// there is none.
func (x *exchangeWire) askAll(e *netTCP, w *bufio.Writer, first, n int64, room, stop chan struct{}) error {
	for i := range n {
		select {
		case <-room:
		default:
			if err := w.Flush(); err != nil {
				return err
			}
			select {
			case <-room:
			case <-stop:
				return nil
			}
		}
		if err := x.ask(e, w, first+i); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (x *exchangeWire) ask(e *netTCP, w *bufio.Writer, i int64) error {
	err := x.framing.request(w, "", x.cargo.load(x.request, i))
	if err == nil {
		e.moved.out.Add(int64(x.request))
	}
	return err
}

func (x *exchangeWire) hear(e *netTCP, buf *[]byte, i int64) error {
	got, err := x.framing.takeReply(e.r, *buf, netMaxSize)
	if err != nil {
		return err
	}
	*buf = got
	if x.reply == 0 {
		if len(got) > 0 {
			return fmt.Errorf("%w: %d octets where none were to come", errNetAnswer, len(got))
		}
		return nil
	}
	e.moved.in.Add(int64(len(got)))
	return x.cargo.check(got, x.reply, i)
}

// serve answers n requests. Answers gather while more requests are there.
func (x *exchangeWire) serve(e *netTCP, n int64) error {
	first := x.number
	x.number += n
	w := bufio.NewWriterSize(e.conn, netBuffer)
	var buf []byte
	for i := range n {
		got, err := x.framing.takeRequest(e.r, "", buf, netMaxSize)
		if err != nil {
			return err
		}
		buf = got
		if err := x.cargo.check(got, x.request, first+i); err != nil {
			return err
		}
		if x.request > 0 {
			e.moved.in.Add(int64(len(got)))
		}
		var answer []byte
		if x.reply > 0 {
			answer = x.cargo.load(x.reply, first+i)
			e.moved.out.Add(int64(len(answer)))
		}
		if err := x.framing.reply(w, answer); err != nil {
			return err
		}
		if e.r.Buffered() == 0 || i == n-1 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// opaqueCargo is octets that nobody looks at.
type opaqueCargo struct{ pattern []byte }

func (c opaqueCargo) load(size int, _ int64) []byte { return c.pattern[:size] }

func (c opaqueCargo) check(payload []byte, size int, _ int64) error {
	if len(payload) != size {
		return fmt.Errorf("%w: %d octets, want %d", errNetAnswer, len(payload), size)
	}
	return nil
}

// An envelope of the test: a number, and letters until it has the right size.
const (
	netEnvelopeHead = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><b:ping xmlns:b="urn:soapway:bench"><b:n>`
	netEnvelopeMid  = `</b:n><b:t>`
	netEnvelopeTail = `</b:t></b:ping></s:Body></s:Envelope>`
	netDigits       = 12
	// netEnvelopeLeast is the shortest envelope there is.
	netEnvelopeLeast = len(netEnvelopeHead) + netDigits + len(netEnvelopeMid) + len(netEnvelopeTail)
)

// envelopeCargo is envelopes, each with its number, which the receiver checks
// octet for octet by the codec of the product.
type envelopeCargo struct {
	docs    map[int][]byte
	decoder *soapcodec.Decoder
}

func newEnvelopeCargo(p netParams) *envelopeCargo {
	c := &envelopeCargo{docs: map[int][]byte{}, decoder: soapcodec.NewDecoder(soapcodec.Options{})}
	for _, size := range []int{netEnvelopeLeast, p.Size} {
		c.docs[size] = netEnvelope(size)
	}
	return c
}

// netEnvelope returns an envelope of size octets with the number 0.
func netEnvelope(size int) []byte {
	b := append([]byte(netEnvelopeHead), bytes.Repeat([]byte{'0'}, netDigits)...)
	b = append(b, netEnvelopeMid...)
	for i := range size - netEnvelopeLeast {
		b = append(b, 'a'+byte(i*7%26))
	}
	return append(b, netEnvelopeTail...)
}

func (c *envelopeCargo) load(size int, i int64) []byte {
	doc := c.docs[max(size, netEnvelopeLeast)]
	at := len(netEnvelopeHead) + netDigits
	for k := range netDigits {
		doc[at-1-k] = '0' + byte(i%10)
		i /= 10
	}
	return doc
}

func (c *envelopeCargo) check(payload []byte, size int, i int64) error {
	if size = max(size, netEnvelopeLeast); len(payload) != size {
		return fmt.Errorf("%w: %d octets, want %d", errNetAnswer, len(payload), size)
	}
	c.decoder.ResetBytes(payload)
	if err := c.decoder.Finish(); err != nil {
		return fmt.Errorf("%w: %w", errNetAnswer, err)
	}
	if c.decoder.Facts().Fault != nil {
		return fmt.Errorf("%w: a fault", errNetAnswer)
	}
	at := len(netEnvelopeHead)
	if n, err := strconv.ParseInt(string(payload[at:at+netDigits]), 10, 64); err != nil || n != i {
		return fmt.Errorf("%w: number %q, want %d", errNetAnswer, payload[at:at+netDigits], i)
	}
	return nil
}

// frameFraming is the product's framed transport, with lengths of four octets so
// that any size fits.
type frameFraming struct{}

const netFrameWidth = 4

func (frameFraming) request(w *bufio.Writer, _ string, payload []byte) error {
	return writeFrame(w, payload)
}
func (frameFraming) reply(w *bufio.Writer, payload []byte) error { return writeFrame(w, payload) }

func writeFrame(w *bufio.Writer, payload []byte) error {
	var head [netFrameWidth]byte
	b, err := frame.AppendLength(head[:0], netFrameWidth, int64(len(payload)))
	if err != nil {
		return err
	}
	_, _ = w.Write(b) // its error sticks
	_, err = w.Write(payload)
	return err
}

func (frameFraming) takeRequest(r *bufio.Reader, _ string, buf []byte, limit int) ([]byte, error) {
	return readFrame(r, buf, limit)
}

func (frameFraming) takeReply(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	return readFrame(r, buf, limit)
}

func readFrame(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	head, err := r.Peek(netFrameWidth)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, b := range head {
		n = n<<8 | int(b)
	}
	if n > limit {
		return nil, fmt.Errorf("%w: a frame of %d octets", errNetAnswer, n)
	}
	_, _ = r.Discard(netFrameWidth)
	return readInto(r, buf, n)
}

// readInto reads n octets into buf, or a new one if it is too small.
func readInto(r *bufio.Reader, buf []byte, n int) ([]byte, error) {
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err := io.ReadFull(r, buf)
	return buf, err
}
