package h2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"soapway/internal/field"
	"soapway/internal/h1"
)

func TestExchange(t *testing.T) {
	got := make(chan *Request, 1)
	addr := serving(t, Options{}, func(ctx context.Context, r *Request, w *h1.Response) {
		echo(ctx, r, w)
		w.Header = field.List{{Name: "Content-Type", Value: "text/xml"}, {Name: "Connection", Value: "close"}, {Name: "no name", Value: "x"}}
		got <- r
	})
	c := dial(t, addr)
	c.open(1, false, "content-type", "text/xml", "x-a", "1", "x-a", "2", "cookie", "a=1", "te", "trailers", "cookie", "b=2")
	c.must(c.WriteData(1, false, []byte("ab")))
	c.must(c.WriteDataPadded(1, true, []byte("c"), make([]byte, 7)))
	c.expect("HEADERS 1 200", `DATA 1 "abc" end`)
	r := <-got
	want := field.List{{Name: "Content-Type", Value: "text/xml"}, {Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "Cookie", Value: "a=1; b=2"}, {Name: "Te", Value: "trailers"}}
	if r.Method != "POST" || r.Target != "/x" || r.Host != "gw" || fmt.Sprint(r.Header) != fmt.Sprint(want) || r.Remote.String() != c.LocalAddr().String() || r.Received.IsZero() {
		t.Errorf("got %+v", r)
	}
	c.must(c.WritePing(false, [8]byte{1}))
	c.expect(`PING "\x01\x00\x00\x00\x00\x00\x00\x00" true`)
}

// What ends a connection, with the code that its client is told (RFC 9113 §7).
func TestConnectionErrors(t *testing.T) {
	addr := serving(t, Options{Options: h1.Options{HeaderBytes: 1 << 10}}, echo)
	head := func(c *client, id uint32, flags http2.Flags, block []byte) {
		c.WriteRawFrame(http2.FrameHeaders, flags, id, block)
	}
	for _, tt := range []struct {
		name string
		send func(c *client)
		want string
	}{
		{"DATA on stream 0", func(c *client) { c.WriteData(0, false, []byte("a")) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"DATA on an idle stream", func(c *client) { c.WriteData(5, false, []byte("a")) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"DATA on a stream of ours", func(c *client) { c.WriteData(2, false, []byte("a")) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"padding that is too long", func(c *client) { c.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{9, 1}) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"padding without its length", func(c *client) { c.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, nil) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"a frame that is too long", func(c *client) { c.Write([]byte{0, 0x40, 1, 0, 0, 0, 0, 0, 1}) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"HEADERS on stream 0", func(c *client) { head(c, 0, http2.FlagHeadersEndHeaders, c.block()) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"HEADERS on a stream of ours", func(c *client) { head(c, 2, http2.FlagHeadersEndHeaders, c.block()) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"HEADERS on a stream that is closed", func(c *client) { head(c, 1, http2.FlagHeadersEndHeaders, c.block()) }, "GOAWAY 1 STREAM_CLOSED"},
		{"a stream below the last", func(c *client) {
			c.open(9, true)
			c.expect("HEADERS 9 200 end")
			c.open(7, true)
		}, "GOAWAY 9 STREAM_CLOSED"},
		{"priority that is not there", func(c *client) {
			head(c, 3, http2.FlagHeadersEndHeaders|http2.FlagHeadersPriority, []byte{0, 0})
		}, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"a head that is interrupted", func(c *client) { head(c, 3, 0, c.block()); c.WritePing(false, [8]byte{}) }, "GOAWAY 3 PROTOCOL_ERROR"},
		{"a head that goes on elsewhere", func(c *client) { head(c, 3, 0, c.block()); c.WriteContinuation(5, true, nil) }, "GOAWAY 3 PROTOCOL_ERROR"},
		{"a head inside a head", func(c *client) { head(c, 3, 0, c.block()); head(c, 5, http2.FlagHeadersEndHeaders, c.block()) }, "GOAWAY 3 PROTOCOL_ERROR"},
		{"CONTINUATION of nothing", func(c *client) { c.WriteContinuation(1, true, nil) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"malformed HPACK", func(c *client) { head(c, 3, http2.FlagHeadersEndHeaders, []byte{0xff, 0xff, 0xff, 0xff}) }, "GOAWAY 3 COMPRESSION_ERROR"},
		{"HPACK that is cut", func(c *client) { b := c.block("x", "y"); head(c, 3, http2.FlagHeadersEndHeaders, b[:len(b)-1]) }, "GOAWAY 3 COMPRESSION_ERROR"},
		{"a head without end", func(c *client) {
			head(c, 3, 0, c.block())
			for i := range 100 {
				c.WriteContinuation(3, false, c.block("x", strings.Repeat(string(rune('a'+i%26)), 500+i)))
			}
		}, "GOAWAY 3 ENHANCE_YOUR_CALM"},
		{"PRIORITY on stream 0", func(c *client) { c.WriteRawFrame(http2.FramePriority, 0, 0, make([]byte, 5)) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"PRIORITY of a wrong length", func(c *client) { c.WriteRawFrame(http2.FramePriority, 0, 1, make([]byte, 4)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"RST_STREAM on stream 0", func(c *client) { c.WriteRSTStream(0, 0) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"RST_STREAM on an idle stream", func(c *client) { c.WriteRSTStream(3, 0) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"RST_STREAM of a wrong length", func(c *client) { c.WriteRawFrame(http2.FrameRSTStream, 0, 1, make([]byte, 3)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"SETTINGS on a stream", func(c *client) { c.WriteRawFrame(http2.FrameSettings, 0, 1, nil) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"SETTINGS of a wrong length", func(c *client) { c.WriteRawFrame(http2.FrameSettings, 0, 0, make([]byte, 5)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"SETTINGS ack that says something", func(c *client) { c.WriteRawFrame(http2.FrameSettings, http2.FlagSettingsAck, 0, make([]byte, 6)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"half a push", func(c *client) { c.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2}) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"a window beyond bounds", func(c *client) {
			c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
		}, "GOAWAY 1 FLOW_CONTROL_ERROR"},
		{"frames that are too short", func(c *client) {
			c.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1<<14 - 1})
		}, "GOAWAY 1 PROTOCOL_ERROR"},
		{"frames that are too long", func(c *client) {
			c.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 24})
		}, "GOAWAY 1 PROTOCOL_ERROR"},
		{"PUSH_PROMISE", func(c *client) { c.WriteRawFrame(http2.FramePushPromise, 4, 1, make([]byte, 8)) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"PING on a stream", func(c *client) { c.WriteRawFrame(http2.FramePing, 0, 1, make([]byte, 8)) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"PING of a wrong length", func(c *client) { c.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 7)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"GOAWAY on a stream", func(c *client) { c.WriteRawFrame(http2.FrameGoAway, 0, 1, make([]byte, 8)) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"GOAWAY of a wrong length", func(c *client) { c.WriteRawFrame(http2.FrameGoAway, 0, 0, make([]byte, 7)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"WINDOW_UPDATE of a wrong length", func(c *client) { c.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 3)) }, "GOAWAY 1 FRAME_SIZE_ERROR"},
		{"WINDOW_UPDATE by nothing", func(c *client) { c.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4)) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"WINDOW_UPDATE on an idle stream", func(c *client) { c.WriteWindowUpdate(3, 1) }, "GOAWAY 1 PROTOCOL_ERROR"},
		{"WINDOW_UPDATE beyond bounds", func(c *client) { c.WriteWindowUpdate(0, maxWindow) }, "GOAWAY 1 FLOW_CONTROL_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, addr)
			c.open(1, true)
			c.expect("HEADERS 1 200 end")
			tt.send(c)
			c.expect(tt.want)
			if got := c.next(); strings.Contains(got, "timeout") || !strings.Contains(got, "EOF") && !strings.Contains(got, "reset") {
				t.Errorf("then got %s, want the end", got)
			}
		})
	}
}

// What ends a stream and nothing else.
func TestStreamErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(c *client)
		want []string
	}{
		{"a stream that depends on itself", func(c *client) {
			c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(), EndHeaders: true, EndStream: true, Priority: http2.PriorityParam{StreamDep: 1, Weight: 3}})
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"WINDOW_UPDATE by nothing", func(c *client) { c.open(1, false); c.WriteRawFrame(http2.FrameWindowUpdate, 0, 1, make([]byte, 4)) }, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"WINDOW_UPDATE beyond bounds", func(c *client) { c.open(1, false); c.WriteWindowUpdate(1, maxWindow) }, []string{"RST_STREAM 1 FLOW_CONTROL_ERROR"}},
		{"more than announced", func(c *client) { c.open(1, false, "content-length", "2"); c.WriteData(1, false, []byte("abc")) }, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"trailers that are not the end", func(c *client) { c.open(1, false); c.open(1, false) }, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"pseudo fields in trailers", func(c *client) { c.open(1, false); c.open(1, true) }, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"what comes after its end", func(c *client) {
			c.open(1, false, "x-hold", "1")
			c.WriteData(1, true, nil)
			c.WriteData(1, true, []byte("a"))
		}, []string{"RST_STREAM 1 STREAM_CLOSED"}},
		{"what comes after a reset", func(c *client) {
			c.open(1, false, "X", "y")
			c.WriteData(1, false, []byte("late"))
			c.open(1, true)
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"what comes after an answer", func(c *client) {
			c.open(1, false, "x-deaf", "1")
			c.expect("HEADERS 1 200 end", "RST_STREAM 1 NO_ERROR")
			c.WriteData(1, true, []byte("late"))
			c.WriteWindowUpdate(1, 1)
			c.WriteRSTStream(1, http2.ErrCodeCancel)
		}, nil},
		{"a white end of a value", func(c *client) { c.open(1, true, "x", "a ") }, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"a reset by the client", func(c *client) { c.open(1, false); c.WriteRSTStream(1, http2.ErrCodeCancel) }, nil},
		{"a large head", func(c *client) { c.open(1, false, "x", strings.Repeat("a", 900), "y", strings.Repeat("b", 900)) }, []string{"HEADERS 1 431 end", "RST_STREAM 1 NO_ERROR"}},
		{"kinds that nobody knows", func(c *client) { c.WriteRawFrame(0x99, 0xff, 77, []byte("abc")) }, nil},
		{"GOAWAY", func(c *client) { c.WriteGoAway(0, http2.ErrCodeNo, nil) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			release := make(chan bool)
			defer close(release)
			addr := serving(t, Options{Options: h1.Options{HeaderBytes: 1 << 10}}, func(ctx context.Context, r *Request, w *h1.Response) {
				switch {
				case r.Header.Has("X-Hold"):
					select {
					case <-release:
					case <-ctx.Done():
					}
				case r.Header.Has("X-Deaf"):
					w.Status = 200
					return
				}
				echo(ctx, r, w)
			})
			c := dial(t, addr)
			tt.send(c)
			c.expect(tt.want...)
			c.works(3)
		})
	}
}

// More streams than are served at once are refused, and may be tried again.
func TestRefused(t *testing.T) {
	release := make(chan bool)
	addr := serving(t, Options{}, func(ctx context.Context, r *Request, w *h1.Response) {
		<-release
		w.Status = 204
	})
	c := dial(t, addr)
	for i := range uint32(maxStreams + 1) {
		c.open(2*i+1, true)
	}
	c.expect(fmt.Sprintf("RST_STREAM %d REFUSED_STREAM", 2*maxStreams+1))
	close(release)
	for range maxStreams {
		if got := c.next(); !strings.HasSuffix(got, " 204 end") {
			t.Fatalf("got %s", got)
		}
	}
}

// A body larger than every window, both ways, whatever the client gives of its own.
func TestWindows(t *testing.T) {
	addr := serving(t, Options{}, func(ctx context.Context, r *Request, w *h1.Response) {
		w.Status, w.Body, w.Length = 200, r.Body, -1 // as it comes
	})
	for _, window := range []uint32{1, 1000, 1 << 20} {
		size := 3 << 20
		if window < frameSize { // each octet in a small frame counts against the client's budget
			size = int(300 * window)
		}
		c := dial(t, addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		sent, got := sha256.New(), sha256.New()
		// The frames that give us room are taken by the one who reads.
		room := make(chan int, 1000)
		room <- firstWindow
		go func() {
			c.open(1, false)
			left := 0
			for n := 0; n < size; {
				for left == 0 {
					left = <-room
				}
				m := min(size-n, left, 1+rand.IntN(frameSize))
				p := make([]byte, m)
				for i := range p {
					p[i] = byte(rand.Uint32())
				}
				sent.Write(p)
				n += m
				left -= m
				c.writing(func() error { return c.WriteData(1, n == size, p) })
			}
		}()
		streamGets, connGets := firstWindow, firstWindow
		given := firstWindow
		for ended := false; !ended; {
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
						streamGets = int(v)
					}
				}
			case *http2.WindowUpdateFrame:
				if f.StreamID == 0 {
					connGets += int(f.Increment)
				} else {
					streamGets += int(f.Increment)
				}
			case *http2.DataFrame:
				got.Write(f.Data())
				ended = f.StreamEnded()
				if n := uint32(len(f.Data())); n > 0 && !ended {
					c.writing(func() error { return errors.Join(c.WriteWindowUpdate(0, n), c.WriteWindowUpdate(1, n)) })
				}
			case *http2.RSTStreamFrame, *http2.GoAwayFrame:
				t.Fatalf("got %v", f)
			}
			if more := min(streamGets, connGets) - given; more > 0 {
				given += more
				room <- more
			}
		}
		if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
			t.Errorf("a window of %d: the octets are other ones", window)
		}
	}
}

var oneAtATime sync.Mutex

// writing makes a write of several goroutines one after the other.
func (c *client) writing(write func() error) {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	if err := write(); err != nil {
		c.t.Error(err)
	}
}

// net/http's client, many streams of a connection at once, of all sizes.
func TestCrowd(t *testing.T) {
	addr := serving(t, Options{}, echo)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols}
	defer tr.CloseIdleConnections()
	var all sync.WaitGroup
	for k := range 60 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(k)))
			for range 30 {
				b := make([]byte, rnd.IntN(1<<rnd.IntN(18)))
				for i := range b {
					b[i] = byte(rnd.Uint32())
				}
				resp, err := (&http.Client{Transport: tr}).Post("http://"+addr+"/x", "text/xml", bytes.NewReader(b))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, b) || resp.StatusCode != 200 {
					t.Errorf("%d octets: got %s, %d octets, %v", len(b), resp.Status, len(got), err)
				}
			}
		})
	}
	all.Wait()
}

// A silent connection gives its buffer back, and works on.
func TestPark(t *testing.T) {
	s, err := NewServer(Options{}, handlerFunc(echo))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(nil)
	c := newConn(s, nil2{})
	c.settled, c.greeted = true, true
	c.in.take()
	c.in.at = time.Now().Add(-2 * parkAfter)
	c.idle = c.in.at
	c.in.late = true
	if err := c.patience(); err != nil || c.in.buf != nil {
		t.Errorf("got %v, buffer %v", err, c.in.buf != nil)
	}
	if want := c.idle.Add(s.opt.IdleTimeout); !c.in.by.Equal(want) {
		t.Errorf("got %v, want %v", c.in.by, want)
	}
}

func TestBudget(t *testing.T) {
	b := budget{left: mostFrames, at: time.Now()}
	for i := range 100 * mostFrames { // a chatty client that gets something done
		if err := b.spend(); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if i%4 == 0 {
			b.earned += framesPerRequest
		}
	}
	b = budget{left: mostFrames, at: time.Now().Add(time.Hour)} // time gives nothing
	n := 0
	for b.spend() == nil {
		n++
	}
	if n != mostFrames {
		t.Errorf("got %d frames, want %d", n, mostFrames)
	}
}

// Uploads that are answered before they have ended are no flood, however many: what
// their sender has on the way when the answer comes is his loss enough.
func TestEarlyAnswers(t *testing.T) {
	addr := serving(t, Options{}, func(_ context.Context, r *Request, w *h1.Response) {
		if w.Status = 413; r.Length == 3 {
			w.Status = 200
		}
	})
	c := dial(t, addr)
	piece := make([]byte, octetsPerFrame)
	id := uint32(1)
	for range 300 {
		c.open(id, false)
		c.expect(fmt.Sprintf("HEADERS %d 413 end", id), fmt.Sprintf("RST_STREAM %d NO_ERROR", id))
		for range 12 {
			c.must(c.WriteData(id, false, piece))
		}
		id += 2
	}
	c.open(id, false, "content-length", "3")
	c.expect(fmt.Sprintf("HEADERS %d 200 end", id))
}
