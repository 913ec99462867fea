package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"soapway/soapcodec"
)

// maxReply bounds what send keeps of one answer.
const maxReply = 256 << 20

// An answer is what came back for one message.
type answer struct {
	status  int    // of HTTP; 0 for framed
	text    string // "200 OK", "accepted"
	id      string // Gateway-Message-Id
	body    []byte
	fault   string // code and reason, "" if the body is not a fault
	success bool   // neither a fault nor a status of failure
}

// httpSender sends over one HTTP/1.1 connection.
type httpSender struct {
	target  *target
	timeout time.Duration
	client  *http.Client
}

func newHTTPSender(t *target, timeout time.Duration) *httpSender {
	return &httpSender{target: t, timeout: timeout, client: &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:     t.tls,
			MaxConnsPerHost:     1,
			MaxIdleConnsPerHost: 1,
			DisableCompression:  true, // the reply is printed as it comes
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (s *httpSender) close() { s.client.CloseIdleConnections() }

func (s *httpSender) send(ctx context.Context, m *message) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v", s.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target.url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	s.target.fill(req, m)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer resp.Body.Close()
	body, err := readReply(resp.Body)
	if err != nil {
		return nil, because(ctx, fmt.Errorf("the reply broke off: %w", err))
	}
	a := &answer{status: resp.StatusCode, text: resp.Status, id: resp.Header.Get("Gateway-Message-Id"), body: body}
	a.fault = faultOf(body)
	a.success = a.fault == "" && resp.StatusCode/100 == 2
	return a, nil
}

// fill sets the fields: those that the version asks for (SOAP 1.1 §6.1.1, SOAP
// 1.2 Part 2 §7.1.4), then those of the command line, which win.
func (t *target) fill(req *http.Request, m *message) {
	h := req.Header
	h.Set("User-Agent", "gateway-send")
	switch {
	case m.version == soapcodec.V12 && t.action != nil:
		h.Set("Content-Type", "application/soap+xml; charset="+m.charset+"; action="+quoted(*t.action))
	case m.version == soapcodec.V12:
		h.Set("Content-Type", "application/soap+xml; charset="+m.charset)
	default:
		h.Set("Content-Type", "text/xml; charset="+m.charset)
		action := ""
		if t.action != nil {
			action = *t.action
		}
		h["SOAPAction"] = []string{quoted(action)}
	}
	for name, values := range t.header {
		for had := range h {
			if strings.EqualFold(had, name) {
				delete(h, had)
			}
		}
		switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
		case canonical == "Host" && len(values) > 0:
			req.Host = values[0]
		case canonical == "User-Agent" && len(values) == 0:
			h.Set("User-Agent", "") // net/http would add its own
		case canonical == "User-Agent":
			h.Set("User-Agent", values[0])
		case len(values) > 0:
			h[name] = values
		}
	}
	if t.user != nil {
		password, _ := t.user.Password()
		req.SetBasicAuth(t.user.Username(), password)
	}
}

// quoted writes s as a quoted-string (RFC 9110 §5.6.4).
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// readReply reads all of r unless it is unreasonably long.
func readReply(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxReply+1))
	if len(body) > maxReply {
		return nil, fmt.Errorf("longer than %d MiB", maxReply>>20)
	}
	return body, err
}

// faultOf returns code and reason if body is an envelope with a fault.
func faultOf(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	d := soapcodec.NewDecoder(soapcodec.Options{})
	d.ResetBytes(body)
	// A reply that breaks off behind its fault is reported as that fault.
	_ = d.Finish()
	f := d.Facts().Fault
	if f == nil {
		return ""
	}
	var code strings.Builder
	code.WriteString(f.Code.Local)
	for _, sub := range f.Subcodes {
		code.WriteString("/" + sub.Local)
	}
	if f.Reason == "" {
		return code.String()
	}
	return code.String() + ": " + strings.Join(strings.Fields(f.Reason), " ")
}

// because replaces what net/http says about an ended context by its cause.
func because(ctx context.Context, err error) error {
	switch ctx.Err() {
	case nil:
		return err
	case context.Canceled:
		return errors.New("interrupted")
	}
	return context.Cause(ctx)
}
