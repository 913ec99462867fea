package listen

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"soapway/proxy"
)

// wire runs raw octets through a listener, half-closes, and returns the
// statuses of the replies and the targets that reached the server.
func wire(t *testing.T, engine Engine, raw string) (statuses, targets []string, bodies []string) {
	t.Helper()
	seen := make(chan string, 100)
	got := make(chan string, 100)
	opt := HTTPOptions{Engine: engine, Timeouts: Timeouts{Header: patience, BodyIdle: patience, Idle: patience}}
	addr, stop := listenHTTP(t, opt, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		seen <- ex.Target
		b, err := io.ReadAll(ex.Body)
		if err != nil {
			return textReply(400, "broken")
		}
		got <- string(b)
		return textReply(200, "ok")
	})
	p := connect(t, addr)
	p.send(raw)
	for {
		resp, _, err := p.tryReply("POST")
		if err != nil {
			break
		}
		statuses = append(statuses, fmt.Sprint(resp.StatusCode))
		if resp.Close {
			break
		}
		if p.r.Buffered() == 0 {
			p.CloseWrite() // nothing more to say: an open connection ends now
		}
	}
	p.closed()
	if err := stop(); err != nil {
		t.Error(err)
	}
	close(seen)
	close(got)
	for s := range seen {
		targets = append(targets, s)
	}
	for s := range got {
		bodies = append(bodies, s)
	}
	return statuses, targets, bodies
}

// TestWireFraming is the smuggling table: whatever the head says about the
// length of the body, either it is refused, or the connection ends with the
// answer, or both ends agree on where the next request begins.
func TestWireFraming(t *testing.T) { onBoth(t, testWireFraming) }

func testWireFraming(t *testing.T, engine Engine) {
	const next = "POST /next HTTP/1.1\r\nHost: gw\r\nContent-Length: 0\r\n\r\n"
	tests := []struct {
		name string
		raw  string
		want string // statuses
		seen string // targets
		// What the fast engine does where that is not the same.
		fast, fastSeen string
	}{
		{"two requests", post("abc", "Content-Length: 3") + next, "200 200", "/x /next", "", ""},
		{"two chunked requests", post("3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + post("0\r\n\r\n", "Transfer-Encoding: chunked"), "200 200", "/x /x", "", ""},
		// The fields of a request that waits behind may be those of this one:
		// under net/http the connection closes without need, which is never wrong.
		{"chunked, then length behind it", post("3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "200", "/x", "200 200", "/x /next"},
		{"length, then chunked behind it", next + post("3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "200", "/next", "200 200", "/next /x"},
		{"length and coding", post("0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked") + next, "200", "/x", "400", ""},
		{"coding and length", post("0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: 5") + next, "200", "/x", "400", ""},
		{"coding and length, spelled oddly", post("0\r\n\r\n", "tRANSFER-eNCODING: Chunked", "cONTENT-lENGTH: 5") + next, "200", "/x", "400", ""},
		{"coding and bad length", post("0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: x") + next, "400", "", "", ""},
		{"coding under 1.0", "POST /x HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc" + next, "200", "/x", "400", ""},
		{"coding alone under 1.0", "POST /x HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + next, "200", "/x", "400", ""},
		{"two lengths", post("abc", "Content-Length: 3", "Content-Length: 4") + next, "400", "", "", ""},
		{"length list", post("abc", "Content-Length: 3, 3") + next, "400", "", "", ""},
		{"length list that differs", post("abc", "Content-Length: 3, 4") + next, "400", "", "", ""},
		{"negative length", post("abc", "Content-Length: -3") + next, "400", "", "", ""},
		{"signed length", post("abc", "Content-Length: +3") + next, "400", "", "", ""},
		{"hex length", post("abc", "Content-Length: 0x3") + next, "400", "", "", ""},
		{"blank in length", post("abc", "Content-Length: 1 2") + next, "400", "", "", ""},
		{"empty length", post("abc", "Content-Length: ") + next, "400", "", "", ""},
		{"huge length", post("abc", "Content-Length: 99999999999999999999") + next, "400", "", "", ""},
		{"identity", post("abc", "Transfer-Encoding: identity") + next, "501", "", "", ""},
		{"gzip, chunked", post("abc", "Transfer-Encoding: gzip, chunked") + next, "501", "", "", ""},
		{"chunked, chunked", post("abc", "Transfer-Encoding: chunked, chunked") + next, "501", "", "", ""},
		{"chunked twice", post("abc", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + next, "501", "", "", ""},
		{"xchunked", post("abc", "Transfer-Encoding: xchunked") + next, "501", "", "", ""},
		{"chunked with tab", post("abc", "Transfer-Encoding: chunked\v") + next, "400 501", "", "", ""},
		{"blank before colon", post("abc", "Content-Length : 3") + next, "400", "", "", ""},
		{"blank before colon of coding", post("0\r\n\r\n", "Transfer-Encoding : chunked") + next, "400", "", "", ""},
		{"blank line in front", post("abc", " Content-Length: 3") + next, "400", "", "", ""},
		{"no colon", post("abc", "Content-Length") + next, "400", "", "", ""},
		{"empty name", post("abc", ": 3") + next, "400", "", "", ""},
		{"control octet in name", post("abc", "Conte\x00nt-Length: 3") + next, "400", "", "", ""},
		{"NUL in value", post("abc", "X: a\x00b") + next, "400", "", "", ""},
		{"bare CR in value", post("abc", "X: a\rb", "Content-Length: 3") + next, "400", "", "", ""},
		{"two hosts", "POST /x HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n" + next, "400", "", "", ""},
		{"no host", "POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + next, "400", "", "", ""},
		{"bad host", "POST /x HTTP/1.1\r\nHost: a b\r\nContent-Length: 0\r\n\r\n" + next, "400", "", "", ""},
		{"bad method", "PO(ST /x HTTP/1.1\r\nHost: a\r\n\r\n" + next, "400", "", "", ""},
		{"bad version", "POST /x HTTP/1.2.3\r\nHost: a\r\n\r\n" + next, "400", "", "", ""},
		{"version 2", "POST /x HTTP/2.0\r\nHost: a\r\n\r\n" + next, "505", "", "", ""},
		{"no version", "POST /x\r\nHost: a\r\n\r\n" + next, "400", "", "", ""},
		{"blank in target", "POST /x y HTTP/1.1\r\nHost: a\r\n\r\n" + next, "400", "", "", ""},
		{"http/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505", "", "", ""},
		{"tls", "\x16\x03\x01\x00\xf1\x01\x00\x00\xed\x03\x03 junk\r\n\r\n", "400", "", "", ""},
		{"chunk size with sign", post("+3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"chunk size 0x", post("0x3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"chunk size too large", post("10000000000000003\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"chunk without CRLF", post("3\r\nabcX0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"chunk ended by LF", post("3\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"chunk data ended by LF", post("3\r\nabc\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"last chunk ended by LF", post("3\r\nabc\r\n0\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"LF in a chunk extension", post("3;a\nb\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"endless chunk extension", post("3;"+strings.Repeat("a", 20<<10)+"\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + next, "400", "/x", "", ""},
		{"head too large", post("abc", "X: "+strings.Repeat("a", 80<<10)) + next, "431", "", "", ""},
		{"target too large", "POST /" + strings.Repeat("a", 80<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n" + next, "431", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if engine == Fast && tt.fast != "" {
				tt.want, tt.seen = tt.fast, tt.fastSeen
			}
			statuses, targets, _ := wire(t, engine, tt.raw)
			got := strings.Join(statuses, " ")
			if got != tt.want && !(strings.HasPrefix(tt.want, got+" ") || strings.HasSuffix(tt.want, " "+got)) || got == "" {
				t.Errorf("statuses: got %q, want %q", got, tt.want)
			}
			if got := strings.Join(targets, " "); got != tt.seen {
				t.Errorf("requests: got %q, want %q", got, tt.seen)
			}
		})
	}
}

// TestWireLenient keeps in view what net/http takes although a strict reader
// would not (docs/specifications.md): both ends still agree on every border. The
// fast engine is such a reader.
func TestWireLenient(t *testing.T) { onBoth(t, testWireLenient) }

func testWireLenient(t *testing.T, engine Engine) {
	const next = "POST /next HTTP/1.1\r\nHost: gw\r\nContent-Length: 0\r\n\r\n"
	for name, raw := range map[string]string{
		"LF line ends":         "POST /x HTTP/1.1\nHost: gw\nContent-Length: 3\n\nabc" + next,
		"obs-fold":             post("abc", "X: a\r\n b", "Content-Length: 3") + next,
		"obs-fold of a length": post("abc", "Content-Length:\r\n 3") + next,
		"same length twice":    post("abc", "Content-Length: 3", "Content-Length: 3") + next,
		"chunk extension":      post("3;a=b\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", "Transfer-Encoding: chunked", "Trailer: X-Sum"),
	} {
		t.Run(name, func(t *testing.T) {
			statuses, targets, bodies := wire(t, engine, raw)
			if engine == Fast && name != "chunk extension" {
				if len(statuses) != 1 || statuses[0] != "400" || len(targets) > 0 {
					t.Errorf("got %q, %q, want 400 alone", statuses, targets)
				}
				return
			}
			if len(statuses) == 0 || statuses[0] != "200" || targets[0] != "/x" || bodies[0] != "abc" {
				t.Errorf("got %q, %q, %q", statuses, targets, bodies)
			}
			for _, s := range targets {
				if s != "/x" && s != "/next" {
					t.Errorf("got request %q", s)
				}
			}
		})
	}
}

// TestCaseWires runs the raw requests of the shared acceptance cases.
func TestCaseWires(t *testing.T) { onBoth(t, testCaseWires) }

func testCaseWires(t *testing.T, engine Engine) {
	dir := os.Getenv("CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no acceptance cases (set CASES): %v", err)
	}
	want := map[string]string{
		"40-chunked-request/wire.bin":                      "200",
		"43-conflicting-body-length/cl-te.bin":             "200",
		"43-conflicting-body-length/te-trailing-space.bin": "400",
		"43-conflicting-body-length/two-lengths.bin":       "400",
		"43-conflicting-body-length/same-length-list.bin":  "400",
		"43-conflicting-body-length/te-unknown.bin":        "501",
		"43-conflicting-body-length/negative.bin":          "400",
	}
	if engine == Fast {
		want["43-conflicting-body-length/cl-te.bin"] = "400"
	}
	for name, status := range want {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			statuses, targets, bodies := wire(t, engine, string(raw))
			if len(statuses) != 1 || statuses[0] != status {
				t.Errorf("statuses: got %q, want %q and a close", statuses, status)
			}
			for _, s := range targets {
				if s != "/depot/parcel" {
					t.Errorf("got request %q", s)
				}
			}
			if status == "200" {
				body, err := os.ReadFile(filepath.Join(dir, filepath.Dir(name), "request.bin"))
				if err != nil {
					t.Fatal(err)
				}
				if len(bodies) != 1 || bodies[0] != string(body) {
					t.Errorf("body: got %q, want %q", bodies, body)
				}
			}
		})
	}
}

// The count of lengths must not depend on how the octets are cut.
func TestLengthsChunking(t *testing.T) {
	raw := "POST / HTTP/1.1\r\nContent-Length: 3\r\ncontent-LENGTH:4\nX-Content-Length: 5\r\nTransfer-Encoding:chunked\r\n\r\nContent-Lengthy: 1\r\nTransfer-Encoding :x\r\ncontent-length"
	for size := 1; size <= len(raw); size++ {
		var l lengths
		for rest := []byte(raw); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			l.feed(rest[:min(size, len(rest))])
		}
		if l.length.Load() != 2 || l.coding.Load() != 1 {
			t.Fatalf("pieces of %d: got %d lengths, %d codings, want 2 and 1", size, l.length.Load(), l.coding.Load())
		}
	}
}

// A head, a body and silence, octet by octet or not at all.
func TestHTTPSlowPeers(t *testing.T) { onBoth(t, testHTTPSlowPeers) }

func testHTTPSlowPeers(t *testing.T, engine Engine) {
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine, Timeouts: Timeouts{Header: 100 * time.Millisecond, BodyIdle: 100 * time.Millisecond, Idle: 100 * time.Millisecond}}, echoServer)
	t.Run("says nothing", func(t *testing.T) { connect(t, addr).closed() })
	t.Run("half a head", func(t *testing.T) {
		p := connect(t, addr)
		p.send("POST / HTTP/1.1\r\nHost:")
		p.closed()
	})
	t.Run("idle after a request", func(t *testing.T) {
		p := connect(t, addr)
		p.send(post("abc", "Content-Length: 3"))
		p.reply("POST")
		p.closed()
	})
	t.Run("one octet per write", func(t *testing.T) {
		p := connect(t, addr)
		for _, c := range []byte(post("abc", "Content-Length: 3")) {
			p.send(string(c))
		}
		if _, body := p.reply("POST"); body != "abc" {
			t.Errorf("got %q", body)
		}
	})
}

// A client that never reads its reply costs one write deadline, not a goroutine
// for ever.
func TestHTTPNeverReads(t *testing.T) { onBoth(t, testHTTPNeverReads) }

func testHTTPNeverReads(t *testing.T, engine Engine) {
	closed := make(chan bool, 1)
	addr, _ := listenHTTP(t, HTTPOptions{Engine: engine, Timeouts: Timeouts{BodyIdle: 50 * time.Millisecond}}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		return &proxy.Reply{Status: 200, Body: zeros{}, Length: -1, Close: func() { closed <- true }}
	})
	p := connect(t, addr)
	p.SetReadBuffer(1 << 10)
	p.send(post("", "Content-Length: 0"))
	await(t, closed, "end of the reply")
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
