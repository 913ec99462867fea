package casetest

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
)

var codingChecks = map[string]check{
	"to_backend/body": onAll(func(t *testing.T, r *run, o *outcome) {
		if o.a.Status == 200 { // SPEC.md §3.3: decoded here, the node gets identity
			octetsKept(t, r, o)
			lengthExact(t, r, o)
		}
	}),
	"variant x-gzip-upper": on("x-gzip-upper", func(t *testing.T, r *run, o *outcome) {
		accepted(t, r, o)
		octetsKept(t, r, o)
	}),
	"variant unsupported/headers": on("unsupported", func(t *testing.T, _ *run, o *outcome) {
		wantBare(t, o.a, 415)
		got := strings.ToLower(strings.Join(o.a.Fields.list("Accept-Encoding"), " "))
		for _, c := range []string{"gzip", "deflate", "zstd", "br"} {
			if !strings.Contains(" "+got+" ", " "+c+" ") {
				t.Errorf("Accept-Encoding %q lacks %s", got, c)
			}
		}
	}),
	"variant bomb/limits": func(t *testing.T, r *run) {
		o := r.by["bomb"]
		grown := r.f.g.growth(t, func() { post(t, r.f.g.addr["http"], o.target, o.fields, o.body) })
		if grown > 32<<20 {
			t.Errorf("memory grew by %d MiB", grown>>20)
		}
		for _, c := range r.f.http.got() {
			if c.Err == nil {
				t.Errorf("a whole message of %d octets reached the backend", len(c.Body))
			}
			if len(c.Body) > 80<<20 {
				t.Errorf("%d octets were decoded and sent on", len(c.Body))
			}
		}
	},
	"must_not/forward Content-Encoding: gzip with a plain body or the reverse": onAll(func(t *testing.T, _ *run, o *outcome) {
		for _, c := range o.calls {
			if c.Fields.has("Content-Encoding") || bytes.HasPrefix(c.Body, []byte("\x1f\x8b")) {
				t.Errorf("%s: forwarded with Content-Encoding %q: % x", o.label(), c.Fields.all("Content-Encoding"), c.Body[:min(4, len(c.Body))])
			}
		}
	}),
	"must_not/measure the size limit on compressed bytes only": func(t *testing.T, r *run) {
		r.f.http.reset() // 8 KiB decoded, a few octets coded, on a route for 4 KiB
		plain := []byte(`<e:Envelope xmlns:e="` + ns11 + `"><e:Body>` + strings.Repeat(" ", 8<<10) + `</e:Body></e:Envelope>`)
		a := post(t, r.f.g.addr["http"], "/small/x", xml11("").with("Content-Encoding", "gzip"), gzipOf(plain))
		wantBare(t, a, 413)
		if r.f.http.gotComplete() != 0 {
			t.Error("forwarded")
		}
	},
}

func drive41(t *testing.T, r *run) {
	plain := r.file(t, "decoded.xml")
	for _, v := range append([]variant{{"", object{}}}, r.variants()...) {
		if v.Name == "bomb" {
			v.doc["body"] = "request.bin"
		}
		o := r.message(t, "/depot", v)
		o.doc = plain
		if v.Name == "bomb" {
			o.body = gzipBomb(ns11, 1<<30)
		}
		r.f.http.reset()
		o.a = post(t, r.f.g.addr["http"], o.target, o.fields, o.body)
		o.calls = r.f.http.got()
		r.add(o)
	}
}

// gzipBomb is the gzip of an envelope whose Body holds n blanks (a multiple of
// 1 MiB). One compressed MiB is repeated, which a full flush allows.
func gzipBomb(ns string, n int) []byte {
	const mib = 1 << 20
	head, foot := []byte(`<e:Envelope xmlns:e="`+ns+`"><e:Body><p:x xmlns:p="urn:p">`), []byte(`</p:x></e:Body></e:Envelope>`)
	blanks := bytes.Repeat([]byte(" "), mib)
	part := func(b []byte, last bool) []byte {
		var out bytes.Buffer
		w, err := flate.NewWriter(&out, 9)
		if err == nil {
			_, err = w.Write(b)
		}
		if err == nil && last {
			err = w.Close()
		} else if err == nil {
			err = w.Flush()
		}
		if err != nil {
			panic(err) // writing to memory
		}
		return out.Bytes()
	}
	sum := crc32.NewIEEE()
	_, _ = sum.Write(head)
	for range n / mib {
		_, _ = sum.Write(blanks)
	}
	_, _ = sum.Write(foot)
	b := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	b = append(b, part(head, false)...)
	b = append(b, bytes.Repeat(part(blanks, false), n/mib)...)
	b = append(b, part(foot, true)...)
	b = binary.LittleEndian.AppendUint32(b, sum.Sum32())
	return binary.LittleEndian.AppendUint32(b, uint32(n+len(head)+len(foot)))
}

// describe names a body in a failure without printing all of it.
func describe(b []byte) string { return fmt.Sprintf("%d octets, %.200q", len(b), b) }
