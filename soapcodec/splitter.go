package soapcodec

import (
	"bytes"
	"errors"
	"io"

	"soapway/xmlstream"
)

// PartKind is the kind of a piece of a multipart message.
type PartKind uint8

// The pieces, in the order of RFC 2046 §5.1.1. Preamble, content and epilogue
// come in as many pieces as the reads that bring them; the others are whole.
const (
	Preamble       PartKind = iota
	Delimiter               // a boundary line, with the line break before it, which belongs to it
	PartHeader              // the fields of a part, with the empty line behind them
	PartContent             // octets of the part
	CloseDelimiter          // the last boundary line
	Epilogue
)

// What is wrong with a multipart message. Clients read these texts.
var (
	errNoClose    = errors.New("the close delimiter is missing")
	errAmbiguous  = errors.New("a line begins with the boundary and is no delimiter line")
	errMixedLines = errors.New("the delimiter lines end in different line breaks")
	errLateLine   = errors.New("a delimiter line stands after the close delimiter")
	errNoBlank    = errors.New("the fields of a part have no empty line behind them")
)

// The limits of a multipart message beside those of its octets.
const (
	limitParts      = "parts"
	limitPartHeader = "header_bytes"
	limitPadding    = "blanks behind a boundary"

	maxPadding   = 1 << 10
	splitWindow  = 32 << 10
	keepSplit    = 128 << 10 // a larger buffer is not kept for the next message
	maxZeroReads = 100
)

// splitter takes a multipart message apart (RFC 2046 §5.1.1) and gives every
// octet away in exactly one piece, so that the pieces one after the other are
// the message. It holds no more than one read, or one header.
//
// What is a delimiter line to one receiver and content to another would let a
// message say two things, so it is refused: a line that begins with the boundary
// and goes on with something else than blanks, or a line break unlike that of
// the first delimiter line. Lines end in CRLF, or, as some senders have it, in
// LF; then a CR before the LF belongs to the content.
type splitter struct {
	src     io.Reader // nil: all is in buf
	buf     []byte
	own     []byte // the buffer for src, kept
	tok     int    // buf[tok:pos] is the current piece
	pos     int
	base    int64 // offset of buf[0]
	readErr error
	err     error // sticky

	needle []byte // CRLF "--" boundary
	state  splitState
	lead   int  // inDelimiter: octets of the line break before the dashes
	lines  bool // whether lines end in LF alone is known
	lf     bool // they do
	closed bool // the close delimiter has come
	parts  int

	maxParts  int
	maxHeader int64
}

type splitState uint8

const (
	atStart splitState = iota
	inPreamble
	inDelimiter // a delimiter line begins at pos
	atHeader
	atContent // the first octet of the content
	inContent
	atEpilogue
	inEpilogue
)

// reset begins a message with the boundary.
func (s *splitter) reset(r io.Reader, boundary string) {
	own := s.own
	if cap(own) > keepSplit || own == nil {
		own = make([]byte, splitWindow)
	}
	*s = splitter{src: r, buf: own[:0], own: own, needle: s.needle[:0], maxParts: s.maxParts, maxHeader: s.maxHeader}
	s.needle = append(append(s.needle, "\r\n--"...), boundary...)
}

// resetBytes begins a message that is whole in doc.
func (s *splitter) resetBytes(doc []byte, boundary string) {
	*s = splitter{buf: doc, own: s.own, readErr: io.EOF, needle: s.needle[:0], maxParts: s.maxParts, maxHeader: s.maxHeader}
	s.needle = append(append(s.needle, "\r\n--"...), boundary...)
}

// raw is the current piece; it dies at the next call of next.
func (s *splitter) raw() []byte { return s.buf[s.tok:s.pos:s.pos] }

// offset is that of the current piece, inputOffset that behind it.
func (s *splitter) offset() int64      { return s.base + int64(s.tok) }
func (s *splitter) inputOffset() int64 { return s.base + int64(s.pos) }

// next finds the next piece. Its error is io.EOF behind the epilogue, a
// *PackageError, or that of the reader, untouched.
func (s *splitter) next() (PartKind, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.tok = s.pos
	kind, err := s.piece()
	if err != nil {
		s.pos = s.tok
		s.err = err
	}
	return kind, err
}

func (s *splitter) piece() (PartKind, error) {
	switch s.state {
	case atStart, atContent, atEpilogue:
		// A line begins here though no line break of the content comes before.
		here, err := s.startsWith(s.needle[2:])
		if err != nil {
			return 0, err
		}
		if here {
			s.lead = 0
			return s.delimiter()
		}
		s.state++
	case inDelimiter:
		return s.delimiter()
	case atHeader:
		return s.header()
	}
	return s.run()
}

// run finds a piece of the preamble, of content or of the epilogue.
//
// Hot path: bytes.Index for the boundary with its line feed, and no octet is
// looked at again but for the last few of a read.
func (s *splitter) run() (PartKind, error) {
	kind := [...]PartKind{inPreamble: Preamble, inContent: PartContent, inEpilogue: Epilogue}[s.state]
	needle := s.needle[1:]
	for {
		w := s.buf[s.tok:]
		if i := bytes.Index(w, needle); i >= 0 {
			lead := i
			if i > 0 && w[i-1] == '\r' && !s.lf {
				lead--
			}
			s.lead = i + 1 - lead
			s.state = inDelimiter
			if lead == 0 {
				return s.delimiter()
			}
			s.pos = s.tok + lead
			return kind, nil
		}
		// The last octets may be the beginning of a delimiter.
		if free := len(w) - (len(s.needle) - 1); free > 0 {
			s.pos = s.tok + free
			return kind, nil
		}
		more, err := s.more()
		switch {
		case err != nil:
			return 0, err
		case more:
		case s.state != inEpilogue:
			return 0, s.fault(len(s.buf)-s.tok, errNoClose)
		case len(s.buf) == s.tok:
			return 0, io.EOF
		default:
			s.pos = len(s.buf)
			return kind, nil
		}
	}
}

// delimiter takes the delimiter line that begins at tok.
func (s *splitter) delimiter() (PartKind, error) {
	switch {
	case s.closed:
		return 0, s.fault(0, errLateLine)
	case s.lines && !s.lf && s.lead == 1:
		return 0, s.fault(0, errMixedLines)
	}
	i := s.lead + len(s.needle) - 2
	c, ok, err := s.at(i)
	if err != nil {
		return 0, err
	}
	last := false
	if ok && c == '-' {
		if c, ok, err = s.at(i + 1); err != nil {
			return 0, err
		}
		if !ok {
			return 0, s.fault(i+1, errNoClose)
		}
		if c != '-' {
			return 0, s.fault(0, errAmbiguous)
		}
		last = true
		i += 2
		if c, ok, err = s.at(i); err != nil {
			return 0, err
		}
	}
	for padding := 0; ok && (c == ' ' || c == '\t'); padding++ {
		if padding == maxPadding {
			return 0, s.limit(i, limitPadding, maxPadding)
		}
		i++
		if c, ok, err = s.at(i); err != nil {
			return 0, err
		}
	}
	lf := true
	if ok && c == '\r' {
		lf = false
		i++
		if c, ok, err = s.at(i); err != nil {
			return 0, err
		}
	}
	switch {
	case last && !ok && lf: // the message ends with the line
	case !ok:
		return 0, s.fault(i, errNoClose)
	case c != '\n':
		return 0, s.fault(0, errAmbiguous)
	default:
		i++
	}
	s.pos = s.tok + i
	if last {
		s.state, s.closed = inEpilogue, true
		if ok {
			s.state = atEpilogue
		}
		return CloseDelimiter, nil
	}
	// The first line settles the line breaks; before it, the one in front of it.
	first := !s.lines
	if first {
		s.lines, s.lf = true, lf
	}
	if s.lf != lf || first && s.lead > 0 && lf != (s.lead == 1) {
		return 0, s.fault(0, errMixedLines)
	}
	if s.parts++; s.maxParts > 0 && s.parts > s.maxParts {
		return 0, s.limit(0, limitParts, int64(s.maxParts))
	}
	s.state = atHeader
	return Delimiter, nil
}

// header takes the fields of a part and the empty line behind them.
func (s *splitter) header() (PartKind, error) {
	for line := 0; ; {
		nl := -1
		for seen := line; nl < 0; {
			w := s.buf[s.tok:]
			if nl = bytes.IndexByte(w[seen:], '\n'); nl >= 0 {
				nl += seen
				break
			}
			seen = len(w)
			if s.maxHeader > 0 && int64(seen) > s.maxHeader {
				return 0, s.limit(0, limitPartHeader, s.maxHeader)
			}
			if more, err := s.more(); err != nil {
				return 0, err
			} else if !more {
				return 0, s.fault(seen, errNoClose)
			}
		}
		if s.maxHeader > 0 && int64(nl) > s.maxHeader {
			return 0, s.limit(0, limitPartHeader, s.maxHeader)
		}
		text := s.buf[s.tok+line : s.tok+nl]
		line = nl + 1
		if len(text) == 0 || len(text) == 1 && text[0] == '\r' {
			s.pos = s.tok + line
			s.state = atContent
			return PartHeader, nil
		}
		if bytes.HasPrefix(text, s.needle[2:]) {
			return 0, s.fault(nl, errNoBlank)
		}
	}
}

// startsWith reports whether prefix stands at tok.
func (s *splitter) startsWith(prefix []byte) (bool, error) {
	for {
		w := s.buf[s.tok:]
		n := min(len(w), len(prefix))
		if !bytes.Equal(w[:n], prefix[:n]) {
			return false, nil
		}
		if n == len(prefix) {
			return true, nil
		}
		if more, err := s.more(); err != nil || !more {
			return false, err
		}
	}
}

// at is the octet i behind tok; ok is false at the end of the message.
func (s *splitter) at(i int) (c byte, ok bool, err error) {
	for s.tok+i >= len(s.buf) {
		if more, err := s.more(); err != nil || !more {
			return 0, false, err
		}
	}
	return s.buf[s.tok+i], true, nil
}

// more reads on, keeping the octets from tok; false is the end of the message.
func (s *splitter) more() (bool, error) {
	if s.readErr == io.EOF {
		return false, nil
	}
	if s.readErr != nil {
		return false, s.readErr
	}
	if s.tok > 0 {
		n := copy(s.own, s.buf[s.tok:])
		s.base += int64(s.tok)
		s.buf, s.tok, s.pos = s.own[:n], 0, 0
	}
	if len(s.buf) == len(s.own) {
		grown := make([]byte, 2*len(s.own))
		copy(grown, s.buf)
		s.own, s.buf = grown, grown[:len(s.buf)]
	}
	for range maxZeroReads {
		have := len(s.buf)
		n, err := s.src.Read(s.own[have:])
		s.buf, s.readErr = s.own[:have+n], err
		switch {
		case n > 0:
			return true, nil
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		}
	}
	s.readErr = io.ErrNoProgress
	return false, s.readErr
}

func (s *splitter) fault(i int, reason error) error {
	return &Error{Code: CodePackage, Err: &PackageError{Offset: s.offset() + int64(i), Part: s.parts, Err: reason}}
}

func (s *splitter) limit(i int, name string, most int64) error {
	return &Error{Code: CodeLimit, Err: &PackageError{
		Offset: s.offset() + int64(i), Part: s.parts, Err: &xmlstream.LimitError{Limit: name, Max: most},
	}}
}
