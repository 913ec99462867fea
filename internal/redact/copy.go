package redact

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// hidden stands for what is hidden.
const hidden = "***"

// limits are wider than those of any sensible route: what was accepted can be
// shown. They bound what a reply may cost.
var limits = xmlstream.Limits{
	Depth: 1 << 16, Attributes: 1 << 16, Namespaces: 1 << 16, Name: 1 << 20, AttributeValue: 16 << 20, Elements: -1, Text: -1,
}

// Shown is a document as it may be seen.
type Shown struct {
	XML         []byte // UTF-8, as far as it could be read
	Hidden      int    // elements and attributes that are masked
	Attachments int    // parts of the message that are not in XML
	Err         error  // why the rest is not there; nil if nothing is missing
}

// Document masks a message or a reply. contentType is its Content-Type field; ""
// is XML whose charset is found out.
func (m *Mask) Document(doc []byte, contentType string) (s Shown) {
	var out bytes.Buffer
	out.Grow(len(doc))
	s.Hidden, s.Attachments, s.Err = m.Copy(&out, bytes.NewReader(doc), contentType)
	s.XML = out.Bytes()
	return s
}

// Copy is Document from r to w, in bounded memory. What it has written when it
// fails may be seen. The errors are those of [xmlstream] and [soapcodec] for what
// is no XML or no package, and those of r and w.
func (m *Mask) Copy(w io.Writer, r io.Reader, contentType string) (hidden, attachments int, err error) {
	return m.copy(w, r, contentType, nil)
}

func (m *Mask) copy(w io.Writer, r io.Reader, contentType string, quotes *Quotes) (hidden, attachments int, err error) {
	out := bufio.NewWriterSize(w, 16<<10)
	c := copier{mask: m, out: out, quotes: quotes}
	ct, err := soapcodec.ParseContentType(contentType)
	switch {
	case err != nil:
		err = c.document(r, "") // a field that says nothing
	case ct.IsMultipart():
		err = c.multipart(r, ct)
	default:
		err = c.document(r, ct.Charset)
	}
	if e := out.Flush(); e != nil {
		err = e // of w, which comes before what follows from it
	}
	return c.hidden, c.attachments, err
}

// copier is one Copy.
type copier struct {
	mask                *Mask
	out                 *bufio.Writer
	quotes              *Quotes // gets what is hidden; nil for nobody
	hidden, attachments int
}

// multipart copies the root of a message with attachments.
func (c *copier) multipart(r io.Reader, ct soapcodec.ContentType) error {
	if !ct.IsPackage() {
		return soapcodec.ErrNotPackage
	}
	p := soapcodec.NewPackage(soapcodec.PackageOptions{})
	p.Reset(r, ct)
	var failed error // of the root
	for {
		kind, err := p.Next()
		switch {
		case err == io.EOF:
			return failed
		case err != nil:
			return errors.Join(failed, err)
		case kind != soapcodec.PartHeader:
			continue
		}
		part := p.Part()
		if !part.Root {
			c.attachments++
			continue
		}
		content, err := part.Decoded(p)
		if err == nil {
			err = c.document(content, part.Type.Charset)
		}
		failed = err
	}
}

// document copies XML.
func (c *copier) document(r io.Reader, charset string) error {
	in, err := xmlstream.NewReader(r, charset)
	if err != nil {
		return err
	}
	s := xmlstream.NewScanner(limits)
	s.Reset(in)
	for {
		kind, err := s.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case kind == xmlstream.Start:
			err = c.start(s)
		default:
			err = c.write(s.Raw())
		}
		if err != nil {
			return err
		}
	}
}

func (c *copier) write(b []byte) error {
	_, err := c.out.Write(b)
	return err
}

// start copies a start tag, and the whole element if it is hidden.
func (c *copier) start(s *xmlstream.Scanner) error {
	whole := c.mask.hides(s.Name())
	if err := c.tag(s, whole); err != nil || !whole {
		return err
	}
	c.hidden++
	if s.SelfClosing() {
		return nil // its end has no octets
	}
	if _, err := c.out.WriteString(hidden); err != nil {
		return err
	}
	for depth := s.Depth(); ; {
		kind, err := s.Next()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // never: the scanner would have told
		}
		if err != nil {
			return err
		}
		switch {
		case kind == xmlstream.End && s.Depth() == depth:
			return c.write(s.Raw())
		case c.quotes == nil:
		case kind == xmlstream.Text || kind == xmlstream.CDATA:
			if !s.Partial() {
				c.quotes.Add(string(s.AppendText(nil)))
			}
		case kind == xmlstream.Start:
			c.quoteAttrs(s)
		}
	}
}

// tag writes a start tag without the values of the attributes that are hidden:
// those that the mask names, or all.
func (c *copier) tag(s *xmlstream.Scanner, all bool) error {
	raw, from := s.Raw(), 0
	for _, a := range s.Attrs() {
		if a.IsNamespace() || !all && !c.mask.hides(a.Name) {
			continue
		}
		name := int(a.Offset - s.Offset())
		at := bytes.IndexByte(raw[name:], a.Quote)
		if at < 0 {
			return fmt.Errorf("redact: the value of an attribute is not where it was: %w", io.ErrUnexpectedEOF)
		}
		at += name + 1
		c.quote(&a)
		if err := c.write(raw[from:at]); err != nil {
			return err
		}
		if _, err := c.out.WriteString(hidden); err != nil {
			return err
		}
		if from = at + len(a.Raw); !all {
			c.hidden++
		}
	}
	return c.write(raw[from:])
}

// quoteAttrs notes the values of all attributes of an element that is hidden.
func (c *copier) quoteAttrs(s *xmlstream.Scanner) {
	for _, a := range s.Attrs() {
		if !a.IsNamespace() {
			c.quote(&a)
		}
	}
}

// quote notes the value of an attribute that is hidden, but for those that name a
// kind of thing and no thing, such as the type of a password.
func (c *copier) quote(a *xmlstream.Attr) {
	if c.quotes == nil || bytes.Contains(a.Raw, []byte("://")) {
		return
	}
	c.quotes.Add(string(a.AppendValue(nil)))
}
