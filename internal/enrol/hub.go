package enrol

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Hub answers the requests of [JoinPath] and [RenewPath].
type Hub struct {
	Authority *Authority
	// Name is the hub's own, and Routes says which of its routes a site may send to.
	Name   string
	Routes func(site string) []string

	tries tries
}

// Answer is what goes back, a body in JSON.
type Answer struct {
	Status int
	Body   []byte
	// Site is who was given a certificate, "" if nobody was.
	Site string
}

// triesMost is how many refused tokens in a minute the hub looks at. A token has 128
// random bits: it is the log that is to be spared.
const triesMost = 30

// tries counts refusals in the present minute.
type tries struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

func (t *tries) full(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= time.Minute {
		t.since, t.n = now, 0
	}
	return t.n >= triesMost
}

func (t *tries) add() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

// Join answers a request of [JoinPath]; its error is what to log, beside an answer
// that tells the other side no more than it needs.
func (h *Hub) Join(body io.Reader) (*Answer, error) {
	if h.tries.full(h.Authority.now()) {
		return refusal(http.StatusTooManyRequests, "too many tokens were refused: try again in a minute"), errors.New("too many refused tokens")
	}
	var r joinRequest
	if a := read(body, &r); a != nil {
		return a, errors.New("not a request to join")
	}
	t, err := ParseToken(r.Token)
	if err != nil {
		h.tries.add()
		return refusal(http.StatusForbidden, ErrRefused.Error()), err
	}
	site, cert, err := h.Authority.Join(t, []byte(r.Request))
	if err != nil {
		return h.failed(err), err
	}
	a := answer(http.StatusOK, &joinReply{Hub: h.Name, Site: site, Authority: string(h.Authority.Certificate()), Certificate: string(cert), Routes: h.Routes(site)})
	a.Site = site
	return a, nil
}

// Renew answers a request of [RenewPath] over a connection on which the peer has
// shown a certificate, nil for none.
func (h *Hub) Renew(peer *x509.Certificate, body io.Reader) (*Answer, error) {
	if peer == nil {
		return refusal(http.StatusForbidden, "show the certificate that is to be renewed"), errors.New("no certificate")
	}
	var r renewRequest
	if a := read(body, &r); a != nil {
		return a, errors.New("not a request to renew")
	}
	site, err := h.Authority.Check(peer)
	if err != nil {
		return h.failed(err), err
	}
	cert, err := h.Authority.Renew(peer, []byte(r.Request))
	if err != nil {
		return h.failed(err), err
	}
	a := answer(http.StatusOK, &renewReply{Certificate: string(cert)})
	a.Site = site
	return a, nil
}

func (h *Hub) failed(err error) *Answer {
	switch {
	case errors.Is(err, ErrRefused):
		h.tries.add()
		return refusal(http.StatusForbidden, ErrRefused.Error())
	case errors.Is(err, ErrRevoked), errors.Is(err, ErrForeign):
		return refusal(http.StatusForbidden, "the certificate cannot be renewed here")
	case errors.Is(err, errRequest):
		return refusal(http.StatusBadRequest, "the request for a certificate cannot be used")
	}
	return refusal(http.StatusInternalServerError, "the hub cannot keep its records")
}

// read decodes a body; the answer is not nil if that fails.
func read(body io.Reader, v any) *Answer {
	text, err := io.ReadAll(io.LimitReader(body, messageMost+1))
	switch {
	case err != nil:
		return refusal(http.StatusBadRequest, "the request was broken off")
	case len(text) > messageMost:
		return refusal(http.StatusRequestEntityTooLarge, "the request is too large")
	case json.Unmarshal(text, v) != nil:
		return refusal(http.StatusBadRequest, "the request is not the JSON of gateway site join")
	}
	return nil
}

func refusal(status int, reason string) *Answer { return answer(status, &errorReply{reason}) }

func answer(status int, v any) *Answer {
	b, err := json.Marshal(v)
	if err != nil { // of strings only
		panic(err)
	}
	return &Answer{Status: status, Body: b}
}
