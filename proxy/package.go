package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"

	"soapway/soapcodec"
)

// ErrMultipart is what a framed node wraps in its permanent [SendError] for a
// message with attachments: it has no media type that could tell of them
// (SPEC.md §3, "Framed").
var ErrMultipart = errors.New("proxy: a framed node takes no multipart messages")

// errFar: the root of an answer with attachments stands behind more than may be
// held, and without it nobody knows in which version and with which status to
// answer.
var errFar = errors.New("proxy: the root of the answer stands behind larger parts")

// readPackage checks a message with attachments that is whole in memory, and
// takes over buf.
func (c *call) readPackage(buf *buffer) error {
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)
	doc := buf.b
	c.msg.buf, c.msg.data = buf, doc

	r := c.cand.settled()
	if r == nil || c.asksHead(r) {
		lim := c.cand.limits()
		m := newRelated(dec, soapcodec.Options{Limits: lim.XML}, lim, "").fromBytes(doc, c.ct)
		var err error
		if r, err = c.packageHead(m, r); err != nil {
			return err
		}
	}
	if err := c.choosePackage(r); err != nil {
		return err
	}
	m := newRelated(dec, r.decode, r.limits, "").fromBytes(doc, c.ct)
	err := m.check(nil)
	c.codec.Add(m.octets)
	if err != nil {
		return c.messageError(err, dec)
	}
	c.take(dec.Facts())
	if r.stores() {
		if err := refuseSequence(dec.Facts()); err != nil {
			return err
		}
		if err := c.identify(dec.Facts(), c.sumPackage(doc)); err != nil {
			return c.messageError(err, dec)
		}
		if err := c.askWherePackage(doc); err != nil {
			return c.messageError(err, dec)
		}
	}
	if r.edits() || m.changed {
		// Only now is it known whether the charset or a signature stands in the way.
		out := newBuffer()
		canonical := r.canonizes(dec.Facts())
		m := newRelated(dec, r.decode, r.limits, c.h.opt.SpoolDir).fromBytes(doc, c.ct)
		m.edits, m.canonical = r.edits(), canonical
		err := m.check(out)
		m.close()
		if err != nil {
			out.release()
			return c.messageError(err, dec)
		}
		c.changed = c.changed || !bytes.Equal(out.b, doc)
		buf.release()
		c.msg.buf, c.msg.data = out, out.b
	}
	c.msg.length = int64(len(c.msg.data))
	return nil
}

// asksHead reports whether the head of the envelope must be known before any
// octet of a message with attachments goes on.
func (c *call) asksHead(r *route) bool {
	return c.proofOpen || r.Strict || r.late() || r.ReplyTo || r.Translate != soapcodec.V0
}

// packageHead reads a message with attachments as far as the head of its
// envelope, and answers what depends on that. r is the route, nil if the
// envelope chooses it. Nothing but m.dec's facts is left of m.
func (c *call) packageHead(m *related, r *route) (*route, error) {
	if err := m.head(); err != nil {
		return nil, c.messageError(err, m.dec)
	}
	f := m.dec.Facts()
	c.take(f)
	if !c.ct.HasAction {
		c.ct.Action, c.ct.HasAction = m.pkg.Action()
	}
	if r == nil {
		var err error
		if r, err = c.routeByFacts(f); err != nil {
			return nil, err
		}
	}
	c.choose(r)
	if err := c.prove(m.kept.held, f); err != nil {
		return nil, err
	}
	if r.Strict {
		c.charset, c.agrees = m.charset, m.agrees
		root, _ := m.pkg.Root()
		if fault := soapcodec.CheckStrictPackage(f.Version, c.ct, &root); fault != nil {
			return nil, fault
		}
		if err := c.checkStrict(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// choosePackage is choose for a message with attachments, which a backend of
// framed nodes alone does not take.
func (c *call) choosePackage(r *route) error {
	c.choose(r)
	if r.backend.framedOnly {
		return refuse(statusMediaType, "")
	}
	return nil
}

// streamPackage begins to check a message with attachments of which prefix has
// been read. It returns once the route is known and the first octets have passed
// the checks.
//
// Where something depends on the envelope, all that comes before its first
// element must be read first: parts in front of the root may be large, so they
// wait in a file.
func (c *call) streamPackage(prefix []byte, lim Limits) error {
	dec := soapcodec.NewDecoder(soapcodec.Options{})
	rest := io.Reader(c.src)
	r := c.cand.settled()
	if r == nil || c.asksHead(r) {
		rec := &recorder{src: c.src, dir: c.h.opt.SpoolDir}
		c.msg.also = append(c.msg.also, rec)
		m := newRelated(dec, soapcodec.Options{Limits: lim.XML}, lim, "").
			from(io.MultiReader(bytes.NewReader(prefix), rec), c.ct)
		var err error
		if r, err = c.packageHead(m, r); err != nil {
			return err
		}
		if r.stores() {
			if err := c.askWhere(m.kept.held, dec.Facts()); err != nil {
				return err
			}
		}
		rest = rec.again()
	}
	if err := c.choosePackage(r); err != nil {
		return err
	}
	c.src.limit(r.limits)
	m := newRelated(dec, r.decode, r.limits, c.h.opt.SpoolDir).
		from(io.MultiReader(bytes.NewReader(prefix), rest), c.ct)
	m.edits, m.canonical = r.edits(), r.Normalize == soapcodec.Canonical
	if r.dedup != nil {
		m.sum = newPartSum(dec)
	}
	c.msg.also = append(c.msg.also, m)
	p := &pass{raw: true, dec: dec, rel: m}
	p.tee = tee{src: m, most: r.limits.held(max(lim.Buffer, int64(len(prefix)))), tooMuch: headFault}
	p.from = &p.tee
	if err := c.prime(p, prefix); err != nil {
		return c.messageError(err, dec)
	}
	out := &counted{pass: p, call: c}
	if r.stores() {
		if err := c.fileAway(out, dec); err != nil {
			return err
		}
		c.canonical, c.changed = m.canonized, m.changed
		return c.identify(dec.Facts(), func() ([sha256.Size]byte, error) { return m.sum.sum(), nil })
	}
	if f := dec.Facts(); f.Version != soapcodec.V0 {
		c.take(f)
	}
	c.canonical = m.canonized

	// As long as the root is ahead nobody knows whether its charset is UTF-8.
	c.changed = m.changed || r.edits() || m.state == rootAhead
	c.msg.length = -1
	if !c.decoded && !c.changed {
		c.msg.length = c.ex.Length
	}
	return c.pour(out, r.backend.needsLength && c.msg.length < 0, dec)
}

// fillPackage is fill for a message with attachments: what a try writes goes
// into its root.
func (c *call) fillPackage(req *Request, opt soapcodec.Options) error {
	edit := func(dec *soapcodec.Decoder) *related {
		m := newRelated(dec, opt, c.route.limits, c.h.opt.SpoolDir)
		m.edits = true
		return m
	}
	if c.msg.stream == nil && c.msg.file == nil {
		dec := decoders.Get().(*soapcodec.Decoder)
		defer decoders.Put(dec)
		m := edit(dec).fromBytes(c.msg.data, c.ct)
		defer m.close()
		out := new(buffer)
		if err := m.check(out); err != nil {
			return err
		}
		req.Length, req.Data = int64(len(out.b)), out.b
		req.Body = func() (io.ReadCloser, error) { return &memoryReader{data: out.b}, nil }
		return nil
	}
	req.Length, req.Data = -1, nil
	req.Body = func() (io.ReadCloser, error) {
		body, err := c.msg.open()
		if err != nil {
			return nil, err
		}
		return &relatedBody{edit(soapcodec.NewDecoder(opt)).from(body, c.ct), body}, nil
	}
	return nil
}

// checkedPackage is checkWhole for an answer with attachments.
func (a *answer) checkedPackage(dec *soapcodec.Decoder, raw []byte) error {
	m := newRelated(dec, a.route.check, a.route.replyLimits, "")
	if a.coding == codingIdentity {
		m.fromBytes(raw, a.ct)
	} else {
		m.from(newBody(bytes.NewReader(raw), a.coding, a.route.replyLimits), a.ct)
	}
	err := m.check(nil)
	a.codec.Add(m.octets)
	return err
}

// translatePackage is translate for an answer with attachments. One that is in
// the caller's version keeps its octets, but for the content coding.
func (a *answer) translatePackage(prefix []byte) (*Reply, error) {
	lim := a.route.replyLimits
	dec := soapcodec.NewDecoder(soapcodec.Options{})
	src := newBody(io.MultiReader(bytes.NewReader(prefix), a.resp.Body), a.coding, lim)
	m := newRelated(dec, a.replyOptions(), lim, a.h.opt.SpoolDir).from(src, a.ct)
	m.edits = true
	a.msg.also = append(a.msg.also, m)
	p := &pass{raw: true, dec: dec, rel: m}
	p.tee = tee{src: m, most: lim.held(max(lim.Buffer, int64(len(prefix)))), tooMuch: errTooLarge}
	p.from = &p.tee
	if err := p.prime(lim.Buffer + 1); err != nil {
		return a.failed(err)
	}
	f := dec.Facts()
	if f.Version == soapcodec.V0 {
		return a.failed(errFar)
	}
	r := a.good(f)
	if f.Version == a.version {
		dropForms(&r.Header)
	} else {
		a.translateReply(r, f)
		setType(&r.Header, soapcodec.TranslatePackage(a.resp.Header.Get("Content-Type"), a.version, ""))
	}
	return a.passed(r, p)
}

// streamPackage is stream for an answer with attachments.
func (a *answer) streamPackage(prefix []byte) (*Reply, error) {
	lim := a.route.replyLimits
	p := &pass{raw: true, dec: soapcodec.NewDecoder(a.route.check)}
	p.tee = tee{src: io.MultiReader(bytes.NewReader(prefix), a.resp.Body), most: lim.held(int64(len(prefix))), tooMuch: errTooLarge}
	p.rel = newRelated(p.dec, a.route.check, lim, "").from(newBody(&p.tee, a.coding, lim), a.ct)
	p.from = p.rel
	if err := p.prime(int64(len(prefix))); err != nil {
		return a.failed(err)
	}
	r := a.good(p.dec.Facts())
	r.Body = &replyBody{call: a.call, r: &counted{pass: p, call: a.call}}
	r.Length = a.resp.Length
	return r, nil
}
