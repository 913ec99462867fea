package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"soapway/soapcodec"
)

// ErrMultipart is what a framed node wraps in its permanent [SendError] for a
// message with attachments: it has no media type that could tell of them
// (SPEC.md §3, "Framed").
var ErrMultipart = errors.New("proxy: a framed node takes no multipart messages")

// isMultipart reports a message with attachments by its fields.
func isMultipart(h http.Header) bool {
	ct, err := soapcodec.ParseContentType(first(h, "Content-Type"))
	return err == nil && ct.IsMultipart()
}

// readPackage checks a message with attachments that is whole in memory, and
// takes over buf.
func (c *call) readPackage(buf *buffer) error {
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)
	doc := buf.b
	c.msg.buf, c.msg.data = buf, doc

	r := c.cand.settled()
	if r == nil {
		lim := c.cand.limits()
		m := newRelated(dec, soapcodec.Options{Limits: lim.XML}, lim, false, "").fromBytes(doc, c.ct)
		if err := m.head(); err != nil {
			return c.messageError(err, dec)
		}
		var err error
		if r, err = c.routePackage(m); err != nil {
			return err
		}
	}
	if err := c.choosePackage(r); err != nil {
		return err
	}
	var out *buffer
	if r.edits() {
		out = newBuffer()
	}
	m, err := c.checkPackage(dec, doc, out)
	c.codec.Add(m.octets)
	if err == nil && out == nil && m.changed {
		out = newBuffer() // a charset was converted, which the first look has shown
		_, err = c.checkPackage(dec, doc, out)
	}
	if err != nil {
		if out != nil {
			out.release()
		}
		return c.messageError(err, dec)
	}
	if err := c.accept(r, dec.Facts()); err != nil {
		if out != nil {
			out.release()
		}
		return err
	}
	if out != nil {
		c.changed = c.changed || !bytes.Equal(out.b, doc)
		buf.release()
		c.msg.buf, c.msg.data = out, out.b
	}
	c.msg.length = int64(len(c.msg.data))
	return nil
}

// checkPackage checks all of doc under the settings of the route; out, if it is
// not nil, gets what goes on.
func (c *call) checkPackage(dec *soapcodec.Decoder, doc []byte, out *buffer) (*related, error) {
	r := c.route
	m := newRelated(dec, r.decode, r.limits, r.edits(), c.h.opt.SpoolDir).fromBytes(doc, c.ct)
	defer m.close()
	return m, m.check(out)
}

// routePackage chooses among the candidates once the head of the root is known.
func (c *call) routePackage(m *related) (*route, error) {
	if !c.ct.HasAction {
		c.ct.Action, c.ct.HasAction = m.pkg.Action()
	}
	return c.routeByFacts(m.dec.Facts())
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
// Where the envelope chooses the route, all that comes before its first element
// must be read first: parts in front of the root may be large, so they wait in a
// file.
func (c *call) streamPackage(prefix []byte, lim Limits) error {
	dec := soapcodec.NewDecoder(soapcodec.Options{})
	rest := io.Reader(c.src)
	r := c.cand.settled()
	if r == nil {
		rec := &recorder{src: c.src, dir: c.h.opt.SpoolDir}
		c.msg.also = append(c.msg.also, rec)
		m := newRelated(dec, soapcodec.Options{Limits: lim.XML}, lim, false, "").
			from(io.MultiReader(bytes.NewReader(prefix), rec), c.ct)
		if err := m.head(); err != nil {
			return c.messageError(err, dec)
		}
		var err error
		if r, err = c.routePackage(m); err != nil {
			return err
		}
		rest = rec.again()
	}
	if err := c.choosePackage(r); err != nil {
		return err
	}
	if r.Delivery == Queue {
		if c.large {
			return errTooLarge
		}
		return ErrStoreBusy
	}
	c.src.limit(r.limits)
	m := newRelated(dec, r.decode, r.limits, r.edits(), c.h.opt.SpoolDir).
		from(io.MultiReader(bytes.NewReader(prefix), rest), c.ct)
	c.msg.also = append(c.msg.also, m)
	p := &pass{raw: true, dec: dec, rel: m}
	p.tee = tee{src: m, most: r.limits.held(max(lim.Buffer, int64(len(prefix)))), tooMuch: headFault}
	p.from = &p.tee
	if err := p.prime(int64(len(prefix))); err != nil {
		return c.messageError(err, dec)
	}
	c.take(dec.Facts())

	// As long as the root is ahead nobody knows whether its charset is UTF-8.
	c.changed = m.changed || r.edits() || m.state == rootAhead
	c.msg.length = -1
	if !c.decoded && !c.changed {
		c.msg.length = c.ex.Length
	}
	if c.msg.length < 0 && r.backend.needsLength {
		f, n, err := spool(c.h.opt.SpoolDir, p)
		if err != nil {
			return c.messageError(err, dec)
		}
		c.msg.spool, c.msg.length = f, n
		c.codec.Add(p.checked())
		c.note(dec.Facts())
		return nil
	}
	c.msg.stream = &stream{r: &counted{pass: p, call: c}}
	return nil
}

// checkedPackage is checkWhole for an answer with attachments.
func (a *answer) checkedPackage(dec *soapcodec.Decoder, raw []byte) error {
	m := newRelated(dec, a.route.check, a.route.replyLimits, false, "")
	if a.coding == codingIdentity {
		m.fromBytes(raw, a.ct)
	} else {
		m.from(newBody(bytes.NewReader(raw), a.coding, a.route.replyLimits), a.ct)
	}
	err := m.check(nil)
	a.codec.Add(m.octets)
	return err
}

// streamedPackage is the pass of an answer with attachments, of which prefix has
// been read.
func (a *answer) streamedPackage(prefix []byte) *pass {
	lim := a.route.replyLimits
	p := &pass{raw: true, dec: soapcodec.NewDecoder(a.route.check)}
	p.tee = tee{src: io.MultiReader(bytes.NewReader(prefix), a.resp.Body), most: lim.held(int64(len(prefix))), tooMuch: errTooLarge}
	p.rel = newRelated(p.dec, a.route.check, lim, false, "").from(newBody(&p.tee, a.coding, lim), a.ct)
	p.from = p.rel
	return p
}
