package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"sync"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

var decoders = sync.Pool{New: func() any { return soapcodec.NewDecoder(soapcodec.Options{}) }}

// read takes the request's body: up to Buffer octets as a whole, more as a
// stream of which the head is read. Afterwards the route is chosen and c.msg
// is ready to be sent.
func (c *call) read() error {
	lim := c.cand.limits()
	c.src = &c.srcRoom
	c.src.open(c.ex.Body, c.coding, lim)
	c.decoded = c.coding != codingIdentity
	buf := newBuffer()
	whole, err := c.readFirst(buf, lim.Buffer)
	switch {
	case err != nil:
	case !whole && c.ct.IsMultipart():
		err = c.streamPackage(buf.detach(), lim)
	case !whole:
		err = c.readStream(buf.detach(), lim)
	case len(buf.b) == 0:
		err = c.readEmpty()
	case c.ct.IsMultipart():
		return c.readPackage(buf) // owns buf
	default:
		return c.readWhole(buf) // owns buf
	}
	buf.release()
	return err
}

const (
	// fileFirst is how much is read of a message that will be a file of the store
	// before that is begun: many may come at once, and none needs to be held.
	fileFirst = 64 << 10
	// unsureFirst is how much is read of one whose length nobody tells before it
	// needs one of manyUnsure places to be read on into memory.
	unsureFirst = 256 << 10
	manyUnsure  = 16
)

// readFirst reads a message up to its end or up to most octets, and reports
// whether it met the end. One that may have to be stored, and will not be whole in
// memory, is not read so far.
func (c *call) readFirst(buf *buffer, most int64) (whole bool, err error) {
	hint := c.ex.Length
	if c.decoded {
		hint = -1
	}
	switch {
	case !c.cand.stores():
	case hint > most:
		most = min(most, fileFirst)
	case hint < 0 && most > unsureFirst:
		if whole, err := buf.fill(c.src, unsureFirst, hint); whole || err != nil {
			return whole, err
		}
		select {
		case c.h.large <- struct{}{}:
			c.large = true
		default:
			return false, nil
		}
	}
	return buf.fill(c.src, most, hint)
}

// readEmpty is a POST without a body: a fault, unless the route lets it pass.
func (c *call) readEmpty() error {
	r := c.cand.withoutBody()
	// To a framed node an empty message is a keep-alive.
	if r == nil || !r.EmptyPost || r.stores() || r.backend.needsLength {
		c.route = r
		return &soapcodec.Fault{Code: soapcodec.CodeInvalidEnvelope, Reason: "The request has no body."}
	}
	c.choose(r)
	if err := c.enter(r); err != nil {
		return err
	}
	c.msg.data, c.msg.length, c.msg.bound = nil, 0, true
	return c.within(r)
}

// readWhole checks a message that is whole in memory, and takes over buf.
func (c *call) readWhole(buf *buffer) error {
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)

	doc, charset, err := xmlstream.DecodeBytes(buf.b, c.ct.Charset)
	if err != nil {
		buf.release()
		return charsetError(err)
	}
	c.hearCharset(buf.b, charset)
	c.codec.Add(int64(len(doc)))
	if converted := len(doc) == 0 || &doc[0] != &buf.b[0]; converted {
		c.changed = true
		buf.release()
		buf = nil
	}
	c.msg.buf, c.msg.data = buf, doc
	c.relabel(charset)

	r := c.cand.settled()
	if r == nil {
		dec.SetOptions(soapcodec.Options{Limits: c.cand.limits().XML})
		dec.ResetBytes(doc)
		if err := dec.Head(); err != nil {
			return c.messageError(err, dec)
		}
		if r, err = c.routeByFacts(dec.Facts()); err != nil {
			return err
		}
	}
	c.choose(r)
	dec.SetOptions(r.decode)
	dec.ResetBytes(doc)
	if err := dec.Finish(); err != nil {
		return c.messageError(err, dec)
	}
	c.take(dec.Facts())
	if err := c.prove(doc, dec.Facts()); err != nil {
		return err
	}
	if err := c.checkStrict(); err != nil {
		return err
	}
	if r.stores() {
		if err := refuseSequence(dec.Facts()); err != nil {
			return err
		}
		if err := c.identify(dec.Facts(), sumBody(doc, dec.Facts())); err != nil {
			return err
		}
		if err := c.askWhere(doc, dec.Facts()); err != nil {
			return err
		}
	}
	if r.edits() {
		if edits := dec.TakeEdits(); len(edits) > 0 {
			out := newBuffer()
			out.b = soapcodec.Apply(out.b, doc, edits)
			if buf != nil {
				buf.release()
			}
			c.msg.buf, c.msg.data = out, out.b
			c.changed = true
		}
	}
	if r.canonizes(dec.Facts()) {
		if err := c.canonize(); err != nil {
			return err
		}
	}
	c.msg.length = int64(len(c.msg.data))
	return nil
}

// headSlack is what the decoder may read ahead of the head it looks for.
const headSlack = 256 << 10

// held is how many octets of a message that streams may be held at once when
// the first prefix of them were read before any left: besides those what the
// decoder reads ahead, of which an attribute value is the longest piece.
func (l *Limits) held(prefix int64) int64 {
	value := int64(l.XML.AttributeValue)
	if value < 0 {
		value = l.MaxMessage
	}
	return prefix + max(headSlack, 2*min(value, unlimited/4))
}

// readStream begins to check a message of which prefix has been read. It
// returns once the route is known and the first octets have passed the checks.
func (c *call) readStream(prefix []byte, lim Limits) error {
	rd, err := xmlstream.NewReader(io.MultiReader(bytes.NewReader(prefix), c.src), c.ct.Charset)
	if err != nil {
		return charsetError(err)
	}
	c.hearCharset(prefix, rd.Charset())
	c.changed = rd.Converted()
	c.relabel(rd.Charset())

	dec := soapcodec.NewDecoder(soapcodec.Options{Limits: lim.XML})
	p := &pass{dec: dec, tee: tee{src: rd, most: lim.Buffer, tooMuch: headFault}}
	r := c.cand.settled()
	needHead := r == nil || c.proofOpen || r.checksOperations() || c.ex.Framed || r.edits() || r.late() || r.Strict || r.ReplyTo
	if r == nil {
		dec.Reset(&p.tee)
		if err := dec.Head(); err != nil {
			return c.messageError(err, dec)
		}
		if r, err = c.routeByFacts(dec.Facts()); err != nil {
			return err
		}
		p.tee.restart()
	}
	c.choose(r)
	var sum *bodySum
	if r.dedup != nil {
		sum = newBodySum(dec)
		p.tee.gone = sum.add
	}
	c.src.limit(r.limits)
	dec.SetOptions(r.decode)
	dec.Reset(&p.tee)
	if needHead {
		if err := dec.Head(); err != nil {
			return c.messageError(err, dec)
		}
	}
	p.edits = r.edits()
	p.tee.most = r.limits.held(max(lim.Buffer, int64(len(prefix))))
	if err := c.prime(p, prefix); err != nil {
		return c.messageError(err, dec)
	}
	c.take(dec.Facts())
	if err := c.prove(p.tee.held, dec.Facts()); err != nil {
		return err
	}
	if err := c.checkStrict(); err != nil {
		return err
	}
	if r.stores() {
		if err := c.askWhere(p.tee.held, dec.Facts()); err != nil {
			return err
		}
	}
	var out io.Reader = &counted{pass: p, call: c}
	if r.canonizes(dec.Facts()) {
		// A signature that turns up in Body is too late to change that.
		c.canonical = true
		c.relabelCanonical()
		out = newCanonicalReader(out)
	}

	if r.stores() {
		if err := c.fileAway(out, dec); err != nil {
			return err
		}
		c.changed = c.changed || p.edited || c.canonical
		return c.identify(dec.Facts(), func() ([sha256.Size]byte, error) { return sum.sum(), nil })
	}
	c.msg.length = -1
	if !c.decoded && !c.changed && !p.edits {
		c.msg.length = c.ex.Length
	}
	c.changed = c.changed || p.edits
	return c.pour(out, r.backend.needsLength && (c.msg.length < 0 || r.late()), dec)
}

// prime reads on until as much as may be held was checked, so that what is wrong
// early is known before an octet leaves. Nothing leaves before all is known of a
// message that is stored, so of that nothing more is held.
func (c *call) prime(p *pass, prefix []byte) error {
	if c.route.stores() {
		return p.prime(0)
	}
	return p.prime(max(c.route.limits.Buffer, int64(len(prefix))))
}

// pour makes what is read from out the message: a stream, or, where its length
// must be known before it is sent, a file of the spool.
func (c *call) pour(out io.Reader, whole bool, dec *soapcodec.Decoder) error {
	if !whole {
		c.msg.stream = &stream{r: out}
		return nil
	}
	f, n, err := spool(c.h.opt.SpoolDir, out)
	if err != nil {
		return c.messageError(err, dec)
	}
	s := &spoolFile{f, n}
	c.msg.also = append(c.msg.also, s)
	c.msg.file, c.msg.length = s, n
	return nil
}

var headFault = &soapcodec.Fault{
	Code:   soapcodec.CodeLimit,
	Reason: "The header, or one tag, of the message is larger than what may be held of a message that streams.",
}

// counted tells the call what a pass has seen, when it ends.
type counted struct {
	pass *pass
	call *call
	done bool
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.pass.Read(p)
	if err != nil && !r.done {
		r.done = true
		r.call.codec.Add(r.pass.checked())
		r.call.note(r.pass.dec.Facts())
	}
	return n, err
}

// routeByFacts chooses among the candidates by action and operation.
func (c *call) routeByFacts(f *soapcodec.Facts) (*route, error) {
	c.version = f.Version
	r := c.cand.choose(&bodyFacts{action(c.ex.Header, c.ct, f), f.Action, f.Operation})
	if r == nil {
		return nil, refuse(statusNoRoute, soapcodec.CodeNoRoute)
	}
	c.choose(r)
	if err := c.enter(r); err != nil {
		return r, err
	}
	return r, c.within(r)
}

// within applies the limits of the chosen route to what was let in under the
// widest ones of all that could be chosen.
func (c *call) within(r *route) error {
	if headBytes(c.ex) > r.limits.HeaderBytes {
		return refuse(statusHeaderTooLarge, soapcodec.CodeTooLarge)
	}
	if c.ex.Length > r.limits.MaxMessage {
		return errTooLarge
	}
	if c.src != nil {
		return c.src.over(r.limits)
	}
	return nil
}

func (c *call) choose(r *route) { c.route = r }

// take keeps what later stages need of the envelope.
func (c *call) take(f *soapcodec.Facts) {
	c.version, c.action, c.child = f.Version, f.Action, f.Operation
	if len(f.Keys) > 0 {
		c.keys = slices.Clone(f.Keys)
	}
	c.note(f)
}

// note keeps what may become known at any place of the envelope.
func (c *call) note(f *soapcodec.Facts) {
	if f.NormalizeSkipped && !c.canonical {
		c.asIs.Store(true)
	}
}

// relabel notes that Content-Type needs another charset, so that label and
// octets agree: they are UTF-8 from here on unless nothing was converted.
func (c *call) relabel(charset string) {
	switch {
	case c.ct.Charset == "":
	case c.changed:
		c.recoded = true
	case charset == "utf-8" && c.ct.Charset != "utf-8" && c.ct.Charset != "utf8":
		c.recoded = true // a byte order mark has overruled the label
	}
}

// messageError keeps the version that a failed message had.
func (c *call) messageError(err error, dec *soapcodec.Decoder) error {
	if v := dec.Facts().Version; v != soapcodec.V0 {
		c.version = v
	}
	return charsetError(err)
}

// charsetError gives an error of the charset conversion, which knows nothing
// of SOAP, the form of the message's other errors.
func charsetError(err error) error {
	var own *soapcodec.Error
	if errors.As(err, &own) {
		return err
	}
	var syntax *xmlstream.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	code := soapcodec.CodeNotWellFormed
	if errors.Is(err, xmlstream.ErrCharset) {
		code = soapcodec.CodeCharset
	}
	return &soapcodec.Error{Code: code, Err: err}
}
