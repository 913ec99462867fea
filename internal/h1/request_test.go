package h1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"soapway/internal/field"
)

// taken is a request as the server has read it.
type taken struct {
	Request
	text string
	err  error // of the body
}

// readOne reads one request from the start of octets, which come at most most at
// a time, and returns how many it used.
func readOne(octets []byte, most int) (*taken, int, error) {
	src := &script{in: octets, most: most}
	c := newConn(mustServer(Options{}, nil), src)
	c.in.take()
	if err := c.in.fill(); err != nil {
		return nil, 0, err
	}
	x := new(exchange)
	n, err := c.readHead(time.Time{})
	if err == nil {
		err = c.head.request(c.in.unused()[:n], &x.Request)
	}
	if err != nil {
		return nil, 0, err
	}
	c.in.r += n
	x.body.init(c, x.Length, false)
	got := &taken{Request: x.Request}
	var b []byte
	b, got.err = io.ReadAll(&x.body)
	got.text = string(b)
	return got, len(octets) - len(src.in) - len(c.in.unused()), nil
}

func TestRequestHeads(t *testing.T) {
	const rest = "Host: h\r\n\r\n"
	tests := []struct {
		name   string
		octets string
		want   error // nil = taken
	}{
		{"plain", "POST /a HTTP/1.1\r\n" + rest, nil},
		{"old", "POST /a HTTP/1.0\r\n\r\n", nil},
		{"old with host", "POST /a HTTP/1.0\r\n" + rest, nil},
		{"a later minor version", "POST /a HTTP/1.7\r\n" + rest, nil},
		{"odd method", "M-SEARCH /a HTTP/1.1\r\n" + rest, nil},
		{"options of the server", "OPTIONS * HTTP/1.1\r\n" + rest, nil},
		{"absolute form", "GET http://h:80/a?b HTTP/1.1\r\n" + rest, nil},
		{"absolute form without path", "GET HTTPS://h HTTP/1.1\r\n" + rest, nil},
		{"escapes", "GET /%41/%2F?%zz=%&%00 HTTP/1.1\r\n" + rest, nil},
		{"octets of a target that are no URI", "GET /a|b\"<>^`{}\\\xc3\xa9 HTTP/1.1\r\n" + rest, nil},
		{"empty value", "GET / HTTP/1.1\r\nX:\r\n" + rest, nil},
		{"value of blanks", "GET / HTTP/1.1\r\nX: \t \r\n" + rest, nil},
		{"value of obs-text", "GET / HTTP/1.1\r\nX: \x80\xff\r\n" + rest, nil},
		{"tab inside a long value", "GET / HTTP/1.1\r\nX: aaaaaaaa\tbbbbbbbbbbbbbbbbb\r\n" + rest, nil},
		{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", nil},
		{"IPv6 host", "GET / HTTP/1.1\r\nHost: [fe80::1%25en0]:80\r\n\r\n", nil},
		{"length", "POST / HTTP/1.1\r\nContent-Length:0\r\n" + rest, nil},
		{"longest length", "POST / HTTP/1.1\r\nContent-Length: 999999999999999999\r\n" + rest, nil},
		{"chunked in capitals", "POST / HTTP/1.1\r\nTRANSFER-ENCODING: CHUNKED\r\n" + rest, nil},

		{"empty line in front", "\r\nGET / HTTP/1.1\r\n" + rest, errStart},
		{"LF in front", "\nGET / HTTP/1.1\r\n" + rest, errStart},
		{"blank in front", " GET / HTTP/1.1\r\n" + rest, errStart},
		{"not a method", "G(T / HTTP/1.1\r\n" + rest, errRequestLine},
		{"TLS", "\x16\x03\x01\x02\x00\x01", errStart},
		{"two blanks", "GET  / HTTP/1.1\r\n" + rest, errTarget},
		{"tab for a blank", "GET\t/ HTTP/1.1\r\n" + rest, errRequestLine},
		{"blank behind the version", "GET / HTTP/1.1 \r\n" + rest, errRequestLine},
		{"no target", "GET HTTP/1.1\r\n" + rest, errRequestLine},
		{"empty target", "GET  HTTP/1.1\r\n" + rest, errTarget},
		{"no version", "GET /\r\n" + rest, errRequestLine},
		{"small version", "GET / http/1.1\r\n" + rest, errRequestLine},
		{"long version", "GET / HTTP/1.10\r\n" + rest, errRequestLine},
		{"short version", "GET / HTTP/1\r\n" + rest, errRequestLine},
		{"version 2", "GET / HTTP/2.0\r\n" + rest, errVersion},
		{"version 0", "GET / HTTP/0.9\r\n" + rest, errVersion},
		{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", errVersion},
		{"star", "POST * HTTP/1.1\r\n" + rest, errTarget},
		{"relative target", "GET a HTTP/1.1\r\n" + rest, errTarget},
		{"authority form", "GET h:80 HTTP/1.1\r\n" + rest, errTarget},
		{"other scheme", "GET ftp://h/ HTTP/1.1\r\n" + rest, errTarget},
		{"absolute form without host", "GET http:///a HTTP/1.1\r\n" + rest, errTarget},
		{"absolute form with credentials", "GET http://u:p@h/ HTTP/1.1\r\n" + rest, errTarget},
		{"fragment", "GET /a#b HTTP/1.1\r\n" + rest, errTarget},
		{"control octet in the target", "GET /a\x01 HTTP/1.1\r\n" + rest, errTarget},
		{"DEL in the target", "GET /a\x7f HTTP/1.1\r\n" + rest, errTarget},
		{"bad escape in a path", "GET /%zz HTTP/1.1\r\n" + rest, errTarget},
		{"connect", "CONNECT h:443 HTTP/1.1\r\n" + rest, errConnect},

		{"LF ends the request line", "GET / HTTP/1.1\n" + rest, errBareLF},
		{"LF ends a field", "GET / HTTP/1.1\r\nX: a\n" + rest, errBareLF},
		{"LF ends the head", "GET / HTTP/1.1\r\nHost: h\r\n\n", errBareLF},
		{"CR ends a field", "GET / HTTP/1.1\r\nX: a\rY: b\r\n" + rest, errValue},
		{"two CR", "GET / HTTP/1.1\r\nX: a\r\r\n" + rest, errValue},
		{"two CR end the head", "GET / HTTP/1.1\r\nHost: h\r\n\r\r\n\r\n", errNoColon},
		{"folded", "GET / HTTP/1.1\r\nX: a\r\n b\r\n" + rest, errFold},
		{"folded by tab", "GET / HTTP/1.1\r\nX: a\r\n\tY: b\r\n" + rest, errFold},
		{"first field folded", "GET / HTTP/1.1\r\n X: a\r\n" + rest, errFold},
		{"no colon", "GET / HTTP/1.1\r\nX\r\n" + rest, errNoColon},
		{"no name", "GET / HTTP/1.1\r\n: a\r\n" + rest, errName},
		{"blank before the colon", "GET / HTTP/1.1\r\nX : a\r\n" + rest, errName},
		{"blank in a name", "GET / HTTP/1.1\r\nX Y: a\r\n" + rest, errName},
		{"octet above 127 in a name", "GET / HTTP/1.1\r\nX\xe9: a\r\n" + rest, errName},
		{"NUL in a value", "GET / HTTP/1.1\r\nX: a\x00b\r\n" + rest, errValue},
		{"DEL in a long value", "GET / HTTP/1.1\r\nX: aaaaaaaaaaaaa\x7fbbbbbbbbbb\r\n" + rest, errValue},

		{"no host", "GET / HTTP/1.1\r\n\r\n", errHost},
		{"two hosts", "GET / HTTP/1.1\r\nHost: h\r\n" + rest, errHost},
		{"two hosts under 1.0", "GET / HTTP/1.0\r\nHost: h\r\n" + rest, errHost},
		{"no host beside absolute form", "GET http://h/ HTTP/1.1\r\n\r\n", errHost},
		{"blank in host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", errHost},
		{"user in host", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", errHost},
		{"path in host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", errHost},

		{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n" + rest, errLengths},
		{"the same length twice", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n" + rest, errLengths},
		{"list of lengths", "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n" + rest, errLength},
		{"signed length", "POST / HTTP/1.1\r\nContent-Length: +3\r\n" + rest, errLength},
		{"negative length", "POST / HTTP/1.1\r\nContent-Length: -3\r\n" + rest, errLength},
		{"hexadecimal length", "POST / HTTP/1.1\r\nContent-Length: 0x3\r\n" + rest, errLength},
		{"underscore in length", "POST / HTTP/1.1\r\nContent-Length: 1_0\r\n" + rest, errLength},
		{"empty length", "POST / HTTP/1.1\r\nContent-Length: \r\n" + rest, errLength},
		{"length above 63 bits", "POST / HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n" + rest, errLength},
		{"length and coding", "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n" + rest, errBoth},
		{"coding and length", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n" + rest, errBoth},
		{"unknown coding and length", "POST / HTTP/1.1\r\nTransfer-Encoding: x\r\nContent-Length: 3\r\n" + rest, errBoth},
		{"coding under 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" + rest, errOldCoding},
		{"identity", "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n" + rest, errCoding},
		{"empty coding", "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n" + rest, errCoding},
		{"gzip, chunked", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n" + rest, errCoding},
		{"chunked twice", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + rest, errCoding},
		{"chunked with parameter", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked;a=b\r\n" + rest, errCoding},
		{"quoted chunked", "POST / HTTP/1.1\r\nTransfer-Encoding: \"chunked\"\r\n" + rest, errCoding},
		{"length as a trailer", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: X, content-length\r\n" + rest, errTrailer},
		{"other expectation", "POST / HTTP/1.1\r\nExpect: x\r\n" + rest, errExpect},
		{"head too large", "POST / HTTP/1.1\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n" + rest, errHeadSize},
		{"line without end", strings.Repeat("a", 65<<10), errHeadSize},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, most := range []int{0, 1, 7} {
				if _, _, err := readOne([]byte(tt.octets), most); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("at most %d octets a time: got %v, want %v", most, err, tt.want)
				}
			}
		})
	}
}

func TestRequestMeaning(t *testing.T) {
	const octets = "post //x/%2e?y&z HTTP/1.1\r\nhost: Name:81\r\nSOAPAction:\t\"urn:a\" \r\nx-b: 1\r\nX-B: 2\r\nX--c: \r\n" +
		"CONTENT-LENGTH: 3\r\nConnection: x, Close\r\n\r\nabcd"
	got, used, err := readOne([]byte(octets), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := field.List{
		{Name: "Soapaction", Value: `"urn:a"`},
		{Name: "X-B", Value: "1"},
		{Name: "X-B", Value: "2"},
		{Name: "X--C"},
		{Name: "Content-Length", Value: "3"},
		{Name: "Connection", Value: "x, Close"},
	}
	if !reflect.DeepEqual(got.Header, want) {
		t.Errorf("fields: got %q, want %q", got.Header, want)
	}
	if got.Method != "post" || got.Target != "//x/%2e?y&z" || got.Host != "Name:81" || got.Length != 3 || got.Minor != 1 || got.text != "abc" || used != len(octets)-1 {
		t.Errorf("got %+v %q, %d octets used", got.Request, got.text, used)
	}
	got, _, err = readOne([]byte("GET http://other:82/a HTTP/1.1\r\nHost: h\r\n\r\n"), 0)
	if err != nil || got.Host != "other:82" || got.Target != "http://other:82/a" {
		t.Errorf("absolute form: got %+v, %v", got, err)
	}
}

func TestRequestBodies(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	tests := []struct {
		name  string
		field string
		body  string
		want  string
		err   error
	}{
		{"length", "Content-Length: 3", "abcdef", "abc", nil},
		{"long", "Content-Length: 102400", long, long, nil},
		{"short", "Content-Length: 5", "abc", "abc", io.ErrUnexpectedEOF},
		{"chunks", "Transfer-Encoding: chunked", "3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\nnext", "abc0123456789", nil},
		{"no chunk", "Transfer-Encoding: chunked", "0\r\n\r\n", "", nil},
		{"long chunk", "Transfer-Encoding: chunked", "19000\r\n" + long + "\r\n0\r\n\r\n", long, nil},
		{"extensions", "Transfer-Encoding: chunked", "3;a=\"b;c\"; d\t\r\nabc\r\n0;e\r\n\r\n", "abc", nil},
		{"trailers", "Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\nX: 1\r\nContent-Length: 9\r\n\r\n", "abc", nil},
		{"short chunk", "Transfer-Encoding: chunked", "5\r\nabc", "abc", io.ErrUnexpectedEOF},
		{"no last chunk", "Transfer-Encoding: chunked", "3\r\nabc\r\n", "abc", io.ErrUnexpectedEOF},
		{"no end of trailers", "Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n", "abc", io.ErrUnexpectedEOF},
		{"half an end", "Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r", "abc", io.ErrUnexpectedEOF},
		{"no size", "Transfer-Encoding: chunked", "\r\nabc", "", errChunk},
		{"sign", "Transfer-Encoding: chunked", "+3\r\nabc\r\n0\r\n\r\n", "", errChunk},
		{"0x", "Transfer-Encoding: chunked", "0x3\r\nabc\r\n0\r\n\r\n", "", errChunk},
		{"blank behind the size", "Transfer-Encoding: chunked", "3 \r\nabc\r\n0\r\n\r\n", "", errChunk},
		{"blank before the size", "Transfer-Encoding: chunked", " 3\r\nabc\r\n0\r\n\r\n", "", errChunk},
		{"size of 64 bits", "Transfer-Encoding: chunked", "ffffffffffffffff\r\nabc", "", errChunkSize},
		{"many zeros", "Transfer-Encoding: chunked", "0000000000000003\r\nabc\r\n0\r\n\r\n", "", errChunkSize},
		{"LF behind the size", "Transfer-Encoding: chunked", "3\nabc\r\n0\r\n\r\n", "", errChunk},
		{"CR in the extension", "Transfer-Encoding: chunked", "3;a\rb\r\nabc\r\n0\r\n\r\n", "", errChunk},
		{"control octet in the extension", "Transfer-Encoding: chunked", "3;a\x00b\r\nabc\r\n0\r\n\r\n", "", errChunk},
		{"data too long", "Transfer-Encoding: chunked", "3\r\nabcd\r\n0\r\n\r\n", "abc", errChunk},
		{"LF behind the data", "Transfer-Encoding: chunked", "3\r\nabc\n0\r\n\r\n", "abc", errChunk},
		{"CR alone behind the data", "Transfer-Encoding: chunked", "3\r\nabc\r0\r\n\r\n", "abc", errChunk},
		{"LF ends the body", "Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\n", "abc", errChunk},
		{"trailer without colon", "Transfer-Encoding: chunked", "0\r\nX\r\n\r\n", "", errTrailers},
		{"blank before the colon of a trailer", "Transfer-Encoding: chunked", "0\r\nX : 1\r\n\r\n", "", errTrailers},
		{"folded trailer", "Transfer-Encoding: chunked", "0\r\nX: 1\r\n 2\r\n\r\n", "", errTrailers},
		{"control octet in a trailer", "Transfer-Encoding: chunked", "0\r\nX: \x01\r\n\r\n", "", errTrailers},
		{"trailers without end", "Transfer-Encoding: chunked", "0\r\n" + strings.Repeat("X: 1\r\n", 1000), "", errTrailers},
		{"trailer without end", "Transfer-Encoding: chunked", "0\r\nX: " + strings.Repeat("a", 10000), "", errTrailers},
		{"extension without end", "Transfer-Encoding: chunked", "3;" + strings.Repeat("a", 10000), "", errChunkExt},
		{"long extension", "Transfer-Encoding: chunked", "3;" + strings.Repeat("a", 300) + "\r\nabc\r\n0\r\n\r\n", "", errChunkExt},
		{"many extensions", "Transfer-Encoding: chunked", strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\nx\r\n", 100), strings.Repeat("x", 40), errChunkExt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			octets := "POST / HTTP/1.1\r\nHost: h\r\n" + tt.field + "\r\n\r\n" + tt.body
			for _, most := range []int{0, 1, 2, 3, 1000} {
				got, _, err := readOne([]byte(octets), most)
				if err != nil {
					t.Fatal(err)
				}
				if got.text != tt.want || !errors.Is(got.err, tt.err) {
					t.Errorf("at most %d octets a time: got %d octets %.40q, %v, want %d %.40q, %v", most, len(got.text), got.text, got.err, len(tt.want), tt.want, tt.err)
				}
			}
		})
	}
}

// FuzzRequest: what is taken here net/http takes too, with the same meaning and
// the same end, and however the octets come.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nSOAPAction: \"x\"\r\n\r\nabcGET / HTTP/1.1\r\n",
		"POST http://h:1/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;e=f\r\nabc\r\n0\r\nX: 1\r\n\r\nrest",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\nX-A: 1\r\nx-a: 2\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost:\r\nExpect: 100-continue\r\nPragma: no-cache\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\nHost: h\nX: a\n b\nContent-Length : 3\n\nabc",
		"POST /%41/../x|y HTTP/1.2\r\nHost: [::1]:80\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, octets []byte) { agrees(t, octets) })
}

// agrees reads a request here and by net/http.
func agrees(t *testing.T, octets []byte) (taken bool) {
	t.Helper()
	got, used, err := readOne(bytes.Clone(octets), 0)
	slow, slowUsed, slowErr := readOne(bytes.Clone(octets), 1)
	if fmt.Sprint(err) != fmt.Sprint(slowErr) || err == nil &&
		(got.text != slow.text || fmt.Sprint(got.err) != fmt.Sprint(slow.err) || got.err == nil && used != slowUsed || !reflect.DeepEqual(got.Header, slow.Header)) {
		t.Fatalf("whole: %+v, %d, %v\noctet by octet: %+v, %d, %v", got, used, err, slow, slowUsed, slowErr)
	}
	if err != nil {
		return false
	}
	in := bytes.NewReader(octets)
	br := bufio.NewReader(in)
	want, err := http.ReadRequest(br)
	if err != nil {
		t.Fatalf("taken: %+v\nnet/http: %v", got, err)
	}
	host := want.Host
	if got.Method != want.Method || got.Target != want.RequestURI || got.Host != host || got.Length != want.ContentLength ||
		got.Minor != min(want.ProtoMinor, 1) || want.ProtoMajor != 1 {
		t.Fatalf("got %+v\nwant %+v", got.Request, want)
	}
	h := got.Header.HTTP()
	h.Del("Trailer") // net/http keeps it elsewhere
	if want.Header.Values("Cache-Control") != nil && h.Values("Cache-Control") == nil {
		delete(want.Header, "Cache-Control") // made of Pragma
	}
	want.Header.Del("Trailer")
	if len(h) != len(want.Header) || len(h) > 0 && !reflect.DeepEqual(h, want.Header) {
		t.Fatalf("fields: got %q, want %q", h, want.Header)
	}
	body, err := io.ReadAll(want.Body)
	if got.err == nil && err != nil || got.err == nil && got.text != string(body) || !strings.HasPrefix(string(body), got.text) && len(body) >= len(got.text) {
		t.Fatalf("body: got %q, %v, want %q, %v", got.text, got.err, body, err)
	}
	if got.err == nil && used != len(octets)-in.Len()-br.Buffered() {
		t.Fatalf("%d octets used, want %d", used, len(octets)-in.Len()-br.Buffered())
	}
	return true
}

// TestRequestPieces makes requests of pieces that are good, odd and bad, by the
// ten thousands: a fuzzer seldom has two of them right at once.
func TestRequestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	odd := func(good string, bad ...string) string { // mostly the good one
		if rng.IntN(8) > 0 {
			return good
		}
		return pick(bad...)
	}
	value := func() string {
		return pick("", "a", "a, b", "\"q\"", "\x80\xff", "a\tb", " a ", "\t", strings.Repeat("v", 50), "a:b", "chunked", "3", "close", "100-continue")
	}
	n, took := 30000, 0
	if testing.Short() {
		n = 3000
	}
	for range n {
		var b strings.Builder
		eol := func() string { return odd("\r\n", "\r\n", "\n", "\r", "\r\r\n", " \r\n", "\r\n ") }
		b.WriteString(odd("POST", "GET", "HEAD", "OPTIONS", "CONNECT", "PUT", "post", "X-Y", "P(", "") + odd(" ", "  ", "\t", ""))
		b.WriteString(odd("/a", "*", "/", "//x", "/%41?b=%zz", "/%zz", "/a b", "/a#b", "http://h/a", "https://h:1?q", "http://u@h/", "h:80", "/\x7f", "/\xe9", "/a;b=c|d", ""))
		b.WriteString(odd(" ", "  ", "\t") + odd("HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/1.10", "http/1.1", "HTTP/1", "") + eol())
		for range rng.IntN(6) {
			b.WriteString(pick("X", "x-a", "SOAPAction", "Connection", "Trailer", "Expect", "Content-Type", "Host", "Pragma", "X\xe9", "X Y", "") + odd(":", " :", ": ", "", ":\t") + value() + eol())
		}
		b.WriteString(odd("Host: h\r\n", "", "Host: a b\r\n", "host:[::1]:80\r\n", "Host:\r\n", "Host: h\r\nHost: h\r\n"))
		switch rng.IntN(4) {
		case 0:
			b.WriteString(odd("Content-Length: 3\r\n", "content-length:3\r\n", "Content-Length: 03\r\n", "Content-Length: 3\r\nContent-Length: 3\r\n", "Content-Length: +3\r\n", "Content-Length: 3, 3\r\n", "Content-Length : 3\r\n", "Content-Length:\r\n 3\r\n"))
			b.WriteString(eol() + "abcGET ")
		case 1:
			b.WriteString(odd("Transfer-Encoding: chunked\r\n", "transfer-encoding:CHUNKED \r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "Transfer-Encoding: \x0bchunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"))
			b.WriteString(eol())
			for range rng.IntN(4) {
				b.WriteString(odd("3", "003", "0x3", "+3", "3 ", " 3", "fffffffffffffffff", "") + odd("", ";a", ";a=\"b;c\"", "; a\t", " ;a", ";a\n", ";a\rb") + odd("\r\n", "\n", "\r"))
				b.WriteString("abc" + odd("\r\n", "\n", "x\r\n", ""))
			}
			b.WriteString(odd("0", "00", "0;x") + odd("\r\n", "\n") + odd("", "X: 1\r\n", "X : 1\r\n", "X\r\n", "Content-Length: 9\r\n", "X: \x00\r\n", "X: 1\n") + odd("\r\n", "\n", "") + "rest")
		default:
			b.WriteString(eol() + "GET / ")
		}
		if agrees(t, []byte(b.String())) {
			took++
		}
		if t.Failed() {
			return
		}
	}
	if took < n/20 || took > n*19/20 {
		t.Errorf("%d of %d requests were taken: the pieces test nothing", took, n)
	}
}

// FuzzServer: whatever is sent, what comes back is a row of answers, and the
// requests of one stream do not depend on how it is cut.
func FuzzServer(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nHEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))
	f.Fuzz(func(t *testing.T, octets []byte) {
		// record makes, for each way to cut the octets, a server that writes down
		// what it gets.
		record := func(most int) (seen []string) {
			var methods []string
			out := converse(bytes.Clone(octets), most, handlerFunc(func(ctx context.Context, r *Request, w *Response) {
				b, err := io.ReadAll(r.Body)
				seen = append(seen, fmt.Sprintf("%s %s %s %q %v", r.Method, r.Target, r.Host, b, err))
				methods = append(methods, r.Method)
				w.Status, w.Body, w.Length = 200, bytes.NewReader(b), int64(len(b))
			}))
			br := bufio.NewReader(bytes.NewReader(out))
			answers := 0
			for {
				req := &http.Request{Method: "POST"}
				if answers < len(methods) {
					req.Method = methods[answers]
				}
				resp, err := http.ReadResponse(br, req)
				if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) && br.Buffered() == 0 {
					break
				}
				if err != nil {
					t.Fatalf("answer %d of %q: %v", answers, out, err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Fatalf("body of answer %d of %q: %v", answers, out, err)
				}
				if resp.StatusCode != 100 {
					answers++
				}
			}
			if answers < len(seen) || answers > len(seen)+1 {
				t.Fatalf("%d answers to %d requests: %q", answers, len(seen), out)
			}
			return seen
		}
		if whole, cut := record(0), record(1); !reflect.DeepEqual(whole, cut) {
			t.Fatalf("whole: %q\noctet by octet: %q", whole, cut)
		}
	})
}
