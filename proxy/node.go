package proxy

import (
	"context"
	"errors"
	"io"
	"time"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// ErrBodyUsed is returned by [Request].Body when a streaming body has already
// given octets away and cannot be read from its start again.
var ErrBodyUsed = errors.New("proxy: the request body was already sent once")

// ErrNoConnection is what a node wraps in its not-sent [SendError] when all of
// its connections are in use: the caller is told to come back (503, Busy)
// rather than that the backend is down.
var ErrNoConnection = errors.New("proxy: no free connection")

// Request is what goes to a node.
type Request struct {
	ID     string
	Method string

	// Rest is appended to the path of the node's URL, raw: "" or with a leading
	// slash.
	Rest string

	// Path is the raw path of the request, in place of that of the node's URL
	// with Rest; the query of the node's URL is left out as well. "" = those.
	Path string

	// Query is raw, without "?", and appended octet for octet; HasQuery tells
	// "?" alone from no query.
	Query    string
	HasQuery bool

	// Host is the Host to send; "" = that of the node's URL.
	Host string

	// Header has the complete end-to-end fields, SOAPAction under that
	// spelling. HTTP nodes write them; framed nodes ignore them. It is nil where
	// the message came in a frame and no node of the backend speaks HTTP.
	Header field.List

	// Body opens a fresh reader for each try. It may be called again after the
	// reader before was closed; a streaming body can be opened until its first
	// octet was read, then Body returns ErrBodyUsed.
	Body func() (io.ReadCloser, error)

	// Data is what Body reads, where that is in memory as a whole; else nil. It
	// must not be changed, and stays until the exchange is over: an answer may lie
	// in it.
	Data []byte

	// Length is the number of octets of Body; -1 = unknown: HTTP sends chunked.
	// Framed nodes are always given a known length.
	Length int64

	// Once says that the body is a stream that cannot be sent twice.
	Once bool

	// Label and Sites are those of a stored message that goes over a link to another
	// site: [Stored].Label, and the sites that it has passed. Host is then always that
	// which the caller asked for.
	Label any
	Sites []string
	// Follows says, in [BatchNode.SendAll], that it must not be taken unless the one before
	// it is, or was before.
	Follows bool
	// Doubt says that it may have been processed before, Action is its wsa:Action, and
	// Accepted when the gateway has taken it.
	Doubt    bool
	Action   string
	Accepted time.Time
	// WantsReply says of such a message that somebody wants its answer.
	WantsReply bool

	Version soapcodec.Version
	// Multipart says that the message has attachments, which framed nodes do not
	// take: see [ErrMultipart].
	Multipart bool
	Timeouts  Timeouts

	// Caller is the connection that the message has come by; nil where none is
	// known to be one caller's.
	Caller *CallerConn
}

// Timeouts of one try (CONFIG.md backends.NAME.connect_timeout, .timeout).
type Timeouts struct {
	Connect time.Duration

	// Answer is the time from the last request octet to the first octet of the
	// answer, then the longest pause between octets.
	Answer time.Duration
}

// Response is a node's answer.
type Response struct {
	// Status is that of HTTP; framed: 200 with a frame, 202 for a zero-length
	// frame.
	Status int

	// Header has the end-to-end fields; hop-by-hop fields are removed already.
	Header field.List

	// Body has the transfer coding removed and the content coding as sent. A
	// cut reply ends in an error other than io.EOF, and one that stalls longer
	// than Timeouts.Answer in a *SendError with Timeout, or in
	// os.ErrDeadlineExceeded. nil = empty.
	Body io.ReadCloser

	// Data is what Body reads, where that is in memory as a whole, and stays there
	// until the exchange is over whether Body is closed or not; else nil.
	Data []byte

	// Length is the number of octets of Body, -1 if it is not known.
	Length int64

	// Framed says that there is no media type: the octets are an envelope or
	// nothing.
	Framed bool

	// Reason is what a node that is part of the gateway says of its status, for
	// whoever operates it: one line, without content of a message. Not for answers
	// of backends, whose text is theirs.
	Reason string

	// Later says that another site has taken a message for which Request.WantsReply
	// was set: its answer comes to [Handler.Answer].
	Later bool
}

// Class is the outcome class of a try (SPEC.md §4).
type Class uint8

// The outcome classes.
const (
	Answered Class = iota // a complete answer
	NotSent               // no octet of the request was written to a connection
	Maybe                 // everything else: the backend may have processed it
)

// String is the class as logs and metrics spell it.
func (c Class) String() string {
	switch c {
	case Answered:
		return "answered"
	case NotSent:
		return "not_sent"
	}
	return "maybe_processed"
}

// SendError is every error of a [Node].Send.
type SendError struct {
	Class   Class
	Timeout bool

	// Permanent says that no retry can mend it: the message does not fit a
	// framed node.
	Permanent bool

	// Source says that the request body itself failed (the client broke off,
	// or the message turned out bad): Err is that error, and the node is not to
	// blame.
	Source bool

	Err error
}

// Error is the full text, for logs.
func (e *SendError) Error() string {
	s := "proxy: " + e.Class.String()
	if e.Timeout {
		s += ", timed out"
	}
	if e.Source {
		s += ", request body failed"
	}
	if e.Err == nil {
		return s
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }

// Node is one address of a backend; proxy/upstream implements it over HTTP,
// framed TCP and the built-ins.
type Node interface {
	// Send makes one try. It returns when the head of the answer is there, or
	// a *SendError. The try is cut when the response body is closed before its
	// end, and when ctx ends at any time until then; ctx is that of the caller
	// (an [Ending] as a rule) and may outlive the try.
	Send(ctx context.Context, req *Request) (*Response, error)

	// Probe asks whether the node can be reached, by connecting to it and no
	// more. It sends nothing of any message and bounds its own time.
	Probe(ctx context.Context) error

	// Name is the node's URL without credentials and query, for metrics and
	// logs. Its scheme and path also tell the Handler whether a length must be
	// known before a send (framed) and how a Location is mapped.
	Name() string

	// InFlight is the number of tries that are under way.
	InFlight() int64

	// Close opens no new connections and closes idle ones; those in use finish.
	Close()
}

// A BatchNode is a Node that takes many stored messages at once.
type BatchNode interface {
	Node

	// SendAll is Send for each of them. The error of one that Follows another which was
	// not taken is, or wraps, ErrBehind: nothing of it was tried.
	SendAll(ctx context.Context, reqs []*Request) []Sent
}

// Sent is what Send returns.
type Sent struct {
	Response *Response
	Err      error
}

// ErrBehind: a message was not tried, or not stored, since the one before it was not.
var ErrBehind = errors.New("proxy: the message before it was not taken")
