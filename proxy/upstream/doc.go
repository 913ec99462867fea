// Package upstream carries a [proxy.Request] to one node, over HTTP/1.1
// ([HTTP]), as length-prefixed messages over TCP ([Framed]) or inside the
// process ([NewBuiltin]), and says exactly what became of it.
//
// It owns connections, pools and the time-outs of a try. It does not choose
// nodes, looks into no message, follows no redirect and retries nothing that
// may have been sent.
//
// # Outcome classes
//
// Every error of Send is a *[proxy.SendError]. Not sent means that the kernel
// took no octet of the request for any connection: octets are counted under
// TLS, without those of the handshake. A request is never sent again: the first
// connection that took an octet is the only one. A pooled connection that its
// node has closed is noticed before the first octet and before a body that can
// be read once is touched, and another one is taken.
//
// Errors of a response body are *proxy.SendError as well, always maybe
// processed. A short answer never ends in io.EOF; one without a length, which
// ends with its connection (HTTP/1.0), cannot be told from a cut one, under TLS
// neither, since crypto/tls does not insist on close_notify.
//
// # Request bodies
//
// What Request.Body opens is read and closed once. The last octets of a body
// with a length are given away only when the body has said that nothing
// follows, so that no node ever sees a complete request of a body that fails at
// its end. A node may answer early: Send then returns while the body may still
// be read, and it is closed when the try is over, in either case without
// waiting for a read under way: its reader must put up with a Close meanwhile.
//
// # Time
//
// Timeouts.Connect bounds getting a connection, waiting for a free one
// included. Timeouts.Answer bounds the time from the last octet of the request
// to the first of the answer, the rest of its head, each wait for the node
// inside its body, and each write of 64 KiB to it. Interim answers set the clock
// back, 32 times at most. A slow caller is not the node's fault: while nobody
// reads the answer no clock runs.
//
// # Framed connections
//
// Replies find their request by their place in the queue, so that a time-out, a
// caller that leaves or a message that breaks off ends the connection for all
// that are on it; these are maybe processed. While the number of connections
// is below MaxConnections each carries one request, and nobody shares that fate.
//
// # Connections over HTTP
//
// A try has a connection for itself; the one that was used last is used next. A
// Budget bounds the connections of several nodes together: where none may be opened
// the one that has been idle longest, at any node, is closed for it, and while none
// is idle who has waited longest is served first. One that has carried credentials
// of NTLM or Negotiate belongs to the caller's connection (proxy.CallerConn) from
// then on, or is closed where there is none. A
// short body that can be read again leaves in one write with its head, by the
// goroutine that then reads the answer. Any other is written by a second one, so
// that an answer which comes early is seen and ends the writing.
//
// # Specifications
//
// RFC 9110 §7.6.1 (hop-by-hop fields), RFC 9112 (HTTP/1.1). Of an answer LF
// alone may end a line (§2.2) and Content-Length may come again with the same
// value (§6.3). One with both Content-Length and Transfer-Encoding, with a
// Transfer-Encoding that is not chunked or stands under HTTP/1.0, with obs-fold,
// or with octets from before the request is an error.
package upstream
