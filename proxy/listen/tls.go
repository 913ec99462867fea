package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"soapway/proxy/guard"
)

// TLSOptions are what a listener's TLS is made of, in PEM (CONFIG.md
// listeners.tls). Certificate and Key are required.
type TLSOptions struct {
	// Certificate has the listener's certificate and those between it and its
	// root, in this order; Key is the first one's.
	Certificate, Key []byte

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
	pair, err := tls.X509KeyPair(opt.Certificate, opt.Key)
	if err != nil {
		return nil, fmt.Errorf("listen: tls: certificate: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
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

// closeFor bounds how long the last record of a connection, its close_notify,
// waits for a peer that does not read.
const closeFor = time.Second

// A terminator makes connections of TLS of those that a socket accepts. Each
// handshake has a goroutine of its own, so that a client that says nothing keeps
// nobody waiting.
type terminator struct {
	name     string
	timeouts Timeouts // Header is that of a handshake
	http     bool
	log      *slog.Logger

	// present is for the connections to come. Each configuration makes session
	// tickets of its own, so that a client whose certificate an earlier one has
	// verified must show it again.
	present atomic.Pointer[tls.Config]

	ctx    context.Context // of all handshakes
	cancel context.CancelFunc
	once   sync.Once
	open   sync.WaitGroup // goroutines
	ready  chan accepted
}

// accepted is what one call of accept returns.
type accepted struct {
	c   *conn
	err error
}

func newTerminator(name string, timeouts Timeouts, log *slog.Logger) *terminator {
	t := &terminator{name: name, timeouts: timeouts, log: log, ready: make(chan accepted)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// set makes cfg the configuration of the connections to come.
func (t *terminator) set(cfg *tls.Config) {
	own := cfg.Clone()
	if t.http {
		own.NextProtos = []string{"http/1.1"}
	}
	t.present.Store(own)
}

// next returns the next connection whose handshake is done.
func (t *terminator) next(b *bounded) (*conn, error) {
	t.once.Do(func() { t.open.Go(func() { t.acceptAll(b) }) })
	select {
	case a := <-t.ready:
		return a.c, a.err
	case <-b.closing:
		return nil, net.ErrClosed
	}
}

// acceptAll accepts until the socket is closed or broken. After an error it goes
// on when that was taken, which whoever accepts does in its own time.
func (t *terminator) acceptAll(b *bounded) {
	for {
		raw, err := b.take()
		if err == nil {
			t.open.Go(func() { t.shake(b, raw) })
			continue
		}
		select {
		case t.ready <- accepted{err: err}:
		case <-b.closing:
			return
		}
	}
}

// shake makes a connection of raw, or closes it.
func (t *terminator) shake(b *bounded, raw net.Conn) {
	ctx, cancel := context.WithTimeout(t.ctx, t.timeouts.Header)
	defer cancel()
	over := tls.Server(raw, t.present.Load())
	if err := over.HandshakeContext(ctx); err != nil {
		t.refused(ctx, raw, err)
		raw.Close()
		<-b.slots
		return
	}
	c := &conn{Conn: &secured{Conn: over, patience: t.timeouts.BodyIdle}, tls: true}
	if state := over.ConnectionState(); len(state.VerifiedChains) > 0 {
		c.certificate = guard.NewCertificate(state.PeerCertificates[0])
	}
	b.admit(c)
	select {
	case t.ready <- accepted{c: c}:
	case <-b.closing:
		c.Close()
	}
}

// refused tells what was wrong with a handshake: the log, and a client that
// speaks HTTP in the clear.
func (t *terminator) refused(ctx context.Context, raw net.Conn, err error) {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = ctx.Err()
	case t.ctx.Err() != nil, errors.Is(err, io.EOF):
		return // our own end, or one who only looked whether somebody listens
	}
	t.log.Info("TLS handshake failed", "listener", t.name, "client", raw.RemoteAddr().String(), "err", err)
	head, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || head.Conn == nil || !t.http || !startsRequest(head.RecordHeader) {
		return
	}
	const text = "This port speaks TLS: use https.\n"
	raw.SetDeadline(time.Now().Add(lingerFor))
	fmt.Fprintf(raw, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
	// What the client has sent and nobody read would reset the connection, and
	// the answer might be lost.
	if half, ok := raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		stop := context.AfterFunc(t.ctx, func() { raw.SetDeadline(past) })
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
