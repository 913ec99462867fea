package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"soapway/internal/field"
	"soapway/proxy"
	"soapway/proxy/upstream"
	"soapway/soapcodec"
)

// A Sender sends messages to one HTTP node by the gateway's own client, as an
// exchange does, without an exchange around it: for the self-test. It is for one
// goroutine.
type Sender struct {
	node  proxy.Node
	req   proxy.Request
	body  bytes.Reader
	reply bytes.Buffer
}

// NewSender returns a Sender to url, for messages of this media type. Nothing is
// dialled before the first Send.
func NewSender(url, contentType string, patience time.Duration) (*Sender, error) {
	node, err := upstream.NewHTTP(upstream.HTTPOptions{URL: url, Timeout: patience, IdleTimeout: patience, MaxConnections: 1})
	if err != nil {
		return nil, err
	}
	s := &Sender{node: node}
	s.req = proxy.Request{
		Method:  http.MethodPost,
		Header:  field.List{{Name: "Content-Type", Value: contentType}, {Name: "SOAPAction", Value: `""`}},
		Body:    func() (io.ReadCloser, error) { return io.NopCloser(&s.body), nil },
		Version: soapcodec.V11,
	}
	return s, nil
}

// maxSenderReply is the longest reply that a Sender reads.
const maxSenderReply = 64 << 20

// Send sends a message and returns the reply, valid until the next Send. An answer
// other than 200 is an error.
func (s *Sender) Send(ctx context.Context, message []byte) ([]byte, error) {
	s.body.Reset(message)
	s.req.Length = int64(len(message))
	resp, err := s.node.Send(ctx, &s.req)
	if err != nil {
		return nil, err
	}
	s.reply.Reset()
	if resp.Body != nil {
		_, err = s.reply.ReadFrom(io.LimitReader(resp.Body, maxSenderReply))
		err = errors.Join(err, resp.Body.Close())
	}
	if err == nil && resp.Status != http.StatusOK {
		err = fmt.Errorf("status %d", resp.Status)
	}
	return s.reply.Bytes(), err
}

// Close closes the connection.
func (s *Sender) Close() { s.node.Close() }
