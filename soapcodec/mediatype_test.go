package soapcodec

import (
	"errors"
	"strings"
	"testing"
)

func TestParseContentType(t *testing.T) {
	tests := []struct {
		field string
		want  ContentType
	}{
		{"", ContentType{}},
		{"  \t", ContentType{}},
		{"text/xml", ContentType{Type: "text/xml"}},
		{"text/xml; charset=utf-8", ContentType{Type: "text/xml", Charset: "utf-8"}},
		{" Text/XML ;Charset = \"UTF-8\" ", ContentType{Type: "text/xml", Charset: "utf-8"}},
		{"text/xml;charset='iso-8859-1'", ContentType{Type: "text/xml", Charset: "iso-8859-1"}},
		{"text/xml;charset=", ContentType{Type: "text/xml"}},
		{"text/xml;;; charset=utf-8;", ContentType{Type: "text/xml", Charset: "utf-8"}},
		{"text/xml; charset=utf-8; charset=utf-16", ContentType{Type: "text/xml", Charset: "utf-8"}},
		{"text/xml; xcharset=utf-16", ContentType{Type: "text/xml"}},
		{"text/xml; charset", ContentType{Type: "text/xml"}},
		{"text/xml; a=\"x;charset=utf-16\"; charset=utf-8", ContentType{Type: "text/xml", Charset: "utf-8"}},
		{"text/xml; a=\"x\\\";charset=utf-16\"; charset=utf-8", ContentType{Type: "text/xml", Charset: "utf-8"}},
		{"application/soap+xml; charset=utf-8; action=\"urn:depot:parcel;op=book,now\"", ContentType{Type: "application/soap+xml", Charset: "utf-8", Action: "urn:depot:parcel;op=book,now", HasAction: true}},
		{"Application/SOAP+XML;ACTION=\"urn:b\";CHARSET=\"UTF-8\"", ContentType{Type: "application/soap+xml", Charset: "utf-8", Action: "urn:b", HasAction: true}},
		{"application/soap+xml; charset=utf-8;", ContentType{Type: "application/soap+xml", Charset: "utf-8"}},
		{"application/soap+xml; action=urn:depot:parcel:book", ContentType{Type: "application/soap+xml", Action: "urn:depot:parcel:book", HasAction: true}},
		{"application/soap+xml; action=\"\"", ContentType{Type: "application/soap+xml", HasAction: true}},
		{"application/soap+xml; action=\"a\\\"b\\\\c\"", ContentType{Type: "application/soap+xml", Action: `a"b\c`, HasAction: true}},
		{"application/soap+xml; action=\"urn:open", ContentType{Type: "application/soap+xml", Action: `"urn:open`, HasAction: true}},
		{"application/soap+xml; action=\"", ContentType{Type: "application/soap+xml", Action: `"`, HasAction: true}},
		{"application/soap+xml; action=\"x\\", ContentType{Type: "application/soap+xml", Action: `"x\`, HasAction: true}},
		{"multipart/related; type=\"application/xop+xml\"; boundary=\"a;b\"", ContentType{Type: "multipart/related", Boundary: "a;b", TypeParam: "application/xop+xml"}},
	}
	for _, tt := range tests {
		got, err := ParseContentType(tt.field)
		if err != nil || got != tt.want {
			t.Errorf("ParseContentType(%q): got %+v, %v, want %+v", tt.field, got, err, tt.want)
		}
	}
	for _, field := range []string{"text", "/xml", "text/", "text /xml", "text/xml, text/xml", ";charset=utf-8", "te\x00xt/xml", "text/x/ml", "téxt/xml"} {
		if got, err := ParseContentType(field); !errors.Is(err, ErrMediaType) {
			t.Errorf("ParseContentType(%q): got %+v, %v, want ErrMediaType", field, got, err)
		}
	}
}

func TestIsSOAP(t *testing.T) {
	tests := []struct {
		field           string
		soap, multipart bool
	}{
		{"", true, false},
		{"text/xml; charset=utf-8", true, false},
		{"APPLICATION/SOAP+XML", true, false},
		{"application/xml", true, false},
		{"multipart/related; boundary=b", false, true},
		{"text/html", false, false},
		{"application/xop+xml", false, false},
		{"multipart/mixed", false, false},
	}
	for _, tt := range tests {
		ct, err := ParseContentType(tt.field)
		if err != nil || ct.IsSOAP() != tt.soap || ct.IsMultipart() != tt.multipart {
			t.Errorf("ParseContentType(%q): got IsSOAP %t, IsMultipart %t, %v, want %t, %t", tt.field, ct.IsSOAP(), ct.IsMultipart(), err, tt.soap, tt.multipart)
		}
	}
}

func TestWithCharset(t *testing.T) {
	tests := []struct{ field, want string }{
		{"", ""},
		{" ", " "},
		{"text/xml", "text/xml; charset=utf-8"},
		{"text/xml;", "text/xml; charset=utf-8;"},
		{"text/xml ; a=b", "text/xml; charset=utf-8 ; a=b"},
		{"text/xml; charset=UTF-16", "text/xml; charset=utf-8"},
		{"text/xml;  CharSet = \"UTF-16\" ; x=y ", "text/xml;  CharSet = \"utf-8\" ; x=y "},
		{"text/xml; charset=", "text/xml; charset=utf-8"},
		{"text/xml; charset=a; charset=\"b\"", "text/xml; charset=utf-8; charset=\"utf-8\""},
		{"application/soap+xml; action=\"x;charset=q\"; charset=utf-16", "application/soap+xml; action=\"x;charset=q\"; charset=utf-8"},
		{"application/soap+xml;charset=utf-16;action=\"urn:depot:parcel;op=book,now\"", "application/soap+xml;charset=utf-8;action=\"urn:depot:parcel;op=book,now\""},
	}
	for _, tt := range tests {
		if got := WithCharset(tt.field, "utf-8"); got != tt.want {
			t.Errorf("WithCharset(%q): got %q, want %q", tt.field, got, tt.want)
		}
	}
}

// FuzzContentType: rewriting the charset leaves type and action as they were,
// says the new charset, and a second rewrite changes nothing.
func FuzzContentType(f *testing.F) {
	for _, s := range []string{"", "text/xml", "a/b; charset=\"x\"; action=\"u;v\\\"\"", "a/b;charset='x';;", "a/b; action=\"", "a/b;charset=\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		before, err := ParseContentType(field)
		if err != nil {
			return
		}
		out := WithCharset(field, "utf-8")
		if before.Type == "" {
			if out != field {
				t.Fatalf("WithCharset(%q): got %q, want it unchanged", field, out)
			}
			return
		}
		after, err := ParseContentType(out)
		want := before
		want.Charset = "utf-8"
		if err != nil || after != want {
			t.Fatalf("ParseContentType(%q) after WithCharset(%q): got %+v, %v, want %+v", out, field, after, err, want)
		}
		if again := WithCharset(out, "utf-8"); again != out {
			t.Fatalf("WithCharset(%q): got %q, want it unchanged", out, again)
		}
	})
}

func TestParseSOAPAction(t *testing.T) {
	tests := []struct {
		values  []string
		want    string
		present bool
	}{
		{nil, "", false},
		{[]string{""}, "", false},
		{[]string{" \t"}, "", false},
		{[]string{`""`}, "", true},
		{[]string{`"urn:depot:parcel#Hold"`}, "urn:depot:parcel#Hold", true},
		{[]string{` "urn:a" `}, "urn:a", true},
		{[]string{"urn:depot:parcel#Hold"}, "urn:depot:parcel#Hold", true},
		{[]string{`"urn:open`}, "urn:open", true},
		{[]string{`"`}, "", true},
		{[]string{`"a;b,c"`}, "a;b,c", true},
		{[]string{"", `"urn:second"`}, "urn:second", true},
	}
	for _, tt := range tests {
		got, present := ParseSOAPAction(tt.values)
		if got != tt.want || present != tt.present {
			t.Errorf("ParseSOAPAction(%q): got %q, %t, want %q, %t", tt.values, got, present, tt.want, tt.present)
		}
	}
}

func TestFaultVersion(t *testing.T) {
	tests := []struct {
		recognised Version
		mediaType  string
		want       Version
	}{
		{V11, "application/soap+xml", V11},
		{V12, "text/xml", V12},
		{V0, "application/soap+xml", V12},
		{V0, "Application/SOAP+XML ; charset=utf-8", V12},
		{V0, "text/xml", V11},
		{V0, "", V11},
		{V0, "application/soap+xmlish", V11},
	}
	for _, tt := range tests {
		if got := FaultVersion(tt.recognised, tt.mediaType); got != tt.want {
			t.Errorf("FaultVersion(%v, %q): got %v, want %v", tt.recognised, tt.mediaType, got, tt.want)
		}
	}
}

func TestParseContentTypeLong(t *testing.T) {
	field := "text/xml" + strings.Repeat(";a=\"b\"", 10_000)
	if ct, err := ParseContentType(field); err != nil || ct.Type != "text/xml" {
		t.Errorf("ParseContentType of ten thousand parameters: got %+v, %v", ct, err)
	}
}
