package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"soapway/internal/frame"
)

// HTTPOptions configures an [HTTP] node. URL is required; every other zero
// field means its default.
type HTTPOptions struct {
	// URL of the node, http or https. Its path is what Request.Rest is
	// appended to, its query goes before that of the request, its user
	// information becomes basic credentials where a request brings none.
	URL string

	// ConnectTimeout bounds name lookup, connect and TLS handshake together.
	// Default 5s.
	ConnectTimeout time.Duration

	// QueueWait bounds the wait for a free connection while MaxConnections are
	// in use; then the message was not sent, for [proxy.ErrNoConnection].
	// Default 100ms; never longer than ConnectTimeout.
	QueueWait time.Duration

	// Timeout bounds the time from the last octet of the request to the first
	// of the answer, then the silence between octets of the answer, and the
	// time the node may take to accept one write. Default 30s.
	Timeout time.Duration

	// IdleTimeout closes pooled connections. Default 4s.
	IdleTimeout time.Duration

	// MaxConnections bounds the connections to the node. Default 512.
	MaxConnections int

	// Budget bounds them together with those of other nodes, in place of
	// MaxConnections. Default: the node shares with none.
	Budget *Budget

	// HeaderBytes bounds the head of an answer. Default 64 KiB.
	HeaderBytes int64

	// TLS is used for https (see [TLSConfig]). Default: the system's roots.
	TLS *tls.Config

	// Dial says how connections are made.
	Dial DialOptions
}

func (o HTTPOptions) withDefaults() HTTPOptions {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.QueueWait == 0 {
		o.QueueWait = 100 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 4 * time.Second
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 512
	}
	if o.HeaderBytes == 0 {
		o.HeaderBytes = 64 << 10
	}
	return o
}

func (o HTTPOptions) validate() error {
	errs := append(validateTimes(o.ConnectTimeout, o.Timeout, o.IdleTimeout), o.Dial.validate()...)
	// A url.Error repeats the URL, credentials included: only its reason is
	// told, and not even that where it may quote them.
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		errs = append(errs, errors.New("option URL: not a URL"))
	case u.Scheme != "http" && u.Scheme != "https":
		errs = append(errs, fmt.Errorf("option URL: got scheme %q, want http or https", u.Scheme))
	case u.Hostname() == "":
		errs = append(errs, errors.New("option URL: got no host"))
	case u.Opaque != "" || u.Fragment != "":
		errs = append(errs, errors.New("option URL: want scheme://host/path?query"))
	}
	if o.QueueWait < 0 {
		errs = append(errs, fmt.Errorf("option QueueWait: got %s, want more than 0", o.QueueWait))
	}
	if o.MaxConnections < 1 {
		errs = append(errs, fmt.Errorf("option MaxConnections: got %d, want at least 1", o.MaxConnections))
	}
	if o.HeaderBytes < 1 {
		errs = append(errs, fmt.Errorf("option HeaderBytes: got %d, want at least 1", o.HeaderBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("upstream: http options: %w", err)
	}
	return nil
}

// FramedOptions configures a [Framed] node. Address is required; every other
// zero field means its default.
type FramedOptions struct {
	// Address is the host:port of the node.
	Address string

	// Length is the number of octets of a length, 2 or 4. Default 2.
	Length int

	// TLS switches TLS on (see [TLSConfig]). Default: plain TCP.
	TLS *tls.Config

	// ConnectTimeout bounds name lookup, connect and TLS handshake. Default 5s.
	ConnectTimeout time.Duration

	// Timeout bounds the time from the last octet of the request to the first
	// of the answer, then the silence between octets of the answer, and the
	// time the node may take to accept one write. Default 30s.
	Timeout time.Duration

	// IdleTimeout closes pooled connections. Default 4s.
	IdleTimeout time.Duration

	// MaxConnections bounds the connections to the node; beyond it requests
	// are pipelined. Default 512.
	MaxConnections int

	// Budget bounds them together with those of other nodes, in place of
	// MaxConnections. Default: the node shares with none.
	Budget *Budget

	// MaxReply bounds the payload of a reply. A longer one breaks the
	// connection. Default 64 MiB; never above what Length can express.
	MaxReply int64

	// Dial says how connections are made.
	Dial DialOptions
}

func (o FramedOptions) withDefaults() FramedOptions {
	if o.Length == 0 {
		o.Length = 2
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 4 * time.Second
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 512
	}
	if o.MaxReply == 0 {
		o.MaxReply = 64 << 20
	}
	return o
}

func (o FramedOptions) validate() error {
	errs := append(validateTimes(o.ConnectTimeout, o.Timeout, o.IdleTimeout), o.Dial.validate()...)
	if _, port, err := net.SplitHostPort(o.Address); err != nil || port == "" {
		errs = append(errs, fmt.Errorf("option Address: got %q, want host:port", o.Address))
	}
	if !frame.ValidWidth(o.Length) {
		errs = append(errs, fmt.Errorf("option Length: got %d, want 2 or 4", o.Length))
	}
	if o.MaxConnections < 1 {
		errs = append(errs, fmt.Errorf("option MaxConnections: got %d, want at least 1", o.MaxConnections))
	}
	if o.MaxReply < 1 {
		errs = append(errs, fmt.Errorf("option MaxReply: got %d, want at least 1", o.MaxReply))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("upstream: framed options: %w", err)
	}
	return nil
}

func validateTimes(connect, answer, idle time.Duration) (errs []error) {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"ConnectTimeout", connect}, {"Timeout", answer}, {"IdleTimeout", idle}} {
		if f.d < 0 {
			errs = append(errs, fmt.Errorf("option %s: got %v, want more than 0", f.name, f.d))
		}
	}
	return errs
}
