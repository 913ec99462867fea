package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"soapway/internal/redact"
)

// maxPage is the most messages that one page has.
const maxPage = 1000

// redacted stands for the value of a secret field.
const redacted = "[redacted]"

// yamlText is an answer that is YAML already.
type yamlText []byte

func (a *api) describe(*call) (any, error) { return yamlText(openAPI), nil }

// Status is the answer of GET /status.
type Status struct {
	Version string     `json:"version,omitempty"`
	Running bool       `json:"running"` // false: this is the store of a stopped gateway
	Ready   bool       `json:"ready"`
	Reasons []string   `json:"reasons,omitempty"` // why it is not ready
	Store   *StoreInfo `json:"store,omitempty"`
	Waiting int        `json:"waiting"`
}

func (a *api) status(*call) (any, error) {
	s := Status{Version: a.version, Running: !a.stopped, Waiting: a.queue().Waiting()}
	if s.Running {
		s.Reasons = a.ready()
		s.Ready = len(s.Reasons) == 0
	}
	if info, ok := a.queue().Store(); ok {
		s.Store = &info
	}
	return s, nil
}

// Queues is the answer of GET /queues.
type Queues struct {
	Queues []RouteStats `json:"queues"`
}

func (a *api) queues(*call) (any, error) {
	return Queues{append([]RouteStats{}, a.queue().Stats()...)}, nil
}

// Page is the answer of GET /queues/{route}/messages.
type Page struct {
	Messages []Entry `json:"messages"`
	Next     string  `json:"next,omitempty"`
	Loading  bool    `json:"loading,omitempty"` // messages may be missing
}

func (a *api) list(c *call) (any, error) {
	f, err := c.filter()
	if err != nil {
		return nil, err
	}
	f.After = c.query.Get("after")
	if f.Limit, err = c.number("limit", maxPage); err != nil {
		return nil, err
	}
	if err := a.knows(f.Route); err != nil {
		return nil, err
	}
	loading := !a.queue().Loaded() // before the list, which may be complete when it is asked after
	page, next, err := a.queue().List(f)
	if err != nil {
		return nil, err
	}
	return Page{append([]Entry{}, page...), next, loading}, nil
}

// filter reads the filter of a query.
func (c *call) filter() (Filter, error) {
	f := Filter{Route: c.path("route"), State: c.query.Get("state"), Operation: c.query.Get("operation"), Text: c.query.Get("text")}
	return f, f.check(kindParameter, c.query.Has("state"), c.query.Get("since"), c.query.Has("since"))
}

// check looks at the values that a caller has given, and fills in Since.
func (f *Filter) check(k kind, hasState bool, since string, hasSince bool) error {
	if hasState && !slices.Contains(states, f.State) {
		return refusef(k, "state must be one of %s, got %s", strings.Join(states, ", "), quote(f.State))
	}
	if hasSince {
		t, err := time.Parse(time.RFC3339Nano, since)
		if err != nil {
			return refusef(k, "since must be a time as in 2026-01-31T12:00:00Z, got %s", quote(since))
		}
		f.Since = t
	}
	return nil
}

// knows refuses a route that has nothing to do with the queue.
func (a *api) knows(route string) error {
	if !slices.ContainsFunc(a.queue().Stats(), func(s RouteStats) bool { return s.Route == route }) {
		return refusef(kindRoute, "no route %s stores messages or has stored any", quote(route))
	}
	return nil
}

// Message is the answer of GET /messages/{id}. Octets that are not UTF-8 are in
// the field whose name ends in base64.
type Message struct {
	Message        Entry         `json:"message"`
	Attempts       []Attempt     `json:"attempts"`
	Header         []HeaderField `json:"header"`
	Envelope       string        `json:"envelope,omitempty"`
	EnvelopeBase64 []byte        `json:"envelope_base64,omitempty"`
	EnvelopeCut    bool          `json:"envelope_cut,omitempty"`
	EnvelopeError  string        `json:"envelope_error,omitempty"` // why the rest of it is not shown
	Hidden         int           `json:"hidden,omitempty"`         // places of envelope and reply that are masked
	Attachments    int           `json:"attachments,omitempty"`    // parts of the message that are not shown
	Reply          *Reply        `json:"reply,omitempty"`
}

// HeaderField is a header field as it is shown.
type HeaderField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Reply is the last answer to a dead letter.
type Reply struct {
	Type       string `json:"type,omitempty"`
	Body       string `json:"body,omitempty"`
	BodyBase64 []byte `json:"body_base64,omitempty"`
	Error      string `json:"error,omitempty"` // why the rest of it is not shown
}

func (a *api) show(c *call) (any, error) {
	d, err := a.queue().Get(c.path("id"))
	if err != nil {
		return nil, a.named(err, c.path("id"))
	}
	m := &Message{
		Message:  d.Entry,
		Attempts: append([]Attempt{}, d.Attempts...),
		Header:   make([]HeaderField, 0, len(d.Header)),
	}
	for _, f := range d.Header {
		if f.Secret || redact.Field(f.Name) {
			f.Value = redacted
		}
		m.Header = append(m.Header, HeaderField{f.Name, f.Value})
	}
	m.EnvelopeError, m.Hidden, m.Attachments = d.EnvelopeError, d.Hidden, d.Attachments
	if m.EnvelopeCut = d.EnvelopeCut; m.EnvelopeCut {
		d.Envelope = wholeRunes(d.Envelope)
	}
	m.Envelope, m.EnvelopeBase64 = asText(d.Envelope)
	if len(d.Reply) > 0 || d.ReplyType != "" {
		m.Reply = &Reply{Type: d.ReplyType, Error: d.ReplyError}
		m.Reply.Body, m.Reply.BodyBase64 = asText(d.Reply)
	}
	return m, nil
}

// wholeRunes leaves out the start of a character that was cut.
func wholeRunes(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

func asText(b []byte) (text string, other []byte) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	return "", b
}

// named adds to an error about one message or route which one that is. While
// the store is being read nobody can tell that there is no such message, and
// none may be replayed.
func (a *api) named(err error, name string) error {
	if (errors.Is(err, ErrNoMessage) || errors.Is(err, ErrBusy)) && !a.queue().Loaded() {
		return refusef(kindLoading, "message %s is not known for sure yet: the store is still being read", quote(name))
	}
	if err == ErrNoMessage || err == ErrNoRoute || err == ErrBusy {
		return fmt.Errorf("%w: %s", err, quote(name))
	}
	return err
}

func (a *api) replay(c *call) (any, error) {
	id := c.path("id")
	err := a.queue().Replay(c.r.Context(), id)
	a.changed(c, "replay", err, "message", id)
	return nil, a.named(err, id)
}

func (a *api) drop(c *call) (any, error) {
	id := c.path("id")
	err := a.queue().Drop(c.r.Context(), id)
	a.changed(c, "drop", err, "message", id)
	return nil, a.named(err, id)
}

func (a *api) pause(c *call) (any, error) {
	err := a.queue().Pause(c.r.Context(), c.path("route"))
	a.changed(c, "pause", err, "route", c.path("route"))
	return nil, a.named(err, c.path("route"))
}

func (a *api) resume(c *call) (any, error) {
	err := a.queue().Resume(c.r.Context(), c.path("route"))
	a.changed(c, "resume", err, "route", c.path("route"))
	return nil, a.named(err, c.path("route"))
}

func (a *api) flush(c *call) (any, error) {
	err := a.queue().Flush(c.r.Context(), c.path("route"))
	a.changed(c, "flush", err, "route", c.path("route"))
	return nil, a.named(err, c.path("route"))
}

func (a *api) hold(c *call) (any, error) {
	err := a.queue().Hold(c.r.Context(), c.path("route"))
	a.changed(c, "hold", err, "route", c.path("route"))
	return nil, a.named(err, c.path("route"))
}

func (a *api) release(c *call) (any, error) {
	err := a.queue().Release(c.r.Context(), c.path("route"))
	a.changed(c, "release", err, "route", c.path("route"))
	return nil, a.named(err, c.path("route"))
}

// Count is the answer of a change of many messages.
type Count struct {
	Count int `json:"count"`
}

func (a *api) replayAll(c *call) (any, error) {
	f, err := a.filter(c)
	if err != nil {
		return nil, err
	}
	if f.State != "" && f.State != "dead" {
		return nil, refusef(kindBody, "only dead letters can be replayed, got state %s", f.State)
	}
	n, err := a.queue().ReplayAll(c.r.Context(), f)
	return a.counted(c, "replay", f, n, err)
}

func (a *api) dropAll(c *call) (any, error) {
	f, err := a.filter(c)
	if err != nil {
		return nil, err
	}
	n, err := a.queue().DropAll(c.r.Context(), f)
	return a.counted(c, "drop", f, n, err)
}

// counted ends a change of many messages; one that breaks off tells how far it came.
func (a *api) counted(c *call, action string, f Filter, n int, err error) (any, error) {
	a.changed(c, action, err, append([]any{"route", f.Route, "count", n}, f.words()...)...)
	if err != nil {
		e := *asRefusal(err)
		e.count = n
		return nil, &e
	}
	return Count{n}, nil
}

// words are the parts of a filter, but for the route, for the log.
func (f *Filter) words() (what []any) {
	for _, v := range [][2]string{{"state", f.State}, {"operation", f.Operation}, {"text", f.Text}} {
		if v[1] != "" {
			what = append(what, v[0], v[1])
		}
	}
	if !f.Since.IsZero() {
		what = append(what, "since", f.Since)
	}
	return what
}

// filter reads the body of a change of many messages: one object of strings,
// no name unknown or twice, nothing behind it. A slip of the fingers must not
// drop more than was meant.
func (a *api) filter(c *call) (Filter, error) {
	given, _, err := c.object("")
	if err != nil {
		return Filter{}, err
	}
	f, err := selection(c.path("route"), given)
	if err != nil {
		return f, err
	}
	return f, a.sure(f.Route)
}

// object reads a body that is one object, see flatObject.
func (c *call) object(list string) (fields map[string]string, listed []string, err error) {
	if !utf8.Valid(c.body) {
		return nil, nil, refusef(kindBody, "the body is not UTF-8")
	}
	if fields, listed, err = flatObject(c.body, list); err != nil {
		return nil, nil, refusef(kindBody, "%v", err)
	}
	return fields, listed, nil
}

// selection makes a filter of the fields of a body.
func selection(route string, given map[string]string) (Filter, error) {
	f := Filter{Route: route}
	for name, v := range given {
		switch name {
		case "state":
			f.State = v
		case "operation":
			f.Operation = v
		case "text":
			f.Text = v
		case "since":
		default:
			return f, refusef(kindBody, "there is no filter %s: use state, operation, since, text", quote(name))
		}
		if v == "" {
			return f, refusef(kindBody, "filter %s is empty: leave it out to select all", name)
		}
	}
	since, hasSince := given["since"]
	return f, f.check(kindBody, f.State != "", since, hasSince)
}

// sure refuses a change of many messages while not all of them are known, and one
// of a route that has none.
func (a *api) sure(route string) error {
	if !a.queue().Loaded() {
		return refusef(kindLoading, "the store is still being read, so that not all messages are known")
	}
	return a.knows(route)
}

// flatObject reads a JSON object whose values are strings, but for that of list,
// which is a list of strings.
func flatObject(b []byte, list string) (fields map[string]string, listed []string, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.New("the body is no JSON object")
	}
	fields = map[string]string{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("the body is not JSON: %w", err)
		}
		name, _ := k.(string) // the decoder lets nothing else pass
		if _, twice := fields[name]; twice {
			return nil, nil, fmt.Errorf("%s is given twice", quote(name))
		}
		fields[name] = ""
		if name == list && list != "" {
			if err := d.Decode(&listed); err != nil {
				return nil, nil, fmt.Errorf("the value of %s is no list of strings", quote(name))
			}
			continue
		}
		v, err := d.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("the body is not JSON: %w", err)
		}
		s, ok := v.(string)
		if !ok {
			return nil, nil, fmt.Errorf("the value of %s is no string", quote(name))
		}
		fields[name] = s
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, fmt.Errorf("the body is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, errors.New("there is more behind the object")
	}
	return fields, listed, nil
}
