package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"soapway/internal/frame"
	"soapway/soapcodec"
)

// startPeer runs a peer inside this process and returns its address.
func startPeer(t *testing.T, kind string, f Faults) string {
	t.Helper()
	stdin, hold := io.Pipe() // its end is the end of the peer
	line, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- ServePeer(context.Background(), kind, PeerOptions{Faults: f}, stdin, stdout) }()
	t.Cleanup(func() {
		hold.Close()
		if err := <-done; err != nil {
			t.Errorf("peer %s: %v", kind, err)
		}
	})
	var ready Ready
	if err := json.NewDecoder(line).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, line) }()
	return ready.Address
}

var echoPairs = []struct {
	kind string
	dial DialCaller
}{{"raw-http", DialRaw}, {"raw-http", DialStd}, {"std-http", DialRaw}, {"std-http", DialStd}, {"framed", DialFramed}}

// TestCallers: every sender and every binder of ours carry messages of any length
// unchanged, over one connection.
func TestCallers(t *testing.T) {
	for _, pair := range echoPairs {
		address := startPeer(t, pair.kind, Faults{})
		for _, v := range []soapcodec.Version{soapcodec.V11, soapcodec.V12} {
			for _, size := range []int{PingSize, 1500, 65_535} {
				m, err := NewPing(v, size)
				if err != nil {
					t.Fatal(err)
				}
				c, err := pair.dial(t.Context(), Target{Address: address, Path: "/echo", ContentType: m.contentType})
				if err != nil {
					t.Fatalf("%s: %v", pair.kind, err)
				}
				for range 3 {
					sent := m.Next()
					reply, err := c.Call(t.Context(), sent)
					if err == nil {
						err = Echoed(sent, reply)
					}
					if err != nil {
						t.Errorf("%s, %d octets: %v", pair.kind, size, err)
					}
				}
				if err := c.Close(); err != nil {
					t.Errorf("%s: close: %v", pair.kind, err)
				}
			}
		}
	}
}

// TestTooLongForAFrame: 65,536 octets do not fit a length of two.
func TestTooLongForAFrame(t *testing.T) {
	c, err := DialFramed(t.Context(), Target{Address: startPeer(t, "framed", Faults{})})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(t.Context(), make([]byte, 65_536)); !errors.Is(err, frame.ErrTooLong) {
		t.Errorf("got %v, want %v", err, frame.ErrTooLong)
	}
}

// TestWrongReplies: a planted wrong reply is found in every pair, and none else.
func TestWrongReplies(t *testing.T) {
	for _, pair := range echoPairs {
		m, err := NewPing(soapcodec.V11, PingSize)
		if err != nil {
			t.Fatal(err)
		}
		c, err := pair.dial(t.Context(), Target{Address: startPeer(t, pair.kind, Faults{WrongEvery: 5}), Path: "/", ContentType: m.contentType})
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 20; n++ {
			sent := m.Next()
			reply, err := c.Call(t.Context(), sent)
			if err != nil {
				t.Fatal(err)
			}
			if err := Echoed(sent, reply); (n%5 == 0) != errors.Is(err, errEcho) {
				t.Errorf("%s, message %d: %v", pair.kind, n, err)
			}
		}
		c.Close()
	}
}

// TestCutOff: a call ends with its context, and a peer that is gone is an error.
func TestCutOff(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, dial := range []DialCaller{DialRaw, DialFramed, DialStd} {
		ctx, stop := context.WithCancel(t.Context())
		c, err := dial(ctx, Target{Address: ln.Addr().String(), Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Millisecond, stop)
		if _, err := c.Call(ctx, []byte("<x/>")); err == nil {
			t.Error("an answer from nobody")
		}
		c.Close()
	}
}

// TestRawAnswers: what the raw client takes, and what it leaves to real ones.
func TestRawAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, answer, want string
		err                string
	}{
		{"plain", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", ""},
		{"odd case and blanks", "HTTP/1.1 200\r\nX: y\r\ncontent-length:3  \r\n\r\nabc", "abc", ""},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", ""},
		{"a fault", "HTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nx", "x", "status 500"},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", "one Content-Length alone"},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "", "one Content-Length alone"},
		{"no number", "HTTP/1.1 abc\r\nContent-Length: 1\r\n\r\nx", "", "one Content-Length alone"},
		{"negative", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "", "Content-Length"},
		{"huge", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "", "Content-Length"},
		{"cut head", "HTTP/1.1 200 OK\r\nContent-Le", "", "unexpected EOF"},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "", "unexpected EOF"},
		{"nothing", "", "", "EOF"},
		{"an endless line", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), "", "buffer full"},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, tt.answer)
		}()
		c, err := DialRaw(t.Context(), Target{Address: ln.Addr().String(), Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Call(t.Context(), []byte("<x/>"))
		if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %q, %v, want %q, %q", tt.name, got, err, tt.want, tt.err)
		}
		c.Close()
		ln.Close()
		<-gone
	}
}

func TestPing(t *testing.T) {
	for _, v := range []soapcodec.Version{soapcodec.V11, soapcodec.V12} {
		m, err := NewPing(v, PingSize)
		if err != nil {
			t.Fatal(err)
		}
		first := bytes.Clone(m.Next())
		second := m.Next()
		if len(first) != PingSize || bytes.Equal(first, second) || errors.Is(Echoed(second, first), nil) {
			t.Errorf("SOAP %v: %q then %q", v, first, second)
		}
		facts, err := soapcodec.Decode(first, soapcodec.Options{})
		if err != nil || facts.Version != v || facts.Operation.Local != "ping" || !bytes.Contains(first, []byte("<n>0000000001</n>")) {
			t.Errorf("SOAP %v: %q: %+v, %v", v, first, facts, err)
		}
		if last := m.Clone(9_999_999_999).Next(); !bytes.Contains(last, []byte("<n>0000000000</n>")) || len(last) != PingSize {
			t.Errorf("the counter does not wrap: %q", last)
		}
		if _, err := NewPing(v, 100); err == nil {
			t.Error("a ping of 100 octets")
		}
	}
	fault := []byte(`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault><faultcode>s:Server</faultcode><faultstring/></s:Fault></s:Body></s:Envelope>`)
	if err := Echoed([]byte("<x/>"), fault); err == nil || err.Error() != "a SOAP fault" {
		t.Errorf("a fault: %v", err)
	}
	if err := NoFault(nil, []byte("<html/>")); err == nil {
		t.Error("a page is a reply")
	}
}

// TestUnknownService: a service that echoes once must echo always; another one
// must give envelopes that are no faults.
func TestUnknownService(t *testing.T) {
	m, err := NewPing(soapcodec.V11, PingSize)
	if err != nil {
		t.Fatal(err)
	}
	one, other := bytes.Clone(m.Next()), bytes.Clone(m.Next())
	echo := unknownService()
	if echo(one, one) != nil || echo(one, other) == nil {
		t.Error("an echo that stopped was not noticed")
	}
	service := unknownService()
	if service(one, other) != nil || service(one, one) != nil || service(one, []byte("<x/>")) == nil {
		t.Error("a service")
	}
}

// TestAllocs: what the generator does for each message leaves nothing to collect.
func TestAllocs(t *testing.T) {
	m, err := NewPing(soapcodec.V11, PingSize)
	if err != nil {
		t.Fatal(err)
	}
	meter := newMeter(nil, nil, nil)
	meter.Start()
	shard := meter.Shard(0)
	shard.Done(time.Now())
	allocs := testing.AllocsPerRun(1000, func() {
		began := time.Now()
		sent := m.Next()
		if Echoed(sent, sent) == nil {
			shard.Done(began)
		}
	})
	if allocs != 0 {
		t.Errorf("a message: %v allocations", allocs)
	}
	for _, pair := range echoPairs {
		if pair.kind == "std-http" {
			continue
		}
		c, err := pair.dial(t.Context(), Target{Address: startPeer(t, pair.kind, Faults{}), Path: "/", ContentType: m.contentType})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, std := c.(*stdCaller); std {
			continue
		}
		call := func() {
			if _, err := c.Call(t.Context(), m.Next()); err != nil {
				t.Fatal(err)
			}
		}
		call()
		// Both sides are in this process: neither allocates.
		if allocs := testing.AllocsPerRun(200, call); allocs > 0 {
			t.Errorf("%s: %v allocations for a call", pair.kind, allocs)
		}
	}
}
