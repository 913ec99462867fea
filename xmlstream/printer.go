package xmlstream

import (
	"hash/maphash"
	"io"
)

// printBlock is how many octets gather before they are written to an
// io.Writer.
const printBlock = 16 << 10

// A Printer writes a document token by token, and can write only what is
// well-formed and namespace-well-formed: it escapes, closes and declares what
// must be, and refuses the rest.
//
//	p.Reset(w)
//	p.Declaration()
//	p.Start("o", "order", "urn:orders") // <o:order xmlns:o="urn:orders"
//	p.Attr("", "id", "", "7")           // id="7">
//	p.Text("Bolts & nuts")              // Bolts &amp; nuts
//	p.End()                             // </o:order>
//	err := p.Finish()
//
// Names are given by what they mean, and prefixes are wishes. An element has
// the prefix that was wished for, which is declared unless it already means
// that namespace; "" is the default namespace, or none. An attribute gets
// another prefix where the one that was wished for, or "", can't serve.
//
// The first error is final and no call after it does anything, so a caller may
// look at the result of [Printer.Finish] alone. Errors of the writer come out as
// they are; all others are a [*PrintError].
//
// It is made for reuse by Reset: a document costs no allocation then, but for
// what append needs. It is not safe for concurrent use.
type Printer struct {
	w    io.Writer // nil when the document is appended
	buf  []byte    // what is not written yet; dst[:from] and the document if it is appended
	from int
	err  error // sticky

	begun  bool // something has been written: an XML declaration would be too late
	rooted bool
	going  Kind // the token whose first pieces Raw has passed
	tail   tail // how the character data that was written last ends

	// The start tag that may still get attributes: buf[tag:], or -1.
	tag        int
	attributed bool       // it has one: declarations would be too late
	attrs      []attrSpan // its attributes, by offsets from tag; declarations are not here
	generated  int        // the number of the last prefix made up for it

	open  []printed
	names []byte // the open elements' names as written
	scope scope
	twins twins
	scrap []byte // a name or namespace, as octets

	source *Scanner // of the innermost elements that Raw wrote
}

// printed is an open element; its name is names[start:end].
type printed struct {
	name   span
	mark   int  // len(scope.bindings) before it
	copied int  // the scanner's depth if Raw wrote it, else 0
	ended  bool // Raw wrote <a/>
}

// tail is how the last character data ends, as far as it matters for octets
// that follow unchanged.
type tail uint8

const (
	tailNone    tail = iota
	tailBracket      // "]"
	tailSection      // "]]": a '>' would be an error
	tailReturn       // "\r": a '\n' would be swallowed
)

// NewPrinter returns a printer that must be given a place to write to by Reset
// or ResetBytes.
func NewPrinter() *Printer {
	p := &Printer{}
	p.scope.seed = maphash.MakeSeed()
	p.ResetBytes(nil)
	return p
}

// Reset makes p write a new document to w, in blocks of about 16 KiB. What of a
// document that fails has been written before the error is no document.
func (p *Printer) Reset(w io.Writer) {
	p.ResetBytes(p.own())
	p.w = w
}

// own returns the buffer, if it is p's own and has not grown too much.
func (p *Printer) own() []byte {
	if p.w == nil || cap(p.buf) > 4*printBlock {
		return nil
	}
	return p.buf[:0]
}

// ResetBytes makes p append a new document to dst: see [Printer.Bytes].
func (p *Printer) ResetBytes(dst []byte) {
	p.w, p.buf, p.from, p.err = nil, dst, len(dst), nil
	p.begun, p.rooted, p.going, p.tail = false, false, 0, tailNone
	p.tag, p.attributed, p.generated = -1, false, 0
	p.attrs = recycle(p.attrs)
	p.open = recycle(p.open)
	p.names = recycle(p.names)
	p.scrap = recycle(p.scrap)
	p.scope.reset()
	p.twins.reset()
	p.source = nil
}

// Err returns the first error.
func (p *Printer) Err() error { return p.err }

// Depth returns the number of open elements.
func (p *Printer) Depth() int { return len(p.open) }

// Finish writes what has gathered and returns the first error. That elements
// are open, or that there was none, is an error too.
func (p *Printer) Finish() error {
	switch {
	case p.err != nil:
	case !p.rooted || len(p.open) > 0 || p.going != 0:
		p.fail(ErrTruncated)
	case p.w != nil:
		p.flush(1)
	}
	return p.err
}

// Bytes finishes the document and returns the slice given to ResetBytes with
// the document appended, or as it was if there was an error. It is nil after
// Reset.
func (p *Printer) Bytes() ([]byte, error) {
	if err := p.Finish(); err != nil || p.w != nil {
		if p.w != nil {
			return nil, err
		}
		return p.buf[:p.from], err
	}
	return p.buf, nil
}

// Declaration writes <?xml version="1.0" encoding="UTF-8"?>, which must be the
// first of all.
func (p *Printer) Declaration() {
	switch {
	case p.err != nil:
	case p.begun:
		p.fail(errPlacement)
	default:
		p.begun = true
		p.buf = append(p.buf, `<?xml version="1.0" encoding="UTF-8"?>`...)
	}
}

// mayOpen reports whether an element may begin here, and counts it as the root if
// it is the first.
func (p *Printer) mayOpen() bool {
	if !p.content() {
		return false
	}
	if len(p.open) == 0 {
		if p.rooted {
			p.fail(errSecondRoot)
			return false
		}
		p.rooted = true
	}
	return true
}

// Start opens the element {space}local. space may be "", no namespace; then
// prefix must be "" too.
func (p *Printer) Start(prefix, local, space string) {
	if !p.mayOpen() {
		return
	}
	if space == xmlSpace {
		prefix = "xml"
	}
	if err := checkName(prefix, local, space); err != nil {
		p.fail(err)
		return
	}
	p.tag, p.attributed, p.attrs, p.generated = len(p.buf), false, p.attrs[:0], 0
	mark := len(p.scope.bindings)
	p.buf = appendQName(append(p.buf, '<'), prefix, local)
	p.push(p.buf[p.tag+1:], len(prefix), mark)
	if prefix != "xml" && !p.bound(prefix, space) {
		p.declare(prefix, space)
	}
}

// push opens an element by its name as written.
func (p *Printer) push(name []byte, prefixLen, mark int) {
	e := printed{mark: mark}
	e.name.start = len(p.names)
	e.name.colon = e.name.start - 1
	if prefixLen > 0 {
		e.name.colon = e.name.start + prefixLen
	}
	p.names = append(p.names, name...)
	e.name.end = len(p.names)
	p.open = append(p.open, e)
}

// End closes the innermost open element, as <a/> if it has no content.
func (p *Printer) End() {
	if p.err != nil || !p.whole() {
		return
	}
	if len(p.open) == 0 {
		p.fail(errStrayEnd)
		return
	}
	e := &p.open[len(p.open)-1]
	switch {
	case e.ended:
	case p.tag >= 0:
		if !p.unique() {
			return
		}
		p.tag = -1
		p.buf = append(p.buf, '/', '>')
	default:
		p.buf = append(p.buf, '<', '/')
		p.buf = append(append(p.buf, p.names[e.name.start:e.name.end]...), '>')
	}
	p.pop()
}

func (p *Printer) pop() {
	e := p.open[len(p.open)-1]
	p.open = p.open[:len(p.open)-1]
	p.names = p.names[:e.name.start]
	p.scope.truncate(e.mark)
	p.tail = tailNone
	p.gathered()
}

// Text writes character data. Outside the root element only white space may
// stand. A carriage return is written as a reference.
func (p *Printer) Text(s string) { printText(p, s) }

// TextBytes is [Printer.Text] for a slice.
func (p *Printer) TextBytes(s []byte) { printText(p, s) }

// CDATA writes character data as a CDATA section. What can't stand in one, "]]>"
// and a carriage return, is written between two.
func (p *Printer) CDATA(s string) {
	if !p.content() {
		return
	}
	if len(p.open) == 0 {
		p.fail(errOutside)
		return
	}
	p.tail = tailNone
	p.buf = append(p.buf, "<![CDATA["...)
	printPieces(p, s, inSection)
	p.buf = append(p.buf, "]]>"...)
	p.gathered()
}

// Comment writes a comment. It must hold no "--", no '-' at its end and no
// carriage return, which XML has no way to write there.
func (p *Printer) Comment(s string) {
	if !p.content() {
		return
	}
	for i := range len(s) {
		if s[i] == '-' && (i+1 == len(s) || s[i+1] == '-') {
			p.fail(errHyphens)
			return
		}
	}
	p.tail = tailNone
	p.buf = append(p.buf, "<!--"...)
	printPieces(p, s, inOther)
	p.buf = append(p.buf, "-->"...)
	p.gathered()
}

// ProcInst writes a processing instruction. The data must hold no "?>", no
// carriage return and no white space at its beginning, which XML has no way to
// write there.
func (p *Printer) ProcInst(target, data string) {
	if !p.content() {
		return
	}
	if !isNCName(target) {
		p.fail(errName)
		return
	}
	if len(target) == 3 && target[0]|0x20 == 'x' && target[1]|0x20 == 'm' && target[2]|0x20 == 'l' {
		p.fail(errTarget)
		return
	}
	for i := range len(data) {
		if i == 0 && class[data[0]]&blank != 0 || data[i] == '?' && i+1 < len(data) && data[i+1] == '>' {
			p.fail(errPI)
			return
		}
	}
	p.tail = tailNone
	p.buf = append(append(p.buf, "<?"...), target...)
	if data != "" {
		p.buf = append(p.buf, ' ')
		printPieces(p, data, inOther)
	}
	p.buf = append(p.buf, "?>"...)
	p.gathered()
}

// content prepares for whatever may stand in an element. It reports whether
// that may be written now.
func (p *Printer) content() bool {
	if p.err != nil || !p.whole() {
		return false
	}
	if n := len(p.open); n > 0 && p.open[n-1].ended {
		p.fail(errEnded)
		return false
	}
	if p.tag >= 0 {
		if !p.unique() {
			return false
		}
		p.tag = -1
		p.buf = append(p.buf, '>')
	}
	p.begun = true
	return true
}

// whole reports whether the last token is complete.
func (p *Printer) whole() bool {
	if p.going != 0 {
		p.fail(errPiece)
		return false
	}
	return true
}

// gathered writes to the writer once that is worth a call. A start tag that may
// still get attributes stays.
func (p *Printer) gathered() {
	if p.w != nil && p.tag < 0 {
		p.flush(printBlock)
	}
}

func (p *Printer) flush(least int) {
	if p.err != nil || len(p.buf) < least {
		return
	}
	_, p.err = p.w.Write(p.buf)
	p.buf = p.buf[:0]
}

// fail makes reason the error, unless there is one.
func (p *Printer) fail(reason error) {
	if p.err != nil {
		return
	}
	path := make([]byte, 0, len(p.names)+len(p.open))
	for _, e := range p.open {
		path = append(append(path, '/'), p.names[e.name.start:e.name.end]...)
	}
	p.err = &PrintError{Path: string(path), Err: reason}
}
