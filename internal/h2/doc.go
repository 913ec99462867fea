// Package h2 is HTTP/2 as a gateway needs it, for the side of the callers: a
// [Server] that reads requests off streams, hands them to a [Handler] and writes
// what that answers. It knows nothing of SOAP, routes or configuration, and
// nothing of TLS: any [net.Conn] will do. HPACK is golang.org/x/net/http2/hpack.
//
// # Strict
//
// What is behind a gateway speaks HTTP/1.1, so a request is taken only if it is
// one there as well, with the same meaning ([h1.CheckRequest]). Where RFC 9113
// §8.1.1 calls it malformed its stream is reset with PROTOCOL_ERROR, or answered
// with 400, 417, 431 or 501; the connection goes on. Whatever is taken here
// net/http takes too (FuzzConn), but not the other way round.
//
// # Who does what
//
// One goroutine for each connection reads frames. It begins exchanges once it has
// nothing more to read, so that the body of a small request is there when its
// exchange begins. An exchange runs on a goroutine that [Options.Run] gives.
// Whoever has frames to send puts them behind those of others; one of them writes
// for all, and the reader never does: its peer may send all it has before it reads.
//
// # Leaving
//
// A stream that is reset, and every stream of a connection that ends, has lost its
// caller: the context of its exchange ends with [h1.ErrGone]. A client that gives
// up 100 exchanges is told to come again (GOAWAY, NO_ERROR), and what
// else it has under way is answered. So is a client during [Server.Shutdown].
//
// # Limits
//
// Streams (100), and exchanges that still run though their stream is over; octets
// that nobody has read (256 KiB for a stream, 1 MiB for a connection) and that
// nobody has taken off us (64 KiB and a frame); size of a head, and time for one;
// time for any other frame; silence inside a body; time without window; time
// without a stream. Settings, and frames that carry no message, have a budget, which grows with time and
// with what the client gets done: 1000 at once and 100 a second. Who uses it up
// is a flood and loses the connection (ENHANCE_YOUR_CALM).
//
// # Specifications
//
// RFC 9113, RFC 7541, RFC 9110. Deviations: priorities (RFC 9113 §5.3) are read and
// ignored; there is no server push; trailers are checked and dropped; CONNECT is
// answered with 501; a body whose length is not that of Content-Length resets its
// stream only if it is too long, and else ends in io.ErrUnexpectedEOF, so that the
// exchange can answer.
package h2
