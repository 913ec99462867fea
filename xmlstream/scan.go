package xmlstream

import (
	"hash/maphash"
	"io"
)

// pieceSize is the longest token, in octets from its start, that character
// data, a CDATA section, a comment or a processing instruction is delivered
// in. What is longer arrives in several, see [Scanner.Partial].
const pieceSize = 32 << 10

// A Scanner splits a UTF-8 document into tokens, over a []byte or an
// io.Reader, with the same events for both and for reads of any size.
//
// It is made for reuse by Reset: in the good case a document costs no
// allocation. It is not safe for concurrent use.
type Scanner struct {
	// The window: buf[tok:pos] is the current token, buf[pos:] has been read
	// and not scanned. Invariant: 0 ≤ tok ≤ pos ≤ len(buf).
	buf      []byte
	tok, pos int
	base     int64 // stream offset of buf[0]
	place    place // line and column of buf[0]
	own      []byte
	r        io.Reader // nil over a []byte
	readErr  error     // of r, io.EOF included; looked at once the window is used up
	err      error     // sticky result of Next
	lim      Limits
	inForce  int  // most octets of namespaces in force; follows from lim
	roomy    bool // whatever has a form keeps lim
	piece    int  // pieceSize; tests make it small

	watch func(local []byte) bool // of Watch; may be nil

	kind    Kind
	after   after
	started bool // the place for a byte order mark and an XML declaration is past
	rooted  bool // the root element has begun
	selfEnd bool // the current Start is <a/>
	partial bool
	lo, hi  int // Text is buf[lo:hi]

	elements int64
	run      int64 // octets of the current run, section, comment or PI in earlier pieces
	blank    int   // octets of white space in the current tag
	trim     bool  // the white space between target and data of a PI is not yet past
	target   []byte

	attrs   []Attr
	pending uint8 // where the attributes are that attrs does not have yet
	spans   []attrSpan
	ends    [maxFormAttrs]int  // the ends of the values that the form has cut out
	plain   [maxFormAttrs]bool // and whether they are as written
	forms   forms

	// The last XML declaration, and where its Text is: senders always write
	// the same.
	declared     []byte
	declaredText span
	open         []element
	names        []byte // the open elements' names as written, one behind the other
	scope        scope
	seed         maphash.Seed
	twins        twins
	scrap        []byte
}

// element is one open element: its name is names[start:end], its colon at
// names[colon], colon = start-1 if there is none.
type element struct {
	name span
	uri  int // index into scope.uris
	mark int // len(scope.bindings) before its own declarations
	form uint8
}

// NewScanner returns a scanner that must be given a document by Reset or
// ResetBytes.
func NewScanner(lim Limits) *Scanner {
	s := &Scanner{seed: maphash.MakeSeed(), piece: pieceSize}
	s.scope.seed = s.seed
	s.SetLimits(lim)
	s.ResetBytes(nil)
	return s
}

// SetLimits replaces the limits; call it before Reset.
func (s *Scanner) SetLimits(lim Limits) {
	s.lim = lim.withDefaults()
	s.inForce = s.lim.scope()
	s.roomy = s.lim.roomy()
	if len(s.forms.list) == 0 {
		s.forms.clear()
	}
}

// Reset makes the scanner read a document from r, which must deliver UTF-8:
// see [NewReader] for other charsets. It reads r in blocks of at most 16 KiB
// and keeps no more than the current token and one block.
func (s *Scanner) Reset(r io.Reader) {
	s.reset()
	if cap(s.own) > keepBuffer {
		s.own = nil
	}
	s.buf, s.r = s.own[:0], r
}

// ResetBytes makes the scanner read doc in place: tokens alias it. The scanner
// does not modify doc, and the caller must not while it scans. ResetBytes(nil)
// lets go of an earlier document.
func (s *Scanner) ResetBytes(doc []byte) {
	s.reset()
	s.buf, s.r = doc, nil
}

func (s *Scanner) reset() {
	s.tok, s.pos, s.base, s.place = 0, 0, 0, place{}
	s.readErr, s.err = nil, nil
	s.kind, s.after, s.started, s.rooted, s.selfEnd, s.partial = 0, afterOther, false, false, false, false
	s.lo, s.hi, s.elements, s.run = 0, 0, 0, 0
	s.attrs = recycle(s.attrs)
	clear(s.attrs[:cap(s.attrs)]) // else they would keep an earlier document alive
	s.spans = recycle(s.spans)
	s.open = recycle(s.open)
	s.names = recycle(s.names)
	s.target = recycle(s.target)
	s.scrap = recycle(s.scrap)
	s.scope.reset()
	s.twins.reset()
}

// recycle empties b for the next document, or drops it when a hostile one
// made it big.
func recycle[T any](b []T) []T {
	if cap(b) > keepBuffer/16 {
		return nil
	}
	return b[:0]
}

// careful is Next where nothing can be taken for granted.
func (s *Scanner) careful() (Kind, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.tok = s.pos
	if s.partial {
		s.partial = false
		return s.goOn()
	}
	if !s.started {
		s.started = true
		if k, err := s.prologue(); k != 0 || err != nil {
			return k, err
		}
	}
	if s.tok < len(s.buf) && s.buf[s.tok] == '<' && s.quickTag(s.buf, s.tok) {
		return Start, nil
	}
	return s.content()
}

// content scans the token at s.tok, which begins no piece but the first.
func (s *Scanner) content() (Kind, error) {
	s.run = 0
	c, ok := s.at(0)
	switch {
	case !ok && s.rooted && len(s.open) == 0 && s.inputEnded():
		return 0, io.EOF
	case !ok:
		return 0, s.ended()
	case c != '<' && len(s.open) == 0:
		return s.space()
	case c != '<':
		return s.text(0)
	}
	c, ok = s.at(1)
	switch {
	case !ok:
		return 0, s.ended()
	case c == '/':
		return s.endTag()
	case c == '!':
		return s.markup()
	case c == '?':
		return s.instruction()
	}
	return s.startTag()
}

// prologue skips one byte order mark and reads the XML declaration, which may
// stand nowhere else (XML 1.0 §2.8). Its kind is 0 if there is none.
func (s *Scanner) prologue() (Kind, error) {
	const mark = "\uFEFF"
	if c, ok := s.at(0); ok && c == mark[0] {
		marked, err := s.delimiter(0, mark)
		if err != nil {
			return 0, err
		}
		if marked {
			s.tok += len(mark)
			s.pos += len(mark)
		}
	}
	if n := len(s.declared); n > 0 && s.roomy && len(s.buf)-s.tok >= n && string(s.buf[s.tok:s.tok+n]) == string(s.declared) {
		s.lo, s.hi, s.pos = s.tok+s.declaredText.start, s.tok+s.declaredText.end, s.tok+n
		return Declaration, nil
	}
	const open = "<?xml"
	for i := range len(open) {
		if c, ok := s.at(i); !ok || c != open[i] {
			return 0, nil
		}
	}
	// <?xml-stylesheet …?> is an ordinary processing instruction.
	if c, ok := s.at(len(open)); !ok || class[c]&blank == 0 {
		return 0, nil
	}
	return s.declaration(len(open))
}

// push adds an element, whose fields the caller sets one by one: to append a
// literal copies what has just been written, and the processor waits for it.
func (s *Scanner) push() *element {
	n := len(s.open)
	if n == cap(s.open) {
		s.open = append(s.open, element{})
	} else {
		s.open = s.open[:n+1]
	}
	return &s.open[n]
}

// Name returns the name of a Start or End token, and a ProcInst token's target
// as Local.
func (s *Scanner) Name() (n Name) {
	// Field by field: a composite literal is built elsewhere and copied.
	switch s.kind {
	case Start, End:
		e := &s.open[len(s.open)-1]
		n.Local = s.names[e.name.colon+1 : e.name.end]
		if e.name.prefixed() {
			n.Prefix = s.names[e.name.start:e.name.colon]
		}
		n.Space = s.scope.uri(e.uri)
	case ProcInst:
		n.Local = s.target
	}
	return n
}

// Local returns the local part of [Scanner.Name].
func (s *Scanner) Local() []byte {
	switch s.kind {
	case Start, End:
		e := &s.open[len(s.open)-1]
		return s.names[e.name.colon+1 : e.name.end]
	case ProcInst:
		return s.target
	}
	return nil
}

// Space returns the namespace of [Scanner.Name].
func (s *Scanner) Space() []byte {
	switch s.kind {
	case Start, End:
		return s.scope.uri(s.open[len(s.open)-1].uri)
	}
	return nil
}

// SelfClosing reports whether the current Start token is <a/>. An End token
// with an empty Raw follows it.
func (s *Scanner) SelfClosing() bool { return s.selfEnd }

// Raw returns the exact octets of the token. One after the other the Raws of
// a document are the document, but for a byte order mark.
func (s *Scanner) Raw() []byte { return s.buf[s.tok:s.pos:s.pos] }

// Text returns the content as written, without its delimiters, of a Text,
// CDATA, Comment, ProcInst or Declaration token. That of a ProcInst is what
// follows the target and the white space behind it. It is empty for the last
// piece of a section whose delimiter did not fit in the piece before.
func (s *Scanner) Text() []byte { return s.buf[s.lo:s.hi:s.hi] }

// Partial reports that the token is a piece only: the same run of character
// data, CDATA section, comment or processing instruction goes on in the next
// token. A piece never ends inside a UTF-8 sequence, a reference, a "\r\n"
// or a delimiter, so each can be used by itself.
func (s *Scanner) Partial() bool { return s.partial }

// AppendText appends the character data of a Text or CDATA token: references
// replaced and line ends normalized.
func (s *Scanner) AppendText(dst []byte) []byte {
	return appendText(dst, s.Text(), s.kind == Text)
}

// Offset returns the stream offset of the token's first octet.
func (s *Scanner) Offset() int64 { return s.base + int64(s.tok) }

// InputOffset returns the stream offset just behind the token.
func (s *Scanner) InputOffset() int64 { return s.base + int64(s.pos) }

// Depth returns the number of open elements. The element of a Start or End
// token counts itself.
func (s *Scanner) Depth() int { return len(s.open) }

// Path returns the names of the open elements as written, as in
// "/soap:Envelope/soap:Body". The element of a Start or End token is part of it.
func (s *Scanner) Path() string {
	b := make([]byte, 0, len(s.names)+len(s.open))
	for _, e := range s.open {
		b = append(append(b, '/'), s.names[e.name.start:e.name.end]...)
	}
	return string(b)
}

// Position returns the 1-based line and column of the token's first octet,
// the column in octets. It counts lines, so it is for failures only.
func (s *Scanner) Position() (line, column int) {
	p := s.place
	p.pass(s.buf[:s.tok])
	return p.of(s.buf[s.tok:])
}

// Lookup returns the namespace that prefix is bound to at the current token,
// whose own declarations count if it is a Start or End. The empty prefix asks
// for the default namespace; without one the answer is empty and ok, which is
// what an unprefixed element name means. The result dies at the next Next.
func (s *Scanner) Lookup(prefix []byte) (uri []byte, ok bool) {
	id, ok := s.scope.lookup(prefix)
	if !ok {
		return nil, false
	}
	return s.scope.uri(id), true
}

// Fault makes a [*SyntaxError] at the current token's first octet, for a fault
// that a layer above has found there.
func (s *Scanner) Fault(err error) *SyntaxError { return s.fault(0, err) }
