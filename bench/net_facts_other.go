//go:build !linux

package bench

import "net"

// connFacts is known on Linux only.
func connFacts(net.Conn) (rtt, line float64) { return 0, 0 }
