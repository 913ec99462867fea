package listen

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
)

// The reasons why a connection is closed that should begin with a header of the
// PROXY protocol.
var (
	errNotTrusted  = errors.New("listen: PROXY protocol: not from a trusted proxy")
	errProxyNone   = errors.New("listen: PROXY protocol: no header of version 2")
	errProxyOld    = errors.New("listen: PROXY protocol: a header of version 1, only version 2 is taken")
	errProxyHeader = errors.New("listen: PROXY protocol: malformed header")
)

// Parts of a header (PROXY protocol §2.2).
const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyFixed     = 16       // octets before the addresses
	proxyMost      = 16 << 10 // of the addresses and what comes behind them

	proxyLocal = 0x20 // version 2, LOCAL
	proxyProxy = 0x21 // version 2, PROXY
)

// A proxied is what a header says about a connection.
type proxied struct {
	// local says that the proxy speaks for itself, to see whether we are well.
	local bool

	// client is the zero value where the client has no IP address, or the proxy
	// does not know it.
	client netip.AddrPort
}

// readProxyHeader reads a header and nothing behind it. What follows the
// addresses is read over.
func readProxyHeader(r io.Reader) (p proxied, err error) {
	var fixed [proxyFixed]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return p, err
	}
	switch {
	case strings.HasPrefix(string(fixed[:]), "PROXY "):
		return p, errProxyOld
	case string(fixed[:len(proxySignature)]) != proxySignature:
		return p, errProxyNone
	}
	command, family := fixed[12], fixed[13]
	left := int(binary.BigEndian.Uint16(fixed[14:]))
	if command != proxyLocal && command != proxyProxy || left > proxyMost {
		return p, errProxyHeader
	}
	p.local = command == proxyLocal

	var block [36]byte
	size, ip := 0, 0 // octets of the addresses, and of one IP address
	switch family {
	case 0x00: // the proxy does not know
	case 0x11: // TCP over IPv4
		size, ip = 12, 4
	case 0x21: // TCP over IPv6
		size, ip = 36, 16
	case 0x31: // a stream of AF_UNIX
		size = 216
	default:
		if !p.local { // there all but the length is to be ignored
			return p, errProxyHeader
		}
	}
	if p.local {
		size, ip = 0, 0
	}
	if left < size {
		return p, errProxyHeader
	}
	if ip > 0 {
		if _, err := io.ReadFull(r, block[:size]); err != nil {
			return p, err
		}
		left -= size
		addr, _ := netip.AddrFromSlice(block[:ip])
		p.client = netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(block[2*ip:]))
	}
	for left > 0 {
		n, err := io.ReadFull(r, block[:min(left, len(block))])
		if left -= n; err != nil {
			return p, err
		}
	}
	return p, nil
}

// unproxy takes the header off c, which then has the address of the client.
func (e *entrance) unproxy(ctx context.Context, c *conn) error {
	peer := addrOf(c.Conn.RemoteAddr())
	if !e.proxies(peer.Addr()) {
		return errNotTrusted
	}
	release := hurry(ctx, c.Conn)
	p, err := readProxyHeader(c.Conn)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errProxyNone
		}
		return err
	}
	if !p.local {
		c.client = clientAddr(p.client)
	}
	return release()
}

// barred tells the log why a connection was closed at its PROXY header; one that
// said nothing at all only looked whether somebody listens.
func (e *entrance) barred(c *conn, err error) {
	if err != io.EOF && e.ctx.Err() == nil {
		e.log.Info("connection refused", "listener", e.name, "peer", c.Conn.RemoteAddr().String(), "err", err)
	}
}

// addrOf is an address of TCP, else the zero value.
func addrOf(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		p := tcp.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// clientAddr is the address of a client that a proxy told.
func clientAddr(p netip.AddrPort) net.Addr {
	if p.IsValid() {
		return net.TCPAddrFromAddrPort(p)
	}
	return unknownAddr{}
}

// unknownAddr is that of a client without an IP address.
type unknownAddr struct{}

func (unknownAddr) Network() string { return "tcp" }
func (unknownAddr) String() string  { return "unknown" }
