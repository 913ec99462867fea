//go:build !unix

package h1

import "net"

// socketState cannot be asked here: reading and writing tell.
func socketState(net.Conn) peerState { return peerHere }
