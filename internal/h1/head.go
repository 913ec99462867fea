package h1

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"soapway/internal/field"
)

// A Refusal is the reason why a head is not taken.
type Refusal struct {
	// Status is what a server answers: 400, 417, 431, 501 or 505.
	Status int
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("h1: %s (%d)", r.Reason, r.Status) }

func bad(reason string) *Refusal { return &Refusal{http.StatusBadRequest, reason} }

// The refusals of a head.
var (
	errBareLF      = bad("a line of the head does not end with CR LF")
	errStart       = bad("not an HTTP request")
	errRequestLine = bad("malformed request line")
	errTarget      = bad("malformed request target")
	errName        = bad("malformed field name")
	errNoColon     = bad("a line of the head is no field")
	errFold        = bad("folded field")
	errValue       = bad("control octet in a field")
	errHost        = bad("Host must come exactly once, with a host")
	errLength      = bad("malformed Content-Length")
	errLengths     = bad("more than one Content-Length")
	errBoth        = bad("Content-Length beside Transfer-Encoding")
	errOldCoding   = bad("Transfer-Encoding under HTTP/1.0")
	errTrailer     = bad("a framing field announced as a trailer")
	errCoding      = &Refusal{http.StatusNotImplemented, "transfer coding other than chunked"}
	errConnect     = &Refusal{http.StatusNotImplemented, "CONNECT"}
	errVersion     = &Refusal{http.StatusHTTPVersionNotSupported, "HTTP version"}
	errExpect      = &Refusal{http.StatusExpectationFailed, "expectation other than 100-continue"}
	errHeadSize    = &Refusal{http.StatusRequestHeaderFieldsTooLarge, "head too large"}
)

// head is what is known of the head that is being read. It is used again for
// the next one.
type head struct {
	lenient bool // of an answer: LF alone may end a line

	seen  int    // octets that scan has looked at
	lines []span // without their line end; the first is the start line
	next  int    // where the line begins that scan is in

	fields []fieldSpan

	// What the fields say.
	hosts      int
	host       span
	length     int64 // -1 without Content-Length
	codings    int
	chunked    bool
	trailer    bool
	close      bool
	keepAlive  bool
	expect     bool // 100-continue
	expectMore bool // something else
}

type span struct{ start, end int }

func (s span) of(b []byte) []byte { return b[s.start:s.end] }

type fieldSpan struct{ name, value span }

func (h *head) reset() {
	*h = head{lines: h.lines[:0], fields: h.fields[:0], length: -1}
}

// maxKept bounds the tables that a connection keeps for its next head.
const maxKept = 256

func (h *head) shrink() {
	if cap(h.lines) > maxKept {
		h.lines, h.fields = nil, nil
	}
}

// scan looks for the end of the head at the start of b, of which earlier calls
// have seen a part; b is not empty. It returns its length with the empty line, or 0 while that
// is not there.
func (h *head) scan(b []byte) (int, error) {
	if h.seen == 0 && octets[b[0]]&isToken == 0 {
		return 0, errStart // no line end is needed to know (a TLS client)
	}
	for {
		i := bytes.IndexByte(b[h.seen:], '\n')
		if i < 0 {
			h.seen = len(b)
			return 0, nil
		}
		start, end := h.next, h.seen+i
		h.seen = end + 1
		h.next = h.seen
		switch {
		case end > start && b[end-1] == '\r':
			end--
		case !h.lenient:
			return 0, errBareLF
		}
		if start == end {
			if len(h.lines) == 0 {
				return 0, errRequestLine
			}
			return h.seen, nil
		}
		h.lines = append(h.lines, span{start, end})
	}
}

// readFields checks the fields of the head in b and notes what frames the
// message. Names are spelled in the canonical way, in b.
func (h *head) readFields(b []byte) error {
	for _, line := range h.lines[1:] {
		l := line.of(b)
		if l[0] == ' ' || l[0] == '\t' {
			return errFold
		}
		colon := bytes.IndexByte(l, ':')
		if colon < 0 {
			return errNoColon
		}
		f := fieldSpan{name: span{line.start, line.start + colon}}
		if !canonical(l[:colon]) {
			return errName
		}
		f.value.start, f.value.end = trim(b, f.name.end+1, line.end)
		if !isValue(f.value.of(b)) {
			return errValue
		}
		h.fields = append(h.fields, f)
		if err := h.note(l[:colon], f.value, b); err != nil {
			return err
		}
	}
	switch {
	case h.codings > 0 && h.length >= 0:
		return errBoth
	case h.codings > 1 || h.codings == 1 && !h.chunked:
		return errCoding
	}
	return nil
}

// note keeps what a field says about the message or the connection.
func (h *head) note(name []byte, at span, b []byte) error {
	value := at.of(b)
	switch string(name) {
	case "Host":
		h.hosts++
		h.host = at
	case "Content-Length":
		n, ok := number(value)
		switch {
		case h.length >= 0 && !(h.lenient && n == h.length):
			return errLengths
		case !ok:
			return errLength
		}
		h.length = n
	case "Transfer-Encoding":
		h.codings++
		h.chunked = equalFold(value, "chunked")
	case "Connection":
		h.close = h.close || hasToken(value, "close")
		h.keepAlive = h.keepAlive || hasToken(value, "keep-alive")
	case "Expect":
		if equalFold(value, "100-continue") {
			h.expect = true
		} else {
			h.expectMore = true
		}
	case "Trailer":
		h.trailer = true
	}
	return nil
}

// framingTrailer reports whether the Trailer fields announce one that frames
// the message (RFC 9110 §6.5.1).
func (h *head) framingTrailer(b []byte) bool {
	for _, f := range h.fields {
		if string(f.name.of(b)) != "Trailer" {
			continue
		}
		v := f.value.of(b)
		if hasToken(v, "transfer-encoding") || hasToken(v, "content-length") || hasToken(v, "trailer") {
			return true
		}
	}
	return false
}

// list makes the list of the fields. text is b as a string, which all of them
// share.
func (h *head) list(b []byte, text string) field.List {
	l := make(field.List, 0, len(h.fields))
	for _, f := range h.fields {
		switch string(f.name.of(b)) {
		case "Host", "Transfer-Encoding":
			continue // Request.Host and Length have them
		}
		l = append(l, field.Field{Name: text[f.name.start:f.name.end], Value: text[f.value.start:f.value.end]})
	}
	return l
}

// requestLine is the first line of a request taken apart (RFC 9112 §3).
type requestLine struct {
	method, target span
	minor          int // HTTP/1.x: 0, or 1 for any later one (RFC 9110 §2.5)
}

func readRequestLine(b []byte, line span) (r requestLine, err error) {
	l := line.of(b)
	first := bytes.IndexByte(l, ' ')
	last := bytes.LastIndexByte(l, ' ')
	if first <= 0 || last == first {
		return r, errRequestLine
	}
	r.method = span{line.start, line.start + first}
	r.target = span{line.start + first + 1, line.start + last}
	version := l[last+1:]
	if !all(l[:first], isToken) || len(version) != len("HTTP/1.1") || string(version[:5]) != "HTTP/" ||
		!isDigit(version[5]) || version[6] != '.' || !isDigit(version[7]) {
		return r, errRequestLine
	}
	if version[5] != '1' {
		return r, errVersion
	}
	if version[7] != '0' {
		r.minor = 1
	}
	return r, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// readTarget checks a request target (RFC 9112 §3.2) and returns the authority
// of one in absolute form.
func readTarget(method, target string) (authority string, err error) {
	switch {
	case method == http.MethodConnect:
		return "", errConnect
	case target == "":
		return "", errTarget
	case target == "*":
		if method != http.MethodOptions {
			return "", errTarget
		}
		return "", nil
	case target[0] == '/' && all(target, isPlain):
		return "", nil
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f || c == '#' {
			return "", errTarget
		}
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return "", errTarget
	}
	if target[0] == '/' {
		return "", nil
	}
	scheme, _, ok := strings.Cut(target, "://")
	if !ok || !equalFold(scheme, "http") && !equalFold(scheme, "https") || u.Host == "" || u.User != nil || !all(u.Host, isHost) {
		return "", errTarget
	}
	return u.Host, nil
}

// methods are those that need no string of their own.
func methodName(m []byte) string {
	switch string(m) {
	case "POST":
		return http.MethodPost
	case "GET":
		return http.MethodGet
	case "HEAD":
		return http.MethodHead
	}
	return string(m)
}

// request reads the head of a request, which scan has found to be b. It fills
// all of r but the body and what the connection knows.
func (h *head) request(b []byte, r *Request) error {
	line, err := readRequestLine(b, h.lines[0])
	if err != nil {
		return err
	}
	if err := h.readFields(b); err != nil {
		return err
	}
	text := string(b)
	r.Method = methodName(line.method.of(b))
	r.Target = text[line.target.start:line.target.end]
	r.Minor = line.minor
	authority, err := readTarget(r.Method, r.Target)
	if err != nil {
		return err
	}
	host := text[h.host.start:h.host.end]
	switch {
	case h.hosts > 1 || h.hosts == 0 && r.Minor > 0 || !all(host, isHost):
		return errHost
	case h.codings > 0 && r.Minor == 0:
		return errOldCoding
	case h.expectMore && r.Minor > 0:
		return errExpect
	case h.chunked && h.trailer && h.framingTrailer(b):
		return errTrailer
	}
	r.Host = host
	if authority != "" {
		r.Host = authority // RFC 9112 §3.2.2
	}
	r.Length = max(h.length, 0)
	if h.chunked {
		r.Length = -1
	}
	r.Header = h.list(b, text)
	return nil
}
