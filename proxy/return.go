package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// The answer to a message that has come from another site goes back to that site where
// it is wanted there, as a message of its own through the store. The site before may
// do the same, so that answers go from site to site the way that messages came. At the
// site that has accepted the message from its caller the answer is taken as if a
// backend of that site had given it.

// ReturnRoute is the name under which the answers wait in the store that go back to a
// site, and ReturnBackend where they go. No route or backend of a table has such names.
func ReturnRoute(site string) string { return "replies@" + ReturnBackend(site) }

// ReturnBackend is the backend of [ReturnRoute].
func ReturnBackend(site string) string { return "site:" + site }

// FarAnswer is what a site tells another of a message that it had taken.
type FarAnswer struct {
	// ID is that of the message at the site that the answer goes to.
	ID string
	// Dead says that the message is a dead letter, and Reason why, in one line without
	// content of the message.
	Dead   bool
	Reason string
	// Status is that of the backend's answer, 0 for none.
	Status int
	// Type is the media type of the envelope; "" where there is none.
	Type string
	// SOAP is the version of the envelope.
	SOAP string
	// Sites are those that the answer has passed.
	Sites []string
	// Doubt says that it may be a second answer to the same message.
	Doubt bool
}

// backWish says that the answer to a message goes back to the site that it came from.
type backWish struct {
	Site string `json:"site"`
	ID   string `json:"id"`   // of the message there
	SOAP string `json:"soap"` // that it came in
}

func (w *backWish) version() soapcodec.Version { return soapVersion(w.SOAP) }

// returnMeta is what is kept of an answer on its way back beside its octets.
type returnMeta struct {
	ID     string `json:"id"` // see FarAnswer
	Dead   bool   `json:"dead,omitempty"`
	Reason octets `json:"reason,omitempty"`
	Status int    `json:"status,omitempty"`
}

// appendMember appends a member of storedMeta that few messages have.
func appendMember(dst []byte, name string, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers always can be
	}
	return append(append(append(append(dst, `,"`...), name...), `":`...), b...)
}

// wanted reports whether anybody wants the answer to the message.
func (m *storedMeta) wanted() bool { return m.Reply != nil || m.Answer != nil || m.Back != nil }

// awaited is what the answer to a message will need that another site has taken.
func (m *storedMeta) awaited() []byte {
	rest := storedMeta{V: m.V, SOAP: m.SOAP, Reply: m.Reply, Answer: m.Answer, Back: m.Back}
	for _, f := range m.Header {
		if strings.EqualFold(string(f[0]), traceField) {
			rest.Header = append(rest.Header, f)
		}
	}
	return rest.append(nil)
}

// goesBack reports whether the answer to the message is for another site: then what
// this route does with answers does not count.
func (c *call) goesBack() bool { return c.ex.Arrival != nil && c.ex.Arrival.WantsReply != "" }

// message is the answer as a message to the site that waits for it.
func (w *backWish) message(a *FarAnswer, body []byte) *Stored {
	meta := storedMeta{
		V: metaVersion, SOAP: a.SOAP, Doubt: a.Doubt,
		Return: &returnMeta{ID: w.ID, Dead: a.Dead, Reason: octets(oneLine(a.Reason)), Status: a.Status},
	}
	for _, s := range a.Sites {
		meta.Sites = append(meta.Sites, octets(s))
	}
	if a.Type != "" {
		meta.Header = [][2]octets{{"Content-Type", octets(a.Type)}}
	}
	return &Stored{Route: ReturnRoute(w.Site), Backend: ReturnBackend(w.Site), Meta: meta.append(nil), Body: body}
}

// returned makes the message that goes back to another site of a judged answer, of
// which body are the octets without content coding: in the version that the message
// came in. sites are those that the answer has passed.
func (c *call) returned(r *DeliveryResult, resp *Response, node int, facts *answerFacts, body []byte, back *backWish, doubt bool, sites []string) (*Stored, error) {
	a := &FarAnswer{Dead: r.Verdict == VerdictDead, Reason: r.Reason, Status: facts.status, SOAP: back.SOAP, Doubt: doubt, Sites: sites}
	if facts.content != contentSOAP && facts.content != contentFault {
		return back.message(a, nil), nil
	}
	typ, out, err := c.inVersion(back.version(), resp, node, facts.version, body)
	if err != nil {
		return nil, err
	}
	a.Type = typ
	if c.route.Translate == soapcodec.V0 {
		a.SOAP = facts.version.String()
	}
	return back.message(a, out), nil
}

// LastWord is the message that tells another site that a stored message, of which meta
// is what was kept beside its octets, has ended without an answer; nil if no site waits
// for one. text says why, in one line.
func LastWord(meta []byte, text string) *Stored {
	m, err := readMeta(meta)
	if err != nil || m.Back == nil {
		return nil
	}
	// It may have been answered at a time that a crash has made us forget.
	return m.Back.message(&FarAnswer{Dead: true, Reason: text, SOAP: m.Back.SOAP, Doubt: true}, nil)
}

// ReadReturn reads what was kept of an answer on its way back to another site.
func ReadReturn(meta []byte) (*FarAnswer, error) {
	m, err := readMeta(meta)
	if err != nil {
		return nil, err
	}
	if m.Return == nil {
		return nil, errors.New("proxy: the stored message is no answer to another site")
	}
	a := &FarAnswer{ID: m.Return.ID, Dead: m.Return.Dead, Reason: string(m.Return.Reason), Status: m.Return.Status, SOAP: m.SOAP, Doubt: m.Doubt}
	for _, f := range m.Header {
		if f[0] == "Content-Type" {
			a.Type = string(f[1])
		}
	}
	for _, s := range m.Sites {
		a.Sites = append(a.Sites, string(s))
	}
	return a, nil
}

// ErrFarAnswer: what another site tells can not be the answer to its message.
var ErrFarAnswer = errors.New("proxy: not an answer")

// Answer takes what another site tells of a stored message that it had taken: m has
// the ID, the Route and, as Meta, what [DeliveryResult.Awaits] was. The answer passes
// the same checks as that of a backend; the result has what is kept for the caller,
// and what is sent on. It fails with [ErrFarAnswer], or for a route that is gone or
// cannot translate the answer.
func (h *Handler) Answer(ctx context.Context, m *Stored, far *FarAnswer, body []byte) (result DeliveryResult, err error) {
	c := &call{h: h, t: h.table.Load(), ctx: ctx, ex: &Exchange{ID: m.ID, Method: http.MethodPost}, patient: true}
	r := c.t.byName[m.Route]
	if r == nil {
		return result, fmt.Errorf("proxy: the route %s is gone", m.Route)
	}
	c.choose(r)
	meta, err := readMeta(m.Meta)
	if err != nil {
		return result, err
	}
	c.resumeTrace(meta.Header, m.Accepted, 0)
	c.version = meta.version()
	// The status is told, not shown: it does not say whether there is a body.
	resp := &Response{Status: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Length: int64(len(body))}
	if far.Type != "" {
		resp.Header = field.List{{Name: "Content-Type", Value: far.Type}}
	}
	facts := &answerFacts{status: far.Status, oneway: r.OneWay}
	keep := &keeper{most: MaxKept}
	if err := c.readAnswer(resp, facts, keep); err != nil {
		return result, fmt.Errorf("%w: %w", ErrFarAnswer, err)
	}
	fits := []content{contentEmpty, contentSOAP}
	result.Status = far.Status
	if far.Dead {
		fits[1] = contentFault
		result.Verdict, result.Reason = VerdictDead, oneLine(far.Reason)
	}
	if !slices.Contains(fits, facts.content) {
		return result, fmt.Errorf("%w: it is no envelope, too large, or a fault where there should be none", ErrFarAnswer)
	}
	err = c.passOn(&result, resp, 0, facts, keep.b, meta, Try{PossibleDuplicate: far.Doubt}, far.Sites)
	return result, err
}
