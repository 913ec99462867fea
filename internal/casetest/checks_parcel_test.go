package casetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"testing"
)

// A parcel is a multipart/related message as the standard library reads it, which
// shares nothing with the gateway.
type parcel struct {
	root  parcelPart
	index int // of the root
	parts []parcelPart
}

type parcelPart struct {
	id, ctype string
	body      []byte
}

// openParcel reads the parts; the root is the one that start names, with or
// without brackets, else the first.
func openParcel(body []byte, ctype string) (*parcel, error) {
	_, params, err := mime.ParseMediaType(ctype)
	if err != nil {
		return nil, err
	}
	bare := func(s string) string { return strings.Trim(s, "<> ") }
	p := &parcel{index: -1}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		if id := part.Header.Get("Content-Id"); p.index < 0 && (params["start"] == "" || bare(id) == bare(params["start"])) {
			p.index = len(p.parts)
		}
		p.parts = append(p.parts, parcelPart{part.Header.Get("Content-Id"), part.Header.Get("Content-Type"), b})
	}
	if p.index < 0 {
		return nil, fmt.Errorf("no part is the root %q", params["start"])
	}
	p.root = p.parts[p.index]
	return p, nil
}

// factOf reads a fact that only a message with attachments has; of one without,
// none is known. What want leaves out is not told.
func (p *parcel) factOf(key string, want any) (got any, known bool) {
	if p == nil {
		return nil, false
	}
	switch key {
	case "root_content_id":
		return p.root.id, true
	case "root_part_index":
		return p.index, true
	case "parts":
		return len(p.parts), true
	case "attachment":
		if len(p.parts) != 2 {
			return len(p.parts), true
		}
		a := p.parts[1-p.index]
		sum := sha256.Sum256(a.body)
		m := map[string]any{"bytes": len(a.body), "sha256": hex.EncodeToString(sum[:])}
		if want.(object)["content_id"] != nil {
			m["content_id"] = a.id
		}
		return m, true
	case "resolved":
		m := map[string]string{}
		for ref := range want.(object) {
			m[ref] = p.resolve(ref)
		}
		return m, true
	}
	return nil, false
}

// resolve finds the Content-ID that a reference of the root means.
func (p *parcel) resolve(ref string) string {
	if !bytes.Contains(p.root.body, []byte(`href="`+ref+`"`)) {
		return "no such reference"
	}
	id, err := url.PathUnescape(strings.TrimPrefix(ref, "cid:"))
	for _, part := range p.parts {
		if err == nil && part.id == "<"+id+">" {
			return part.id
		}
	}
	return "no such part"
}

// intact: the backend got the octets and the fields as they were sent, so all
// that a part says is as it was.
func intact(t *testing.T, r *run, o *outcome) {
	octetsKept(t, r, o)
	for _, name := range []string{"Content-Type", "MIME-Version", "SOAPAction"} {
		fieldKept(name)(t, r, o)
	}
}

var parcelChecks = checkTable{
	"09": {
		"to_backend/body":         onAll(intact),
		"to_backend/content_type": onAll(intact),
		"must_not/use the first part as root": onAll(func(t *testing.T, r *run, o *outcome) {
			// The first part, were it the root, is an image and no envelope.
			first := strings.Replace(o.fields.get("Content-Type"), `start="<root.7@depot.test>"`, `start="<scan.2@depot.test>"`, 1)
			r.f.http.reset()
			wantBare(t, post(t, r.f.g.addr["http"], o.target, fields{{"Content-Type", first}}, o.body), 415)
			neither(t, r)
			readAsStated(t, r, o)
		}),
		"must_not/treat preamble or epilogue as a part": onAll(func(t *testing.T, r *run, o *outcome) {
			// A broken envelope there is no business of anybody.
			bad := bytes.Replace(o.body, []byte("This text is preamble"), []byte("<!DOCTYPE a><Envelope"), 1)
			bad = bytes.Replace(bad, []byte("epilogue, ignore me"), []byte("<env:Envelope>"), 1)
			r.f.http.reset()
			if a := post(t, r.f.g.addr["http"], o.target, o.fields, bad); a.Status != 200 || len(r.f.http.got()) != 1 {
				t.Errorf("%s", a)
			}
		}),
		"must_not/emit the boundary parameter unquoted":              onAll(fieldKept("Content-Type")),
		"must_not/inline the attachment as base64 unless configured": onAll(octetsKept),
	},
	"10": {
		"to_backend/body": onAll(intact),
		"must_not/turn '+' into a space (that is form encoding, not URL encoding)": onAll(octetsKept),
		"must_not/percent-encode the Content-ID header":                            onAll(octetsKept),
		"must_not/report a missing attachment":                                     onAll(accepted),
	},
	"11": {
		"to_backend/body": onAll(intact),
		"variant start-without-brackets/verdict": on("start-without-brackets", func(t *testing.T, r *run, o *outcome) {
			accepted(t, r, o)
			intact(t, r, o)
		}),
		"must_not/hang, 500 with a stack trace, or treat the message as empty": onAll(func(t *testing.T, r *run, o *outcome) {
			accepted(t, r, o)
			if name := o.name; name == "" {
				readAsStated(t, r, o)
			}
			cut := o.body[:bytes.LastIndex(o.body, []byte("--b11--"))]
			r.f.http.reset()
			wantFault(t, post(t, r.f.g.addr["http"], o.target, o.fields, cut), "1.1", "Client", "InvalidPackage")
			neither(t, r)
		}),
	},
}

// neither: nothing reached the backend.
func neither(t *testing.T, r *run) {
	t.Helper()
	if n := len(r.f.http.got()); n != 0 {
		t.Errorf("%d requests at the backend", n)
	}
}
