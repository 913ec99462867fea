package xmlstream

import (
	"bytes"
	"errors"
	"io"
)

const (
	// blockSize bounds one read, and so how far the scanner reads ahead of
	// what it has to look at.
	blockSize = 16 << 10
	// firstBuffer holds a usual message without growing.
	firstBuffer = 4 << 10
	// keepBuffer is the largest buffer that survives a Reset.
	keepBuffer = 1 << 20
	// maxEmptyReads is how often a reader may return nothing in a row.
	maxEmptyReads = 100
)

var errReadCount = errors.New("xmlstream: reader returned an impossible count")

// more reads at least one further octet into the window, or reports that
// there is none: the input has ended or s.readErr holds the reader's error.
//
// Octets before the current token are given up when room is needed, and the
// window grows only when the token itself fills more than half of it, so each
// octet is moved a constant number of times whatever the size of the reads.
// Indices relative to s.tok stay good; indices into s.buf do not.
func (s *Scanner) more() bool {
	if s.r == nil || s.readErr != nil {
		return false
	}
	if cap(s.buf)-len(s.buf) < cap(s.buf)/8+1 {
		s.room()
	}
	for range maxEmptyReads {
		p := s.buf[len(s.buf):min(cap(s.buf), len(s.buf)+blockSize)]
		n, err := s.r.Read(p)
		if n < 0 || n > len(p) {
			n, err = 0, errReadCount
		}
		s.buf = s.buf[:len(s.buf)+n]
		s.readErr = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	s.readErr = io.ErrNoProgress
	return false
}

// room makes space behind the window.
func (s *Scanner) room() {
	s.place.pass(s.buf[:s.tok])
	s.base += int64(s.tok)
	live := s.buf[s.tok:]
	if len(live) > cap(s.buf)/2 || cap(s.buf) == 0 {
		s.own = make([]byte, max(firstBuffer, 2*cap(s.buf)))
	}
	n := copy(s.own[:cap(s.own)], live)
	s.buf = s.own[:n]
	s.tok = 0
}

// at returns the octet i behind the token's start, reading on if need be. ok
// is false when there is none; the caller then returns s.ended().
func (s *Scanner) at(i int) (c byte, ok bool) {
	if p := s.tok + i; p < len(s.buf) {
		return s.buf[p], true
	}
	return s.atMore(i)
}

func (s *Scanner) atMore(i int) (c byte, ok bool) {
	for s.more() {
		if p := s.tok + i; p < len(s.buf) {
			return s.buf[p], true
		}
	}
	return 0, false
}

// inputEnded reports, once more has returned false, that the input is at its
// end and not at an error.
func (s *Scanner) inputEnded() bool { return s.readErr == nil || s.readErr == io.EOF }

// window is what has been read of the current token and behind it.
func (s *Scanner) window() []byte { return s.buf[s.tok:] }

// ended returns the error for input that stops where more is needed.
func (s *Scanner) ended() error {
	if !s.inputEnded() {
		return s.readErr
	}
	return s.fault(len(s.buf)-s.tok, ErrTruncated)
}

// fault builds the error for the octet i behind the token's start. Only a
// document that fails pays for counting lines and joining the path.
func (s *Scanner) fault(i int, err error) *SyntaxError {
	at := s.tok + i
	p := s.place
	p.pass(s.buf[:at])
	line, column := p.of(s.buf[at:])
	return &SyntaxError{
		Offset: s.base + int64(at),
		Line:   line,
		Column: column,
		Path:   s.Path(),
		Err:    err,
	}
}

// exceeded builds the error for a broken limit.
func (s *Scanner) exceeded(i int, limit string, most int64) *SyntaxError {
	return s.fault(i, &LimitError{Limit: limit, Max: most})
}

// place is a line and column count over octets that are gone. The zero value
// is the start of a document.
type place struct {
	lines  int  // complete lines before the place
	column int  // octets before it on its own line
	cr     bool // the last octet was a \r, whose line ends here or at a \n that follows
}

// pass moves the place behind b.
func (p *place) pass(b []byte) {
	if !p.cr && bytes.IndexByte(b, '\r') < 0 {
		if n := bytes.Count(b, []byte{'\n'}); n > 0 {
			p.lines += n
			p.column = len(b) - bytes.LastIndexByte(b, '\n') - 1
		} else {
			p.column += len(b)
		}
		return
	}
	for _, c := range b {
		if p.cr && c != '\n' {
			p.lines++
			p.column = 0
		}
		p.column++
		if p.cr = c == '\r'; c == '\n' {
			p.lines++
			p.column = 0
		}
	}
}

// of returns the 1-based line and column of the first octet of rest.
func (p place) of(rest []byte) (line, column int) {
	if p.cr && (len(rest) == 0 || rest[0] != '\n') {
		return p.lines + 2, 1
	}
	return p.lines + 1, p.column + 1
}
