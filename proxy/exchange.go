package proxy

import (
	"context"
	"io"
	"net/netip"
	"time"

	"soapway/internal/field"
	"soapway/proxy/guard"
	"soapway/soapcodec"
)

// Exchange is one request as a listener took it, whatever its transport.
type Exchange struct {
	// ID is the message id (UUIDv7); the Handler sets it.
	ID string

	// Received is when the request's head was complete. The Handler sets it if
	// it is zero.
	Received time.Time

	// Framed says that the request came over a framed listener: answers without
	// an envelope become faults or zero-length frames there.
	Framed bool

	// Listener is the name of the listener; Route its fixed route, "" when the
	// conditions of the routes decide.
	Listener, Route string

	// Client is the address of the peer, and TLS tells whether it came over TLS.
	Client netip.AddrPort
	TLS    bool

	// Certificate is that of the peer, which the listener has verified; nil if
	// it has shown none.
	Certificate *guard.Certificate

	// Caller is the connection of the peer where it carries one exchange at a time;
	// else nil: then no connection to a node can be bound to it.
	Caller *CallerConn

	// Method is POST for framed requests.
	Method string

	// Target is the raw request target, path and query, octet for octet; ""
	// for framed requests.
	Target string

	// Host is the Host field, or :authority.
	Host string

	// Header has the fields as received, hop-by-hop fields included, their names
	// in canonical form (net/textproto); nil for framed requests.
	Header field.List

	// Body is never nil. A body that is shorter than its length ends in
	// io.ErrUnexpectedEOF.
	Body io.Reader

	// Length is the number of octets of Body, -1 if it is not known (chunked).
	Length int64

	// Arrival is set, for [Handler.Arrive], where the request has come from another
	// site.
	Arrival *Arrival

	// Waits is told once, by the goroutine that serves the exchange, before that
	// waits for anybody but the caller; an exchange that never does, as one with a
	// node inside the process, may be over without a word. It may be nil.
	Waits Waiter
}

// Waiter is how a listener that serves many exchanges one after the other learns
// that one of them takes its time: it goes on with the next one elsewhere.
type Waiter interface {
	// Wait returns at once; Exchange.Body has kept its octets.
	Wait()
}

// Reply is the answer of an exchange. The listener writes it and then calls
// Close exactly once, if it is not nil.
type Reply struct {
	Status int

	// Header has the end-to-end fields, Content-Type and Content-Encoding
	// included; never Content-Length, Connection or Transfer-Encoding. HTTP/1.1
	// writes them in this order.
	Header field.List

	// Body is nil when there is none. A read error other than io.EOF after the
	// head was written means: cut the client's connection.
	Body io.Reader

	// Length is the number of octets of Body, -1 if it is not known. It is
	// always known in the reply to a framed exchange.
	Length int64

	// Code is set where the answer has no envelope and a framed listener must
	// make a fault of it (NoRoute, TooLarge, Busy…), and for logs.
	Code soapcodec.Code

	// Version is that of the envelope in Body, or that in which a framed
	// listener must make its fault.
	Version soapcodec.Version

	// Cut tells, before Close, that the body did not reach the caller whole,
	// and why; it may be nil.
	Cut func(error)

	// Close releases buffers and the upstream; it may be nil.
	Close func()

	// CloseConnection says that the connection must not be used again, because
	// the request broke off or was not read to its end.
	CloseConnection bool
}

// Server answers exchanges. [Handler] is the one implementation; listeners call it.
type Server interface {
	// Serve never returns nil. ctx ends when the caller has left or the
	// listener gives up; it must live until the reply is closed.
	Serve(ctx context.Context, ex *Exchange) *Reply
}
