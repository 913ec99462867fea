package casetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A field is one header field as it stood on the wire.
type field struct{ Name, Value string }

// fields keeps order and spelling, which http.Header does not.
type fields []field

func (f fields) all(name string) (values []string) {
	for _, x := range f {
		if strings.EqualFold(x.Name, name) {
			values = append(values, x.Value)
		}
	}
	return values
}

func (f fields) has(name string) bool { return len(f.all(name)) > 0 }

// get is the first value, "" if the field is absent.
func (f fields) get(name string) string {
	if v := f.all(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// with replaces every field of that name; a nil-like value is done by without.
func (f fields) with(name, value string) fields {
	return append(f.without(name), field{name, value})
}

func (f fields) without(name string) (out fields) {
	for _, x := range f {
		if !strings.EqualFold(x.Name, name) {
			out = append(out, x)
		}
	}
	return out
}

// list splits the comma-separated members of a field.
func (f fields) list(name string) (members []string) {
	for _, v := range f.all(name) {
		for m := range strings.SplitSeq(v, ",") {
			if m = strings.TrimSpace(m); m != "" {
				members = append(members, m)
			}
		}
	}
	return members
}

// A head is a start line and its fields, with the octets they came from.
type head struct {
	Line   string
	Fields fields
	Raw    []byte
}

// rawLimit bounds what a recorder keeps of one message beside its body.
const rawLimit = 1 << 20

// A recorder reads messages off a connection and keeps the octets it consumed.
type recorder struct {
	r   *bufio.Reader
	raw []byte
}

func newRecorder(r io.Reader) *recorder { return &recorder{r: bufio.NewReaderSize(r, 64<<10)} }

func (r *recorder) keep(b []byte) {
	if room := rawLimit - len(r.raw); room > 0 {
		r.raw = append(r.raw, b[:min(room, len(b))]...)
	}
}

// line returns the next line without its line end, which must be CRLF: the
// product may write nothing else (RFC 9112 §2.2).
func (r *recorder) line() (string, error) {
	b, err := r.r.ReadBytes('\n')
	r.keep(b)
	if err != nil {
		if len(b) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return "", err
	}
	s, ok := strings.CutSuffix(string(b), "\r\n")
	if !ok {
		return "", fmt.Errorf("line %q does not end with CRLF", b)
	}
	return s, nil
}

// head reads up to the blank line. io.EOF = closed before the first octet.
func (r *recorder) head() (head, error) {
	r.raw = nil
	first, err := r.line()
	if err != nil {
		return head{Raw: r.raw}, err
	}
	h := head{Line: first}
	for {
		l, err := r.line()
		h.Raw = r.raw
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return h, err
		}
		if l == "" {
			return h, nil
		}
		name, value, ok := strings.Cut(l, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return h, fmt.Errorf("bad field line %q", l)
		}
		h.Fields = append(h.Fields, field{name, strings.TrimSpace(value)})
	}
}

// errFraming is what a message breaks by announcing its length twice or badly.
var errFraming = errors.New("broken framing")

// body reads the body that h announces. untilClose says what no length means:
// a response goes on until the connection ends, a request has no body.
func (r *recorder) body(h head, untilClose bool) (body []byte, trailer fields, err error) {
	te, cl := h.Fields.all("Transfer-Encoding"), h.Fields.all("Content-Length")
	switch {
	case len(te) > 0 && len(cl) > 0:
		return nil, nil, fmt.Errorf("%w: Content-Length and Transfer-Encoding together", errFraming)
	case len(te) == 1 && strings.EqualFold(te[0], "chunked"):
		return r.chunks()
	case len(te) > 0:
		return nil, nil, fmt.Errorf("%w: Transfer-Encoding %q", errFraming, te)
	case len(cl) == 1:
		n, err := strconv.ParseUint(cl[0], 10, 40)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: Content-Length %q", errFraming, cl[0])
		}
		body, err = r.octets(int(n))
		return body, nil, err
	case len(cl) > 1:
		return nil, nil, fmt.Errorf("%w: Content-Length %q", errFraming, cl)
	case untilClose:
		body, err = io.ReadAll(r.r)
		r.keep(body)
		return body, nil, err
	}
	return nil, nil, nil
}

// octets reads n octets; what came before a failure is returned with it.
func (r *recorder) octets(n int) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.CopyN(&b, r.r, int64(n))
	r.keep(b.Bytes())
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

func (r *recorder) chunks() (body []byte, trailer fields, err error) {
	for {
		l, err := r.line()
		if err != nil {
			return body, nil, cutShort(err)
		}
		size, _, _ := strings.Cut(l, ";")
		n, err := strconv.ParseUint(size, 16, 40)
		if err != nil {
			return body, nil, fmt.Errorf("%w: chunk size %q", errFraming, l)
		}
		if n == 0 {
			break
		}
		b, err := r.octets(int(n))
		body = append(body, b...)
		if err != nil {
			return body, nil, err
		}
		if l, err = r.line(); err != nil || l != "" {
			return body, nil, cmpErr(cutShort(err), fmt.Errorf("%w: chunk goes on with %q", errFraming, l))
		}
	}
	for {
		l, err := r.line()
		if err != nil {
			return body, trailer, cutShort(err)
		}
		if l == "" {
			return body, trailer, nil
		}
		name, value, _ := strings.Cut(l, ":")
		trailer = append(trailer, field{name, strings.TrimSpace(value)})
	}
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// appendHead prints a start line and fields.
func appendHead(dst []byte, line string, f fields) []byte {
	dst = append(append(dst, line...), "\r\n"...)
	for _, x := range f {
		dst = append(dst, x.Name...)
		dst = append(dst, ": "...)
		dst = append(append(dst, x.Value...), "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// request prints a POST with Host, fields and a Content-Length body.
func request(target string, f fields, body []byte) []byte {
	all := append(fields{{"Host", "gw.depot.test"}}, f...)
	all = append(all, field{"Content-Length", strconv.Itoa(len(body))})
	return append(appendHead(nil, "POST "+target+" HTTP/1.1", all), body...)
}

// response prints an answer with a Content-Length body.
func response(status int, f fields, body []byte) []byte {
	all := append(append(fields(nil), f...), field{"Content-Length", strconv.Itoa(len(body))})
	return append(appendHead(nil, fmt.Sprintf("HTTP/1.1 %d Scripted", status), all), body...)
}

// chunked codes body in chunks that end at the given cuts.
func chunked(body []byte, cuts ...int) (out []byte) {
	last := 0
	for _, c := range append(cuts, len(body)) {
		if c > last {
			out = fmt.Appendf(out, "%x\r\n%s\r\n", c-last, body[last:c])
			last = c
		}
	}
	return append(out, "0\r\n\r\n"...)
}

// closing announces that the connection ends after this message.
func closing(message []byte) []byte {
	return bytes.Replace(message, []byte("\r\n"), []byte("\r\nConnection: close\r\n"), 1)
}
