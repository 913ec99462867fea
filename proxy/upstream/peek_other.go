//go:build !unix

package upstream

import "net"

// peekConn knows nothing here: a connection that the node has closed is noticed
// by the reader that is parked on it, or by the try itself.
func peekConn(net.Conn) (pending, closed bool) { return false, false }
