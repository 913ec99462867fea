package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// The answer to a stored message of a route with ReplyTo is a message of its own:
// it goes where the message asked for, through the store (SPEC.md §4, "Replies of
// queued two-way calls").

// AnswerRoute is the name under which the answers of a route to a backend of its
// ReplyAt wait in the store. No route of a table has such a name.
func AnswerRoute(route, origin string) string {
	return route + "@" + strings.Replace(origin, "://", ":", 1)
}

// answerWish says where the answer to a stored message goes. It stands with the
// message, as it was when the message was accepted.
type answerWish struct {
	SOAP  string        `json:"soap"`         // that the caller spoke
	Space string        `json:"wsa"`          // of the header blocks that said so
	ID    string        `json:"id,omitempty"` // wsa:MessageID
	Reply *answerTarget `json:"reply,omitempty"`
	Fault *answerTarget `json:"fault,omitempty"`
}

// answerTarget is an endpoint that answers may go to.
type answerTarget struct {
	Address    string            `json:"address"`
	Parameters []answerParameter `json:"parameters,omitempty"`
}

type answerParameter struct {
	Space string `json:"space"`
	Local string `json:"local"`
	Block string `json:"block"`
}

func (w *answerWish) version() soapcodec.Version { return soapVersion(w.SOAP) }

// append appends the member of storedMeta.
func (w *answerWish) append(dst []byte) []byte {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // texts always can be
	}
	return append(append(dst, `,"answer":`...), b...)
}

func (t *answerTarget) endpoint() *soapcodec.Endpoint {
	e := &soapcodec.Endpoint{Address: t.Address}
	for _, p := range t.Parameters {
		e.Parameters = append(e.Parameters, soapcodec.Parameter{
			Name: soapcodec.QName{Space: p.Space, Local: p.Local}, Block: []byte(p.Block),
		})
	}
	return e
}

// askWhere finds out where the answer to the message is to go, and refuses one that
// asks for a place which is not allowed: nothing is stored of it then. doc is the
// envelope in UTF-8, f are its facts.
//
// A message without ReplyTo, or with the anonymous address, asks for its answer on
// the way that it came (WS-Addressing 1.0 - Core §3.2, SOAP Binding §5.1). That way
// is closed by the receipt, so the answer is kept for the caller.
func (c *call) askWhere(doc []byte, f *soapcodec.Facts) error {
	if !c.route.ReplyTo || c.goesBack() {
		return nil
	}
	e, err := soapcodec.FindEndpoints(doc, f)
	if err != nil {
		return err
	}
	if e.Fault == nil { // faults go where replies do
		e.Fault = e.Reply
	}
	c.keeps = e.Reply.Anonymous()
	w := &answerWish{SOAP: f.Version.String(), Space: e.Namespace, ID: f.MessageID}
	if w.Reply, err = c.endpoint(e.Reply); err != nil {
		return err
	}
	if w.Fault, err = c.endpoint(e.Fault); err != nil {
		return err
	}
	if w.Reply != nil || w.Fault != nil {
		c.asks = w
	}
	return nil
}

// endpoint is an endpoint as it stays with the message; nil if it is no place.
func (c *call) endpoint(e *soapcodec.Endpoint) (*answerTarget, error) {
	if e.Anonymous() || e.None() {
		return nil, nil
	}
	if _, err := c.route.answersAt(e.Address); err != nil {
		return nil, &soapcodec.Fault{Code: soapcodec.CodeInvalidAddress, Reason: "The answer can not be sent to the address that the message names: " + err.Error() + "."}
	}
	t := &answerTarget{Address: e.Address}
	for _, p := range e.Parameters {
		t.Parameters = append(t.Parameters, answerParameter{p.Name.Space, p.Name.Local, string(p.Block)})
	}
	return t, nil
}

// askWherePackage is askWhere for a message with attachments.
func (c *call) askWherePackage(doc []byte) error {
	if !c.route.ReplyTo || c.goesBack() {
		return nil
	}
	root, f, err := rootOf(doc, c.ct, c.route.decode, c.route.limits)
	if err != nil {
		return err
	}
	return c.askWhere(root, f)
}

// rootOf returns the envelope of a message with attachments, in UTF-8, and its facts.
func rootOf(doc []byte, ct soapcodec.ContentType, opt soapcodec.Options, lim Limits) ([]byte, *soapcodec.Facts, error) {
	p, err := soapcodec.NewPackageReader(bytes.NewReader(doc), ct, opt, soapcodec.PackageOptions{
		HeaderBytes: min(lim.HeaderBytes, maxPartHeader), Encoded: true,
	})
	if err != nil {
		return nil, nil, err
	}
	for {
		part, err := p.Next()
		if err != nil {
			if err == io.EOF {
				err = errNotEnvelope
			}
			return nil, nil, err
		}
		if part.Root {
			var root bytes.Buffer
			_, err := root.ReadFrom(p)
			return root.Bytes(), p.Facts(), err
		}
	}
}

// maxAnswerAddress bounds the addresses of endpoints, in octets.
const maxAnswerAddress = 2048

// The reasons for which an address is refused, for the caller to read.
var (
	errAddressLong   = errors.New("it is too long")
	errAddressForm   = errors.New("it is not a URL")
	errAddressScheme = errors.New("it must begin with http:// or https://")
	errAddressUser   = errors.New("it must not have a user name")
	errAddressHost   = errors.New("its host is not allowed here")
)

// An answerAddress is the address of an endpoint, taken apart.
type answerAddress struct {
	origin   string // scheme://host[:port], lower case, without the scheme's own port
	path     string // raw, with its leading slash
	query    string
	hasQuery bool
}

func (a answerAddress) split() (scheme, authority string) {
	scheme, authority, _ = strings.Cut(a.origin, "://")
	return scheme, authority
}

// parseAnswerAddress takes an address apart. It is strict: what one reader takes
// for the host must be that for all.
func parseAnswerAddress(s string) (a answerAddress, err error) {
	if len(s) > maxAnswerAddress {
		return a, errAddressLong
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}#", c) >= 0 {
			return a, errAddressForm
		}
	}
	scheme, rest, found := strings.Cut(s, "://")
	if scheme = strings.ToLower(scheme); !found || scheme != "http" && scheme != "https" {
		return a, errAddressScheme
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, rest = rest[:i], rest[i:]
	} else {
		rest = ""
	}
	if strings.Contains(authority, "@") {
		return a, errAddressUser
	}
	host, port := splitPort(strings.ToLower(authority))
	if host == "" || strings.HasSuffix(authority, ":") {
		return a, errAddressForm
	}
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return a, errAddressForm
		}
	}
	a.origin = scheme + "://" + host
	if port != "" && defaultPort(scheme, authority) == authority {
		a.origin += ":" + port
	}
	a.path, a.query, a.hasQuery = strings.Cut(rest, "?")
	if a.path == "" {
		a.path = "/"
	}
	if dots(a.path) {
		return a, errAddressForm
	}
	return a, nil
}

// answersAt finds the route by which answers go to an address. The error is one of
// those above.
func (r *route) answersAt(address string) (*route, error) {
	a, err := parseAnswerAddress(address)
	if err != nil {
		return nil, err
	}
	to := r.answers[a.origin]
	if to == nil {
		return nil, errAddressHost
	}
	return to, nil
}

// compileAnswers makes the routes by which the answers of r go on: one for each of
// ReplyAt.
func (t *Table) compileAnswers(r *route, compile func(*Backend) *backend) {
	for _, at := range r.ReplyAt {
		b := compile(at)
		to := compileRoute(Route{
			Name: AnswerRoute(r.Name, at.Name), MatchNone: true, Backend: at, OneWay: OneWayYes, Limits: r.Limits,
		}, 0, b)
		to.origin = at.Name
		if r.answers == nil {
			r.answers = map[string]*route{}
		}
		r.answers[at.Name] = to
		t.answers[to.Name] = to
		t.backends[b.Name] = b
	}
}

// validateAnswers reports what is wrong with the ReplyAt of a route.
func (r *Route) validateAnswers(bad func(format string, args ...any)) {
	if r.ReplyTo && r.Delivery == Sync {
		bad("option ReplyTo: the route stores no messages")
	}
	for _, b := range r.ReplyAt {
		switch a, err := parseAnswerAddress(b.Name); {
		case err != nil || a.origin != b.Name:
			bad("option ReplyAt: got a backend %q, want the name to be scheme://host[:port]", b.Name)
		case len(b.Nodes) != 1 || !parseNodeURL(b.Nodes[0].Name()).at(a.split()):
			bad("option ReplyAt: backend %q must have one node, at that place", b.Name)
		}
	}
}

// aimAnswer makes req one to the address that a stored answer is for. The reason is
// why it must not go there.
func (c *call) aimAnswer(req *Request, address string) (reason string) {
	if (address == "") != (c.route.origin == "") {
		return "the message and its route do not belong together: one is for answers, the other is not"
	}
	if address == "" {
		return ""
	}
	a, err := parseAnswerAddress(address)
	if err != nil || a.origin != c.route.origin {
		return "the answer is for another place than its route leads to"
	}
	req.Path, req.Query, req.HasQuery = a.path, a.query, a.hasQuery
	return ""
}

// answerMessage makes the message that the answer to a stored one is: of body, the
// octets without content coding, in the version of the caller. doubt says that it
// may be a second answer to the same message.
func (c *call) answerMessage(resp *Response, node int, facts *answerFacts, body []byte, wish *answerWish, to *answerTarget, doubt bool) (*Stored, error) {
	typ, out, err := c.inVersion(wish.version(), resp, node, facts.version, body)
	if err != nil {
		return nil, err
	}
	typ, out, f, err := c.addressed(typ, out, to, wish)
	if err != nil {
		return nil, err
	}
	address, err := parseAnswerAddress(to.Address)
	if err != nil {
		return nil, err
	}
	var h field.List
	framedHeader(&h, f.Version, f.Action)
	meta := storedMeta{V: metaVersion, SOAP: f.Version.String(), To: octets(to.Address), Doubt: doubt, Action: octets(f.Action)}
	if f.Version == soapcodec.V11 {
		meta.Header = append(meta.Header, [2]octets{soapActionName, octets(h.Get(soapActionName))})
	}
	meta.Header = append(meta.Header, [2]octets{"Content-Type", octets(typ)})
	if c.trace.On() {
		meta.Header = append(meta.Header, [2]octets{traceField, octets(c.trace.String())})
	}
	return &Stored{
		Route: AnswerRoute(c.route.Name, address.origin), Backend: address.origin,
		Operation: f.Operation.Local, Meta: meta.append(nil), Body: out,
	}, nil
}

// addressed puts into an answer what it lacks for its receiver. One that has all,
// or whose signature forbids it, keeps its octets.
func (c *call) addressed(typ string, body []byte, to *answerTarget, wish *answerWish) (string, []byte, *soapcodec.Facts, error) {
	fail := func(err error) (string, []byte, *soapcodec.Facts, error) { return "", nil, nil, err }
	ct, err := soapcodec.ParseContentType(typ)
	if err != nil {
		return fail(err)
	}
	doc, charset := body, "utf-8"
	var f *soapcodec.Facts
	dec := soapcodec.NewDecoder(c.route.check)
	if ct.IsMultipart() {
		_, f, err = rootOf(body, ct, c.route.check, c.route.replyLimits)
	} else if doc, charset, err = xmlstream.DecodeBytes(body, ct.Charset); err == nil {
		dec.ResetBytes(doc)
		if err = dec.Finish(); err == nil {
			whole := *dec.Facts()
			f = &whole
		}
	}
	if err != nil {
		return fail(err)
	}
	blocks := soapcodec.AnswerBlocks(f, to.endpoint(), wish.Space, wish.ID)
	if len(blocks) == 0 {
		return typ, body, f, nil
	}
	opt := soapcodec.Options{Limits: noLimits, Late: &soapcodec.Late{Mark: blocks}}
	if ct.IsMultipart() {
		m := newRelated(dec, opt, c.route.replyLimits, c.h.opt.SpoolDir).fromBytes(body, ct)
		m.edits = true
		defer m.close()
		out := new(buffer)
		if err := m.check(out); signed(err) {
			return typ, body, f, nil
		} else if err != nil {
			return fail(err)
		}
		return typ, out.b, f, nil
	}
	dec.SetOptions(opt)
	dec.ResetBytes(doc)
	if err := dec.Head(); signed(err) {
		return typ, body, f, nil
	} else if err != nil {
		return fail(err)
	}
	if charset != "utf-8" || ct.Charset != "" && ct.Charset != "utf-8" {
		typ = soapcodec.WithCharset(typ, "utf-8")
	}
	return typ, soapcodec.Apply(nil, doc, dec.TakeEdits()), f, nil
}
