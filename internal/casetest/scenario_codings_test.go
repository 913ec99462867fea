package casetest

import (
	"bytes"
	"strings"
	"testing"
)

// TestContentEncodings: each coding both ways, one at a time (SPEC.md §3.3).
func TestContentEncodings(t *testing.T) {
	f := shared(t)
	small, big := envelope("1.1", op), large("1.1", 3<<20, "")
	for coding := range coders {
		for name, plain := range map[string][]byte{"small": small, "large": big} {
			t.Run(coding+" "+name, func(t *testing.T) {
				f.http.reset()
				a := post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Content-Encoding", coding}), encode(coding, plain))
				calls := f.http.got()
				if a.Status != 200 || len(calls) != 1 || !bytes.Equal(calls[0].Body, plain) || calls[0].Fields.has("Content-Encoding") {
					t.Fatalf("request: %s; the node got %s", a, describe(joined(calls)))
				}
				f.http.reset()
				coded := encode(coding, plain)
				f.http.answerWith(response(200, fields{{"Content-Type", "text/xml"}, {"Content-Encoding", coding}}, coded))
				a = post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Accept-Encoding", "gzip, deflate, br, zstd"}), small)
				if ce := a.Fields.get("Content-Encoding"); a.Status != 200 || !(ce == coding && bytes.Equal(a.Body, coded) || ce == "" && bytes.Equal(a.Body, plain)) {
					t.Errorf("reply: Content-Encoding %q, status %d, %s", ce, a.Status, describe(a.Body))
				}
			})
			t.Run(coding+" "+name+" to a client that takes none", func(t *testing.T) {
				f.http.reset()
				f.http.answerWith(response(200, fields{{"Content-Type", "text/xml"}, {"Content-Encoding", coding}}, encode(coding, plain)))
				a := post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Accept-Encoding", "identity"}), small)
				if a.Status != 200 {
					t.Errorf("got %s", a)
				}
			})
		}
		t.Run(coding+" cut", func(t *testing.T) {
			f.http.reset()
			b := encode(coding, small)
			for _, n := range []int{0, 1, len(b) / 2, len(b) - 1} {
				a := post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Content-Encoding", coding}), b[:n])
				wantFault(t, a, "1.1", "Client", "ContentEncoding Incomplete NotWellFormed InvalidEnvelope")
			}
			wantFault(t, post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Content-Encoding", coding}), small), "1.1", "Client", "ContentEncoding")
			if n := len(f.http.got()); n != 0 {
				t.Errorf("forwarded %d times", n)
			}
		})
		t.Run(coding+" bad inside", func(t *testing.T) {
			f.http.reset()
			a := post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Content-Encoding", coding}), encode(coding, large("1.1", 3<<20, "&nope;")))
			wantFault(t, a, "1.1", "Client", "NotWellFormed")
			if f.http.gotComplete() != 0 {
				t.Error("complete at the backend")
			}
		})
	}
	for _, bad := range []string{"snappy", "gzip, gzip", "gzip, br", "compress", "gzip;q=1", "bzip2"} {
		f.http.reset()
		a := post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Content-Encoding", bad}), encode("gzip", small))
		wantBare(t, a, 415)
		if !strings.Contains(strings.Join(a.Fields.list("Accept-Encoding"), " "), "gzip") || len(f.http.got()) != 0 {
			t.Errorf("%s: Accept-Encoding %q, forwarded %d", bad, a.Fields.all("Accept-Encoding"), len(f.http.got()))
		}
	}
	if a := post(t, f.g.addr["http"], "/depot/x", append(typed("1.1"), field{"Content-Encoding", "identity"}), small); a.Status != 200 {
		t.Errorf("identity: %s", a)
	}
}

// TestDecodeRatio: what swells by more than decode_ratio is refused before it
// is whole, although max_message would allow it.
func TestDecodeRatio(t *testing.T) {
	f := shared(t)
	inBoth(t, func(t *testing.T, v string) {
		f.http.reset()
		body := gzipBomb(map[string]string{"1.1": ns11, "1.2": ns12}[v], 32<<20)
		if len(body)*200 > 32<<20 {
			t.Fatalf("%d octets are no bomb", len(body))
		}
		a := post(t, f.g.addr["http"], "/depot/x", append(typed(v), field{"Content-Encoding", "gzip"}), body)
		wantFault(t, a, v, "Client", "Limit")
		for _, c := range f.http.got() {
			if c.Err == nil || len(c.Body) > 16<<20 {
				t.Errorf("%d octets of it reached the backend, %v", len(c.Body), c.Err)
			}
		}
	})
}

// TestNormalizeEnvelope: white space, quotes, comments and PIs between the
// parts become canonical; what is below stays octet for octet (SPEC.md §3.6).
func TestNormalizeEnvelope(t *testing.T) {
	f := shared(t)
	block := "<h:b  xmlns:h='urn:h' a = '1'\n>x<!-- in --></h:b >"
	inner := "<t:op  xmlns:t = \"urn:t\" ><![CDATA[a]]> <?pi x?><!-- c --></t:op >"
	msg := "<?xml version='1.0' encoding='utf-8'?>\n<!-- before -->\n<e:Envelope\n  xmlns:e = '" + ns11 + "'\txmlns:unused='urn:u'  >\n <!-- 1 --><e:Header  x:y='z' xmlns:x=\"urn:x\" >\n  " +
		block + "\n  <!-- 2 -->" + block + "\n</e:Header >\n\t<e:Body \n id='7'>" + inner + "</e:Body >\n</e:Envelope\t>\n<!-- after -->\n"
	for _, doc := range []string{msg, strings.ReplaceAll(msg, "\n", "\r\n"), msg + strings.Repeat(" ", 10), strings.Replace(msg, inner, strings.Repeat(inner, 30000), 1)} {
		f.http.reset()
		a := post(t, f.g.addr["http"], "/envelope/x", typed("1.1"), []byte(doc))
		calls := f.http.got()
		if a.Status != 200 || len(calls) != 1 {
			t.Fatalf("got %s", a)
		}
		got := string(calls[0].Body)
		sameBelow(t, "normalized", calls[0].Body, "text/xml", []byte(doc), "text/xml")
		blockNow, innerNow := block, inner
		if strings.Contains(doc, "\r") {
			blockNow, innerNow = strings.ReplaceAll(block, "\n", "\r\n"), strings.ReplaceAll(inner, "\n", "\r\n")
		}
		if strings.Count(got, blockNow) != 2 || !strings.Contains(got, innerNow) {
			t.Errorf("header blocks or Body content changed: %.700s", got)
		}
		for _, gone := range []string{"<!-- 1 -->", "<!-- 2 -->", "<!-- before -->", "<!-- after -->", "xmlns:e = ", "<e:Envelope\n", "<e:Body \n"} {
			if strings.Contains(got, gone) {
				t.Errorf("%q is still there: %.700s", gone, got)
			}
		}
		// Normalizing again changes nothing.
		f.http.reset()
		post(t, f.g.addr["http"], "/envelope/x", typed("1.1"), calls[0].Body)
		if again := f.http.got(); len(again) != 1 || string(again[0].Body) != got {
			t.Errorf("not idempotent: %s", describe(joined(again)))
		}
	}
	// Replies keep their octets.
	f.http.reset()
	f.http.answerWith(response(200, fields{{"Content-Type", "text/xml"}}, []byte(msg)))
	if a := post(t, f.g.addr["http"], "/envelope/x", typed("1.1"), envelope("1.1", "")); string(a.Body) != msg {
		t.Errorf("the reply was changed: %s", a)
	}
}

// TestEmptyAnswers: as they are; an empty 200 is an error only with oneway: no.
func TestEmptyAnswers(t *testing.T) {
	f := shared(t)
	for _, status := range []int{200, 202, 204, 400, 500, 502, 503} {
		for _, target := range []string{"/depot/x", "/twoway/x", "/oneway/x"} {
			f.http.reset()
			f.http.answerWith(response(status, nil, nil))
			if status == 204 {
				f.http.answerWith(appendHead(nil, "HTTP/1.1 204 No Content", nil))
			}
			a := post(t, f.g.addr["http"], target, typed("1.1"), envelope("1.1", op))
			if status == 200 && target == "/twoway/x" {
				wantFault(t, a, "1.1", "Server", "BackendNotSOAP")
			} else if a.Status != status || len(a.Body) != 0 {
				t.Errorf("%d on %s: %s", status, target, a)
			}
		}
	}
	f.http.reset() // a POST without a body is no message here
	a := exchange(t, f.g.addr["http"], appendHead(nil, "POST /depot/x HTTP/1.1", fields{{"Host", "gw"}, {"Content-Length", "0"}}))
	if a.Status != 400 && a.Status != 500 || len(f.http.got()) != 0 {
		t.Errorf("an empty POST: %s", a)
	}
}
