package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"soapway/internal/frame"
)

// framedSender sends over one connection; after an error it dials anew, since
// frames cannot be resynchronised.
type framedSender struct {
	target  *target
	timeout time.Duration
	conn    net.Conn
	frames  *frame.Reader
	out     []byte
}

func (s *framedSender) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

func (s *framedSender) send(ctx context.Context, m *message) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v", s.timeout))
	defer cancel()
	a, err := s.exchange(ctx, m)
	if err != nil {
		s.close()
		return nil, because(ctx, err)
	}
	return a, nil
}

func (s *framedSender) exchange(ctx context.Context, m *message) (*answer, error) {
	out, err := frame.Append(s.out[:0], s.target.length, m.body)
	if errors.Is(err, frame.ErrTooLong) {
		return nil, fmt.Errorf("%d bytes do not fit a length of %d bytes", len(m.body), s.target.length)
	}
	if err != nil {
		return nil, err
	}
	s.out = out
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	// The end of ctx cuts the connection, which ends reads and writes.
	conn := s.conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write(s.out); err != nil {
		return nil, err
	}
	n, err := s.frames.Next()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return &answer{text: "accepted", success: true}, nil
	}
	body, err := io.ReadAll(s.frames)
	if err != nil {
		return nil, fmt.Errorf("the reply broke off: %w", err)
	}
	a := &answer{text: "answered", body: body, fault: faultOf(body)}
	a.success = a.fault == ""
	return a, nil
}

func (s *framedSender) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	var err error
	if s.target.tls != nil {
		d := tls.Dialer{Config: s.target.tls}
		s.conn, err = d.DialContext(ctx, "tcp", s.target.host)
	} else {
		var d net.Dialer
		s.conn, err = d.DialContext(ctx, "tcp", s.target.host)
	}
	if err != nil {
		s.conn = nil
		return err
	}
	s.frames = frame.NewReader(s.conn, s.target.length, maxReply, 16<<10)
	return nil
}
