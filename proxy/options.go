package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"soapway/proxy/balance"
	"soapway/proxy/guard"
	"soapway/proxy/health"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// Options configures a [Handler]; the zero value works.
type Options struct {
	// Log gets one record per failed exchange. Default: discard.
	Log *slog.Logger

	// Observer is told about exchanges and tries. Default: nobody.
	Observer Observer

	// Tracer decides which exchanges are traced. Default: none is.
	Tracer Tracer

	// Enqueuer keeps the messages of queue routes. Default: they are refused
	// like messages for a store that is closed.
	Enqueuer Enqueuer

	// Follower tells callers what has become of their stored messages. Default:
	// nothing is known of any.
	Follower Follower

	// SpoolDir is where messages are checked that are larger than Buffer and
	// must have a known length before they are sent (framed nodes and callers).
	// Default: the system's folder for temporary files.
	SpoolDir string
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// TableOptions is everything that a reload replaces at once; the zero value is
// a table without routes.
type TableOptions struct {
	// Routes are tried in this order.
	Routes []Route

	// TrustedProxies are the callers whose X-Forwarded-*, Forwarded and
	// Gateway-* fields are believed. Default: none.
	TrustedProxies []netip.Prefix

	// PublicURL is the base that callers use, for Location. Default: what the
	// caller used.
	PublicURL string

	// Via is our pseudonym in the Via field. Default "gateway".
	Via string
}

// OneWay says whether a route's backend may answer without an envelope.
type OneWay uint8

// The values of oneway. Only OneWayNo makes an empty 200 an error.
const (
	OneWayAuto OneWay = iota
	OneWayYes
	OneWayNo
)

// Delivery is how messages of a route go on (SPEC.md §3.7).
type Delivery uint8

// The ways of delivery.
const (
	Sync  Delivery = iota // forwarded while the caller waits
	Queue                 // stored, then delivered
	// SyncThenQueue forwards while the caller waits, and stores when no node was
	// reached.
	SyncThenQueue
)

// Match are the conditions of a route; all that are set must hold. The zero
// value matches everything.
type Match struct {
	// Host is compared with the request's host without regard to case; its port
	// counts only if Host has one.
	Host string

	// Path is an exact path, or one that ends in "/*" and then matches the path
	// before it and everything below, at a segment border. It is compared
	// octet for octet with the raw target: nothing is decoded or cleaned.
	Path string

	// Action is compared with the SOAPAction field without its quotes (SOAP
	// 1.1), the action parameter (SOAP 1.2), or else wsa:Action.
	Action string

	// Operation is the name of the first child of Body, or that of the operation
	// to which the description of the service gives such messages, as soon as it is
	// known (see [Handler.Learn]). With AnyNamespace only its local part counts.
	Operation    soapcodec.QName
	AnyNamespace bool

	// Headers are fields of which one value must be equal.
	Headers map[string]string
}

// Route is one entry of the table.
type Route struct {
	Name  string
	Match Match

	// MatchNone makes the route reachable only through a listener's fixed
	// route; Match is then ignored.
	MatchNone bool

	Backend *Backend
	OneWay  OneWay

	// Delivery says whether the caller waits for the backend.
	Delivery Delivery
	// Hold is how long a message of SyncThenQueue waits for its answer before it
	// is stored. Default 20 s.
	Hold time.Duration
	// StoreMaybe has SyncThenQueue store also what a node may have processed;
	// it is then marked.
	StoreMaybe bool
	// OrderBy is the key whose stored messages are delivered in the order of
	// their acceptance, one at a time; those without the key are one such row.
	OrderBy Key

	// Dedup stores a repeated message once. Default: it is stored again.
	Dedup *Dedup

	// KeepReplies keeps the answers to stored messages for their callers, each for
	// ReplyKeep from its arrival; default 24h, negative is for ever.
	KeepReplies bool
	ReplyKeep   time.Duration

	// StoreCredentials keeps the field Authorization with stored messages. Cookie
	// and Proxy-* never stay.
	StoreCredentials bool

	// ReplyTo sends the answers to stored messages to the endpoints that these
	// name by WS-Addressing, at the places of ReplyAt; those of messages that name
	// none are kept as with KeepReplies.
	ReplyTo bool
	// ReplyAt are the places that answers may be sent to. Each is a backend of one
	// node, named scheme://host[:port] in lower case and without the scheme's own
	// port.
	ReplyAt []*Backend

	// Shadow sends a copy of a share of the messages to another backend. Default:
	// there are no copies.
	Shadow *Shadow

	// Guard says who may send, and how much. Default: everybody, anything.
	Guard *guard.Guard

	// Methods are passed through unchecked, besides POST, which carries SOAP.
	Methods []string

	// WSDL answers GET and HEAD with wsdl, singleWsdl or xsd in the query; nil
	// leaves them to WSDLPass.
	WSDL *WSDL

	// WSDLPass passes them to the backend, byte-identical in both directions.
	WSDLPass bool

	// EmptyPost passes a POST without a body (CWMP) instead of refusing it.
	EmptyPost bool

	// Accept11 and Accept12 are the versions taken; both false = both.
	Accept11, Accept12 bool

	Normalize soapcodec.Normalize

	// Node makes the gateway act as a SOAP node in role next.
	Node bool

	// Translate is the version that nodes get; replies are translated back into
	// what the caller spoke. V0 changes nothing.
	Translate soapcodec.Version

	// Strict refuses what [soapcodec.StrictRules] forbid.
	Strict bool

	// Add is a header block that is put first, see [soapcodec.HeaderBlockOf].
	Add []byte

	// WSATo makes the address of the node the text of wsa:To.
	WSATo bool

	// Mark tells nodes about the delivery by a header block too.
	Mark bool

	Limits Limits
}

// Limits bound one message. Zero is the default of CONFIG.md, negative means
// unlimited.
type Limits struct {
	MaxMessage  int64 // decoded octets of a message; default 64 MiB
	Buffer      int64 // a larger body streams; default 1 MiB
	DecodeRatio int64 // decoded octets per encoded octet, beyond the first MiB; default 200
	HeaderBytes int64 // octets of a head; default 64 KiB
	XML         xmlstream.Limits
}

// The defaults of CONFIG.md.
const (
	defaultMaxMessage  = 64 << 20
	defaultBuffer      = 1 << 20
	defaultDecodeRatio = 200
	defaultHeaderBytes = 64 << 10
	defaultHold        = 20 * time.Second
	defaultReplyKeep   = 24 * time.Hour
)

const unlimited = int64(1) << 62

func (l Limits) withDefaults() Limits {
	set := func(v *int64, def int64) {
		switch {
		case *v == 0:
			*v = def
		case *v < 0:
			*v = unlimited
		}
	}
	set(&l.MaxMessage, defaultMaxMessage)
	set(&l.DecodeRatio, defaultDecodeRatio)
	set(&l.HeaderBytes, defaultHeaderBytes)
	if l.Buffer <= 0 {
		l.Buffer = defaultBuffer // never unlimited: memory is bounded
	}
	return l
}

// Backend is where routes lead; several routes may share one.
type Backend struct {
	Name  string
	Nodes []Node

	// Policy picks the node of a try. Default: balance.LeastRequests.
	Policy balance.Policy

	// Weights are the shares of Nodes, in their order: 1 to 1000 each. Default:
	// 1 each.
	Weights []int

	// Health is that of Nodes, in their order. Default: all are well for ever.
	Health *health.Group

	// Check is how nodes are asked whether they are well; the zero value
	// connects to them.
	Check Check

	// Places bounds the exchanges under way. Default: there is no bound.
	Places *Places

	// HashBy is what a message is hashed by, for a Policy that asks for it.
	HashBy HashBy

	// Connect and Answer bound one try, see [Timeouts]; Answer also bounds how
	// long after its start a message that was not sent is tried on another
	// node. Defaults 5s and 30s.
	Connect, Answer time.Duration

	// Headers are set on every request, in place of the caller's: the
	// gateway's own credentials.
	Headers map[string]string

	// Certificate says that nodes are shown a certificate of the gateway's own.
	Certificate bool

	// Follow sends a message again where a 307 or 308 of a node points to, if
	// that is at a node of this backend.
	Follow bool

	// Compress is the content coding of requests towards HTTP nodes. Default:
	// none.
	Compress Compress

	// HostClient sends the caller's Host instead of that of the node's URL.
	HostClient bool
}

// framed reports whether a node of the backend has no methods, paths and fields.
func (b *Backend) framed() bool {
	return slices.ContainsFunc(b.Nodes, func(n Node) bool { return parseNodeURL(n.Name()).framed })
}

func (b Backend) withDefaults() Backend {
	if b.Policy == nil {
		b.Policy = new(balance.LeastRequests)
	}
	if b.Connect <= 0 {
		b.Connect = 5 * time.Second
	}
	if b.Answer <= 0 {
		b.Answer = 30 * time.Second
	}
	return b
}

func (o TableOptions) withDefaults() TableOptions {
	if o.Via == "" {
		o.Via = "gateway"
	}
	return o
}

// validate reports every bad field at once. Call it after withDefaults.
func (o TableOptions) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			bad("option PublicURL: got %q, want http(s)://host[/path]", o.PublicURL)
		}
	}
	if !isToken(o.Via) {
		bad("option Via: got %q, want a token", o.Via)
	}
	seen := map[string]bool{}
	for i, r := range o.Routes {
		at := fmt.Sprintf("route %d %q", i, r.Name)
		switch {
		case r.Name == "":
			bad("%s: option Name is empty", at)
		case seen[r.Name]:
			bad("%s: option Name is taken by an earlier route", at)
		}
		seen[r.Name] = true
		r.validateAnswers(func(format string, args ...any) { bad(at+": "+format, args...) })
		if err := r.OrderBy.validate(); err != nil {
			bad("%s: option OrderBy: got %w", at, err)
		}
		if d := r.Dedup; d != nil {
			if err := d.By.validate(); err != nil {
				bad("%s: option Dedup: got %w", at, err)
			}
			if d.By.Source == KeyRoute {
				bad("%s: option Dedup: got the route, which does not tell messages apart", at)
			}
		}
		if r.Backend == nil || len(r.Backend.Nodes) == 0 {
			bad("%s: option Backend has no node", at)
		}
		if p := r.Match.Path; p != "" && !r.MatchNone {
			if p[0] != '/' || strings.ContainsAny(p, "?#") {
				bad("%s: option Match.Path: got %q, want /path or /path/*", at, p)
			}
			if dots(p) {
				bad("%s: option Match.Path: got %q, which has a .. segment and can never match", at, p)
			}
		}
		for _, m := range r.Methods {
			if !isToken(m) {
				bad("%s: option Methods: got %q, want a method", at, m)
			}
		}
		if s := r.Shadow; s != nil {
			if s.Backend == nil || len(s.Backend.Nodes) == 0 {
				bad("%s: option Shadow.Backend has no node", at)
			}
			if !(s.Percent > 0 && s.Percent <= 100) {
				bad("%s: option Shadow.Percent: got %v, want above 0, to 100", at, s.Percent)
			}
		}
		if b := r.Backend; b != nil {
			if n := len(b.Weights); n != 0 && n != len(b.Nodes) {
				bad("%s: option Backend.Weights: got %d for %d nodes", at, n, len(b.Nodes))
			}
			if b.Health != nil && b.Health.Len() != len(b.Nodes) {
				bad("%s: option Backend.Health: got %d for %d nodes", at, b.Health.Len(), len(b.Nodes))
			}
		}
		if len(r.Methods) > 0 && r.Backend != nil && r.Backend.framed() {
			bad("%s: option Methods: got %s, but framed nodes take nothing but envelopes", at, strings.Join(r.Methods, ", "))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proxy: options: %w", err)
	}
	return nil
}

// isToken reports whether s is a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
