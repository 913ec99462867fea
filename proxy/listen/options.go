package listen

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"soapway/internal/frame"
)

// Timeouts of a listener (CONFIG.md listeners.timeouts). A zero field means its
// default.
type Timeouts struct {
	// Header bounds the time from the first octet of a request head to its
	// end, and on a new connection from its start; HTTP only. It also bounds
	// what comes before, the PROXY header and the handshake of TLS together.
	// Default 10s.
	Header time.Duration

	// BodyIdle bounds the silence of a peer inside a body or a frame, and the
	// time a peer may take to accept one write of a reply. Default 30s.
	BodyIdle time.Duration

	// Idle bounds the silence between two requests. Default 60s.
	Idle time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	if t.Header == 0 {
		t.Header = 10 * time.Second
	}
	if t.BodyIdle == 0 {
		t.BodyIdle = 30 * time.Second
	}
	if t.Idle == 0 {
		t.Idle = 60 * time.Second
	}
	return t
}

func (t Timeouts) validate() (errs []error) {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"Header", t.Header}, {"BodyIdle", t.BodyIdle}, {"Idle", t.Idle}} {
		if f.d < 0 {
			errs = append(errs, fmt.Errorf("option Timeouts.%s: got %v, want more than 0", f.name, f.d))
		}
	}
	return errs
}

// Engine is what speaks HTTP on the connections of an [HTTP] listener.
type Engine int

const (
	// Fast is package h1: strict, and at half the cost of net/http.
	Fast Engine = iota

	// Std is net/http.
	Std
)

// HTTPOptions configures an [HTTP] listener. Address is required; every other
// zero field means its default.
type HTTPOptions struct {
	// Name stands in logs and in every Exchange.
	Name string

	// Address is the host:port to bind; port 0 lets the system choose.
	Address string

	// Route is the fixed route of the listener; empty means by conditions.
	Route string

	// TLS is what connections begin with (see [TLSConfig]). ALPN is set by the
	// listener. Default: in the clear.
	TLS *tls.Config

	// Proxies says which peers are proxies that tell their client by a header of
	// the PROXY protocol, version 2, at the start of each connection, before TLS;
	// connections of others are closed. It may be called at any time by any
	// goroutine. Default nil: connections have no such header.
	Proxies func(peer netip.Addr) bool

	// H2C takes HTTP/2 by prior knowledge (RFC 9113 §3.3). It has no use with
	// TLS, where clients choose by ALPN.
	H2C bool

	// Engine, see there. It is for HTTP/1.1: HTTP/2 is always net/http. Default
	// Fast.
	Engine Engine

	// Timeouts, see there.
	Timeouts Timeouts

	// MaxConnections bounds the open connections; more wait in the backlog of
	// the socket until one closes. It also bounds the exchanges under way over
	// HTTP/2; further ones are answered with 503. Default 10000.
	MaxConnections int

	// HeaderBytes bounds a request head; a larger one is answered with 431.
	// Under Std net/http adds 4 KiB of slack. Default 64 KiB.
	HeaderBytes int

	// Drain bounds how long Run waits, once its context is cancelled, for
	// exchanges under way. Default 30s; negative means not at all.
	Drain time.Duration

	// Log receives what goes wrong on connections. Default: discard.
	Log *slog.Logger
}

func (o HTTPOptions) withDefaults() HTTPOptions {
	o.Timeouts = o.Timeouts.withDefaults()
	if o.MaxConnections == 0 {
		o.MaxConnections = 10000
	}
	if o.HeaderBytes == 0 {
		o.HeaderBytes = 64 << 10
	}
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o HTTPOptions) validate() error {
	errs := o.Timeouts.validate()
	if o.Address == "" {
		errs = append(errs, errors.New("option Address: got none, want host:port"))
	}
	if o.MaxConnections < 1 {
		errs = append(errs, fmt.Errorf("option MaxConnections: got %d, want at least 1", o.MaxConnections))
	}
	if o.H2C && o.TLS != nil {
		errs = append(errs, errors.New("option H2C: got it beside TLS"))
	}
	if o.HeaderBytes < 1 {
		errs = append(errs, fmt.Errorf("option HeaderBytes: got %d, want at least 1", o.HeaderBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("listen: http options: %w", err)
	}
	return nil
}

// FramedOptions configures a [Framed] listener. Address is required; every
// other zero field means its default.
type FramedOptions struct {
	// Name stands in logs and in every Exchange.
	Name string

	// Address is the host:port to bind; port 0 lets the system choose.
	Address string

	// TLS is what connections begin with (see [TLSConfig]). Default: in the
	// clear.
	TLS *tls.Config

	// Proxies says which peers are proxies that tell their client by a header of
	// the PROXY protocol, version 2, at the start of each connection, before TLS;
	// connections of others are closed. It may be called at any time by any
	// goroutine. Default nil: connections have no such header.
	Proxies func(peer netip.Addr) bool

	// Length is the number of octets of a length, 2 or 4. Default 2.
	Length int

	// Route is the fixed route of the listener; empty means by conditions.
	Route string

	// Timeouts: BodyIdle inside a frame, Idle between; Header bounds the PROXY
	// header and the handshake of TLS and is not used without.
	Timeouts Timeouts

	// MaxMessage bounds the payload of a frame in both directions. A longer
	// request closes the connection, a longer reply becomes the fault
	// ReplyTooLarge. Never above what Length can express. Default 64 MiB.
	MaxMessage int64

	// Buffer is the size up to which a request is read into memory, so that
	// the next one can be read while it is served; larger ones stream, one at
	// a time (CONFIG.md limits.buffer). Default 1 MiB.
	Buffer int64

	// MaxConnections bounds the open connections; more wait in the backlog of
	// the socket until one closes. Default 10000.
	MaxConnections int

	// Pipeline bounds the requests in flight on one connection. Default 64.
	Pipeline int

	// Drain bounds how long Run waits, once its context is cancelled, for
	// exchanges under way. Default 30s; negative means not at all.
	Drain time.Duration

	// Log receives what goes wrong on connections. Default: discard.
	Log *slog.Logger
}

func (o FramedOptions) withDefaults() FramedOptions {
	o.Timeouts = o.Timeouts.withDefaults()
	if o.Length == 0 {
		o.Length = 2
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 64 << 20
	}
	if o.Buffer == 0 {
		o.Buffer = 1 << 20
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 10000
	}
	if o.Pipeline == 0 {
		o.Pipeline = 64
	}
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o FramedOptions) validate() error {
	errs := o.Timeouts.validate()
	if o.Address == "" {
		errs = append(errs, errors.New("option Address: got none, want host:port"))
	}
	if !frame.ValidWidth(o.Length) {
		errs = append(errs, fmt.Errorf("option Length: got %d, want 2 or 4", o.Length))
	}
	if o.MaxMessage < 1 {
		errs = append(errs, fmt.Errorf("option MaxMessage: got %d, want at least 1", o.MaxMessage))
	}
	if o.Buffer < 1 {
		errs = append(errs, fmt.Errorf("option Buffer: got %d, want at least 1", o.Buffer))
	}
	if o.MaxConnections < 1 {
		errs = append(errs, fmt.Errorf("option MaxConnections: got %d, want at least 1", o.MaxConnections))
	}
	if o.Pipeline < 1 {
		errs = append(errs, fmt.Errorf("option Pipeline: got %d, want at least 1", o.Pipeline))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("listen: framed options: %w", err)
	}
	return nil
}

// limit is the longest payload that the listener takes or gives.
func (o FramedOptions) limit() int64 { return min(o.MaxMessage, frame.MaxPayload(o.Length)) }
