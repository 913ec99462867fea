package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"soapway/soapcodec"
)

// Stored is a message that waits for its delivery, as a store keeps it. All
// but Meta and Body is for the store to know; those two are for [Handler.Deliver].
type Stored struct {
	ID        string // UUIDv7, also the caller's Gateway-Message-Id
	Route     string
	Backend   string
	Lane      string // messages of one lane keep their order; "" = no order
	Operation string // local name of the first child of Body
	Accepted  time.Time
	Meta      []byte // what Body needs on its way; its form is that of storedMeta
	Body      []byte // the octets that a node gets; nil where Blob has them
	Blob      Blob   // those of a message that is not held in memory

	// Identity makes the message a repeat of others; nil if it is one of nothing.
	Identity *Identity

	// Forwards says that the answer to the message may be a message of its own:
	// DeliveryResult.Next.
	Forwards bool

	// Came is the label under which it has come from another site ([Arrival]), and
	// Label the one that it has on the link that it goes over ([Request]). The store
	// gives them their meaning; nil is none.
	Came, Label any

	// Behind says that it must not be kept, or delivered, unless the one before it is, or
	// was before: of many that are handed over at once.
	Behind bool
}

// Receipt is what a store promises for a message that it has taken.
type Receipt struct {
	// Relaxed says that a power cut may still lose the message.
	Relaxed bool

	// Repeat is the id of the message that was accepted before and that this one
	// repeats, so that it was not kept again; "" if it is kept.
	Repeat string

	// Reply is the answer to that message, if it is kept.
	Reply *KeptReply

	// Before says that a message with the label Stored.Came was kept before, so that
	// this one was not.
	Before bool
}

// An Enqueuer keeps messages for later. Internal/app gives the Handler one, so
// that this package knows nothing of stores.
type Enqueuer interface {
	// NewBlob begins the octets of a message that is not to be held in memory; size
	// is how many are expected, -1 if that is not known. The error is, or wraps,
	// ErrStoreBusy.
	NewBlob(size int64) (BlobWriter, error)

	// Enqueue returns nil once m is kept as safely as the Receipt says. The
	// error is, or wraps, one of ErrStoreBusy, ErrStoreTooLarge and
	// ErrStoreUnknown, and for a repeat also ErrDeadLettered and ErrOtherContent. m and its octets belong to the store
	// afterwards; its Blob is one that was written by NewBlob.
	Enqueue(ctx context.Context, m *Stored) (Receipt, error)
}

// A BatchEnqueuer is an Enqueuer that keeps many messages at once, as safely as one.
type BatchEnqueuer interface {
	Enqueuer

	// EnqueueAll is Enqueue for each of them, in their order. The error of one that is
	// Behind another which was not kept is, or wraps, ErrBehind.
	EnqueueAll(ctx context.Context, ms []*Stored) ([]Receipt, []error)
}

// The reasons for which a message is not, or perhaps not, stored.
var (
	// ErrStoreBusy: the store is full, closed, failed or draining; nothing was kept.
	ErrStoreBusy = errors.New("proxy: the store takes no messages")
	// ErrStoreTooLarge: the message does not fit the store; nothing was kept.
	ErrStoreTooLarge = errors.New("proxy: the message is larger than the store can keep")
	// ErrStoreUnknown: whether the message was kept is not known.
	ErrStoreUnknown = errors.New("proxy: whether the message was stored is not known")
)

// MaxKept is the most octets that the answer to a stored message may have where it
// is kept, or sent on: it is held in memory as a whole, and with its fields it must
// fit one record of the store (8 MiB).
const MaxKept = 7 << 20

// kept reports whether a field, by its canonical name, stays with a stored
// message (SPEC.md §3.8). Credentials do not: whoever reads the store must not
// be able to speak for the caller, unless the route asks for Authorization.
func kept(key string) bool {
	switch key {
	case "Cookie", "Authorization", "Expect", "Accept-Encoding", messageID:
		return false
	}
	return !strings.HasPrefix(key, "Proxy-")
}

// enqueue stores the message, which has passed every check, and answers 202
// (SPEC.md §3.7, §4: sent only once the message is durable).
func (c *call) enqueue() (*Reply, error) {
	m, err := c.toStore()
	if err != nil {
		return nil, err
	}
	shadow := c.newShadow()
	// From here on the caller's leaving changes nothing: it may have left with
	// the last octet, and would send the message again if it was not stored.
	receipt, err := c.h.opt.Enqueuer.Enqueue(context.WithoutCancel(c.ctx), m)
	if err != nil || receipt.Repeat != "" {
		shadow.drop()
	} else {
		shadow.send()
	}
	if err != nil {
		return nil, err
	}
	return c.accepted(&receipt)
}

// toStore is the message as the store gets it, with its lane.
func (c *call) toStore() (*Stored, error) {
	if c.h.opt.Enqueuer == nil {
		return nil, ErrStoreBusy
	}
	if c.msg.stream != nil {
		return nil, errNotWhole
	}
	lane, err := c.lane()
	if err != nil {
		return nil, err
	}
	m := c.stored()
	m.Lane = lane
	return m, nil
}

// accepted is the answer for a message that the store has taken.
func (c *call) accepted(receipt *Receipt) (*Reply, error) {
	c.outcome = OutcomeStored
	c.before = receipt.Before
	h := c.stamped(nil)
	if receipt.Repeat != "" {
		c.outcome = OutcomeRepeated
		h.Set(messageID, receipt.Repeat)
	}
	if receipt.Reply != nil {
		if r, err := c.repeatReply(receipt.Repeat, receipt.Reply); r != nil || err != nil {
			return r, err
		}
	}
	h.Set("Location", messagesPath+h.Get(messageID))
	if receipt.Relaxed {
		h.Set(durability, "relaxed")
	}
	return &Reply{Status: http.StatusAccepted, Header: h, Version: c.version, CloseConnection: c.bodyLeft()}, nil
}

// errNotWhole guards the promise of a receipt: only what was read to its end has
// passed every check.
var errNotWhole = errors.New("proxy: a message to be stored still streams")

// durability is the field by which a receipt says that it is not the strict one.
const durability = "Gateway-Durability"

// stored is the message as the store gets it.
func (c *call) stored() *Stored {
	meta := storedMeta{
		V: metaVersion, SOAP: c.outgoing().String(), Framed: c.ex.Framed, Doubt: c.doubt,
		Tail: octets(c.route.tail(c.target.path)), Query: octets(c.target.query), HasQuery: c.target.hasQuery,
		Host: octets(c.fwd.host), Action: octets(c.action), Space: octets(c.child.Space),
	}
	if c.ex.Client.IsValid() {
		meta.Client = c.ex.Client.String()
	}
	meta.Answer = c.asks
	var came any
	if a := c.ex.Arrival; a != nil {
		came = a.Label
		for _, s := range a.Sites {
			meta.Sites = append(meta.Sites, octets(s))
		}
	}
	if c.goesBack() {
		meta.Back = &backWish{Site: c.ex.Arrival.Site, ID: c.ex.Arrival.WantsReply, SOAP: c.version.String()}
	} else if c.route.KeepReplies || c.keeps {
		meta.Reply = &replyWish{SOAP: c.version.String(), Caller: octets(c.caller), Keep: max(0, c.route.ReplyKeep)}
	}
	fields := c.fields()
	if c.trace.On() {
		c.trace.put(&fields)
	}
	meta.Header = make([][2]octets, 0, len(fields)+4)
	for _, f := range fields {
		if k := canonical(f.Name); !kept(k) && !(k == "Authorization" && c.route.StoreCredentials) {
			continue
		}
		meta.Header = append(meta.Header, [2]octets{octets(f.Name), octets(f.Value)})
	}
	slices.SortStableFunc(meta.Header, func(a, b [2]octets) int { return strings.Compare(string(a[0]), string(b[0])) })
	return &Stored{
		ID: c.ex.ID, Route: c.route.Name, Backend: c.route.backend.Name, Operation: c.child.Local,
		Accepted: c.ex.Received, Meta: meta.append(nil), Body: c.msg.own(), Blob: c.msg.file, Identity: c.identity, Forwards: c.asks != nil || meta.Back != nil, Came: came,
	}
}

// own returns the octets of a message that is whole in memory, out of the
// pool's hands. A buffer that is much too large is not worth keeping.
func (m *message) own() []byte {
	if m.buf == nil {
		return m.data
	}
	if cap(m.buf.b) > len(m.data)+len(m.data)/8+512 {
		return slices.Clone(m.data)
	}
	m.buf.detach()
	return m.data
}

// nsReliable are the namespaces of WS-ReliableMessaging 1.0 and 1.1 or 1.2.
var nsReliable = [...]string{
	"http://schemas.xmlsoap.org/ws/2005/02/rm",
	"http://docs.oasis-open.org/ws-rx/wsrm/200502",
	"http://docs.oasis-open.org/ws-rx/wsrm/200702",
}

// refuseSequence is a fault for a mandatory Sequence block: its sender asks for
// acknowledgements of WS-ReliableMessaging, which a queue cannot give, as it
// will have answered long before the service sees the message (SPEC.md §6).
func refuseSequence(f *soapcodec.Facts) error {
	for i := range f.Headers {
		b := &f.Headers[i]
		if b.MustUnderstand && b.Name.Local == "Sequence" && slices.Contains(nsReliable[:], b.Name.Space) {
			return &soapcodec.Fault{
				Code: soapcodec.CodeMustUnderstand, NotUnderstood: []soapcodec.QName{b.Name},
				Reason: "This route stores messages and does not take part in WS-ReliableMessaging sequences.",
			}
		}
	}
	return nil
}
