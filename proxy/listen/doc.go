// Package listen turns what arrives at a socket into a [proxy.Exchange], hands
// it to a [proxy.Server], and writes the [proxy.Reply]: over HTTP/1.1 and HTTP/2
// ([HTTP]), and as length-prefixed messages over TCP ([Framed]).
//
// It owns sockets, connections and their time-outs. It does not look into
// messages, does not route, and retries nothing.
//
// # Lifecycle
//
// New checks the options, Listen binds, Run serves until its context is
// cancelled and then drains: what is under way gets Options.Drain, the rest is
// cut with the cause [ErrShutdown]. When Run returns, no goroutine and no
// connection of the listener is left.
//
// # The body of a request
//
// Exchange.Body may be read by one goroutine at a time, also after Serve has
// returned: a node may still be reading when its answer is already there. It
// implements io.Closer: after Close, from any goroutine, reads fail, and over
// HTTP a read under way returns as well. The listener does so itself before it
// goes on with the connection. Errors are io.ErrUnexpectedEOF for a body that is shorter than
// announced, [ErrBodyIdle] for silence, and otherwise what the connection or
// its framing says; they are sticky.
//
// A request that was not read to its end is drained if little is left and is
// there at once (256 KiB, 100 ms), else the connection ends with the answer. On
// a framed connection the rest of the frame is skipped instead.
//
// # Frames
//
// Who reads a framed connection also serves what it reads, and gathers the
// replies until nothing more is there. An exchange that says that it waits
// (Exchange.Waits) goes on beside that, its reply in its place among the others.
//
// # The caller's leaving
//
// The context of an exchange ends with [ErrGone] when the connection breaks
// while the body is read, and over HTTP also when it breaks or is closed after
// that. net/http does not look at a connection whose request body nobody reads.
// Half a request and then a FIN cancels nothing, since an answer may still be
// wanted; nor does a FIN after the last request of a framed connection.
//
// # PROXY protocol
//
// With Options.Proxies a connection begins with a header of version 2 that tells
// who the client is (Exchange.Client; the zero value where it has no IP address).
// It comes before TLS, from peers that Proxies names; all else is closed.
//
// # TLS
//
// With Options.TLS a connection begins with a handshake, in a goroutine of its
// own and within Timeouts.Header, and is handed on when that is done: engines
// see a connection like any other, and an exchange has the certificate that the
// client has shown. SetTLS changes what new connections begin with. A client that
// sends close_notify has closed its sending side, as by a FIN. Closing sends
// close_notify, except where it would make a reply that was cut look whole.
//
// # HTTP/2
//
// It is package h2, or net/http with the engine that is so called. With TLS the protocol that was agreed on
// decides, with HTTPOptions.H2C the first octets of a connection do; they are
// not lost for HTTP/1.1. A stream is an exchange: when it is reset the caller has
// left, and a reply that cannot be completed resets it. Reading a body ends in
// io.ErrUnexpectedEOF when it breaks off or has another length than announced. A
// head is refused where HTTP/1.1, which nodes speak, would read something else.
//
// # Limits against a hostile peer
//
// Number of connections (more wait in the socket's backlog), size of a head and
// of a message, time for a head, silence inside and between messages, time per
// write, requests under way and octets in memory per framed connection (four
// times Buffer). The length of a frame is judged before anything is allocated,
// and memory grows with what arrives. Over HTTP/2 also: streams of a connection
// (100), exchanges of a listener (MaxConnections), octets of bodies that nobody
// has read (256 KiB a stream, 1 MiB a connection), frames that carry no message
// (1000 at once and 100/s), and exchanges that a client gives up (after 100 the
// connection ends with what is under way).
//
// # Specifications
//
// PROXY protocol §2.2 (HAProxy, 2020), version 2 alone, TLVs read over; RFC 9113
// and RFC 7541 (HTTP/2), by package h2 or net/http; RFC 8446 and RFC 5246 (TLS), by crypto/tls; RFC 9112 (HTTP/1.1), RFC 9110
// §10.1.1 (Expect), §15.3.5 (204). Refusals of
// broken heads are those of net/http: 400, 431, 501 and 505, with the
// connection closed. Deviations, all of net/http: LF alone ends a line of a
// head, obs-fold is taken as a blank, equal Content-Length fields count as one,
// and an empty line before a request is refused. A request with both
// Content-Length and Transfer-Encoding is taken as chunked and ends its
// connection (§6.1), and so may one that is pipelined in front of another kind
// of length.
//
// The framed format is that of package frame.
package listen
