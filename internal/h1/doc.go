// Package h1 is HTTP/1.1 as a gateway needs it, fast and strict: the parsers of
// heads and of bodies, a [Server] for the side of the callers, and a
// [ClientConn] with [AppendRequest] for that of the nodes, whose connections are
// the business of proxy/upstream. It knows nothing of SOAP, routes or
// configuration, and nothing of TLS: any [net.Conn] will do.
//
// # Strict
//
// A message is taken only if there is one way to read it. Every line ends with
// CR LF; a field is a name, a colon at once, and a value of visible octets,
// blanks and tabs on one line; Host comes exactly once (it may be missing under
// HTTP/1.0); Content-Length comes at most once, in digits; Transfer-Encoding
// comes at most once, is chunked, and stands neither beside Content-Length nor
// under HTTP/1.0. What breaks this is answered with 400, 431, 501 or 505 and
// the connection ends. A body that breaks it ends in an error, and so does its
// connection. Whatever is taken here net/http takes too, with the same meaning
// (FuzzRequest, FuzzAnswer), but not the other way round. Answers may also end
// their lines with LF alone and repeat Content-Length with the same value.
//
// # One goroutine for each connection
//
// It reads a head into the connection's buffer, hands a [Request] to the
// [Handler], and writes the [Response]: head and body in one write where they
// are small or the connection can gather. Pipelined requests are answered one
// after the other. Nothing is read ahead while a handler works. One further
// goroutine for the whole server looks at connections whose exchange takes
// longer than a tenth of a second, without reading, to see callers that have
// left ([ErrGone]). A connection that is silent for a second gives its buffer
// back.
//
// # Half-closed connections
//
// A FIN does not tell one who has left from one who has sent everything and
// waits. After half a request it cancels nothing: the body ends in
// io.ErrUnexpectedEOF, and the answer is written. After a whole request the
// answer has one more second; then the caller counts as gone. A reset counts at
// once. On systems other than Unix only reading and writing notice either.
//
// # Limits
//
// Size of a head; time for a head, for silence inside a body and between
// requests, and for each write of at most 64 KiB. Chunk extensions: 256 octets
// each, 8 KiB for a body. Trailers: 2 KiB; they are checked and dropped. A
// deadline may come up to 1/32 early, so that it need not be set anew for every
// message.
//
// # Specifications
//
// RFC 9112 and RFC 9110. Deviations, all towards refusing: one empty line before
// a request (RFC 9112 §2.2), equal Content-Length fields (§6.3) and obs-fold
// (§5.2) are refused; CONNECT is answered with 501; a coding other than chunked
// with 501. Upgrade is ignored (RFC 9110 §7.8). Date is added to answers that
// have none (RFC 9110 §6.6.1).
package h1
