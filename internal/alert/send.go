package alert

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// The states of an alarm in a notice.
const (
	stateOpen   = "open"
	stateClosed = "closed"
)

// Notice is the document of a POST, see docs/operations.md. A field is never renamed,
// and new ones may come.
type Notice struct {
	Version int       `json:"version"` // 1
	ID      string    `json:"id"`      // the same for each try; Idempotency-Key has it too
	Time    time.Time `json:"time"`    // when it was made
	Gateway any       `json:"gateway,omitempty"`
	Alerts  []Alert   `json:"alerts"`
}

// Alert is one change.
type Alert struct {
	Kind    string    `json:"kind"`
	Subject string    `json:"subject,omitempty"`
	State   string    `json:"state"` // open or closed
	Since   time.Time `json:"since"`
	Ended   time.Time `json:"ended,omitzero"`
	Text    string    `json:"text"`
	Value   float64   `json:"value,omitempty"`
}

// sender sends one notice after the other.
type sender struct {
	to   string // the webhook
	id   string // of the notice that was not taken; "" = none
	last []key  // what it tells
	next time.Time
	wait time.Duration
}

// try sends what is due, if it is time for that, and reports whether it was taken.
func (s *sender) try(ctx context.Context, w *Watcher) bool {
	list := w.due()
	now := time.Now()
	if len(list) == 0 || now.Before(s.next) {
		return false
	}
	n := Notice{Version: 1, Time: now.UTC(), Gateway: w.opt.About}
	var keys []key
	for _, a := range list {
		out := Alert{Kind: a.Kind, Subject: a.Subject, State: stateOpen, Since: a.since.UTC(), Text: a.Text, Value: a.Value}
		if !a.ended.IsZero() {
			out.State, out.Ended = stateClosed, a.ended.UTC()
		}
		n.Alerts = append(n.Alerts, out)
		keys = append(keys, key{a.Kind + " " + out.State, a.Subject})
	}
	if s.id == "" || !slices.Equal(keys, s.last) { // another document
		s.id, s.last = rand.Text(), keys
	}
	n.ID = s.id
	if err := post(ctx, w, s.to, &n); err != nil {
		if ctx.Err() != nil {
			return false
		}
		s.wait = min(max(2*s.wait, w.opt.Retry), w.opt.MaxRetry)
		s.next = now.Add(s.wait)
		w.opt.Log.Warn("a notice of alarms was not taken", "alarms", len(list), "next", s.wait, "err", err)
		return false
	}
	*s = sender{to: s.to}
	for _, a := range list {
		if a.told = a.ended.IsZero(); !a.told {
			w.over(a)
		}
	}
	return true
}

// post sends a notice. Any answer of success means that it was taken.
func post(ctx context.Context, w *Watcher, to string, n *Notice) error {
	doc, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(doc))
	if err != nil {
		return unnamed(err)
	}
	if u := req.URL.User; u != nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "soapway")
	req.Header.Set("Idempotency-Key", n.ID)
	resp, err := w.opt.Transport.RoundTrip(req) // redirects are not followed: they would take the alarms elsewhere
	if err != nil {
		return unnamed(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // frees the connection
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("alert: the webhook answers %d", resp.StatusCode)
	}
	return nil
}

// unnamed is the reason of an error without the URL, which may hold a password.
func unnamed(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
