package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// Check is how a node is asked whether it is well. The zero value connects to
// it and no more.
type Check struct {
	// Path is asked for by GET, at HTTP nodes, with its query: any status from 200
	// to 399 is well.
	Path string

	// Envelope is a message in UTF-8 that is sent in place of that, and Version
	// its version: any envelope is well, a fault included, and so is any answer
	// with a status from 200 to 299.
	Envelope []byte
	Version  soapcodec.Version

	// Timeout bounds a check. Default 2s.
	Timeout time.Duration
}

// ParseCheck makes the check that sends an envelope, which is in any charset and
// must pass every check that the messages of callers have to pass.
func ParseCheck(octets []byte) (*Check, error) {
	doc, _, err := xmlstream.DecodeBytes(octets, "")
	if err != nil {
		return nil, err
	}
	dec := soapcodec.NewDecoder(soapcodec.Options{})
	dec.ResetBytes(doc)
	if err := dec.Finish(); err != nil {
		return nil, err
	}
	return &Check{Envelope: doc, Version: dec.Facts().Version}, nil
}

// CheckNode asks node i of the backend whether it is well.
func (b *Backend) CheckNode(ctx context.Context, i int) error {
	c := b.Check
	if c.Path == "" && c.Envelope == nil {
		return b.Nodes[i].Probe(ctx)
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path, query, hasQuery := strings.Cut(c.Path, "?")
	req := &Request{
		Method: http.MethodGet, Path: path, Query: query, HasQuery: hasQuery, Header: field.List{{Name: "User-Agent", Value: "soapway-health"}},
		Body:    func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.Envelope)), nil },
		Version: c.Version, Length: int64(len(c.Envelope)), Timeouts: Timeouts{Connect: timeout, Answer: timeout},
	}
	if c.Envelope != nil {
		req.Method = http.MethodPost
		framedHeader(&req.Header, c.Version, "")
	}
	(&backend{Backend: *b}).addOwn(&req.Header)
	resp, err := b.Nodes[i].Send(ctx, req)
	if err != nil {
		return err
	}
	body := resp.Body
	if body == nil {
		body = http.NoBody
	}
	defer body.Close()
	return c.well(resp, body)
}

// checkMost is how much of an answer to a check is looked at.
const checkMost = 1 << 20

// well judges an answer, and reads a small one to its end, so that its
// connection can be used again.
func (c *Check) well(resp *Response, body io.Reader) error {
	most := io.LimitReader(body, checkMost)
	limit := 300
	if c.Envelope == nil {
		limit = 400
	}
	if resp.Status >= 200 && resp.Status < limit {
		if _, err := io.Copy(io.Discard, most); err != nil {
			return fmt.Errorf("proxy: the answer to the check broke off: %w", err)
		}
		return nil
	}
	ct, err := soapcodec.ParseContentType(resp.Header.Get("Content-Type"))
	if c.Envelope != nil && err == nil && ct.IsSOAP() && resp.Header.Get("Content-Type") != "" {
		if rd, err := xmlstream.NewReader(most, ct.Charset); err == nil {
			dec := soapcodec.NewDecoder(soapcodec.Options{})
			dec.Reset(rd)
			if dec.Finish() == nil {
				return nil
			}
		}
	}
	return fmt.Errorf("proxy: the check was answered with status %d", resp.Status)
}
