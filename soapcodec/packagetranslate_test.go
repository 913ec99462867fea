package soapcodec

import "testing"

func TestTranslatePackage(t *testing.T) {
	tests := []struct {
		field  string
		v      Version
		action string
		want   string
	}{
		{`multipart/related; boundary="b;a"; type="text/xml"; start="<r>"`, V12, "urn:a", `multipart/related; boundary="b;a"; type="application/soap+xml"; start="<r>"; action="urn:a"`},
		{`multipart/related; type="application/xop+xml"; start-info="text/xml"; boundary=b`, V12, "", `multipart/related; type="application/xop+xml"; start-info="application/soap+xml"; boundary=b`},
		{`multipart/related;type="application/xop+xml";boundary=b`, V12, "urn:a", `multipart/related;type="application/xop+xml";boundary=b; start-info="application/soap+xml"; action="urn:a"`},
		{`multipart/related; type="application/xop+xml"; start-info="application/soap+xml; action=\"urn:a\""; ACTION="urn:b" ; boundary=b`, V11, "urn:a", `multipart/related; type="application/xop+xml"; start-info="text/xml" ; boundary=b`},
		{`multipart/related; boundary=b`, V11, "", `multipart/related; boundary=b`},
		{`multipart/related; action=a; boundary=b; type=application/soap+xml`, V11, "", `multipart/related; boundary=b; type="text/xml"`},
	}
	for _, tt := range tests {
		got := TranslatePackage(tt.field, tt.v, tt.action)
		if got != tt.want {
			t.Errorf("TranslatePackage(%s, %v): got\n%s, want\n%s", tt.field, tt.v, got, tt.want)
		}
		ct, err := ParseContentType(got)
		if err != nil || ct.Boundary != "b" && ct.Boundary != "b;a" {
			t.Errorf("TranslatePackage(%s, %v): got the boundary %q, %v", tt.field, tt.v, ct.Boundary, err)
		}
	}
	roots := []struct {
		field string
		v     Version
		want  string
	}{
		{" text/xml; charset=utf-8", V12, " application/soap+xml; charset=utf-8"},
		{` application/soap+xml; action="urn:a"; charset=utf-8`, V11, " text/xml; charset=utf-8"},
		{` application/xop+xml; type="text/xml"; charset=utf-8`, V12, ` application/xop+xml; type="application/soap+xml"; charset=utf-8`},
		{` application/xop+xml; type="application/soap+xml; action=\"a\""; action=b`, V11, ` application/xop+xml; type="text/xml"`},
		{"text/xml", V12, "application/soap+xml"},
	}
	for _, tt := range roots {
		if got := translateRoot(tt.field, tt.v); got != tt.want {
			t.Errorf("translateRoot(%s, %v): got %s, want %s", tt.field, tt.v, got, tt.want)
		}
	}
	header := "content-type: text/xml;\r\n charset=latin1\r\nContent-Length: 7\r\n\r\n"
	want := "content-type: application/soap+xml;\r\n charset=utf-8\r\nContent-Length: 9\r\n\r\n"
	if got := string(AppendHeader(nil, []byte(header), HeaderChange{Version: V12, Charset: "utf-8", Length: 9})); got != want {
		t.Errorf("AppendHeader: got %q, want %q", got, want)
	}
}
