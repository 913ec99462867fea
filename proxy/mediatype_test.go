package proxy

import (
	"strings"
	"testing"

	"soapway/soapcodec"
)

// What is remembered is what would be read.
func TestMediaTypes(t *testing.T) {
	fields := []string{
		"", " ", "text/xml", "TEXT/XML", "text/xml; charset=utf-8", `text/xml; charset="UTF-8"`, "text/xml; charset=latin1",
		`application/soap+xml; charset=utf-8; action="urn:a"`, `application/soap+xml; charset=utf-8; action="urn:b"`,
		`multipart/related; type="text/xml"; boundary=a`, `multipart/related; type="text/xml"; boundary=b`,
		"text/html", "text", "text/", "text/xm\x01", "text/xml; " + strings.Repeat("x", mediaTypeMost),
	}
	m := new(mediaTypes)
	for range 3 {
		for _, f := range fields {
			got, err := m.parse(f)
			want, wantErr := soapcodec.ParseContentType(f)
			if got != want || err != wantErr {
				t.Errorf("parse(%q): got %+v, %v, want %+v, %v", f, got, err, want, wantErr)
			}
		}
	}
	for i := range m {
		if k := m[i].Load(); k != nil && (k.ct.Boundary != "" || len(k.field) > mediaTypeMost) {
			t.Errorf("remembered: %q", k.field)
		}
	}
	if n := testing.AllocsPerRun(100, func() { m.parse("text/xml; charset=utf-8") }); n != 0 {
		t.Errorf("a remembered field allocates %v times, want 0", n)
	}
}
