package wsdl

import (
	"fmt"
	"io"

	"soapway/xmlstream"
)

// A Reading reads a document while it comes, token by token, and tells how much of
// it can be handed on before the rest is there. It is for one goroutine; the parts
// that it gives are for any.
type Reading struct {
	w    walker
	list []placed
}

// NewReading reads a document from src, which gives UTF-8.
func NewReading(src io.Reader) *Reading {
	r := newReading()
	r.w.s.Reset(src)
	return r
}

func newReading() *Reading {
	r := &Reading{}
	r.w.s, r.w.v = xmlstream.NewScanner(xmlstream.Limits{}), gather{&r.list}
	return r
}

// Run reads the document to its end; nil says that it is well-formed. Errors:
// *xmlstream.SyntaxError, *xmlstream.LimitError, those of the source.
func (r *Reading) Run() error {
	if err := r.w.walk(); err != nil {
		return fmt.Errorf("wsdl: parse: %w", err)
	}
	return nil
}

// Part is what may be handed on of the document, of which doc has all octets that
// were read from the source, in pieces of which the last may have more: those before
// the token that is not complete yet, but for an address that has begun, and for the
// end of the root element as long as something may follow that spoils the
// document. It is called by the source while Run reads from it, or after Run.
func (r *Reading) Part(doc [][]byte) Part {
	return Part{doc: doc, n: int(r.w.settled()), places: r.list[:len(r.list):len(r.list)]}
}

// Document is what [Parse] makes of doc, the octets of the source, once Run has
// returned nil.
func (r *Reading) Document(doc []byte) *Document {
	d := &Document{Kind: r.w.kind, doc: doc, places: r.list}
	for i := range d.places {
		d.Refs = append(d.Refs, d.places[i].Ref)
	}
	return d
}

// A Part is a document from its start on, as far as it is known, and the references
// there. The zero Part is the beginning of any document.
type Part struct {
	doc    [][]byte
	n      int      // octets of doc
	places []placed // and behind these that of the root, if it is one tag
}

// Len is the number of octets.
func (p Part) Len() int { return p.n }

// A Rewriter makes [Rewrite] of a document of which one part after the other
// becomes known. It looks at nothing but the references.
type Rewriter struct {
	replace func(Ref) (string, bool)
	next    int // references that are behind
	// What is behind is all before p.doc[piece][at:], the first done octets.
	done, piece, at int
}

// NewRewriter returns a rewriter that replaces references as f says; see [Rewrite].
func NewRewriter(f func(Ref) (string, bool)) *Rewriter { return &Rewriter{replace: f} }

// Append appends to pieces what p adds to the part before, which it continues: octets
// of p, and new values between them.
func (w *Rewriter) Append(pieces [][]byte, p Part) [][]byte {
	for ; w.next < len(p.places) && p.places[w.next].start < p.n; w.next++ {
		at := &p.places[w.next]
		if value, ok := w.replace(at.Ref); ok {
			pieces = append(w.to(at.start, pieces, p, true), []byte(at.with(value).text))
			w.to(at.end, nil, p, false)
		}
	}
	return w.to(p.n, pieces, p, true)
}

// to goes on to the octet at end, and appends what is before it to pieces if it
// stays.
func (w *Rewriter) to(end int, pieces [][]byte, p Part, stays bool) [][]byte {
	for w.done < end {
		b := p.doc[w.piece][w.at:]
		b = b[:min(len(b), end-w.done)]
		if stays {
			pieces = append(pieces, b)
		}
		w.done += len(b)
		if w.at += len(b); w.at == len(p.doc[w.piece]) {
			w.piece, w.at = w.piece+1, 0
		}
	}
	return pieces
}

// Pieces is [Rewrite] for the octets that d was made of: pieces of these, and new
// values between them.
func (d *Document) Pieces(f func(Ref) (string, bool)) [][]byte {
	return NewRewriter(f).Append(nil, Part{[][]byte{d.doc}, len(d.doc), d.places})
}
