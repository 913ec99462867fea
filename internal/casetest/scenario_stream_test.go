package casetest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// large is a message of about n octets; tail is put before its end.
func large(v string, n int, tail string) []byte {
	var b bytes.Buffer // not too repetitive, or a coding of it breaks decode_ratio
	b.WriteString(`<t:op xmlns:t="urn:test">`)
	for i := uint64(1); b.Len() < n; i++ {
		fmt.Fprintf(&b, "<i a='%x'>some text, é and &amp; more</i>\n", i*0x9E3779B97F4A7C15)
	}
	b.WriteString(tail + `</t:op>`)
	return envelope(v, b.String())
}

// TestStreams: above limits.buffer a message passes while it is checked, octet
// for octet, with bounded memory (SPEC.md §3.5).
func TestStreams(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		msg := large(v, 3<<20, "")
		f.http.reset()
		f.http.do(func(p *peer, c *call) { _, _ = p.Write(response(200, typed(v).without("SOAPAction"), c.Body)) })
		a := post(t, f.g.addr["http"], "/depot/x", typed(v), msg)
		calls := f.http.got()
		if a.Status != 200 || len(calls) != 1 || !bytes.Equal(calls[0].Body, msg) || !bytes.Equal(a.Body, msg) {
			t.Errorf("3 MiB: status %d, node %s, answer %s", a.Status, describe(joined(calls)), describe(a.Body))
		}
		hd := appendHead(nil, "POST /depot/x HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, typed(v)...))
		f.http.reset()
		a = exchange(t, f.g.addr["http"], append(hd, chunked(msg, 1, 5000, 1<<20, 2<<20)...))
		calls = f.http.got()
		if a.Status != 200 || len(calls) != 1 || !bytes.Equal(calls[0].Body, msg) {
			t.Errorf("chunked: %s, node %s", a, describe(joined(calls)))
		}
		if a := post(t, f.g.addr["http"], "/echo", typed(v), msg); a.Status != 200 || !bytes.Equal(a.Body, msg) {
			t.Errorf("echo: %d, %s", a.Status, describe(a.Body))
		}
	})
}

// TestBadTails: a document whose last octets are bad never reaches the backend
// complete, and the caller gets the fault.
func TestBadTails(t *testing.T) {
	f := shared(t)
	good := large("1.1", 3<<20, "")
	for name, msg := range map[string][]byte{
		"bad entity at the end":  large("1.1", 3<<20, "&nope;"),
		"wrong end tag":          bytes.Replace(good, []byte("</t:op>"), []byte("</t:oq>"), 1),
		"trailing text":          append(bytes.Clone(good), "x"...),
		"trailing NUL":           append(bytes.Clone(good), 0),
		"second envelope":        append(bytes.Clone(good), envelope("1.1", "")...),
		"second Body":            bytes.Replace(good, []byte("</e:Envelope>"), []byte("<e:Body/></e:Envelope>"), 1),
		"bad UTF-8":              large("1.1", 3<<20, "\xff"),
		"unclosed":               good[:len(good)-1],
		"bad in the middle":      large("1.1", 2<<20, "&nope;"+strings.Repeat("<x/>", 300000)),
		"too many blanks":        append(bytes.Clone(good), bytes.Repeat([]byte(" "), 62<<20)...),
		"bad within the 16 KiB":  large("1.1", 3<<20, "</wrong>"+strings.Repeat("<y/>", 3000)),
		"bad before the 16 KiB":  large("1.1", 3<<20, "</wrong>"+strings.Repeat("<y/>", 5000)),
		"64 KiB of broken depth": large("1.1", 3<<20, strings.Repeat("<d>", 22000)),
	} {
		for _, how := range []string{"length", "chunked"} {
			t.Run(name+", "+how, func(t *testing.T) {
				f.http.reset()
				octets := request("/depot/x", typed("1.1"), msg)
				if how == "chunked" {
					hd := appendHead(nil, "POST /depot/x HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, typed("1.1")...))
					octets = append(hd, chunked(msg, len(msg)/2, len(msg)-3)...)
				}
				a := exchange(t, f.g.addr["http"], octets)
				if a.Err != nil {
					t.Fatalf("no whole answer: %s", a)
				}
				if name == "too many blanks" {
					wantBare(t, a, 413)
				} else {
					wantFault(t, a, "1.1", "Client", "")
				}
				eventually(2*time.Second, func() bool { f.http.mu.Lock(); defer f.http.mu.Unlock(); return len(f.http.calls) > 0 })
				calls := f.http.got()
				if f.http.gotComplete() > 0 {
					t.Fatal("complete at the backend")
				}
				if len(calls) > 1 {
					t.Errorf("tried %d times", len(calls))
				}
				for _, c := range calls {
					if len(c.Body) > len(msg)-16<<10 && len(msg) < 10<<20 {
						t.Errorf("the backend got %d of %d octets: the last 16 KiB were not held back", len(c.Body), len(msg))
					}
					if bytes.Contains(c.Body, []byte("&nope;")) || bytes.Contains(c.Body, []byte("</wrong>")) {
						t.Error("the bad octets reached the backend")
					}
				}
			})
		}
	}
}

// TestCutLargeUploads breaks off a streamed request; the node never has it
// complete.
func TestCutLargeUploads(t *testing.T) {
	f := shared(t)
	msg := large("1.2", 3<<20, "")
	octets := request("/depot/x", typed("1.2"), msg)
	for _, left := range []int{1, 100, 20 << 10, 1 << 20, 2 << 20, 3 << 20} {
		for _, how := range []string{"half-close", "reset"} {
			f.http.reset()
			c := dial(t, f.g.addr["http"])
			_ = c.send(octets[:max(len(octets)-left, 300)])
			if how == "reset" {
				_ = c.SetLinger(0)
				c.Close()
			} else {
				_ = c.CloseWrite()
				if a := c.answer(); a.Err == nil {
					wantFault(t, a, "1.2", "Client", "Incomplete NotWellFormed InvalidEnvelope")
				}
				c.Close()
			}
			if n := f.http.gotComplete(); n != 0 {
				t.Errorf("%s, %d octets short: complete at the backend", how, left)
			}
		}
	}
	pause(100 * time.Millisecond)
	if n := f.http.gotComplete(); n != 0 {
		t.Error("a cut upload became complete at the backend")
	}
}

// TestBadReplies: a streamed reply that turns bad after its head was sent cuts
// the client's connection; it never looks complete.
func TestBadReplies(t *testing.T) {
	f := shared(t)
	good := large("1.1", 3<<20, "")
	type shape struct {
		body  []byte
		close bool
	}
	for name, s := range map[string]shape{
		"bad entity":        {large("1.1", 3<<20, "&nope;"), false},
		"bad in the middle": {large("1.1", 2<<20, "&nope;"+strings.Repeat("<x/>", 300000)), false},
		"trailing text":     {append(bytes.Clone(good), "x"...), false},
		"cut":               {good[:2<<20], true},
	} {
		for _, how := range []string{"length", "chunked"} {
			t.Run(name+", "+how, func(t *testing.T) {
				f.http.reset()
				f.http.do(func(p *peer, _ *call) {
					fl := fields{{"Content-Type", "text/xml"}}
					n := len(s.body)
					if s.close {
						n += 1000
					}
					if how == "length" {
						_, _ = p.Write(append(appendHead(nil, "HTTP/1.1 200 OK", append(fl, field{"Content-Length", fmt.Sprint(n)})), s.body...))
					} else {
						coded := chunked(s.body, 1000, 1<<20)
						if s.close {
							coded = coded[:len(coded)-5]
						}
						_, _ = p.Write(append(appendHead(nil, "HTTP/1.1 200 OK", append(fl, field{"Transfer-Encoding", "chunked"})), coded...))
					}
					if s.close {
						p.Close()
					}
				})
				a := exchange(t, f.g.addr["http"], request("/depot/x", typed("1.1"), envelope("1.1", op)))
				switch {
				case a.Err == nil && a.Status == 200:
					t.Errorf("a bad reply came complete: %s", describe(a.Body))
				case a.Err == nil:
					wantFault(t, a, "1.1", "Server", "BackendNotSOAP BackendBroken")
				case bytes.Contains(a.Body, []byte("&nope;")):
					t.Error("the bad octets reached the client")
				}
			})
		}
	}
}

// TestSlowReaders: a client that reads slowly holds no memory, and a backend
// that reads slowly holds the client back.
func TestSlowReaders(t *testing.T) {
	f := shared(t)
	msg := large("1.1", 24<<20, "")
	f.http.do(func(p *peer, _ *call) { _, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, msg)) })
	var a *answer
	grown := f.g.growth(t, func() {
		c := dial(t, f.g.addr["http"])
		_ = c.send(request("/depot/x", typed("1.1"), envelope("1.1", op)))
		_, _ = c.r.r.Peek(100)
		pause(400 * time.Millisecond) // the kernel's buffers fill up meanwhile
		a = c.answer()
		c.Close()
	})
	if a.Status != 200 || !bytes.Equal(a.Body, msg) {
		t.Errorf("status %d, %s, %v", a.Status, describe(a.Body), a.Err)
	}
	if grown > 16<<20 {
		t.Errorf("a slow client: memory grew by %d MiB", grown>>20)
	}
	f.http.reset()
	f.http.take(func(p *peer) {
		_, _ = p.r.r.Peek(100)
		pause(400 * time.Millisecond)
		if c := f.http.read(p); c != nil {
			_, _ = p.Write(closing(okReply(c)))
		}
	})
	grown = f.g.growth(t, func() {
		a = exchange(t, f.g.addr["http"], request("/depot/x", typed("1.1"), msg))
	})
	if a.Status != 200 || f.http.gotComplete() != 1 || !bytes.Equal(f.http.got()[0].Body, msg) {
		t.Errorf("%s; the node got %s", a, describe(joined(f.http.got())))
	}
	if grown > 16<<20 {
		t.Errorf("a slow backend: memory grew by %d MiB", grown>>20)
	}
}

// TestClientLeaves: the caller goes while the backend works; the try is cut
// and nothing is kept.
func TestClientLeaves(t *testing.T) {
	f := shared(t)
	left := make(chan error, 1)
	f.http.do(func(p *peer, _ *call) {
		_ = p.SetReadDeadline(time.Now().Add(patience))
		_, err := p.r.r.ReadByte()
		left <- err
		p.Close()
	})
	c := dial(t, f.g.addr["http"])
	_ = c.send(request("/depot/x", typed("1.1"), envelope("1.1", op)))
	if !eventually(patience, func() bool { return f.http.gotComplete() == 1 }) {
		t.Fatal("not forwarded")
	}
	c.Close()
	select {
	case err := <-left:
		if err == nil || !strings.Contains(err.Error(), io.EOF.Error()) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("the node's connection: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the try goes on after the caller left")
	}
}

// TestEarlyAnswers: a node that answers before it has read the request.
func TestEarlyAnswers(t *testing.T) {
	f := shared(t)
	fault := `<e:Envelope xmlns:e="` + ns11 + `"><e:Body><e:Fault><faultcode>e:Client</faultcode><faultstring>too large</faultstring></e:Fault></e:Body></e:Envelope>`
	f.http.take(func(p *peer) {
		if _, err := p.r.head(); err != nil {
			return
		}
		_, _ = p.Write(closing(response(500, fields{{"Content-Type", "text/xml"}}, []byte(fault))))
		_ = p.CloseWrite()
		_, _ = io.Copy(io.Discard, p.r.r)
	})
	a := exchange(t, f.g.addr["http"], request("/depot/x", typed("1.1"), large("1.1", 8<<20, "")))
	if a.Err != nil || a.Status != 500 {
		t.Fatalf("got %s", a)
	}
	if string(a.Body) != fault {
		wantFault(t, a, "1.1", "Server", "")
	}
}
