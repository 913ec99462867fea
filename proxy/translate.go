package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"soapway/internal/field"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// outgoing is the version in which nodes get the message.
func (c *call) outgoing() soapcodec.Version {
	if c.version == soapcodec.V0 || c.route.Translate == soapcodec.V0 {
		return c.version
	}
	return c.route.Translate
}

// translated reports whether the message changes its version on the way.
func (c *call) translated() bool { return c.outgoing() != c.version }

// translateFields makes the fields that tell the version and the action those
// of the version that nodes get. Accept goes: it names what the caller takes,
// and that is not what the node should send.
func (c *call) translateFields(h *field.List) {
	f := soapcodec.Facts{Version: c.version, Action: c.action}
	act := action(c.ex.Header, c.ct, &f)
	h.Del("Content-Type", soapActionName, "Accept")
	framedHeader(h, c.outgoing(), act)
	if c.ct.IsMultipart() {
		setType(h, soapcodec.TranslatePackage(c.typ, c.outgoing(), headerSafe(act)))
	}
}

// replyOptions are for the check of an answer, which is translated into the
// caller's version where the route translates.
func (c *call) replyOptions() soapcodec.Options {
	opt := c.route.check
	if c.route.Translate != soapcodec.V0 {
		opt.Translate = c.version
	}
	return opt
}

// foreign reports whether the answer, of which the first octets are given, is,
// or may be, in another version than the caller spoke.
func (a *answer) foreign(prefix []byte) bool {
	if a.route.Translate == soapcodec.V0 || a.version == soapcodec.V0 {
		return false
	}
	if a.ct.IsMultipart() {
		return true // its root may stand anywhere
	}
	src := newBody(bytes.NewReader(prefix), a.coding, a.route.replyLimits)
	rd, err := xmlstream.NewReader(src, a.charset)
	if err != nil {
		return false
	}
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)
	dec.SetOptions(a.route.check)
	dec.Reset(rd)
	defer dec.ResetBytes(nil)
	for dec.Facts().Version == soapcodec.V0 {
		if dec.Step() != nil {
			return false // the full check will tell why
		}
	}
	return dec.Facts().Version != a.version
}

// translate makes the reply of an answer of which prefix has been read: in the
// caller's version, without content coding, in UTF-8. One that fits Buffer is
// whole before the reply's head is written, a larger one streams.
func (a *answer) translate(prefix []byte) (*Reply, error) {
	if a.ct.IsMultipart() {
		return a.translatePackage(prefix)
	}
	lim := a.route.replyLimits
	src := newBody(io.MultiReader(bytes.NewReader(prefix), a.resp.Body), a.coding, lim)
	rd, err := xmlstream.NewReader(src, a.charset)
	if err != nil {
		return a.failed(err)
	}
	p := &pass{dec: soapcodec.NewDecoder(a.replyOptions()), edits: true}
	p.tee = tee{src: rd, most: lim.held(max(lim.Buffer, int64(len(prefix)))), tooMuch: errTooLarge}
	p.dec.Reset(&p.tee)
	if err := p.prime(lim.Buffer + 1); err != nil {
		return a.failed(err)
	}
	a.charset = "utf-8"
	r := a.good(p.dec.Facts())
	a.translateReply(r, p.dec.Facts())
	return a.passed(r, p)
}

// passed gives r the octets of p, of which as many were read as may be held: the
// whole, or a stream.
func (a *answer) passed(r *Reply, p *pass) (*Reply, error) {
	if !p.done {
		r.Body, r.Length = &replyBody{call: a.call, r: &counted{pass: p, call: a.call}}, -1
		return r, nil
	}
	a.codec.Add(p.checked())
	out, err := io.ReadAll(p)
	a.tries.end()
	if err != nil {
		return a.failed(err)
	}
	r.Body, r.Length = bytes.NewReader(out), int64(len(out))
	return r, nil
}

// translateReply makes status and fields of a reply those of the caller's
// version: they were made for the version of the answer.
func (a *answer) translateReply(r *Reply, f *soapcodec.Facts) {
	r.Version = a.version
	if isFault(f) && (r.Status == http.StatusInternalServerError || r.Status == http.StatusBadRequest) {
		fault := f.Fault
		if fault == nil {
			fault = &soapcodec.FaultFacts{}
		}
		r.Status = fault.Status(a.version)
	}
	dropForms(&r.Header)
	setType(&r.Header, a.version.MediaType()+"; charset=utf-8")
}

// dropForms takes out what told of the octets that a reply had.
func dropForms(h *field.List) {
	h.DelFunc(func(f *field.Field) bool {
		return digest(canonical(f.Name)) || f.Is("Content-Encoding") || f.Is("ETag")
	})
}

// signed reports that a message was refused because of its signature.
func signed(err error) bool {
	var e *soapcodec.Error
	return errors.As(err, &e) && e.Code == soapcodec.CodeSigned
}
