package casetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// envelope is a message of that version with the given Body content.
func envelope(version, inner string) []byte {
	return []byte(`<e:Envelope xmlns:e="` + nsOf[version] + `"><e:Body>` + inner + `</e:Body></e:Envelope>`)
}

// typed are the fields of a plain message of that version.
func typed(version string) fields {
	if version == "1.2" {
		return xml12()
	}
	return xml11("urn:test#op")
}

const op = `<t:op xmlns:t="urn:test"><t:a>1</t:a></t:op>`

// inBoth runs f once for each SOAP version.
func inBoth(t *testing.T, f func(t *testing.T, version string)) {
	for _, v := range []string{"1.1", "1.2"} {
		t.Run("SOAP "+v, func(t *testing.T) { f(t, v) })
	}
}

// TestMethods: POST carries SOAP, others are 405 with Allow unless the route
// passes them through (SPEC.md §3.2).
func TestMethods(t *testing.T) {
	f := shared(t)
	for _, m := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "FROB"} {
		f.http.reset()
		c := dial(t, f.g.addr["http"])
		_ = c.send(appendHead(nil, m+" /depot/x HTTP/1.1", fields{{"Host", "gw"}, {"Content-Length", "0"}}))
		a := c.answerTo(m)
		wantBare(t, a, 405)
		if !strings.Contains(strings.Join(a.Fields.list("Allow"), " "), "POST") {
			t.Errorf("%s: Allow is %q", m, a.Fields.all("Allow"))
		}
		if len(f.http.got()) != 0 {
			t.Errorf("%s was forwarded", m)
		}
	}
	page := []byte("<!doctype html><p>not SOAP</p>")
	f.http.answerWith(response(200, fields{{"Content-Type", "text/html"}, {"ETag", `"1"`}}, page))
	for _, m := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		c := dial(t, f.g.addr["http"])
		_ = c.send(append(appendHead(nil, m+" /web/a%20b?x=%2f&x HTTP/1.1", fields{{"Host", "gw"}, {"Content-Length", "3"}, {"Content-Type", "text/plain"}}), "abc"...))
		a := c.answerTo(m)
		if a.Status != 200 || !bytes.Equal(a.Body, page) || a.Fields.get("ETag") != `"1"` {
			t.Errorf("%s through methods: %s", m, a)
		}
		calls := f.http.got()
		if got := calls[len(calls)-1]; got.Line != m+" /depot/a%20b?x=%2f&x HTTP/1.1" || string(got.Body) != "abc" {
			t.Errorf("the backend got %s %q", got.Line, got.Body)
		}
	}
	c := dial(t, f.g.addr["http"])
	for range 2 { // HEAD has no body, and the connection goes on
		f.http.answerWith(appendHead(nil, "HTTP/1.1 200 OK", fields{{"Content-Type", "text/html"}, {"Content-Length", "30"}}))
		_ = c.send(appendHead(nil, "HEAD /web/x HTTP/1.1", fields{{"Host", "gw"}}))
		if a := c.answerTo("HEAD"); a.Status != 200 || a.Err != nil {
			t.Fatalf("HEAD: %s", a)
		}
	}
}

// TestBrokenMessages is the first row of the table of answers (SPEC.md §3).
func TestBrokenMessages(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		ns := nsOf[v]
		env := func(inner string) string { return `<e:Envelope xmlns:e="` + ns + `">` + inner + `</e:Envelope>` }
		for _, c := range []struct{ name, body, own string }{
			{"nothing", "", "NotWellFormed InvalidEnvelope Incomplete"},
			{"blanks only", " \r\n ", "NotWellFormed"},
			{"not XML", "hello", "NotWellFormed"},
			{"JSON", `{"a": 1}`, "NotWellFormed"},
			{"no Body", env("<e:Header/>"), "InvalidEnvelope"},
			{"empty Envelope", env(""), "InvalidEnvelope"},
			{"two Bodies", env("<e:Body/><e:Body/>"), "InvalidEnvelope"},
			{"two Headers", env("<e:Header/><e:Header/><e:Body/>"), "InvalidEnvelope"},
			{"Header after Body", env("<e:Body/><e:Header/>"), "InvalidEnvelope"},
			{"element before Body", env("<x/><e:Body/>"), "InvalidEnvelope"},
			{"text in Envelope", env("x<e:Body/>"), "InvalidEnvelope"},
			{"text in Header", env("<e:Header>x</e:Header><e:Body/>"), "InvalidEnvelope"},
			{"wrong end", env("<e:Body></e:Header>"), "NotWellFormed"},
			{"cut", env("<e:Body/>")[:60], "NotWellFormed Incomplete"},
			{"DOCTYPE", "<!DOCTYPE a>" + env("<e:Body/>"), "Doctype"},
			{"entity", env("<e:Body>&lol;</e:Body>"), "NotWellFormed"},
			{"attribute twice", env(`<e:Body><a b="" b=""/></e:Body>`), "NotWellFormed"},
			{"too deep", env("<e:Body>" + strings.Repeat("<a>", 260) + strings.Repeat("</a>", 260) + "</e:Body>"), "Limit"},
			{"too many attributes", env("<e:Body><a " + manyAttributes(300) + "/></e:Body>"), "Limit"},
			{"name too long", env("<e:Body><" + strings.Repeat("n", 1100) + "/></e:Body>"), "Limit"},
			{"attribute too long", env(`<e:Body><a b="` + strings.Repeat("v", 65<<10) + `"/></e:Body>`), "Limit"},
			{"too many namespaces", env("<e:Body><a " + manyNamespaces(300) + "/></e:Body>"), "Limit"},
		} {
			t.Run(c.name, func(t *testing.T) {
				f.http.reset()
				a := post(t, f.g.addr["http"], "/depot/x", typed(v), []byte(c.body))
				ft := wantFault(t, a, v, "Client", c.own)
				if n := len(f.http.got()); n != 0 {
					t.Errorf("forwarded %d times", n)
				}
				if len(ft.Reason) > 1024 {
					t.Errorf("reason of %d octets", len(ft.Reason))
				}
			})
		}
		for name, body := range map[string]string{
			"other root": `<html/>`, "other name": `<e:Envelop xmlns:e="` + ns + `"/>`, "no namespace": "<Envelope><Body/></Envelope>", "UBL": `<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"><a/></Invoice>`,
		} {
			f.http.reset()
			ft := wantFault(t, post(t, f.g.addr["http"], "/depot/x", typed(v), []byte(body)), v, "VersionMismatch", "VersionMismatch")
			if ft.Header.child(ns12, "Upgrade") == nil || len(f.http.got()) != 0 {
				t.Errorf("%s: no Upgrade, or forwarded", name)
			}
		}
	})
	// After the Body: a fault in 1.2, passed on in 1.1 (SPEC.md §3.4).
	after := func(v string) []byte {
		return []byte(`<e:Envelope xmlns:e="` + nsOf[v] + `"><e:Body/><x:y xmlns:x="urn:x"/></e:Envelope>`)
	}
	wantFault(t, post(t, f.g.addr["http"], "/depot/x", typed("1.2"), after("1.2")), "1.2", "Client", "InvalidEnvelope")
	if a := post(t, f.g.addr["http"], "/depot/x", typed("1.1"), after("1.1")); a.Status != 200 {
		t.Errorf("an element after Body in SOAP 1.1: %s", a)
	}
	// A PI in SOAP 1.2 is fine below Body only.
	for body, ok := range map[string]bool{
		`<?a b?>` + string(envelope("1.2", "")):                                        false,
		string(envelope("1.2", "")) + `<?a b?>`:                                        false,
		`<e:Envelope xmlns:e="` + ns12 + `"><?a b?><e:Body/></e:Envelope>`:             false,
		`<e:Envelope xmlns:e="` + ns12 + `"><e:Body><?a b?><x/></e:Body></e:Envelope>`: true,
	} {
		a := post(t, f.g.addr["http"], "/depot/x", typed("1.2"), []byte(body))
		if ok && a.Status != 200 {
			t.Errorf("%s: %s", body, a)
		} else if !ok {
			wantFault(t, a, "1.2", "Client", "InvalidEnvelope")
		}
	}
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `a%d="" `, i)
	}
	return b.String()
}

func manyNamespaces(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `xmlns:n%d="urn:%d" `, i, i)
	}
	return b.String()
}

// TestPlaces: the fault says where the document is broken.
func TestPlaces(t *testing.T) {
	f := shared(t)
	a := post(t, f.g.addr["http"], "/depot/x", typed("1.1"), []byte("<e:Envelope xmlns:e=\""+ns11+"\">\n<e:Body>\n  <a>\n    & </a></e:Body></e:Envelope>"))
	ft := wantFault(t, a, "1.1", "Client", "NotWellFormed")
	if !strings.Contains(ft.Reason, "4") || !strings.Contains(strings.ToLower(ft.Reason), "line") && !strings.Contains(ft.Reason, "4:5") {
		t.Errorf("the reason names no line and column: %q", ft.Reason)
	}
}

// TestOversize: 413 without an envelope, by length and by counting.
func TestOversize(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		fits := envelope(v, strings.Repeat(" ", 4<<10-len(envelope(v, ""))))
		over := envelope(v, strings.Repeat(" ", 4<<10-len(envelope(v, ""))+1))
		f.http.reset()
		if a := post(t, f.g.addr["http"], "/small/x", typed(v), fits); a.Status != 200 {
			t.Errorf("exactly max_message: %s", a)
		}
		f.http.reset()
		wantBare(t, post(t, f.g.addr["http"], "/small/x", typed(v), over), 413)
		hd := appendHead(nil, "POST /small/x HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, typed(v)...))
		wantBare(t, exchange(t, f.g.addr["http"], append(hd, chunked(over, 10, 100, 1000)...)), 413)
		endless := bytes.Repeat([]byte("400\r\n"+strings.Repeat(" ", 1024)+"\r\n"), 2000)
		wantBare(t, exchange(t, f.g.addr["http"], append(hd, endless...)), 413)
		if n := len(f.http.got()); n != 0 {
			t.Errorf("forwarded %d times", n)
		}
	})
	c := dialFramed(t, f.g.addr["f4"], 4)
	_, _ = c.Write([]byte{0x7f, 0xff, 0xff, 0xff, '<'})
	if b, err := c.next(); err == nil {
		if ft, ferr := readFault(b, ""); ferr != nil || ft == nil || ft.Own != "TooLarge" {
			t.Errorf("a frame of 2 GiB was answered with %q", b)
		}
		if b, err = c.next(); err == nil {
			t.Errorf("the connection went on with %q", b)
		}
	}
}

// brokenReplies are backends that fail in some way after they were reached.
var brokenReplies = []struct {
	name, own string
	script    func(p *peer, c *call)
}{
	{"closes without an answer", "BackendBroken", func(p *peer, _ *call) { p.Close() }},
	{"resets without an answer", "BackendBroken", func(p *peer, _ *call) { p.resetConn() }},
	{"answers garbage", "BackendBroken", func(p *peer, _ *call) { _, _ = p.Write([]byte("\x16\x03\x01 what?\r\n\r\n")); p.Close() }},
	{"answers half a head", "BackendBroken", func(p *peer, _ *call) { _, _ = p.Write([]byte("HTTP/1.1 200 OK\r\nContent-")); p.Close() }},
	{"cuts the body", "BackendBroken", func(p *peer, c *call) { _, _ = p.Write(okReply(c)[:len(okReply(c))-9]); p.Close() }},
	{"resets in the body", "BackendBroken", func(p *peer, c *call) { _, _ = p.Write(okReply(c)[:len(okReply(c))-9]); p.resetConn() }},
	{"cuts a chunk", "BackendBroken", func(p *peer, c *call) {
		_, _ = p.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n<e:Env"))
		p.Close()
	}},
	{"leaves out the last chunk", "BackendBroken", func(p *peer, c *call) {
		b := []byte(envelope("1.1", op))
		_, _ = p.Write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(b), b))
		p.Close()
	}},
	{"announces two lengths", "BackendBroken BackendNotSOAP", func(p *peer, c *call) {
		_, _ = p.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n<a/>  "))
		p.Close()
	}},
	{"answers HTML", "BackendNotSOAP", func(p *peer, _ *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/html"}}, []byte("<html><p>hi<br></html>")))
	}},
	{"answers 500 with text", "BackendNotSOAP", func(p *peer, _ *call) {
		_, _ = p.Write(response(500, fields{{"Content-Type", "text/plain"}}, []byte("java.lang.NullPointerException at internal.test")))
	}},
	{"answers broken XML", "BackendNotSOAP", func(p *peer, _ *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, []byte(`<e:Envelope xmlns:e="`+ns11+`"><e:Body><a></e:Body></e:Envelope>`)))
	}},
	{"answers an envelope as JSON", "BackendNotSOAP", func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "application/json"}}, envelope("1.1", op)))
	}},
	{"answers a document that is no envelope", "BackendNotSOAP", func(p *peer, _ *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}}, []byte(`<ok xmlns="urn:x"/>`)))
	}},
	{"answers corrupt gzip", "BackendNotSOAP BackendBroken", func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml"}, {"Content-Encoding", "gzip"}}, []byte("\x1f\x8b\x08 no")))
	}},
	{"answers an unknown charset", "BackendNotSOAP", func(p *peer, c *call) {
		_, _ = p.Write(response(200, fields{{"Content-Type", "text/xml; charset=klingon"}}, envelope("1.1", op)))
	}},
}

// TestBrokenBackends is the backend row of the table of answers: 500 with
// Server or Receiver, at once, tried once, nothing of the reply shown.
func TestBrokenBackends(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		for _, c := range brokenReplies {
			t.Run(c.name, func(t *testing.T) {
				f.http.reset()
				f.http.do(c.script)
				a := post(t, f.g.addr["http"], "/depot/x", typed(v), envelope(v, op))
				wantFault(t, a, v, "Server", c.own)
				if n := len(f.http.got()); n != 1 {
					t.Errorf("%d tries", n) // an octet was sent: never again
				}
				if a.Took > 3*time.Second {
					t.Errorf("took %s", a.Took)
				}
			})
		}
		t.Run("dead", func(t *testing.T) {
			wantFault(t, post(t, f.g.addr["http"], "/dead", typed(v), envelope(v, op)), v, "Server", "BackendUnavailable")
		})
		for name, script := range map[string]func(p *peer, c *call){
			"never answers":     func(p *peer, _ *call) { pause(time.Second); p.Close() },
			"stops in the head": func(p *peer, _ *call) { _, _ = p.Write([]byte("HTTP/1.1 200")); pause(time.Second); p.Close() },
			"stops in the body": func(p *peer, c *call) {
				_, _ = p.Write(okReply(c)[:len(okReply(c))-20])
				pause(time.Second)
				p.Close()
			},
		} {
			t.Run(name, func(t *testing.T) {
				f.http.reset()
				f.http.do(script)
				a := post(t, f.g.addr["http"], "/impatient/x", typed(v), envelope(v, op))
				wantFault(t, a, v, "Server", "BackendTimeout")
				if a.Took < 250*time.Millisecond || a.Took > 900*time.Millisecond {
					t.Errorf("timeout of 300ms took %s", a.Took)
				}
			})
		}
		t.Run("slow but steady", func(t *testing.T) {
			f.http.reset() // 300ms is the patience between octets, not for all of them
			f.http.do(func(p *peer, c *call) {
				b := okReply(c)
				_, _ = p.Write(b[:len(b)-6])
				p.dribble(b[len(b)-6:], 120*time.Millisecond)
			})
			if a := post(t, f.g.addr["http"], "/impatient/x", typed(v), envelope(v, op)); a.Status != 200 {
				t.Errorf("got %s", a)
			}
		})
	})
}

// TestClientErrorsOfBackends: a non-SOAP 4xx keeps its status and three
// fields, without its body (SPEC.md §3).
func TestClientErrorsOfBackends(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		for status, kept := range map[int]field{401: {"WWW-Authenticate", `Basic realm="x"`}, 403: {}, 404: {}, 405: {"Allow", "PUT"}, 429: {"Retry-After", "7"}, 413: {}, 418: {}} {
			f.http.reset()
			fl := fields{{"Content-Type", "text/html"}, {"X-Internal", "pool-b"}}
			if kept.Name != "" {
				fl = append(fl, kept)
			}
			f.http.answerWith(response(status, fl, []byte("<html>secret page</html>")))
			a := post(t, f.g.addr["http"], "/depot/x", typed(v), envelope(v, op))
			wantBare(t, a, status)
			if len(a.Body) != 0 {
				t.Errorf("%d came with its body: %s", status, a)
			}
			if kept.Name != "" && a.Fields.get(kept.Name) != kept.Value {
				t.Errorf("%d without %v: %s", status, kept, a)
			}
		}
		// A SOAP fault on a 4xx passes unchanged.
		f.http.reset()
		reply := []byte(`<e:Envelope xmlns:e="` + ns11 + `"><e:Body><e:Fault><faultcode>e:Client</faultcode><faultstring>no</faultstring></e:Fault></e:Body></e:Envelope>`)
		f.http.answerWith(response(403, fields{{"Content-Type", "text/xml"}}, reply))
		if a := post(t, f.g.addr["http"], "/depot/x", typed(v), envelope(v, op)); a.Status != 403 || !bytes.Equal(a.Body, reply) {
			t.Errorf("a fault on 403: %s", a)
		}
	})
}

// TestCutUploads breaks off a request at every stage of its body; the backend
// hears nothing, the caller that still reads gets a Client fault.
func TestCutUploads(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		body := envelope(v, op)
		whole := request("/depot/x", typed(v), body)
		start := len(whole) - len(body)
		hd := appendHead(nil, "POST /depot/x HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, typed(v)...))
		chunks := append(hd, chunked(body, 40, 90)...)
		f.http.reset()
		cut := func(octets []byte, what string) {
			c := dial(t, f.g.addr["http"])
			_ = c.send(octets)
			_ = c.CloseWrite()
			a := c.answer()
			if a.Err != nil && len(a.Raw) == 0 {
				return // closed without an answer is allowed to a peer that broke off
			}
			if f, err := readFault(a.Body, a.Fields.get("Content-Type")); err != nil || f == nil || a.Status != map[string]int{"1.1": 500, "1.2": 400}[f.Version] {
				t.Errorf("%s: %s", what, a)
			} else {
				wantFault(t, a, f.Version, "Client", "Incomplete NotWellFormed InvalidEnvelope")
			}
			c.Close()
		}
		for n := start; n < len(whole); n += 11 {
			cut(whole[:n], fmt.Sprintf("after %d octets", n-start))
		}
		cut(whole[:len(whole)-1], "one octet short")
		for n := len(hd); n < len(chunks); n += 7 {
			cut(chunks[:n], fmt.Sprintf("after %d octets of chunks", n-len(hd)))
		}
		c := dial(t, f.g.addr["http"]) // and one that resets
		_ = c.send(whole[:len(whole)-5])
		_ = c.SetLinger(0)
		c.Close()
		pause(50 * time.Millisecond)
		if n := len(f.http.got()); n != 0 {
			t.Errorf("%d cut requests reached the backend: %s", n, f.http.got()[0].Body)
		}
	})
}

// TestBusy: no free connection to the backend is 503 with Retry-After and no
// envelope, a Busy fault in a frame, and not sent; and it passes by itself.
func TestBusy(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, preamble+fmt.Sprintf(`
listeners:
  - {name: http, address: "127.0.0.1:0"}
  - {name: framed, address: "127.0.0.1:0", protocol: framed, length: 4, route: r}
backends: {one: {nodes: ["http://%s/"], max_connections: 1}}
routes: [{name: r, backend: one}]
`, b.addr), b)
	release := make(chan struct{})
	b.do(func(p *peer, c *call) {
		<-release
		_, _ = p.Write(okReply(c))
	})
	first := dial(t, g.addr["http"])
	_ = first.send(request("/x", typed("1.1"), envelope("1.1", op)))
	if !eventually(patience, func() bool { return len(b.got()) == 1 }) {
		t.Fatal("not forwarded")
	}
	for range 3 {
		a := post(t, g.addr["http"], "/x", typed("1.2"), envelope("1.2", op))
		wantBare(t, a, 503)
		if a.Fields.get("Retry-After") == "" {
			t.Errorf("503 without Retry-After: %s", a)
		}
		if a.Took > 2*time.Second {
			t.Errorf("took %s", a.Took)
		}
	}
	ft, err := readFault(dialFramed(t, g.addr["framed"], 4).call(envelope("1.2", op)), "")
	if err != nil || ft == nil || ft.Own != "Busy" || ft.Version != "1.2" {
		t.Errorf("framed: %+v, %v", ft, err)
	}
	close(release)
	if a := first.answer(); a.Status != 200 {
		t.Errorf("the exchange that had the connection: %s", a)
	}
	if n := len(b.got()); n != 1 {
		t.Errorf("%d messages at the node", n)
	}
	if a := post(t, g.addr["http"], "/x", typed("1.1"), envelope("1.1", op)); a.Status != 200 {
		t.Errorf("afterwards: %s", a)
	}
}
