package proxy

import (
	"bytes"
	"io"
	"sync"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// A canonizer turns a message that has passed every check into inclusive
// Canonical XML 1.0 with comments.
type canonizer struct {
	scan *xmlstream.Scanner
	form *xmlstream.Canonicalizer
}

var canonizers = sync.Pool{New: func() any {
	return &canonizer{
		scan: xmlstream.NewScanner(noLimits),
		form: xmlstream.NewCanonicalizer(xmlstream.CanonicalOptions{Comments: true}),
	}
}}

// appendCanonical appends the canonical form of doc.
func appendCanonical(dst, doc []byte) ([]byte, error) {
	c := canonizers.Get().(*canonizer)
	defer canonizers.Put(c)
	c.form.Reset()
	c.scan.ResetBytes(doc)
	defer c.scan.ResetBytes(nil)
	for {
		if _, err := c.scan.Next(); err == io.EOF {
			return dst, nil
		} else if err != nil {
			return dst, err
		}
		var err error
		if dst, err = c.form.Append(dst, c.scan); err != nil {
			return dst, err
		}
	}
}

// canonicalReader gives the canonical form of what it reads, in memory bounded
// by the longest tag.
type canonicalReader struct {
	c    *canonizer
	out  []byte
	left []byte // of out
	err  error
}

func newCanonicalReader(r io.Reader) *canonicalReader {
	c := canonizers.New().(*canonizer) // not of the pool: nobody knows when it is done
	c.scan.Reset(r)
	return &canonicalReader{c: c}
}

func (r *canonicalReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.left) == 0 && r.err == nil {
		r.out = r.out[:0]
		for len(r.out) < len(p) && r.err == nil {
			if _, r.err = r.c.scan.Next(); r.err == nil {
				r.out, r.err = r.c.form.Append(r.out, r.c.scan)
			}
		}
		r.left = r.out
	}
	if len(r.left) == 0 {
		return 0, r.err
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// canonizes reports whether the route makes the message canonical.
func (r *route) canonizes(f *soapcodec.Facts) bool {
	return r.Normalize == soapcodec.Canonical && !f.NormalizeSkipped
}

// canonize makes a message that is whole in memory canonical.
func (c *call) canonize() error {
	out := newBuffer()
	var err error
	if out.b, err = appendCanonical(out.b, c.msg.data); err != nil {
		out.release()
		return err
	}
	c.changed = c.changed || !bytes.Equal(out.b, c.msg.data)
	if c.msg.buf != nil {
		c.msg.buf.release()
	}
	c.msg.buf, c.msg.data = out, out.b
	c.relabelCanonical()
	return nil
}

// relabelCanonical notes that a canonical message has characters where another
// may have references, so that a label which says US-ASCII is wrong.
func (c *call) relabelCanonical() {
	if c.ct.Charset != "" && c.ct.Charset != "utf-8" {
		c.recoded = true
	}
}
