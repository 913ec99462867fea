package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"soapway/proxy/guard"
)

// TLSOptions are what a listener's TLS is made of, in PEM (CONFIG.md
// listeners.tls). Either Certificate and Key are required, or Issued.
type TLSOptions struct {
	// Certificate has the listener's certificate and those between it and its
	// root, in this order; Key is the first one's.
	Certificate, Key []byte

	// Issued gives a certificate to each client. One whose only protocol is
	// acme-tls/1 is an authority that looks for a challenge (RFC 8737): it is asked
	// for no certificate, and its connection ends with the handshake.
	Issued func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// ClientCA has the roots of the clients' certificates. A certificate that
	// none of them vouches for ends the handshake. Default: none is asked for.
	ClientCA []byte

	// Optional lets in clients that show no certificate; without it the
	// handshake needs one. It is for ClientCA only.
	Optional bool
}

// TLSConfig builds the configuration of a TLS server: 1.2 at least, with the
// suites and curves that crypto/tls prefers.
func TLSConfig(opt TLSOptions) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: opt.Issued}
	if opt.Issued != nil {
		cfg.GetConfigForClient = challenged(opt.Issued)
	} else {
		pair, err := tls.X509KeyPair(opt.Certificate, opt.Key)
		if err != nil {
			return nil, fmt.Errorf("listen: tls: certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if opt.ClientCA == nil {
		return cfg, nil
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(opt.ClientCA) {
		return nil, errors.New("listen: tls: client ca: has no certificate")
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	if opt.Optional {
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return cfg, nil
}

// protocolChallenge is what a connection agrees on that carries nothing but the
// certificate of a challenge (RFC 8737 §6.2).
const protocolChallenge = "acme-tls/1"

// errChallenge is the end of such a connection.
var errChallenge = errors.New("listen: a challenge was answered")

// challenged gives those who look for a challenge a configuration of their own.
// For all others it stays the one that asks, with its tickets.
func challenged(issued func(*tls.ClientHelloInfo) (*tls.Certificate, error)) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: issued, NextProtos: []string{protocolChallenge}, SessionTicketsDisabled: true,
	}
	return func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == protocolChallenge {
			return cfg, nil
		}
		return nil, nil
	}
}

// closeFor bounds how long the last record of a connection, its close_notify,
// waits for a peer that does not read.
const closeFor = time.Second

// protocols are those of an HTTP listener, in the order in which it likes them
// (RFC 7301). HTTP/2 is "h2", see RFC 9113 §3.2.
var protocols = []string{protocolH2, "http/1.1"}

const protocolH2 = "h2"

// set makes cfg the configuration of the connections to come.
func (e *entrance) set(cfg *tls.Config) {
	own := cfg.Clone()
	if e.http {
		own.NextProtos = protocols
	}
	e.present.Store(own)
}

// shake makes a connection of TLS of c.
func (e *entrance) shake(ctx context.Context, c *conn) error {
	raw := c.Conn
	over := tls.Server(raw, e.present.Load())
	if err := over.HandshakeContext(ctx); err != nil {
		e.refused(ctx, c, err)
		return err
	}
	state := over.ConnectionState()
	if state.NegotiatedProtocol == protocolChallenge {
		return errors.Join(errChallenge, over.Close())
	}
	c.Conn, c.tls = &secured{Conn: over, patience: e.timeouts.BodyIdle}, true
	c.h2 = state.NegotiatedProtocol == protocolH2
	if len(state.VerifiedChains) > 0 {
		c.certificate = guard.NewCertificate(state.PeerCertificates[0])
	}
	return nil
}

// refused tells what was wrong with a handshake: the log, and a client that
// speaks HTTP in the clear.
func (e *entrance) refused(ctx context.Context, c *conn, err error) {
	raw := c.Conn
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = ctx.Err()
	case e.ctx.Err() != nil, errors.Is(err, io.EOF):
		return // our own end, or one who only looked whether somebody listens
	}
	e.log.Info("TLS handshake failed", "listener", e.name, "client", c.RemoteAddr().String(), "err", err)
	head, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || head.Conn == nil || !e.http || !startsRequest(head.RecordHeader) {
		return
	}
	const text = "This port speaks TLS: use https.\n"
	raw.SetDeadline(time.Now().Add(lingerFor))
	fmt.Fprintf(raw, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
	// What the client has sent and nobody read would reset the connection, and
	// the answer might be lost.
	if half, ok := raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		stop := context.AfterFunc(e.ctx, func() { raw.SetDeadline(past) })
		defer stop()
		io.CopyN(io.Discard, raw, drainMost)
	}
}

// startsRequest reports whether the first octets of a connection are those of a
// method of HTTP.
func startsRequest(head [5]byte) bool {
	for _, c := range head {
		if (c < 'A' || c > 'Z') && c != ' ' && c != '/' {
			return false
		}
	}
	return head[0] >= 'A' && head[0] <= 'Z'
}

// secured is a connection of TLS with what this package and h1 ask of one of
// TCP.
//
// Reading may write: a peer may ask for new keys (RFC 8446 §4.6.3). For that
// there must always be a deadline, or a peer that does not read would hold the
// reader for ever; and none that is over since the last answer, or crypto/tls
// would refuse to write the next one.
type secured struct {
	*tls.Conn
	patience time.Duration // of a write that reading makes

	writeBy atomic.Int64 // the write deadline, in nanoseconds since 1970; 0 is none
	writing atomic.Int32 // calls of Write that are under way
	cut     atomic.Bool  // no close_notify
}

// Read implements [net.Conn].
func (s *secured) Read(p []byte) (int, error) {
	if now := time.Now(); s.writing.Load() == 0 && s.writeBy.Load() < now.Add(s.patience/2).UnixNano() {
		s.SetWriteDeadline(now.Add(s.patience))
	}
	return s.Conn.Read(p)
}

// Write implements [net.Conn].
func (s *secured) Write(p []byte) (int, error) {
	s.writing.Add(1)
	defer s.writing.Add(-1)
	return s.Conn.Write(p)
}

// SetWriteDeadline implements [net.Conn].
func (s *secured) SetWriteDeadline(t time.Time) error {
	at := int64(0)
	if !t.IsZero() {
		at = t.UnixNano()
	}
	s.writeBy.Store(at)
	return s.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (s *secured) SetDeadline(t time.Time) error {
	if err := s.SetWriteDeadline(t); err != nil {
		return err
	}
	return s.SetReadDeadline(t)
}

// SetLinger makes the coming Close send a RST. There is no close_notify then:
// the peer would take what it has for all there is (RFC 8446 §6.1).
func (s *secured) SetLinger(seconds int) error {
	s.cut.Store(true)
	if tcp, ok := s.NetConn().(interface{ SetLinger(int) error }); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}

// Close sends a close_notify, unless SetLinger was called, and closes the
// connection.
func (s *secured) Close() error {
	if s.cut.Load() {
		return s.NetConn().Close()
	}
	enough := time.AfterFunc(closeFor, func() { s.NetConn().Close() })
	defer enough.Stop()
	return s.Conn.Close()
}
