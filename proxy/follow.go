package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// messagesPath is where callers ask what has become of their stored messages: the
// Location of a receipt (SPEC.md §3.7, §4).
const messagesPath = "/_gateway/messages/"

// A Follower knows what has become of stored messages. Internal/app gives the
// Handler one.
type Follower interface {
	// Follow looks a message up by its id. The error is, or wraps, one of
	// ErrNoMessage and ErrStoreBusy, or tells of a store that is damaged.
	Follow(id string) (*Followed, error)
}

// Followed is what a Follower knows of a message. One of Waiting, Dead, Expired and
// Reply is set.
type Followed struct {
	Route string
	// Expired says that another site was to answer the message, and that nobody waits
	// for that any longer.
	Expired bool
	Waiting bool
	Dead    bool
	Meta    []byte // Stored.Meta of a message without a Reply
	Reply   *KeptReply
}

// KeptReply is the answer to a stored message, kept for its caller.
type KeptReply struct {
	Meta []byte // its form is that of replyMeta
	Body []byte // the octets of the answer without content coding; empty if there was no envelope
	// Until is when it expires; zero is never.
	Until time.Time
}

// longestKeep keeps Until within what a store can write.
const longestKeep = 100 * 365 * 24 * time.Hour

// ErrNoMessage: there is no such message, or nothing is known of it any more.
var ErrNoMessage = errors.New("proxy: no such message")

// replyMeta is what is kept of a reply beside its octets.
type replyMeta struct {
	V      int    `json:"v"` // metaVersion
	Type   octets `json:"type,omitempty"`
	SOAP   string `json:"soap"` // of the caller
	Caller octets `json:"caller,omitempty"`
}

func readReplyMeta(b []byte) (*replyMeta, error) {
	m := new(replyMeta)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("proxy: stored reply: %w", err)
	}
	if m.V != metaVersion {
		return nil, fmt.Errorf("proxy: stored reply: has form %d, this version knows %d", m.V, metaVersion)
	}
	return m, nil
}

// fateOf answers a caller that asks what has become of its message. Whoever is not
// its caller learns no more than of one that never was.
func (c *call) fateOf() (*Reply, error) {
	id := c.target.path[len(messagesPath):]
	if u, err := uuid.Parse(id); err != nil || u.String() != id || c.h.opt.Follower == nil {
		return nil, noMessage()
	}
	if c.ex.Method != http.MethodGet && c.ex.Method != http.MethodHead {
		return nil, refuse(statusMethod, "").with("Allow", "GET, HEAD")
	}
	f, err := c.h.opt.Follower.Follow(id)
	if errors.Is(err, ErrNoMessage) {
		return nil, noMessage()
	} else if err != nil {
		return nil, err
	}
	r := c.t.byName[f.Route]
	if r == nil || c.cand.fixed != r && (c.cand.fixed != nil || r.MatchNone) {
		return nil, noMessage() // its route is gone, or not to be reached here
	}
	if err := c.enter(r); err != nil {
		return nil, err
	}
	c.route = r
	if c.proofOpen { // there is no envelope that could prove anything
		return nil, c.denied(r.Guard.Unproved())
	}
	if f.Reply != nil {
		return c.followReply(id, f.Reply)
	}
	meta, err := readMeta(f.Meta)
	if err != nil {
		return nil, err
	}
	if meta.Reply == nil || string(meta.Reply.Caller) != c.caller {
		return nil, noMessage()
	}
	if f.Expired {
		return nil, refuse(http.StatusGone, "")
	}
	if f.Dead {
		c.version = meta.Reply.version()
		return nil, ErrDeadLettered
	}
	return c.followed(id, http.StatusAccepted), nil
}

func noMessage() *refusal { return refuse(statusNoRoute, soapcodec.CodeNoRoute) }

// followReply answers with a reply, or tells that it has expired.
func (c *call) followReply(id string, k *KeptReply) (*Reply, error) {
	meta, err := readReplyMeta(k.Meta)
	switch {
	case err != nil:
		return nil, err
	case string(meta.Caller) != c.caller:
		return nil, noMessage()
	case !k.Until.IsZero() && !c.h.now().Before(k.Until):
		return nil, refuse(http.StatusGone, "")
	case meta.Type == "":
		return c.followed(id, http.StatusNoContent), nil
	}
	return c.withReply(c.followed(id, http.StatusOK), meta, k.Body), nil
}

// followed is an answer about a message. No cache may keep it: it is for one
// caller, and the next may be another.
func (c *call) followed(id string, status int) *Reply {
	c.outcome = OutcomeFollowed
	return &Reply{
		Status: status, Header: field.List{{Name: messageID, Value: id}, {Name: "Cache-Control", Value: "no-store"}},
		Version: c.version, CloseConnection: c.bodyLeft(),
	}
}

func (c *call) withReply(r *Reply, meta *replyMeta, body []byte) *Reply {
	r.Header.Set("Content-Type", string(meta.Type))
	r.Version = soapVersion(meta.SOAP)
	r.Body, r.Length = bytes.NewReader(body), int64(len(body))
	return r
}

// repeatReply is the answer to the repeat of a message that was answered, nil
// where there is none that this caller could be given.
func (c *call) repeatReply(id string, k *KeptReply) (*Reply, error) {
	meta, err := readReplyMeta(k.Meta)
	if err != nil || meta.Type == "" {
		return nil, err
	}
	r := &Reply{Status: http.StatusOK, CloseConnection: c.bodyLeft()}
	if !c.ex.Framed {
		r.Header.Set(messageID, id)
		return c.withReply(r, meta, k.Body), nil
	}
	// A frame has no media type: the envelope alone, in UTF-8.
	ct, err := soapcodec.ParseContentType(string(meta.Type))
	if err != nil || ct.IsMultipart() {
		return nil, err
	}
	doc, _, err := xmlstream.DecodeBytes(k.Body, ct.Charset)
	if err != nil {
		return nil, err
	}
	c.withReply(r, meta, doc)
	r.Header = nil
	return r, nil
}

// keepAnswer makes what is kept of the answer to a message that was delivered, of
// which body are the octets without content coding: in the version of the caller
// where the route translates. An error is a reply that cannot be translated.
func (c *call) keepAnswer(resp *Response, node int, facts *answerFacts, body []byte, wish *replyWish) (*KeptReply, error) {
	k := &KeptReply{}
	if wish.Keep > 0 {
		k.Until = c.h.now().Add(min(wish.Keep, longestKeep))
	}
	meta := replyMeta{V: metaVersion, SOAP: wish.SOAP, Caller: wish.Caller}
	if facts.content == contentSOAP {
		typ, out, err := c.inVersion(wish.version(), resp, node, facts.version, body)
		if err != nil {
			return nil, err
		}
		meta.Type, k.Body = octets(typ), out
	}
	var err error
	k.Meta, err = json.Marshal(&meta)
	return k, err
}

// inVersion returns an answer that has passed its checks, and its media type, in
// version to, if the route translates.
func (c *call) inVersion(to soapcodec.Version, resp *Response, node int, from soapcodec.Version, body []byte) (typ string, out []byte, err error) {
	typ = resp.Header.Get("Content-Type")
	ct, err := soapcodec.ParseContentType(typ)
	if resp.Framed {
		ct, err, typ = soapcodec.ContentType{}, nil, ""
	}
	if err != nil {
		return "", nil, err
	}
	whole := *resp
	whole.Body, whole.Length = http.NoBody, 0
	c.version, c.fwd = to, forwarding{table: c.t, ex: c.ex}
	a := &answer{call: c, resp: &whole, node: node, ct: ct, charset: ct.Charset, coding: codingIdentity}
	if !a.foreign(body) {
		if strings.TrimSpace(typ) == "" {
			_, charset, err := xmlstream.DecodeBytes(body, "")
			if err != nil {
				return "", nil, err
			}
			typ = from.MediaType() + "; charset=" + charsetLabel(charset)
		}
		return typ, body, nil
	}
	defer c.msg.close() // what it reads may be in files
	r, err := a.translate(body)
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		return "", nil, err
	}
	return r.Header.Get("Content-Type"), b.Bytes(), nil
}
