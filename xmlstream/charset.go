package xmlstream

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/transform"
)

// The charsets that we decode ourselves.
const (
	utf8Name    = "utf-8"
	usASCII     = "us-ascii"
	latin1Name  = "iso-8859-1"
	utf16Name   = "utf-16" // either order; never the result of detect
	utf16leName = "utf-16le"
	utf16beName = "utf-16be"

	gb18030Name    = "gb18030"
	gb18030Mark    = "\x84\x31\x95\x33" // U+FEFF
	gb18030Unknown = "\x84\x31\xA4\x37" // U+FFFD
)

func (f found) wide() bool {
	return f.charset == utf16Name || f.charset == utf16leName || f.charset == utf16beName
}

// lookupCharset finds a charset by any of its names. IANA's registry goes
// first, since it says what XML means by a name (XML 1.0 §4.3.3); the names of
// the WHATWG's Encoding Standard are the second choice, because there
// ISO-8859-1 means windows-1252.
func lookupCharset(label string) (found, error) {
	name := strings.ToLower(strings.Trim(label, " \t\r\n"))
	switch name {
	case utf8Name, "utf8", "unicode-1-1-utf-8":
		return found{charset: utf8Name}, nil
	case usASCII, "ascii", "us", "iso646-us", "iso_646.irv:1991", "ansi_x3.4-1968", "ansi_x3.4-1986", "iso-ir-6", "cp367", "ibm367", "csascii":
		return found{charset: usASCII, dec: asciiDecoder{}}, nil
	case latin1Name, "iso_8859-1", "iso8859-1", "iso88591", "iso_8859-1:1987", "latin1", "latin-1", "l1", "iso-ir-100", "cp819", "ibm819", "csisolatin1":
		return found{charset: latin1Name, dec: newTableDecoder(charmap.ISO8859_1), convert: true}, nil
	case utf16Name, "utf16", "csutf16":
		return found{charset: utf16Name, convert: true}, nil
	case utf16leName, "csutf16le":
		return found{charset: utf16leName, dec: &utf16Decoder{}, convert: true}, nil
	case utf16beName, "csutf16be":
		return found{charset: utf16beName, dec: &utf16Decoder{big: true}, convert: true}, nil
	}
	enc, err := ianaindex.IANA.Encoding(name)
	if err != nil || enc == nil {
		if enc, err = htmlindex.Get(name); err != nil {
			return found{}, errUnknown
		}
	}
	switch enc {
	case encoding.Replacement, charmap.XUserDefined, // not charsets
		charmap.CodePage037, charmap.CodePage1047, charmap.CodePage1140: // EBCDIC
		return found{}, errUnknown
	}
	canonical, err := ianaindex.MIME.Name(enc)
	if err != nil || canonical == "" {
		if canonical, err = htmlindex.Name(enc); err != nil {
			canonical = name
		}
	}
	f := found{charset: strings.ToLower(canonical), convert: true}
	switch f.charset {
	case utf8Name:
		return found{charset: utf8Name}, nil
	case utf16leName, utf16beName, utf16Name:
		// A name of these that the switch above does not know.
		return lookupCharset(f.charset)
	}
	if strings.HasPrefix(f.charset, "utf-32") || strings.HasPrefix(f.charset, "utf-7") {
		return found{}, errUnknown
	}
	if m, ok := enc.(*charmap.Charmap); ok {
		f.dec = newTableDecoder(m)
	} else {
		f.dec = newTransformDecoder(enc, f.charset)
	}
	return f, nil
}

// decoder turns octets into UTF-8.
type decoder interface {
	// decode appends the text of src to dst and returns how many octets it
	// has used. What it leaves is the beginning of a longer sequence, or, with
	// an error, the first octets that the charset does not define. With last
	// it leaves nothing else.
	decode(dst, src []byte, last bool) (_ []byte, n int, err error)
}

// asciiDecoder checks and copies.
type asciiDecoder struct{}

func (asciiDecoder) decode(dst, src []byte, _ bool) ([]byte, int, error) {
	if n := asciiLen(src); n < len(src) {
		return append(dst, src[:n]...), n, errUndecodable
	}
	return append(dst, src...), len(src), nil
}

// asciiLen returns how many octets of b, from the first, are ASCII.
func asciiLen(b []byte) int {
	for i, c := range b {
		if c >= 0x80 {
			return i
		}
	}
	return len(b)
}

// tableDecoder is for charsets of one octet a character. A table entry of
// U+FFFD is an octet that the charset does not define.
type tableDecoder struct{ runes [256]rune }

func newTableDecoder(m *charmap.Charmap) *tableDecoder {
	d := new(tableDecoder)
	for c := range d.runes {
		d.runes[c] = m.DecodeByte(byte(c))
	}
	return d
}

func (d *tableDecoder) decode(dst, src []byte, _ bool) ([]byte, int, error) {
	for i, c := range src {
		switch r := d.runes[c]; {
		case r < 0x80:
			dst = append(dst, byte(r))
		case r == utf8.RuneError:
			return dst, i, errUndecodable
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst, len(src), nil
}

// utf16Decoder refuses unpaired surrogates and an odd octet at the end.
type utf16Decoder struct{ big bool }

func (d *utf16Decoder) decode(dst, src []byte, last bool) ([]byte, int, error) {
	i := 0
	for ; i+2 <= len(src); i += 2 {
		r := d.unit(src[i:])
		switch {
		case r < 0x80:
			dst = append(dst, byte(r))
			continue
		case r < 0xD800 || r > 0xDFFF:
			dst = utf8.AppendRune(dst, r)
			continue
		case r > 0xDBFF:
			return dst, i, errUndecodable
		}
		if i+4 > len(src) {
			break
		}
		low := d.unit(src[i+2:])
		if low < 0xDC00 || low > 0xDFFF {
			return dst, i, errUndecodable
		}
		dst = utf8.AppendRune(dst, 0x10000+(r-0xD800)<<10+(low-0xDC00))
		i += 2
	}
	if last && i < len(src) {
		return dst, i, errUndecodable
	}
	return dst, i, nil
}

func (d *utf16Decoder) unit(b []byte) rune {
	if d.big {
		return rune(b[0])<<8 | rune(b[1])
	}
	return rune(b[1])<<8 | rune(b[0])
}

// transformDecoder is for the charsets of x/text that take several octets a
// character. x/text writes U+FFFD for what it cannot decode, which is how a
// fault is noticed; its place is found by decoding the block again, up to
// there, from the state that the block began in.
type transformDecoder struct {
	t       transform.Transformer
	behind  transform.Transformer // one block behind t, if the charset has states
	states  bool                  // escapes shift between character sets
	gb18030 bool                  // can encode U+FFFD itself
	scrap   []byte
}

func newTransformDecoder(enc encoding.Encoding, charset string) *transformDecoder {
	return &transformDecoder{
		t:       enc.NewDecoder().Transformer,
		behind:  enc.NewDecoder().Transformer,
		states:  strings.HasPrefix(charset, "iso-2022") || strings.HasPrefix(charset, "hz"),
		gb18030: charset == gb18030Name,
	}
}

// maxDecodeBlock bounds what is decoded again to place a fault.
const maxDecodeBlock = 4 << 10

func (d *transformDecoder) decode(dst, src []byte, last bool) ([]byte, int, error) {
	for n := 0; ; {
		block := src[n:min(len(src), n+maxDecodeBlock)]
		atEnd := last && n+len(block) == len(src)
		start := len(dst)
		// No octet yields more than three: half-width katakana do.
		dst = slices.Grow(dst, 3*len(block)+utf8.UTFMax)
		w, used, err := d.t.Transform(dst[start:cap(dst)], block, atEnd)
		dst = dst[:start+w]
		if bad, at := d.fault(dst[start:], block, atEnd); bad >= 0 {
			return dst[:start+bad], n + at, errUndecodable
		}
		if err != nil && err != transform.ErrShortSrc {
			return dst, n + used, errUndecodable
		}
		if d.states {
			d.scrap = slices.Grow(d.scrap[:0], 3*used+utf8.UTFMax)
			d.behind.Transform(d.scrap[:cap(d.scrap)], block[:used], atEnd)
		}
		n += used
		if n == len(src) || used == 0 {
			return dst, n, nil
		}
	}
}

// fault finds the first U+FFFD of text, decoded from block, that block does
// not really contain. It returns its index in text, or -1, and that in block.
func (d *transformDecoder) fault(text, block []byte, atEnd bool) (bad, at int) {
	const unknown = "\uFFFD"
	from, text0 := 0, 0
	for {
		n := bytes.Index(text[text0:], []byte(unknown))
		if n < 0 {
			return -1, 0
		}
		// Room for all before, and not for the three octets of U+FFFD.
		d.scrap = slices.Grow(d.scrap[:0], n+len(unknown)-1)
		_, used, _ := d.behind.Transform(d.scrap[:n+len(unknown)-1], block[from:], atEnd)
		bad, at = text0+n, from+used
		if !d.gb18030 || !bytes.HasPrefix(block[at:], []byte(gb18030Unknown)) {
			return bad, at
		}
		from, text0 = at+len(gb18030Unknown), bad+len(unknown)
	}
}
