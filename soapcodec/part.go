package soapcodec

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"strconv"
	"strings"
)

// PackageError is what is wrong with a multipart message, apart from its root,
// with the place.
type PackageError struct {
	Offset int64 // of the octet where it was noticed, from the start of the message; 0 with a Part: somewhere in it
	Part   int   // number of the part, from 1; 0 before the first
	Err    error // the reason, a sentence without capital and full stop
}

// Error is for the log.
func (e *PackageError) Error() string { return e.Err.Error() + e.place() }

// Unwrap returns the reason.
func (e *PackageError) Unwrap() error { return e.Err }

func (e *PackageError) place() string {
	switch {
	case e.Part == 0:
		return fmt.Sprintf(", at octet %d", e.Offset)
	case e.Offset == 0:
		return fmt.Sprintf(", part %d", e.Part)
	}
	return fmt.Sprintf(", at octet %d, part %d", e.Offset, e.Part)
}

// Part is what the fields of one part say (RFC 2045, RFC 2387).
type Part struct {
	Index     int    // from 0
	Root      bool   // it is the root of the package
	ContentID string // without angle brackets; "" = none

	// Type is Content-Type, which TypeField has as it was sent, unfolded. Both are
	// zero where the field is missing, and Type where it cannot be read.
	Type      ContentType
	TypeField string

	// Encoding is Content-Transfer-Encoding in lower case; "" = none.
	Encoding string

	// Length is Content-Length as it was sent, which MIME does not know and some
	// stacks write; "" = none. Nothing here believes it.
	Length string
}

var (
	errFieldLine   = errors.New("a field of a part has no colon")
	errFieldOctets = errors.New("a field of a part holds a control character")
	errTwice       = errors.New("a field that may stand once in a part stands twice")
	errTransfer    = errors.New("the Content-Transfer-Encoding of the root is not one of 7bit, 8bit, binary, quoted-printable and base64")
	errTransferred = errors.New("the root is not what its Content-Transfer-Encoding says")
)

// The fields of a part that matter here. Each may stand once: which of two
// counts differs from receiver to receiver.
const (
	fieldType     = "Content-Type"
	fieldID       = "Content-ID"
	fieldTransfer = "Content-Transfer-Encoding"
	fieldLength   = "Content-Length"
)

// parsePart reads a header as the splitter gives it. Blanks before the colon and
// any octets from 0x80 on are taken.
func parsePart(header []byte) (p Part, err error) {
	var seen [4]bool
	for f := range partFields(header) {
		if f.err != nil {
			return Part{}, f.err
		}
		for i, name := range [...]string{fieldType, fieldID, fieldTransfer, fieldLength} {
			if !strings.EqualFold(f.name, name) {
				continue
			}
			if seen[i] {
				return Part{}, errTwice
			}
			seen[i] = true
			value := unfold(header[f.value:f.end])
			switch i {
			case 0:
				p.TypeField = value
				p.Type, _ = ParseContentType(value)
			case 1:
				p.ContentID = contentID(value)
			case 2:
				p.Encoding = strings.ToLower(value)
			default:
				p.Length = value
			}
		}
	}
	return p, nil
}

// A partField is one field: header[value:end] is what stands behind its colon,
// without the line break at its end.
type partField struct {
	name       string
	value, end int
	err        error
}

// partFields yields the fields of a header in order, and stops at a bad one.
func partFields(header []byte) func(yield func(partField) bool) {
	return func(yield func(partField) bool) {
		for at := 0; at < len(header); {
			end := at // of the field, folded lines included
			for {
				nl := bytes.IndexByte(header[end:], '\n')
				if nl < 0 {
					end = len(header)
					break
				}
				end += nl + 1
				if end == len(header) || header[end] != ' ' && header[end] != '\t' {
					break
				}
			}
			f := partField{end: end}
			line := header[at:end]
			if trimmed := bytes.TrimRight(line, "\r\n"); len(trimmed) == 0 {
				return // the empty line
			} else if !cleanField(trimmed) {
				f.err = errFieldOctets
			} else {
				colon := bytes.IndexByte(trimmed, ':')
				name := bytes.TrimRight(trimmed[:max(colon, 0)], " \t")
				if len(name) == 0 || bytes.ContainsAny(name, " \t\r\n") {
					f.err = errFieldLine
				}
				f.name, f.value, f.end = string(name), at+colon+1, at+len(trimmed)
			}
			if !yield(f) || f.err != nil {
				return
			}
			at = end
		}
	}
}

// cleanField reports whether a folded field has no control characters: a CR
// without LF ends a line for some receivers, a NUL for others.
func cleanField(field []byte) bool {
	for i, c := range field {
		switch {
		case c == '\r':
			if i+1 == len(field) || field[i+1] != '\n' {
				return false
			}
		case c < ' ' && c != '\t' && c != '\n', c == 0x7F:
			return false
		}
	}
	return true
}

// unfold makes one line of a value (RFC 2822 §2.2.3).
func unfold(value []byte) string {
	s := strings.Trim(string(value), blanks)
	if strings.IndexByte(s, '\n') < 0 {
		return s
	}
	return strings.NewReplacer("\r\n", "", "\n", "").Replace(s)
}

// Plain reports whether the content is not encoded for transfer: 7bit, 8bit,
// binary or nothing said.
func (p *Part) Plain() bool {
	switch p.Encoding {
	case "", "7bit", "8bit", "binary":
		return true
	}
	return false
}

// Decoded returns a reader of the content of the part without its transfer
// encoding (RFC 2045 §6); r itself gives the content. Errors of r pass
// through; what is not the encoding that it claims to be is an [*Error] with
// [CodePackage], as is an encoding that is not known.
func (p *Part) Decoded(r io.Reader) (io.Reader, error) {
	if p.Plain() {
		return r, nil
	}
	t := &transferReader{part: p.Index + 1}
	t.src.r = r
	switch p.Encoding {
	case "base64":
		t.dec = base64.NewDecoder(base64.StdEncoding, &t.src)
	case "quoted-printable":
		t.dec = quotedprintable.NewReader(&t.src)
	default:
		return nil, &Error{Code: CodePackage, Err: &PackageError{Part: t.part, Err: errTransfer}}
	}
	return t, nil
}

// transferReader tells what is wrong with the encoding from what is wrong with
// its source.
type transferReader struct {
	src  errKeeper
	dec  io.Reader
	part int
}

func (t *transferReader) Read(p []byte) (int, error) {
	n, err := t.dec.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if t.src.err != nil && t.src.err != io.EOF {
		return n, t.src.err
	}
	// How far src has been read says how the octets came, not where the fault is.
	return n, &Error{Code: CodePackage, Err: &PackageError{Part: t.part, Err: errTransferred}}
}

// errKeeper remembers how its reader ended.
type errKeeper struct {
	r   io.Reader
	err error
}

func (k *errKeeper) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil {
		k.err = err
	}
	return n, err
}

// A HeaderChange is what of the header of a root must be other than it was sent;
// zero fields stay.
type HeaderChange struct {
	Version  Version // whose media type Content-Type is to name
	Charset  string  // of Content-Type, where the field names one
	Encoding string  // Content-Transfer-Encoding, where the field is there
	Length   int64   // Content-Length, where the field is there; -1 = stays
}

// AppendHeader appends the header of a part, as [PartHeader] gives it, with the
// change made and every other octet kept.
func AppendHeader(dst, header []byte, c HeaderChange) []byte {
	at := 0
	for f := range partFields(header) {
		if f.err != nil {
			break
		}
		value := header[f.value:f.end]
		with := ""
		switch {
		case (c.Charset != "" || c.Version != V0) && strings.EqualFold(f.name, fieldType):
			with = string(value)
			if c.Version != V0 {
				with = translateRoot(with, c.Version)
			}
			if c.Charset != "" {
				with = WithCharset(with, c.Charset)
			}
		case c.Encoding != "" && strings.EqualFold(f.name, fieldTransfer):
			with = " " + c.Encoding
		case c.Length >= 0 && strings.EqualFold(f.name, fieldLength):
			with = " " + strconv.FormatInt(c.Length, 10)
		default:
			continue
		}
		dst = append(append(dst, header[at:f.value]...), with...)
		at = f.end
	}
	return append(dst, header[at:]...)
}
