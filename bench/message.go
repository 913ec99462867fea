package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"soapway/soapcodec"
)

// PingSize is the octets of the founding message.
const PingSize = 225

// counterDigits is how many octets the counter of a ping has.
const counterDigits = 10

// The two halves of a ping around its counter, and its end after the filling.
const (
	pingHead    = `<?xml version="1.0"?><s:Envelope xmlns:s="`
	pingMiddle  = `"><s:Body><ping xmlns="urn:soapway:bench"><n>`
	pingFilling = `</n><f>`
	pingTail    = `</f></ping></s:Body></s:Envelope>`
)

// A Message is what is sent again and again. One with a counter is not safe for
// concurrent use: every caller has its own, see [Message.Clone].
type Message struct {
	octets      []byte
	counter     int // where the counter is; -1 when it has none
	n           uint64
	version     soapcodec.Version
	contentType string
}

// NewPing returns a SOAP message of size octets with a counter in its body, which
// no reply but the right one has. It fails when size is too small for it.
func NewPing(v soapcodec.Version, size int) (*Message, error) {
	m := &Message{version: v, contentType: v.MediaType() + "; charset=utf-8"}
	m.octets = append(m.octets, pingHead+v.Namespace()+pingMiddle...)
	m.counter = len(m.octets)
	m.octets = append(m.octets, "0000000000"+pingFilling...)
	fill := size - len(m.octets) - len(pingTail)
	if fill < 0 {
		return nil, fmt.Errorf("bench: a ping of SOAP %s has at least %d octets, not %d", v, size-fill, size)
	}
	m.octets = append(m.octets, bytes.Repeat([]byte{'x'}, fill)...)
	m.octets = append(m.octets, pingTail...)
	return m, nil
}

// NewMessage returns a message of somebody else, which is sent as it is.
func NewMessage(octets []byte) (*Message, error) {
	m := &Message{octets: octets, counter: -1}
	facts, err := soapcodec.Decode(octets, soapcodec.Options{})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	m.version = facts.Version
	m.contentType = facts.Version.MediaType() + "; charset=utf-8"
	return m, nil
}

// Clone returns a copy whose counter begins at n. A message without a counter never
// changes and is its own copy.
func (m *Message) Clone(n uint64) *Message {
	if m.counter < 0 {
		return m
	}
	c := *m
	c.octets, c.n = bytes.Clone(m.octets), n
	return &c
}

// Next returns the message with the next counter, valid until the next call.
func (m *Message) Next() []byte {
	if m.counter < 0 {
		return m.octets
	}
	m.n++
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], m.n, 10)
	at := m.octets[m.counter : m.counter+counterDigits]
	for i := range at {
		at[i] = '0'
	}
	d = d[max(0, len(d)-counterDigits):]
	copy(at[counterDigits-len(d):], d)
	return m.octets
}

// Version is its version of SOAP.
func (m *Message) Version() soapcodec.Version { return m.version }

// Size is its length in octets.
func (m *Message) Size() int { return len(m.octets) }

// errEcho is the reason of a reply that is not the message that was sent.
var errEcho = errors.New("the reply is not the message that was sent")

// A CheckReply says what is wrong with a reply, or nothing.
type CheckReply func(sent, reply []byte) error

// Echoed wants the very octets that were sent: the check of an echo service. The
// counter makes the reply to any other request a wrong one.
func Echoed(sent, reply []byte) error {
	if bytes.Equal(sent, reply) {
		return nil
	}
	if err := NoFault(sent, reply); err != nil {
		return err
	}
	return errEcho
}

// NoFault wants an envelope that is no fault: the check of a service of which
// nothing is known.
func NoFault(_, reply []byte) error {
	facts, err := soapcodec.Decode(reply, soapcodec.Options{})
	if err != nil {
		return fmt.Errorf("no SOAP reply: %w", err)
	}
	if facts.Fault != nil {
		return errors.New("a SOAP fault")
	}
	return nil
}

// unknownService is the check of a service of which nothing is known: when its
// first reply is the message that was sent it is an echo, and every other must be
// one too; else its replies must be envelopes and no faults.
func unknownService() CheckReply {
	var first sync.Once
	var echo bool
	return func(sent, reply []byte) error {
		first.Do(func() { echo = bytes.Equal(sent, reply) })
		if echo {
			return Echoed(sent, reply)
		}
		return NoFault(sent, reply)
	}
}
