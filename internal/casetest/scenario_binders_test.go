package casetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestEveryBinder: any sender reaches any binder, and the octets are the same
// on both ways.
func TestEveryBinder(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		msg := []byte("<?xml version='1.0'?>\n" + string(envelope(v, "<t:op  xmlns:t='urn:test' a = \"&#13;\">Grüße\t<![CDATA[<]]></t:op >")) + "\n<!-- end -->")
		reply := envelope(v, `<r:ok xmlns:r='urn:r'>é</r:ok>`)
		toHTTP := func() {
			f.http.reset()
			f.http.answerWith(response(200, typed(v).without("SOAPAction"), reply))
		}
		at := func(t *testing.T, b *backend) {
			t.Helper()
			if got := b.got(); len(got) != 1 || !bytes.Equal(got[0].Body, msg) {
				t.Fatalf("the node got %d messages: %s", len(got), describe(joined(got)))
			}
		}
		t.Run("HTTP to HTTP", func(t *testing.T) {
			toHTTP()
			a := post(t, f.g.addr["http"], "/depot/x", typed(v), msg)
			at(t, f.http)
			if a.Status != 200 || !bytes.Equal(a.Body, reply) {
				t.Errorf("got %s", a)
			}
		})
		for _, to := range []struct {
			target string
			b      *backend
		}{{"/f2", f.framed2}, {"/f4", f.framed4}} {
			t.Run("HTTP to framed "+to.target, func(t *testing.T) {
				to.b.reset()
				a := post(t, f.g.addr["http"], to.target, typed(v), msg)
				at(t, to.b)
				if a.Status != 200 || !bytes.Equal(a.Body, msg) || mediaType(a.Fields.get("Content-Type")) != mediaType(typed(v).get("Content-Type")) {
					t.Errorf("got %s", a)
				}
			})
		}
		t.Run("HTTP to echo", func(t *testing.T) {
			a := post(t, f.g.addr["http"], "/echo", typed(v), msg)
			if a.Status != 200 || !bytes.Equal(a.Body, msg) || mediaType(a.Fields.get("Content-Type")) != mediaType(typed(v).get("Content-Type")) {
				t.Errorf("got %s", a)
			}
		})
		for _, from := range []struct {
			listener string
			size     int
		}{{"f2", 2}, {"f4", 4}} {
			t.Run("framed to HTTP "+from.listener, func(t *testing.T) {
				toHTTP()
				got := dialFramed(t, f.g.addr[from.listener], from.size).call(msg)
				at(t, f.http)
				if !bytes.Equal(got, reply) {
					t.Errorf("got %q", got)
				}
				c := f.http.got()[0]
				wantType, wantAction := "text/xml", `""`
				if v == "1.2" {
					wantType, wantAction = "application/soap+xml", ""
				}
				if mediaType(c.Fields.get("Content-Type")) != wantType || c.Fields.get("SOAPAction") != wantAction || c.method() != "POST" {
					t.Errorf("the node got %s", c.Raw)
				}
			})
		}
		for _, x := range []struct {
			listener string
			size     int
			b        *backend
		}{{"f2-f2", 2, f.framed2}, {"f4-f4", 4, f.framed4}, {"f4-f2", 4, f.framed2}, {"f2-f4", 2, f.framed4}, {"f4-echo", 4, nil}} {
			t.Run("framed "+x.listener, func(t *testing.T) {
				if x.b != nil {
					x.b.reset()
				}
				if got := dialFramed(t, f.g.addr[x.listener], x.size).call(msg); !bytes.Equal(got, msg) {
					t.Errorf("got %q", got)
				}
				if x.b != nil {
					at(t, x.b)
				}
			})
		}
	})
}

func joined(calls []*call) (b []byte) {
	for _, c := range calls {
		b = append(b, c.Body...)
	}
	return b
}

// TestFramedAnswers: what has no envelope over HTTP is a fault here, and every
// request gets exactly one frame (SPEC.md §3, Framed).
func TestFramedAnswers(t *testing.T) {
	f := shared(t)
	own := func(t *testing.T, b []byte, version, code, own string) {
		t.Helper()
		ft, err := readFault(b, "")
		if err != nil || ft == nil || ft.Version != version || ft.Code != (qname{nsOf[version], code}).String() || ft.Own != own {
			t.Errorf("got %s (%v), want %s %s", b, err, code, own)
		}
	}
	c := dialFramed(t, f.g.addr["f4"], 4)
	if got := c.call(nil); len(got) != 0 { // keep-alive, answered alike
		t.Errorf("a zero-length frame was answered by %q", got)
	}
	if n := len(f.http.got()); n != 0 {
		t.Errorf("a keep-alive was forwarded")
	}
	f.http.answerWith(response(202, nil, nil))
	if got := c.call(envelope("1.1", op)); len(got) != 0 { // accepted, no reply
		t.Errorf("a 202 became %q", got)
	}
	f.http.reset()
	own(t, c.call([]byte("<a")), "1.1", "Client", "NotWellFormed")
	own(t, c.call([]byte(strings.TrimSuffix(string(envelope("1.2", op)), "</e:Envelope>"))), "1.2", "Sender", "NotWellFormed")
	own(t, c.call([]byte(`<Invoice xmlns="urn:ubl"/>`)), "1.1", "VersionMismatch", "VersionMismatch")
	f.http.answerWith(response(200, fields{{"Content-Type", "text/html"}}, []byte("<p>")))
	own(t, c.call(envelope("1.2", op)), "1.2", "Receiver", "BackendNotSOAP")
	f.http.answerWith(response(200, fields{{"Content-Type", "text/xml"}}, envelope("1.1", strings.Repeat("<a/>", 20000))))
	own(t, dialFramed(t, f.g.addr["f2"], 2).call(envelope("1.1", op)), "1.1", "Server", "ReplyTooLarge")
	own(t, dialFramed(t, f.g.addr["f4-dead"], 4).call(envelope("1.2", op)), "1.2", "Receiver", "BackendUnavailable")
	own(t, dialFramed(t, startByAction(t), 4).call(envelope("1.2", op)), "1.2", "Sender", "NoRoute")

	// A message that does not fit a framed node was not sent, for good.
	f.framed2.reset()
	big := envelope("1.1", strings.Repeat("<a/>", 20000))
	a := post(t, f.g.addr["http"], "/f2", typed("1.1"), big)
	wantFault(t, a, "1.1", "Client", "TooLarge")
	own(t, dialFramed(t, f.g.addr["f4-f2"], 4).call(big), "1.1", "Client", "TooLarge")
	if n := len(f.framed2.got()); n != 0 {
		t.Errorf("%d frames reached the node", n)
	}
	// Faults of a framed node pass: 500 for 1.1.
	fault := `<e:Envelope xmlns:e="` + ns11 + `"><e:Body><e:Fault><faultcode>e:Server</faultcode><faultstring>x</faultstring></e:Fault></e:Body></e:Envelope>`
	f.framed4.do(func(p *peer, _ *call) { _, _ = p.Write(frame(4, []byte(fault))) })
	if a := post(t, f.g.addr["http"], "/f4", typed("1.1"), envelope("1.1", op)); a.Status != 500 || string(a.Body) != fault {
		t.Errorf("a fault of a framed node: %s", a)
	}
	f.framed4.do(func(p *peer, _ *call) { _, _ = p.Write(frame(4, nil)) })
	if a := post(t, f.g.addr["http"], "/f4", typed("1.1"), envelope("1.1", op)); a.Status != 202 || len(a.Body) != 0 {
		t.Errorf("a zero-length frame of a node: %s", a)
	}
	for what, script := range map[string]func(p *peer, _ *call){
		"closes":            func(p *peer, _ *call) { p.Close() },
		"resets":            func(p *peer, _ *call) { p.resetConn() },
		"cuts its frame":    func(p *peer, c *call) { _, _ = p.Write(frame(4, c.Body)[:50]); p.Close() },
		"cuts the length":   func(p *peer, c *call) { _, _ = p.Write([]byte{0, 0}); p.Close() },
		"announces 2 GiB":   func(p *peer, c *call) { _, _ = p.Write([]byte{0x7f, 0xff, 0xff, 0xff}); p.Close() },
		"answers no SOAP":   func(p *peer, c *call) { _, _ = p.Write(frame(4, []byte("hello"))) },
		"answers two times": func(p *peer, c *call) { _, _ = p.Write(append(frame(4, c.Body), frame(4, []byte("<x/>"))...)) },
	} {
		f.framed4.reset()
		f.framed4.do(script)
		a := post(t, f.g.addr["http"], "/f4", typed("1.2"), envelope("1.2", op))
		if what == "answers two times" {
			f.framed4.reset()
			if a.Status != 200 {
				t.Errorf("%s: %s", what, a)
			}
			for range 3 { // the surplus is never taken for a later answer
				if b := post(t, f.g.addr["http"], "/f4", typed("1.2"), envelope("1.2", op)); b.Status != 200 || !bytes.Equal(b.Body, envelope("1.2", op)) {
					t.Errorf("after an answer too many: %s", b)
				}
			}
			continue
		}
		ft := wantFault(t, a, "1.2", "Server", "")
		if !strings.HasPrefix(ft.Own, "Backend") {
			t.Errorf("%s: %s", what, ft.Own)
		}
	}
}

// TestFramedCuts closes and half-closes in the middle of frames.
func TestFramedCuts(t *testing.T) {
	f := shared(t)
	msg := frame(4, envelope("1.1", op))
	for _, n := range []int{1, 3, 4, 5, 60, len(msg) - 1} {
		c := dialFramed(t, f.g.addr["f4"], 4)
		_, _ = c.Write(append(append([]byte(nil), msg...), msg[:n]...))
		_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		if b, err := c.next(); err != nil || len(b) == 0 {
			t.Errorf("cut at %d: the whole frame before got %q, %v", n, b, err)
		}
		if b, err := c.next(); err == nil {
			if ft, _ := readFault(b, ""); ft == nil {
				t.Errorf("cut at %d: half a frame got %q", n, b)
			}
		} else if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("cut at %d: %v", n, err)
		}
		c.Close()
	}
	if n := f.http.gotComplete(); n != 6 {
		t.Errorf("the backend got %d messages, want the 6 whole ones", n)
	}
}

// TestFramedBurst pipelines many messages while reading slowly.
func TestFramedBurst(t *testing.T) {
	f := shared(t)
	const n = 2000
	c := dialFramed(t, f.g.addr["f4-echo"], 4)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range n {
			if _, err = c.Write(frame(4, envelope("1.1", fmt.Sprintf("<n>%d</n>", i)))); err != nil {
				break
			}
		}
		done <- err
	}()
	pause(100 * time.Millisecond)
	for i := range n {
		b, err := c.next()
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		if want := envelope("1.1", fmt.Sprintf("<n>%d</n>", i)); !bytes.Equal(b, want) {
			t.Fatalf("reply %d is %q", i, b)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
