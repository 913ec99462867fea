package config

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want time.Duration
		text string
	}{
		{"30s", 30 * time.Second, "30s"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"2d", 48 * time.Hour, "2d"},
		{"1.5d", 36 * time.Hour, "36h"},
		{"1h1d", 25 * time.Hour, "25h"},
		{"120h", 120 * time.Hour, "5d"},
		{"90s", 90 * time.Second, "1m30s"},
		{"60m", time.Hour, "1h"},
		{"1h0m5s", time.Hour + 5*time.Second, "1h0m5s"},
		{"100ms", 100 * time.Millisecond, "100ms"},
		{"1µs", time.Microsecond, "1µs"},
		{"0", 0, "0s"},
		{"none", -1, "none"},
	} {
		got, err := parseDuration(tt.in, tt.in, rules{none: true, zero: true})
		if err != nil || got != Duration(tt.want) || got.String() != tt.text {
			t.Errorf("parseDuration(%q): got %v (%d), %v, want %v, printed as %s", tt.in, got, got, err, tt.want, tt.text)
		}
		if again, err := parseDuration(got.String(), "", rules{none: true, zero: true}); err != nil || again != got {
			t.Errorf("parseDuration(%q): printed as %v, which reads as %v, %v", tt.in, got, again, err)
		}
	}
	for _, in := range []string{"", "s", "1", "10", "-1s", "1.2.3s", "1x", "1 s", " 1s", "1s ", "+1s", "1D", "106752d", "1e3s", "∞", ".s", "1h-1s", "9999999999h1d"} {
		if got, err := parseDuration(in, in, rules{none: true, zero: true}); err == nil {
			t.Errorf("parseDuration(%q): got %v, want an error", in, got)
		}
	}
	for _, in := range []string{"0", "0s", "0d", "none"} {
		if got, err := parseDuration(in, in, rules{}); err == nil {
			t.Errorf("parseDuration(%q) without none and zero: got %v, want an error", in, got)
		}
	}
	if got := Duration(-1).Or(time.Hour); got != time.Hour {
		t.Errorf("none.Or(1h): got %v", got)
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Size
		text string
	}{
		{"1", 1, "1B"},
		{"7B", 7, "7B"},
		{"1kB", 1000, "1000B"},
		{"1MB", 1e6, "1000000B"},
		{"2GB", 2e9, "1953125KiB"},
		{"1KiB", 1 << 10, "1KiB"},
		{"64MiB", 64 << 20, "64MiB"},
		{"10GiB", 10 << 30, "10GiB"},
		{"1536KiB", 1536 << 10, "1536KiB"},
		{"1.5MiB", 1536 << 10, "1536KiB"},
		{"0.5KiB", 512, "512B"},
		{"1 MiB", 1 << 20, "1MiB"},
		{"1.0", 1, "1B"},
		{"9223372036854775807", math.MaxInt64, "9223372036854775807B"},
		{"0", 0, "0B"},
		{"none", -1, "none"},
	} {
		got, err := parseSize(tt.in, tt.in, rules{none: true, zero: true})
		if err != nil || got != tt.want || got.String() != tt.text {
			t.Errorf("parseSize(%q): got %v, %v, want %d, printed as %s", tt.in, got, err, tt.want, tt.text)
		}
		if again, err := parseSize(got.String(), "", rules{none: true, zero: true}); err != nil || again != got {
			t.Errorf("parseSize(%q): printed as %v, which reads as %v, %v", tt.in, got, again, err)
		}
	}
	for _, in := range []string{"", "B", "-1", "1K", "1M", "1mb", "1kb", "1Mib", "1TB", "1.3B", "1..2", "1.2.3MB", "9223372036854775808", "10000000000GiB", "1  B", "1e9", "0x10", ".", "1/2MiB", "00000000000000000000000000000000000000000000000001"} {
		if got, err := parseSize(in, in, rules{none: true, zero: true}); err == nil {
			t.Errorf("parseSize(%q): got %v, want an error", in, got)
		}
	}
}

func TestParseRate(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Rate
	}{{"100/s", Rate{100, time.Second}}, {"600/m", Rate{600, time.Minute}}, {"none", Rate{}}} {
		got, err := parseRate(tt.in, tt.in, rules{})
		if err != nil || got != tt.want || got.String() != tt.in {
			t.Errorf("parseRate(%q): got %v, %v, want %v", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{"", "1", "0/s", "-1/s", "1/h", "1/S", "1.5/s", "1/s/s", "/s", "99999999999/s"} {
		if got, err := parseRate(in, in, rules{}); err == nil {
			t.Errorf("parseRate(%q): got %v, want an error", in, got)
		}
	}
}

func TestParseNodeURL(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want NodeURL
	}{
		{"http://h", NodeURL{Scheme: NodeHTTP, Host: "h", Address: "h:80", Path: "/"}},
		{"https://H.example/", NodeURL{Scheme: NodeHTTPS, Host: "H.example", Address: "H.example:443", Path: "/"}},
		{"http://10.0.0.5:9000/a//b%2F;c=1", NodeURL{Scheme: NodeHTTP, Host: "10.0.0.5:9000", Address: "10.0.0.5:9000", Path: "/a//b%2F;c=1"}},
		{"https://[::1]:8443/x", NodeURL{Scheme: NodeHTTPS, Host: "[::1]:8443", Address: "[::1]:8443", Path: "/x"}},
		{"http://[2001:db8::1]", NodeURL{Scheme: NodeHTTP, Host: "[2001:db8::1]", Address: "[2001:db8::1]:80", Path: "/"}},
		{"framed://h:7000", NodeURL{Scheme: NodeFramed, Host: "h:7000", Address: "h:7000", Length: 2}},
		{"framed://h:7000?length=4", NodeURL{Scheme: NodeFramed, Host: "h:7000", Address: "h:7000", Length: 4}},
		{"framed+tls://h:7000/?length=2", NodeURL{Scheme: NodeFramedTLS, Host: "h:7000", Address: "h:7000", Length: 2}},
		{"builtin:echo", NodeURL{Scheme: NodeBuiltin, Builtin: "echo"}},
		{"site:hq/orders", NodeURL{Scheme: NodeSite, Site: "hq", Route: "orders"}},
	} {
		got, err := parseNodeURL(tt.in, tt.in, rules{})
		if err != nil || got != tt.want {
			t.Errorf("parseNodeURL(%q): got %+v, %v, want %+v", tt.in, got, err, tt.want)
		}
		if again, err := parseNodeURL(got.String(), "", rules{}); err != nil || again != got {
			t.Errorf("parseNodeURL(%q): printed as %v, which reads as %+v, %v", tt.in, got, again, err)
		}
	}
	for _, in := range []string{"http://", "http:///x", "http://h:", "http://h:0", "http://h:080", "http://h:8a", "http://[::1", "http://[::1]x", "http://[h]", "http://h/\x7f", "http://h/\r\nX: y", "http://h?", "framed://:7", "framed://h:1?length=2&x", "builtin:", "builtin:echo/x", "site:", "site:a", "site:a/", "HTTP://h", "://h", "http://..", "http://a..b", "http://-a", "http://u@h"} {
		if got, err := parseNodeURL(in, in, rules{}); err == nil {
			t.Errorf("parseNodeURL(%q): got %+v, want an error", in, got)
		}
	}
}

func TestQNames(t *testing.T) {
	l := &loader{cfg: &Config{Namespaces: map[string]string{"o": "urn:o", "p": "http://p/q"}}}
	for _, tt := range []struct {
		in, text string
		want     QName
	}{
		{"o:Place", "{urn:o}Place", QName{Space: "urn:o", Local: "Place"}},
		{"{http://x/y}a.b-c", "{http://x/y}a.b-c", QName{Space: "http://x/y", Local: "a.b-c"}},
		{"{}Place", "{}Place", QName{Local: "Place"}},
		{"Place", "Place", QName{Local: "Place", AnySpace: true}},
		{"größe", "größe", QName{Local: "größe", AnySpace: true}},
	} {
		got, err := l.parseQName(tt.in, tt.in, rules{})
		if err != nil || got != tt.want || got.String() != tt.text {
			t.Errorf("parseQName(%q): got %+v (%v), %v, want %+v (%s)", tt.in, got, got, err, tt.want, tt.text)
		}
	}
	for _, in := range []string{"", ":", "o:", ":a", "x:a", "o:a:b", "1a", "-a", "{urn:o", "{urn:o}", "{a}b/c", "a/b", "a b"} {
		if got, err := l.parseQName(in, in, rules{}); err == nil {
			t.Errorf("parseQName(%q): got %+v, want an error", in, got)
		}
	}
	for in, text := range map[string]string{
		"none": "none", "route": "route", "http:X-Customer": "http:X-Customer",
		"header:o:Key":                    "header:{urn:o}Key",
		"body:/o:Place/{http://p/q}Id/No": "body:/{urn:o}Place/{http://p/q}Id/No",
	} {
		got, err := l.parseOrderBy(in, in, rules{})
		if err != nil || got.String() != text {
			t.Errorf("parseOrderBy(%q): got %v, %v, want %s", in, got, err, text)
		}
	}
	for _, in := range []string{"", "http:", "http:a b", "header:", "header:x:y", "header:a/b", "body:", "body:/", "body:a", "body:/a/", "body://a", "customer", "route:x"} {
		if got, err := l.parseOrderBy(in, in, rules{}); err == nil {
			t.Errorf("parseOrderBy(%q): got %v, want an error", in, got)
		}
	}
	for _, in := range []string{"none", "route", ""} {
		if got, err := l.parseDedupBy(in, in, rules{}); err == nil {
			t.Errorf("parseDedupBy(%q): got %v, want an error", in, got)
		}
	}
}

func TestParsePathPattern(t *testing.T) {
	for in, want := range map[string]PathPattern{
		"/orders":      {Path: "/orders"},
		"/":            {Path: "/"},
		"/a/*":         {Path: "/a", Prefix: true},
		"/*":           {Path: "", Prefix: true},
		"/a%20b/c;d=1": {Path: "/a%20b/c;d=1"},
		"/a//*":        {Path: "/a/", Prefix: true},
	} {
		got, err := parsePathPattern(in, in, rules{})
		if err != nil || got != want || got.String() != in {
			t.Errorf("parsePathPattern(%q): got %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "*", "a", "a/*", "/*/a", "/a*", "/a/**", "/..", "/a/../b", "/./a", "/a?b", "/a#b", "/%", "/%2", "/%gg", "/é"} {
		if got, err := parsePathPattern(in, in, rules{}); err == nil {
			t.Errorf("parsePathPattern(%q): got %+v, want an error", in, got)
		}
	}
}
