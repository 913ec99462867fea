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
	x := &Reader{r: r, raw: make([]byte, 0, maxDeclaration)}
	for x.readErr == nil && len(x.raw) < cap(x.raw) && wantsMore(x.raw) {
		x.fill()
	}
	if len(x.raw) == 0 && x.readErr != nil && x.readErr != io.EOF {
		return nil, x.readErr
	}
	f, err := detect(x.raw, label)
	if err != nil {
		return nil, err
	}
	x.charset, x.dec = f.charset, f.dec
	if x.dec != nil {
		x.at, x.offset = f.bom, int64(f.bom)
		x.strip = f.convert
	}
	return x, nil
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

// fill reads into the free part of raw once.
func (x *Reader) fill() {
	n, err := x.r.Read(x.raw[len(x.raw):cap(x.raw)])
	if n < 0 || n > cap(x.raw)-len(x.raw) {
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
		if x.fill(); len(x.raw) > before || x.readErr != nil {
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
	var out []byte
	if f.convert {
		out = make([]byte, 0, len(doc)+len(doc)/8)
	}
	out, n, fault := f.dec.decode(out, doc[f.bom:], true)
	if fault != nil {
		var p place
		p.pass(out)
		line, column := p.of(nil)
		return nil, f.charset, &SyntaxError{Offset: int64(f.bom + n), Line: line, Column: column, Err: fault}
	}
	if !f.convert {
		return doc, f.charset, nil
	}
	out, _, err = stripEncoding(out, true)
	return out, f.charset, err
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
	const open = "<?xml"
	switch {
	case len(b) < 4:
		return true
	case string(b[:4]) != open[:4]:
		return false
	}
	return bytes.Index(b, []byte("?>")) < 0
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
	name := declaredEncoding(b)
	if name == "" {
		return found{charset: utf8Name}, nil
	}
	c, err := lookupCharset(name)
	switch {
	case err != nil:
		return refuse(err)
	case c.wide():
		return refuse(errNotUTF16)
	}
	return c, nil
}

// declaredEncoding returns the encoding of the XML declaration that b starts
// with, "" if it has none or is malformed: then the scanner will say so.
func declaredEncoding(b []byte) string {
	_, value, ok := findEncoding(b)
	if !ok {
		return ""
	}
	return string(b[value.start:value.end])
}

// findEncoding finds the encoding pseudo-attribute of the XML declaration at
// the start of b: the whole of it with the white space before, and its value.
func findEncoding(b []byte) (all, value span, ok bool) {
	i := len("<?xml")
	if len(b) <= i || string(b[:i]) != "<?xml" || class[b[i]]&blank == 0 {
		return
	}
	for {
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
	const open, mark = "<?xml", "\uFEFF"
	if bytes.HasPrefix(text, []byte(mark)) {
		return text, true, &SyntaxError{Line: 1, Column: 1, Err: errOutside}
	}
	n := min(len(text), len(open))
	if string(text[:n]) != open[:n] {
		return text, true, nil
	}
	end := bytes.Index(text, []byte("?>"))
	if end < 0 && len(text) > maxDeclaration || end > maxDeclaration {
		return text, true, &SyntaxError{Line: 1, Column: 1, Err: errLongDeclared}
	}
	if end < 0 {
		return text, last, nil
	}
	if all, _, ok := findEncoding(text); ok {
		text = append(text[:all.start], text[all.end:]...)
	}
	return text, true, nil
}
