package h2

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"soapway/internal/field"
	"soapway/internal/h1"
	"soapway/internal/memnet"
)

// FuzzConn feeds the octets of a client to this server and to net/http's, each in
// one piece and in small ones. Whatever request this one takes, however it comes,
// net/http takes too, and understands it in the same way. Where net/http ends the
// whole connection it has said nothing about what comes next: it does so for
// RST_STREAM on a stream whose head it found malformed.
func FuzzConn(f *testing.F) {
	for _, script := range [][]string{
		{"headers", "data", "end"},
		{"headers-end", "ping", "headers-end"},
		{"headers", "trailers"},
		{"headers", "reset", "headers-end", "goaway"},
		{"half", "continuation", "data", "end", "window", "settings"},
		{"length", "data", "end"},
		{"priority", "padded", "end"},
	} {
		f.Add(spoken(script))
	}
	f.Fuzz(func(t *testing.T, octets []byte) {
		if len(octets) > 64<<10 {
			return
		}
		theirs, ended := converse(t, octets, len(octets), false)
		if ended {
			return
		}
		whole, _ := converse(t, octets, len(octets), true)
		cut, _ := converse(t, octets, 7, true)
		for _, taken := range [][]string{whole, cut} {
			for _, r := range taken {
				if !slices.Contains(theirs, r) {
					t.Fatalf("taken: %s\nby net/http: %q", r, theirs)
				}
			}
		}
	})
}

// spoken are the octets of a client.
func spoken(script []string) []byte {
	var b, block bytes.Buffer
	b.WriteString(preface)
	fr := http2.NewFramer(&b, nil)
	fr.AllowIllegalWrites = true
	enc := hpack.NewEncoder(&block)
	head := func(more ...string) []byte {
		block.Reset()
		all := append([]string{":method", "POST", ":scheme", "http", ":authority", "gw", ":path", "/x"}, more...)
		for i := 0; i < len(all); i += 2 {
			enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
		}
		return bytes.Clone(block.Bytes())
	}
	fr.WriteSettings()
	id := uint32(1)
	for _, what := range script {
		switch what {
		case "headers":
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head("x-a", "b"), EndHeaders: true})
		case "headers-end":
			id += 2
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head("cookie", "a=1", "cookie", "b=2"), EndHeaders: true, EndStream: true})
		case "length":
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head("content-length", "3"), EndHeaders: true})
		case "priority":
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head(), EndHeaders: true, PadLength: 3, Priority: http2.PriorityParam{StreamDep: 7, Weight: 3}})
		case "half":
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head()[:3]})
		case "continuation":
			fr.WriteContinuation(id, true, head()[3:])
		case "data":
			fr.WriteData(id, false, []byte("abc"))
		case "padded":
			fr.WriteDataPadded(id, false, []byte("abc"), make([]byte, 5))
		case "end":
			fr.WriteData(id, true, nil)
		case "trailers":
			block.Reset()
			enc.WriteField(hpack.HeaderField{Name: "x-sum", Value: "1"})
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: bytes.Clone(block.Bytes()), EndHeaders: true, EndStream: true})
		case "reset":
			fr.WriteRSTStream(id, http2.ErrCodeCancel)
		case "ping":
			fr.WritePing(false, [8]byte{})
		case "goaway":
			fr.WriteGoAway(0, http2.ErrCodeNo, nil)
		case "window":
			fr.WriteWindowUpdate(0, 10)
		case "settings":
			fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		}
	}
	return b.Bytes()
}

// converse has a server take in octets in pieces, and returns the requests that it
// took with their whole body, and whether it has ended the connection.
func converse(t *testing.T, octets []byte, piece int, ours bool) (taken []string, ended bool) {
	var mu sync.Mutex
	note := func(method, target, host string, header field.List, body io.Reader) {
		b, err := io.ReadAll(body)
		if err != nil {
			return
		}
		header.Del("Trailer", "Expect", "Host")
		slices.SortStableFunc(header, func(a, b field.Field) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
		mu.Lock()
		defer mu.Unlock()
		taken = append(taken, fmt.Sprintf("%s %q %q %q %q", method, target, host, header, b))
	}
	synctest.Test(t, func(t *testing.T) {
		pipes := memnet.Listen()
		var serve, stop func()
		if ours {
			s, err := NewServer(Options{}, handlerFunc(func(_ context.Context, r *Request, w *h1.Response) {
				note(r.Method, r.Target, r.Host, r.Header, r.Body)
				w.Status = 204
			}))
			if err != nil {
				t.Fatal(err)
			}
			serve = func() {
				for {
					c, err := pipes.Accept()
					if err != nil {
						return
					}
					go s.ServeConn(c)
				}
			}
			stop = func() { s.Close(nil) }
		} else {
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			s := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				note(r.Method, r.RequestURI, r.Host, field.Of(r.Header), r.Body)
				w.WriteHeader(204)
			})}
			serve = func() { s.Serve(pipes) }
			stop = func() { s.Close() }
		}
		go serve()
		c, err := pipes.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		var over atomic.Bool
		go func() {
			io.Copy(io.Discard, c)
			over.Store(true)
		}()
		go func(c net.Conn) {
			for rest := octets; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				if _, err := c.Write(rest[:min(piece, len(rest))]); err != nil {
					return
				}
			}
		}(c)
		synctest.Wait()
		time.Sleep(5 * time.Second) // that is how long net/http may wait after a GOAWAY, and more
		ended = over.Load()
		c.Close()
		pipes.Close()
		stop()
		time.Sleep(time.Minute) // until the timers of net/http are over
	})
	return taken, ended
}
