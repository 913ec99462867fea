package h1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"soapway/internal/field"
)

// answers reads all answers in octets, which come at most most at a time, as
// those to requests of one method.
func answers(octets []byte, most int, method string) (got []*Answer, bodies []string, err error) {
	src := &script{in: octets, most: most}
	c := NewClientConn(src)
	defer c.Release()
	for {
		a, err := c.ReadHead(method, 64<<10)
		if err != nil {
			return got, bodies, err
		}
		b, err := io.ReadAll(c)
		got, bodies = append(got, &a), append(bodies, string(b))
		if err != nil || !a.Reusable {
			return got, bodies, err
		}
	}
}

func TestAnswersOfServers(t *testing.T) {
	tests := []struct {
		name, octets, method string
		status               int // 0: no answer
		body                 string
		length               int64
		reusable             bool
		err                  error // of the head or of the body
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "POST", 200, "abc", 3, true, io.EOF},
		{"LF", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", "POST", 200, "abc", 3, true, io.EOF},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "POST", 200, "", 0, true, io.EOF},
		{"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "POST", 200, "abc", 3, true, io.EOF},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "POST", 200, "abc", -1, true, io.EOF},
		{"close", "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 3\r\n\r\nabc", "POST", 200, "abc", 3, false, nil},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nabc", "POST", 200, "abc", -1, false, nil},
		{"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "POST", 200, "abc", 3, false, nil},
		{"1.0 that stays", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", "POST", 200, "abc", 3, true, io.EOF},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD", 200, "", 3, true, io.EOF},
		{"HEAD without length", "HTTP/1.1 200 OK\r\n\r\n", "HEAD", 200, "", -1, true, io.EOF},
		{"204", "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", "POST", 204, "", 0, true, io.EOF},
		{"304", "HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n", "GET", 304, "", 0, true, io.EOF},
		{"short", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "POST", 200, "abc", 5, true, io.ErrUnexpectedEOF},
		{"short chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "POST", 200, "abc", -1, true, io.ErrUnexpectedEOF},
		{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "POST", 200, "abc", -1, true, io.ErrUnexpectedEOF},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", "POST", 200, "abc", -1, true, errChunk},

		{"nothing", "", "POST", 0, "", 0, false, io.EOF},
		{"lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "POST", 0, "", 0, false, errLengths},
		{"list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\n", "POST", 0, "", 0, false, errLength},
		{"length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "POST", 0, "", 0, false, errBoth},
		{"chunks under 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "POST", 0, "", 0, false, errOldCoding},
		{"other coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "POST", 0, "", 0, false, errCoding},
		{"folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "POST", 0, "", 0, false, errFold},
		{"blank before a colon", "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\n", "POST", 0, "", 0, false, errName},
		{"control octet", "HTTP/1.1 200 OK\r\nX: a\x00\r\n\r\n", "POST", 0, "", 0, false, errValue},
		{"CR inside", "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 3\r\n\r\n", "POST", 0, "", 0, false, errValue},
		{"version 2", "HTTP/2.0 200 OK\r\n\r\n", "POST", 0, "", 0, false, errStatusLine},
		{"two digits", "HTTP/1.1 20 OK\r\n\r\n", "POST", 0, "", 0, false, errStatusLine},
		{"four digits", "HTTP/1.1 2000 OK\r\n\r\n", "POST", 0, "", 0, false, errStatusLine},
		{"below 100", "HTTP/1.1 099 OK\r\n\r\n", "POST", 0, "", 0, false, errStatusLine},
		{"control octet in the reason", "HTTP/1.1 200 O\x07\r\n\r\n", "POST", 0, "", 0, false, errStatusLine},
		{"two large", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", "POST", 0, "", 0, false, errAnswerSize},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, most := range []int{0, 1, 5} {
				got, bodies, err := answers([]byte(tt.octets), most, tt.method)
				if tt.status == 0 {
					if len(got) > 0 || !errors.Is(err, tt.err) {
						t.Errorf("at most %d octets a time: got %+v, %v, want %v", most, got, err, tt.err)
					}
					continue
				}
				if len(got) != 1 || !errors.Is(err, tt.err) || got[0].Status != tt.status || got[0].Length != tt.length || got[0].Reusable != tt.reusable || bodies[0] != tt.body {
					t.Errorf("at most %d octets a time: got %+v %q, %v, want %+v", most, got, bodies, err, tt)
				}
			}
		})
	}
}

func TestAppendRequest(t *testing.T) {
	h := field.Of(http.Header{
		"SOAPAction": {`"a"`}, "X-Two": {"1", "2\r\nX-Evil: 1"}, "X Bad": {"1"}, "": {"1"}, "content-length": {"9"}, "Transfer-Encoding": {"x"},
		"connection": {"close"}, "Host": {"evil"}, "expect": {"100-continue"}, "TE": {"trailers"}, "Upgrade": {"h2c"},
	})
	for _, tt := range []struct {
		method string
		length int64
		framed string
	}{
		{"POST", 5, "Content-Length: 5\r\n"},
		{"POST", 0, "Content-Length: 0\r\n"},
		{"POST", -1, "Transfer-Encoding: chunked\r\n"},
		{"GET", 0, ""},
	} {
		got, err := AppendRequest(nil, tt.method, "/a?b", "h:1", h, tt.length)
		want := tt.method + " /a?b HTTP/1.1\r\nHost: h:1\r\n" + tt.framed + "SOAPAction: \"a\"\r\nX-Two: 1\r\nX-Two: 2  X-Evil: 1\r\n\r\n"
		if err != nil || string(got) != want {
			t.Errorf("%s, %d: got %q, %v, want %q", tt.method, tt.length, got, err, want)
		}
	}
	for _, bad := range [][3]string{{"", "/", "h"}, {"P T", "/", "h"}, {"GET", "", "h"}, {"GET", "/ x", "h"}, {"GET", "/\r\n", "h"}, {"GET", "/", ""}, {"GET", "/", "h\r\n"}} {
		if got, err := AppendRequest(nil, bad[0], bad[1], bad[2], nil, 0); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
}

// FuzzAnswer: what is taken here net/http takes too, with the same meaning and
// the same end, and however the octets come.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: 1\r\nx-a: 2\r\n\r\nabcHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: 1\r\n\r\n",
		"HTTP/1.0 200\nConnection: keep-alive\nContent-Length: 0\n\nHTTP/1.1 304 x\nETag: 1\n\n",
		"HTTP/1.1 200 OK\r\n\r\nuntil the end",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n a\r\n\r\nabc",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, octets []byte, head bool) {
		method := http.MethodPost
		if head {
			method = http.MethodHead
		}
		got, bodies, err := answers(bytes.Clone(octets), 0, method)
		slow, slowBodies, slowErr := answers(bytes.Clone(octets), 1, method)
		if !reflect.DeepEqual(got, slow) || !reflect.DeepEqual(bodies, slowBodies) || fmt.Sprint(err) != fmt.Sprint(slowErr) {
			t.Fatalf("whole: %+v %q %v\noctet by octet: %+v %q %v", got, bodies, err, slow, slowBodies, slowErr)
		}
		br := bufio.NewReader(bytes.NewReader(octets))
		for i, a := range got {
			want, werr := http.ReadResponse(br, &http.Request{Method: method})
			if werr != nil {
				t.Fatalf("answer %d: taken: %+v\nnet/http: %v", i, a, werr)
			}
			if a.Status != want.StatusCode {
				t.Fatalf("answer %d: got %d, want %d", i, a.Status, want.StatusCode)
			}
			last := i == len(got)-1
			if a.Status == 101 { // the connection is not HTTP any more
				return
			}
			body, werr := io.ReadAll(want.Body)
			if last && err != nil && err != io.EOF { // perhaps of this body
				if !strings.HasPrefix(string(body), bodies[i]) && len(body) >= len(bodies[i]) {
					t.Fatalf("answer %d: body %q, want the start of %q", i, bodies[i], body)
				}
				return
			}
			if werr != nil || string(body) != bodies[i] {
				t.Fatalf("answer %d: got %q, want %q, %v", i, bodies[i], body, werr)
			}
			if a.Body && a.Length != want.ContentLength {
				t.Fatalf("answer %d: length %d, want %d", i, a.Length, want.ContentLength)
			}
			if a.Reusable && want.Close {
				t.Fatalf("answer %d: reusable, net/http would close", i)
			}
			h, wh := a.Header.HTTP(), want.Header.Clone()
			for _, name := range []string{"Host", "Trailer", "Content-Length", "Cache-Control"} { // kept or made elsewhere
				h.Del(name)
				wh.Del(name)
			}
			if len(h) != len(wh) || len(h) > 0 && !reflect.DeepEqual(h, wh) {
				t.Fatalf("answer %d: fields %q, want %q", i, h, wh)
			}
		}
	})
}
