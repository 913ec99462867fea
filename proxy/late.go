package proxy

import (
	"bytes"
	"io"
	"strings"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// noLimits are for octets that have passed the limits before, and were only
// changed since.
var noLimits = xmlstream.Limits{
	Depth: -1, Attributes: -1, Namespaces: -1, Name: -1, AttributeValue: -1, Elements: -1, Text: -1,
}

// late reports whether the route writes something into a message for each try.
func (r *route) late() bool { return r.WSATo || r.Mark }

// lateOptions are for the decoder that finds where a try at the node with that
// address has something to write.
func (c *call) lateOptions(node string) soapcodec.Options {
	late := new(soapcodec.Late)
	if c.route.WSATo {
		late.To = node
	}
	if c.route.Mark {
		c.delivery.ID = c.ex.ID
		late.Mark = soapcodec.DeliveryMark(c.delivery)
	}
	return soapcodec.Options{Limits: noLimits, Late: late}
}

// fill makes body and length of req those of a try at the node with that
// address. The head is decoded once more for it: which node it is, and which
// attempt, is not known before.
func (c *call) fill(req *Request, node string) error {
	req.Body, req.Data, req.Length = c.msg.open, c.msg.whole(), c.msg.length
	if c.route.late() && c.ct.IsMultipart() {
		return c.fillPackage(req, c.lateOptions(node))
	}
	if !c.route.late() || c.version == soapcodec.V0 {
		return nil
	}
	opt := c.lateOptions(node)
	req.Data = nil
	if c.msg.stream != nil {
		req.Length = -1
		most := c.route.limits.held(c.route.limits.Buffer)
		req.Body = func() (io.ReadCloser, error) {
			body, err := c.msg.open()
			if err != nil {
				return nil, err
			}
			return &headEditor{body: body, opt: opt, most: most}, nil
		}
		return nil
	}
	dec := decoders.Get().(*soapcodec.Decoder)
	defer decoders.Put(dec)
	dec.SetOptions(opt)
	if c.msg.file != nil {
		body, err := c.msg.file.Open()
		if err != nil {
			return &SendError{Class: NotSent, Source: true, Err: err}
		}
		defer body.Close()
		dec.Reset(body)
	} else {
		dec.ResetBytes(c.msg.data)
	}
	defer dec.ResetBytes(nil)
	if err := dec.Head(); err != nil {
		return err
	}
	edits := dec.TakeEdits()
	for _, e := range edits {
		req.Length += int64(len(e.With)) - (e.End - e.Start)
	}
	req.Body = func() (io.ReadCloser, error) {
		body, err := c.msg.open()
		if err != nil {
			return nil, err
		}
		return &editReader{src: body, edits: edits, close: body.Close}, nil
	}
	return nil
}

// address is what wsa:To becomes at a node: the URL that an HTTP node is asked
// at, without the query.
func (b *backend) address(node int, rest string) string {
	name := b.Nodes[node].Name()
	if u := b.urls[node]; rest != "" && (u.scheme == "http" || u.scheme == "https") {
		return strings.TrimSuffix(name, "/") + rest
	}
	return name
}

// editReader makes edits in what it reads.
type editReader struct {
	src   io.Reader
	at    int64 // octets of src that are behind
	edits []soapcodec.Edit
	with  []byte // what is left of the replacement being given away
	close func() error
}

func (r *editReader) Read(p []byte) (int, error) {
	for {
		if len(r.with) > 0 {
			n := copy(p, r.with)
			r.with = r.with[n:]
			return n, nil
		}
		if len(r.edits) == 0 {
			return r.src.Read(p)
		}
		e := r.edits[0]
		if r.at < e.Start {
			n, err := r.src.Read(p[:min(int64(len(p)), e.Start-r.at)])
			r.at += int64(n)
			if err == io.EOF && r.at == e.Start {
				err = nil // what is put in at the end follows
			}
			return n, err
		}
		if r.at < e.End {
			n, err := io.CopyN(io.Discard, r.src, e.End-r.at)
			r.at += n
			if err != nil {
				return 0, err
			}
		}
		r.with, r.edits = e.With, r.edits[1:]
	}
}

// Close closes what is read.
func (r *editReader) Close() error { return r.close() }

// headEditor makes the edits that a decoder finds in the head of a stream. It
// begins to read with its first Read.
type headEditor struct {
	body io.ReadCloser
	opt  soapcodec.Options
	most int64
	r    *editReader
	err  error
}

func (h *headEditor) Read(p []byte) (int, error) {
	if h.r == nil && h.err == nil {
		h.begin()
	}
	if h.err != nil {
		return 0, h.err
	}
	return h.r.Read(p)
}

func (h *headEditor) begin() {
	t := &tee{src: h.body, most: h.most, tooMuch: headFault}
	dec := soapcodec.NewDecoder(h.opt)
	dec.Reset(t)
	if h.err = dec.Head(); h.err == nil {
		h.r = &editReader{src: io.MultiReader(bytes.NewReader(t.held), h.body), edits: dec.TakeEdits()}
	}
}

// Close closes what is read.
func (h *headEditor) Close() error { return h.body.Close() }
