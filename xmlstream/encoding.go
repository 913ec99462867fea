package xmlstream

import (
	"bytes"
	"io"
)

// maxDeclaration bounds how far into a document its XML declaration is looked
// for when it says the charset, or must lose it.
const maxDeclaration = 1 << 10

// Reader turns a document in any supported charset into UTF-8 without a byte
// order mark.
//
// The charset is that of the byte order mark, else the label (the charset
// parameter of Content-Type, "" for none), else the XML declaration, else
// UTF-8 (XML 1.0 §4.3.3 and Appendix F, RFC 7303 §3). What disagrees with a
// higher source is ignored. Octets that the charset does not define are a
// [*SyntaxError] wrapping [ErrCharset] with the offset in the source, never
// U+FFFD.
//
// UTF-8 and US-ASCII pass octet for octet, a UTF-8 byte order mark included;
// whether UTF-8 is valid the [Scanner] checks. Any other document is
// converted, and its XML declaration loses the encoding, so that labels agree.
type Reader struct {
	r       io.Reader
	charset string
	dec     decoder // nil: octets pass
	strip   bool    // the XML declaration is not past yet
	raw     []byte  // read, not decoded: raw[at:]
	at      int
	out     []byte // decoded, not delivered: out[sent:]
	sent    int
	offset  int64 // of raw[at] in the source
	place   place // of out's end
	readErr error
	err     error
}

// NewReader detects the charset from the first octets of r, of which it reads
// at most 1 KiB ahead, and no further than the end of an XML declaration if it
// can tell. It fails with a [*SyntaxError] for an unknown charset, and with
// r's own error if that comes before the first octet.
func NewReader(r io.Reader, label string) (*Reader, error) {
	x := new(Reader)
	if err := x.Reset(r, label); err != nil {
		return nil, err
	}
	return x, nil
}

// Reset makes x read another document, as a new Reader does, with the buffers
// it has. After an error it must be reset again before it is read.
func (x *Reader) Reset(r io.Reader, label string) error {
	raw, out := x.raw[:0], x.out[:0]
	if cap(raw) > blockSize || cap(raw) < maxDeclaration {
		raw = make([]byte, 0, maxDeclaration)
	}
	if cap(out) > keepBuffer {
		out = nil
	}
	*x = Reader{r: r, raw: raw, out: out}
	for empty := 0; x.readErr == nil && len(x.raw) < maxDeclaration && wantsMore(x.raw); {
		before := len(x.raw)
		x.fill(maxDeclaration)
		if len(x.raw) > before {
			empty = 0
		} else if empty++; empty == maxEmptyReads {
			x.readErr = io.ErrNoProgress
		}
	}
	if len(x.raw) == 0 && x.readErr != nil && x.readErr != io.EOF {
		x.err = x.readErr
		return x.err
	}
	f, err := detect(x.raw, label)
	if err != nil {
		x.raw, x.err = x.raw[:0], err
		return err
	}
	x.charset, x.dec = f.charset, f.dec
	if x.dec != nil {
		x.at, x.offset = f.bom, int64(f.bom)
		x.strip = f.convert
	}
	return nil
}

// Charset returns the lower-case name of the detected charset, such as
// "utf-8", "utf-16le" or "windows-1252".
func (x *Reader) Charset() string { return x.charset }

// Converted reports whether the octets delivered differ from those read. It is
// false for UTF-8 and US-ASCII.
func (x *Reader) Converted() bool { return x.dec != nil && x.charset != usASCII }

// Read delivers UTF-8.
func (x *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if x.dec == nil {
		if x.err != nil {
			return 0, x.err
		}
		if x.at < len(x.raw) {
			n := copy(p, x.raw[x.at:])
			x.at += n
			return n, nil
		}
		if x.readErr != nil {
			return 0, x.readErr
		}
		return x.r.Read(p)
	}
	for x.sent == len(x.out) && x.err == nil {
		x.out, x.sent = x.out[:0], 0
		x.err = x.decode()
	}
	if x.sent < len(x.out) {
		n := copy(p, x.out[x.sent:])
		x.sent += n
		return n, nil
	}
	return 0, x.err
}

// fill reads once, and makes raw no longer than most.
func (x *Reader) fill(most int) {
	n, err := x.r.Read(x.raw[len(x.raw):most])
	if n < 0 || n > most-len(x.raw) {
		n, err = 0, errReadCount
	}
	x.raw = x.raw[:len(x.raw)+n]
	x.readErr = err
}

// decode appends to out what can be decoded, reading at least once unless
// there is something left to decode. A fault is returned together with the
// good text before it.
func (x *Reader) decode() error {
	for {
		last := x.readErr == io.EOF
		start := len(x.out)
		var n int
		var fault error
		x.out, n, fault = x.dec.decode(x.out, x.raw[x.at:], last)
		x.at += n
		x.offset += int64(n)
		x.place.pass(x.out[start:])
		if fault != nil {
			line, column := x.place.of(nil)
			fault = &SyntaxError{Offset: x.offset, Line: line, Column: column, Err: fault}
		}
		done := fault != nil || x.readErr != nil
		if x.strip {
			text, past, err := stripEncoding(x.out, done)
			if err != nil {
				x.out = x.out[:0]
				return err
			}
			x.out, x.strip = text, !past
		}
		switch {
		case fault != nil:
			return fault
		case len(x.out) > 0 && !x.strip:
			return nil
		case x.readErr != nil:
			return x.readErr
		}
		x.compact()
		x.readMore()
	}
}

// compact moves what is left of raw to its front, and gives it the size for
// the bulk of the document.
func (x *Reader) compact() {
	left := x.raw[x.at:]
	if cap(x.raw) < blockSize {
		x.raw = make([]byte, len(left), blockSize)
		copy(x.raw, left)
	} else {
		x.raw = x.raw[:copy(x.raw[:cap(x.raw)], left)]
	}
	x.at = 0
}

func (x *Reader) readMore() {
	before := len(x.raw)
	for range maxEmptyReads {
		if x.fill(cap(x.raw)); len(x.raw) > before || x.readErr != nil {
			return
		}
	}
	x.readErr = io.ErrNoProgress
}

// DecodeBytes is [Reader] for a whole document: it returns doc itself when
// nothing has to be converted.
func DecodeBytes(doc []byte, label string) (utf8 []byte, charset string, err error) {
	f, err := detect(doc[:min(len(doc), maxDeclaration)], label)
	if err != nil {
		return nil, "", err
	}
	if f.dec == nil {
		return doc, f.charset, nil
	}
	if !f.convert {
		if n := asciiLen(doc); n < len(doc) {
			return nil, f.charset, undecodable(n, doc[:n])
		}
		return doc, f.charset, nil
	}
	out := make([]byte, 0, len(doc)+len(doc)/8)
	out, n, err := f.dec.decode(out, doc[f.bom:], true)
	if err != nil {
		err = undecodable(f.bom+n, out)
	}
	text, _, bad := stripEncoding(out, true)
	if bad != nil {
		err = bad
	}
	if err != nil {
		return nil, f.charset, err
	}
	return text, f.charset, nil
}

// undecodable is the fault at offset, behind the text before.
func undecodable(offset int, before []byte) error {
	var p place
	p.pass(before)
	line, column := p.of(nil)
	return &SyntaxError{Offset: int64(offset), Line: line, Column: column, Err: errUndecodable}
}

// found is what detect has found.
type found struct {
	charset string
	dec     decoder // nil: the octets pass
	convert bool    // what dec yields differs from the octets
	bom     int     // length of the byte order mark
}

// wantsMore reports whether detect could still change its mind.
func wantsMore(b []byte) bool {
	if len(b) < 4 {
		return true
	}
	_, complete := declarationOf(b)
	return !complete
}

// detect decides on the charset of a document that starts with b.
func detect(b []byte, label string) (found, error) {
	refuse := func(err error) (found, error) {
		return found{}, &SyntaxError{Line: 1, Column: 1, Err: err}
	}
	has := func(prefix string) bool { return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix }
	switch {
	case has("\xEF\xBB\xBF"):
		return found{charset: utf8Name}, nil
	case has("\xFF\xFE\x00\x00"), has("\x00\x00\xFE\xFF"):
		return refuse(errUnknown) // UTF-32
	case has("\xFF\xFE"):
		return found{utf16leName, &utf16Decoder{}, true, 2}, nil
	case has("\xFE\xFF"):
		return found{utf16beName, &utf16Decoder{big: true}, true, 2}, nil
	}
	if label != "" {
		c, err := lookupCharset(label)
		if err != nil {
			return refuse(err)
		}
		if c.charset == utf16Name { // RFC 2781 §4.3: big-endian unless the octets say otherwise
			if has("<\x00") {
				return found{utf16leName, &utf16Decoder{}, true, 0}, nil
			}
			return found{utf16beName, &utf16Decoder{big: true}, true, 0}, nil
		}
		if c.charset == gb18030Name && has(gb18030Mark) {
			c.bom = len(gb18030Mark)
		}
		return c, nil
	}
	switch {
	case has("<\x00\x00\x00"), has("\x00\x00\x00<"), has("\x4C\x6F\xA7\x94"):
		return refuse(errUnknown) // UTF-32, EBCDIC
	case has("<\x00"):
		return found{utf16leName, &utf16Decoder{}, true, 0}, nil
	case has("\x00<"):
		return found{utf16beName, &utf16Decoder{big: true}, true, 0}, nil
	}
	declaration, complete := declarationOf(b)
	if !complete && len(b) >= maxDeclaration {
		return refuse(errLongDeclared)
	}
	_, value, ok := findEncoding(declaration)
	if !ok {
		// What is malformed the scanner will refuse.
		return found{charset: utf8Name}, nil
	}
	c, err := lookupCharset(string(declaration[value.start:value.end]))
	switch {
	case err != nil:
		return refuse(err)
	case c.wide():
		return refuse(errNotUTF16)
	}
	return c, nil
}

// declarationOf returns the XML declaration at the start of b without its "?>",
// or nil. complete is false if b ends before the "?>".
func declarationOf(b []byte) (declaration []byte, complete bool) {
	const open = "<?xml"
	n := min(len(b), len(open))
	if string(b[:n]) != open[:n] || len(b) > n && class[b[n]]&blank == 0 {
		return nil, true
	}
	before, _, ok := bytes.Cut(b, []byte("?>"))
	if !ok {
		return nil, false
	}
	return before, true
}

// findEncoding finds the encoding pseudo-attribute of the XML declaration b:
// the whole of it with the white space before, and its value.
func findEncoding(b []byte) (all, value span, ok bool) {
	for i := len("<?xml"); i < len(b); {
		start := i
		i = skipBlanks(b, i)
		from := i
		for i < len(b) && class[b[i]]&nameChar != 0 {
			i++
		}
		name := b[from:i]
		i = skipBlanks(b, i)
		if len(name) == 0 || i == len(b) || b[i] != '=' {
			return
		}
		i = skipBlanks(b, i+1)
		if i == len(b) || b[i] != '"' && b[i] != '\'' {
			return
		}
		n := bytes.IndexByte(b[i+1:], b[i])
		if n < 0 {
			return
		}
		value = span{start: i + 1, end: i + 1 + n}
		i = value.end + 1
		if string(name) == "encoding" {
			return span{start: start, end: i}, value, true
		}
	}
	return
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && class[b[i]]&blank != 0 {
		i++
	}
	return i
}

// stripEncoding removes the encoding from the XML declaration at the start of
// text, in place. past is false while the end of a declaration is not there
// yet; last says that no more will come. A byte order mark is refused: the one
// that a document may begin with is past.
func stripEncoding(text []byte, last bool) (_ []byte, past bool, err error) {
	if bytes.HasPrefix(text, []byte("\uFEFF")) {
		return text, true, &SyntaxError{Line: 1, Column: 1, Err: errOutside}
	}
	declaration, complete := declarationOf(text)
	if !complete && len(text) > maxDeclaration+1 || len(declaration) > maxDeclaration {
		return text, true, &SyntaxError{Line: 1, Column: 1, Err: errLongDeclared}
	}
	if !complete {
		return text, last, nil
	}
	if all, _, ok := findEncoding(declaration); ok && declares(text[:len(declaration)+len("?>")]) {
		text = append(text[:all.start], text[all.end:]...)
	}
	return text, true, nil
}

// declares reports whether b is a legal XML declaration. One that is not keeps
// its encoding, or taking it out could mend it before the scanner has seen it.
func declares(b []byte) bool {
	s := NewScanner(Limits{})
	s.ResetBytes(b)
	kind, err := s.Next()
	return kind == Declaration && err == nil
}
