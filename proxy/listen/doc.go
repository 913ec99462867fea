// Package listen turns what arrives at a socket into a [proxy.Exchange], hands
// it to a [proxy.Server], and writes its [proxy.Reply]: over HTTP/1.1 ([HTTP])
// and as length-prefixed messages over TCP ([Framed]).
package listen
