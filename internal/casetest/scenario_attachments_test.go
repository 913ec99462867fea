package casetest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"
)

const parcelType = `multipart/related; boundary="=_b 1"; type="application/xop+xml"; start="<root@test>"; start-info="text/xml"; action="urn:test#Known"`

// knownOp is the operation that a route of the fixture asks for.
const knownOp = `<c:Known xmlns:c="urn:test:c"><x:Include xmlns:x="http://www.w3.org/2004/08/xop/include" href="cid:a%40test"/></c:Known>`

// parcelOf writes a message with an attachment of n octets that look like parts,
// behind the root or in front of it.
func parcelOf(v string, n int, rootFirst bool, op string) []byte {
	media := map[string]string{"1.1": "text/xml", "1.2": "application/soap+xml"}[v]
	root := fmt.Sprintf("Content-Type: application/xop+xml; charset=UTF-8; type=%q\r\nContent-Transfer-Encoding: 8bit\r\nContent-ID: <root@test>\r\n\r\n%s", media, envelope(v, op))
	var att bytes.Buffer
	att.WriteString("Content-Type: application/octet-stream\r\nContent-ID: <a@test>\r\n\r\n")
	for i := uint64(1); att.Len() < n; i++ {
		fmt.Fprintf(&att, "%x\x00\r\n--=_b\r\n\r\n\xff\n-", i*0x9E3779B97F4A7C15)
	}
	parts := []string{root, att.String()}
	if !rootFirst {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return []byte("preamble\r\n--=_b 1\r\n" + parts[0] + "\r\n--=_b 1  \r\n" + parts[1] + "\r\n--=_b 1--\r\nepilogue")
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// TestAttachments: messages with attachments and replies with them, octet for
// octet, small and large, in any order, coded and not, by path and by operation.
func TestAttachments(t *testing.T) {
	f := shared(t)
	head := fields{{"Content-Type", parcelType}, {"SOAPAction", `"urn:test#Known"`}}
	inBoth(t, func(t *testing.T, v string) {
		for _, size := range []int{0, 20_000, 3 << 20} {
			for _, rootFirst := range []bool{true, false} {
				msg := parcelOf(v, size, rootFirst, knownOp)
				name := fmt.Sprintf("%d octets, root first %v", size, rootFirst)
				f.http.reset()
				f.http.do(func(p *peer, c *call) {
					_, _ = p.Write(response(200, fields{{"Content-Type", parcelType}}, c.Body))
				})
				chunkedHead := appendHead(nil, "POST /depot/x HTTP/1.1", append(fields{{"Host", "gw"}, {"Transfer-Encoding", "chunked"}}, head...))
				for how, octets := range map[string][]byte{
					"length":  request("/depot/x", head, msg),
					"chunked": append(chunkedHead, chunked(msg, 1, len(msg)/2, len(msg)-1)...),
					"gzip":    request("/depot/x", head.with("Content-Encoding", "gzip"), zipped(msg)),
					"by name": request("/conditions", head, msg),
				} {
					f.http.mu.Lock()
					f.http.calls = nil
					f.http.mu.Unlock()
					a := exchange(t, f.g.addr["http"], octets)
					calls := f.http.got()
					if a.Status != 200 || a.Err != nil || len(calls) != 1 || !bytes.Equal(calls[0].Body, msg) || !bytes.Equal(a.Body, msg) {
						t.Errorf("%s, %s: %d %v, node %s, answer %s", name, how, a.Status, a.Err, describe(joined(calls)), describe(a.Body))
						continue
					}
					if got := calls[0].Fields.get("Content-Type"); got != parcelType || a.Fields.get("Content-Type") != parcelType {
						t.Errorf("%s, %s: Content-Type is %q at the node, %q at the caller", name, how, got, a.Fields.get("Content-Type"))
					}
				}
				// A reply keeps its coding.
				coded := zipped(msg)
				f.http.reset()
				f.http.answerWith(response(200, fields{{"Content-Type", parcelType}, {"Content-Encoding", "gzip"}}, coded))
				if a := post(t, f.g.addr["http"], "/depot/x", head, msg); a.Status != 200 || a.Err != nil || !bytes.Equal(a.Body, coded) {
					t.Errorf("%s, coded reply: %d %v, %s", name, a.Status, a.Err, describe(a.Body))
				}
			}
		}
	})
}

// TestAttachmentsEnvelope: what a route changes, it changes in the root.
func TestAttachmentsEnvelope(t *testing.T) {
	f := shared(t)
	for _, size := range []int{100, 3 << 20} {
		msg := parcelOf("1.2", size, size < 200, `<t:op xmlns:t="urn:test"/>`)
		loose := bytes.Replace(msg, []byte("</e:Body>"), []byte("</e:Body  ><!-- c -->"), 1)
		f.http.reset()
		a := post(t, f.g.addr["http"], "/envelope/x", fields{{"Content-Type", parcelType}}, loose)
		if calls := f.http.got(); a.Status != 200 || len(calls) != 1 || !bytes.Equal(calls[0].Body, msg) {
			t.Errorf("%d octets: %s, node %s, want %s", size, a, describe(joined(calls)), describe(msg))
		}
	}
}

// TestBadAttachments: what is wrong anywhere in a package keeps it from the
// backend as a whole.
func TestBadAttachments(t *testing.T) {
	f := shared(t)
	for _, size := range []int{2000, 3 << 20} {
		good := parcelOf("1.1", size, true, knownOp)
		late := parcelOf("1.1", size, false, knownOp)
		end := bytes.LastIndex(good, []byte("\r\n--=_b 1--"))
		for name, c := range map[string]struct {
			body   []byte
			code   string
			status int // without an envelope
		}{
			"no close delimiter":        {body: good[:end], code: "InvalidPackage"},
			"one dash":                  {body: good[:end+10], code: "InvalidPackage"},
			"a part behind the end":     {body: append(bytes.Clone(good), "\r\n--=_b 1\r\n\r\nx"...), code: "InvalidPackage"},
			"a line that nearly ends":   {body: bytes.Replace(good, []byte("\r\n--=_b 1--"), []byte("\r\n--=_b 1x\r\n--=_b 1--"), 1), code: "InvalidPackage"},
			"LF at the end":             {body: bytes.Replace(good, []byte("\r\n--=_b 1--"), []byte("\n--=_b 1--"), 1), code: "InvalidPackage"},
			"two roots":                 {body: bytes.Replace(good, []byte("<a@test>"), []byte("<root@test>"), 1), code: "InvalidPackage"},
			"no root":                   {body: bytes.ReplaceAll(late, []byte("<root@test>"), []byte("<rood@test>")), code: "InvalidPackage"},
			"root is not well-formed":   {body: bytes.Replace(late, []byte("</e:Envelope>"), []byte("</e:Envelop>"), 1), code: "NotWellFormed"},
			"an envelope behind":        {body: bytes.Replace(late, []byte("</e:Envelope>"), []byte("</e:Envelope><x/>"), 1), code: "NotWellFormed"},
			"root is an image":          {body: bytes.Replace(late, []byte("application/xop+xml"), []byte("image/png"), 1), status: 415},
			"a doctype in the root":     {body: bytes.Replace(late, []byte("<e:Envelope"), []byte("<!DOCTYPE a><e:Envelope"), 1), code: "Doctype"},
			"a field without its colon": {body: bytes.Replace(good, []byte("Content-ID: <a@test>"), []byte("Content-ID <a@test>"), 1), code: "InvalidPackage"},
		} {
			f.http.reset()
			a := post(t, f.g.addr["http"], "/depot/x", fields{{"Content-Type", parcelType}}, c.body)
			if c.status != 0 {
				wantBare(t, a, c.status)
			} else {
				wantFault(t, a, "1.1", "Client", c.code)
			}
			pause(10 * time.Millisecond)
			if f.http.gotComplete() != 0 {
				t.Errorf("%s, %d octets: complete at the backend", name, size)
			}
		}
		for _, to := range []string{"/f2", "/f4"} {
			wantBare(t, post(t, f.g.addr["http"], to, fields{{"Content-Type", parcelType}}, good), 415)
		}
		// A bad reply is no answer, and a large one that turns bad is cut.
		f.http.reset()
		f.http.answerWith(response(200, fields{{"Content-Type", parcelType}}, good[:end]))
		a := exchange(t, f.g.addr["http"], request("/depot/x", typed("1.1"), envelope("1.1", op)))
		if size < 10_000 {
			wantFault(t, a, "1.1", "Server", "BackendNotSOAP")
		} else if a.Err == nil {
			t.Errorf("a reply without its end came complete: %d, %s", a.Status, describe(a.Body))
		}
	}
	for _, ctype := range []string{
		"multipart/related", `multipart/related; boundary=""`, `multipart/related; boundary=a; boundary=b`, `multipart/related; type="text/html"; boundary=b`,
		"multipart/mixed; boundary=b", "multipart/form-data; boundary=b", `multipart/related; boundary*0=a; boundary*1=b`,
	} {
		f.http.reset()
		wantBare(t, post(t, f.g.addr["http"], "/depot/x", fields{{"Content-Type", ctype}}, parcelOf("1.1", 10, true, op)), 415)
		neither(t, &run{f: f})
	}
}

// TestAttachmentFloods: parts, fields and preambles without an end cost bounded
// memory and are refused.
func TestAttachmentFloods(t *testing.T) {
	f := shared(t)
	for name, c := range map[string]struct {
		body   []byte
		status int
		code   string
	}{
		"a million empty parts":  {body: bytes.Repeat([]byte("--=_b 1\r\n\r\n"), 1_000_000), code: "Limit"},
		"fields without an end":  {body: append([]byte("--=_b 1\r\n"), bytes.Repeat([]byte("X-A: b\r\n"), 1_000_000)...), code: "Limit"},
		"a preamble without end": {body: bytes.Repeat([]byte("\r\n--=_b"), 9_000_000), code: "InvalidPackage"},
		"blanks without an end":  {body: append([]byte("--=_b 1"), bytes.Repeat([]byte(" "), 4_000_000)...), code: "Limit"},
	} {
		f.http.reset()
		var a *answer
		grown := f.g.growth(t, func() {
			a = post(t, f.g.addr["http"], "/depot/x", fields{{"Content-Type", parcelType}}, c.body)
		})
		if c.status != 0 {
			wantBare(t, a, c.status)
		} else {
			wantFault(t, a, "1.1", "Client", c.code)
		}
		if grown > 16<<20 {
			t.Errorf("%s: memory grew by %d MiB", name, grown>>20)
		}
		if f.http.gotComplete() != 0 {
			t.Errorf("%s: complete at the backend", name)
		}
	}
}

// TestAttachmentMemory: 60 MB up and down cost a few, wherever the root is and
// whatever it decides.
func TestAttachmentMemory(t *testing.T) {
	f := shared(t)
	for name, c := range map[string]struct {
		target    string
		rootFirst bool
	}{"root first": {"/echo", true}, "root last": {"/echo", false}, "root last, by operation": {"/conditions", false}} {
		msg := parcelOf("1.1", 60_000_000, c.rootFirst, knownOp)
		f.http.reset()
		f.http.do(func(p *peer, c *call) { _, _ = p.Write(response(200, fields{{"Content-Type", parcelType}}, c.Body)) })
		var a *answer
		grown := f.g.growth(t, func() { a = post(t, f.g.addr["http"], c.target, fields{{"Content-Type", parcelType}}, msg) })
		if a.Status != 200 || a.Err != nil || !bytes.Equal(a.Body, msg) {
			t.Errorf("%s: %d %v, %s", name, a.Status, a.Err, describe(a.Body))
		}
		if grown > 24<<20 {
			t.Errorf("%s: memory grew by %d MiB", name, grown>>20)
		}
	}
}

// TestQueueAttachments: a message with attachments is stored whole and delivered
// octet for octet, the reply may have some too, and one that does not fit is
// refused.
func TestQueueAttachments(t *testing.T) {
	b := listenHTTP(t)
	reply := parcelOf("1.1", 100_000, false, op)
	b.answerWith(response(200, fields{{"Content-Type", parcelType}}, reply))
	framed := listenFramed(t)
	g := start(t, queueConfig(fmt.Sprintf(`{name: frames, match: {path: /frames}, to: ["framed://%s"], delivery: queue}`, framed.addr), ordersRoute(b.addr, "limits: {max_message: 8MiB}, "+quick)), b, framed)
	head := fields{{"Content-Type", parcelType}, {"SOAPAction", `""`}}
	var want []string
	for _, size := range []int{10, 300_000, 6 << 20} {
		msg := parcelOf("1.1", size, size < 1000, op)
		if a := post(t, g.addr["http"], "/orders", head, msg); a.Status != 202 {
			t.Fatalf("%d octets: %s", size, a)
		}
		want = append(want, string(msg))
	}
	if !eventually(patience, func() bool { return b.gotComplete() == 3 && g.waiting(t) == 0 }) {
		t.Fatalf("%d of 3 messages were delivered, %d wait, dead: %v", b.gotComplete(), g.waiting(t), g.dead(t, "orders"))
	}
	for _, c := range b.got() {
		found := false
		for _, w := range want {
			found = found || string(c.Body) == w
		}
		if !found || c.Fields.get("Content-Type") != parcelType {
			t.Errorf("delivered %s as %q", describe(c.Body), c.Fields.get("Content-Type"))
		}
	}
	wantBare(t, post(t, g.addr["http"], "/orders", head, parcelOf("1.1", 9<<20, true, op)), 413)
	wantBare(t, post(t, g.addr["http"], "/frames", head, parcelOf("1.1", 10, true, op)), 415)
	cut := parcelOf("1.1", 3000, true, op)
	cut = cut[:strings.LastIndex(string(cut), "--=_b 1--")]
	wantFault(t, post(t, g.addr["http"], "/orders", head, cut), "1.1", "Client", "InvalidPackage")
	pause(50 * time.Millisecond)
	if n := b.gotComplete(); n != 3 || framed.gotComplete() != 0 {
		t.Errorf("%d messages at the backend, %d at the framed one", n, framed.gotComplete())
	}
}
