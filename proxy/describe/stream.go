package describe

import (
	"context"
	"io"

	"soapway/soapcodec/wsdl"
)

// Open is Get for one who can do with less than the whole document: one that is
// not here yet, and is large, comes as a Stream, which must be closed; then there is
// no Document.
func (f *Front) Open(ctx context.Context, at Location) (doc *Document, s *Stream, err error) {
	doc, l, err := f.begin(ctx, at)
	if l == nil {
		return doc, nil, err
	}
	var failed error
	err = l.wait(ctx, func() bool {
		large := l.part.Len() >= streamFrom
		switch {
		case l.over, large && l.doc != nil:
			doc, failed = l.doc, l.err
		case large:
			s, l.flows = &Stream{ctx: ctx, load: l}, true
		default:
			return false
		}
		return true
	})
	if s != nil {
		return nil, s, nil
	}
	l.leave()
	if err == nil {
		err = failed
	}
	return doc, nil, err
}

// A Stream is a document on its way from its source. What can be read is good as
// far as it goes: if the document turns out not to be, reading fails, and never at
// a place where it could be taken for whole.
type Stream struct {
	ctx     context.Context
	load    *load
	rewrite *wsdl.Rewriter
	seen    int      // octets of the parts that rewrite has had
	pieces  [][]byte // that are to be read, the first from at on
	at      int
	closed  bool
}

// Type is the Content-Type of the document, which is UTF-8.
func (s *Stream) Type() string {
	s.load.mu.Lock()
	defer s.load.mu.Unlock()
	return s.load.typ
}

// Rewrite says which references are replaced, see [Document.Rewrite]. It must be
// called before Read.
func (s *Stream) Rewrite(f func(wsdl.Ref) (string, bool)) { s.rewrite = wsdl.NewRewriter(f) }

// Read implements io.Reader. Its errors are those of [Front.Get], and that of the
// context that Open got.
func (s *Stream) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(s.pieces) == 0 {
			if more, err := s.more(n == 0); err != nil || !more {
				return n, err
			}
		}
		k := copy(p[n:], s.pieces[0][s.at:])
		n += k
		if s.at += k; s.at == len(s.pieces[0]) {
			s.pieces, s.at = s.pieces[1:], 0
		}
	}
	return n, nil
}

// more takes what has come since it was called before; false if that is nothing,
// which it may wait for.
func (s *Stream) more(wait bool) (bool, error) {
	var part wsdl.Part
	var end error
	come := func() bool {
		switch l := s.load; {
		case l.part.Len() > s.seen:
			part = l.part
		case l.whole:
			end = io.EOF
		case l.err != nil:
			end = l.err
		default:
			return false
		}
		return true
	}
	if wait {
		if err := s.load.wait(s.ctx, come); err != nil {
			return false, err
		}
	} else if !s.load.look(come) {
		return false, nil
	}
	if end != nil {
		return false, end
	}
	s.seen = part.Len()
	s.pieces = s.rewrite.Append(s.pieces, part)
	return true, nil
}

// Close gives the document up, as far as this reader is concerned.
func (s *Stream) Close() {
	if !s.closed {
		s.closed = true
		s.load.leave()
	}
}
