package proxy

import (
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want target
		bad  bool
	}{
		{raw: "/", want: target{path: "/"}},
		{raw: "/a/b", want: target{path: "/a/b"}},
		{raw: "/a//b/", want: target{path: "/a//b/"}},
		{raw: "/a?", want: target{path: "/a", hasQuery: true}},
		{raw: "/a?x=%2e%2e/..", want: target{path: "/a", query: "x=%2e%2e/..", hasQuery: true}},
		{raw: "/a?b?c", want: target{path: "/a", query: "b?c", hasQuery: true}},
		{raw: "/%41%2f%zz", want: target{path: "/%41%2f%zz"}},
		{raw: "/a/...", want: target{path: "/a/..."}},
		{raw: "/a/..b", want: target{path: "/a/..b"}},
		{raw: "/a/b..", want: target{path: "/a/b.."}},
		{raw: "/a/.", want: target{path: "/a/."}},
		{raw: "/a/./b", want: target{path: "/a/./b"}},
		{raw: "/caf\xc3\xa9", want: target{path: "/caf\xc3\xa9"}},
		{raw: "http://h/a?b", want: target{path: "/a", query: "b", hasQuery: true, authority: "h"}},
		{raw: "HTTPS://h:1", want: target{path: "/", authority: "h:1"}},
		{raw: "http://h?q", want: target{path: "/", query: "q", hasQuery: true, authority: "h"}},

		{raw: "", bad: true},
		{raw: "*", bad: true},
		{raw: "a/b", bad: true},
		{raw: "host:443", bad: true},
		{raw: "ftp://h/a", bad: true},
		{raw: "http:///a", bad: true},
		{raw: "http://user@h/a", bad: true},
		{raw: "/a b", bad: true},
		{raw: "/a\tb", bad: true},
		{raw: "/a\x00", bad: true},
		{raw: "/a\x7f", bad: true},
		{raw: "/a#f", bad: true},
		{raw: "/..", bad: true},
		{raw: "/../a", bad: true},
		{raw: "/a/..", bad: true},
		{raw: "/a/../b", bad: true},
		{raw: "/a//../b", bad: true},
		{raw: "/a/%2e%2E/b", bad: true},
		{raw: "/a/.%2e", bad: true},
		{raw: "/a/%2e.?x", bad: true},
		{raw: "/a/..;jsessionid=1/b", bad: true},
		{raw: `/a\..\b`, bad: true},
		{raw: "/a/..%2fb", bad: true},
		{raw: "/a%2F..", bad: true},
		{raw: "/a%5c..%5Cb", bad: true},
		{raw: "http://h/a/..", bad: true},
	} {
		got, err := parseTarget(c.raw)
		if (err != nil) != c.bad || err == nil && got != c.want {
			t.Errorf("parseTarget(%q): got %+v, %v, want %+v, bad %v", c.raw, got, err, c.want, c.bad)
		}
	}
}

// slowDots is the rule of dots, said by decoding and splitting.
func slowDots(path string) bool {
	r := strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", `\`, "/")
	for seg := range strings.SplitSeq(r.Replace(path), "/") {
		if seg == ".." || strings.HasPrefix(seg, "..;") {
			return true
		}
	}
	return false
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/", "http://h/a?b", "/a%2f..%5c", "/..;x", "/...", "//..", `\..`, "/.%2", "/%2e%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseTarget(raw)
		if err != nil {
			return
		}
		// Nothing is decoded or cleaned: the parts make up the whole.
		whole := got.path
		if got.hasQuery {
			whole += "?" + got.query
		}
		if got.authority == "" && whole != raw {
			t.Errorf("parseTarget(%q): parts make %q", raw, whole)
		}
		if got.authority != "" && !strings.HasSuffix(raw, strings.TrimPrefix(whole, "/")) {
			t.Errorf("parseTarget(%q): parts make %q", raw, whole)
		}
		if got.path[0] != '/' || strings.ContainsAny(raw, " \x00\r\n#") {
			t.Errorf("parseTarget(%q): accepted", raw)
		}
		if slowDots(got.path) {
			t.Errorf("parseTarget(%q): accepted a .. segment", raw)
		}
	})
}

func FuzzDots(f *testing.F) {
	for _, s := range []string{"/a/../b", "/%2e%2e/", "/a%2f..%5c", "/..;x", "/...", "//..", `/\..`, "/.%2", "/%2e%2", "/..%2", "/%2e./.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if path == "" || path[0] != '/' {
			path = "/" + path
		}
		if got, want := dots(path), slowDots(path); got != want {
			t.Errorf("dots(%q): got %v, want %v", path, got, want)
		}
	})
}

func TestReserved(t *testing.T) {
	for path, want := range map[string]bool{
		"/_gateway": true, "/_gateway/": true, "/_gateway/messages/1": true, "/_gatewayx": false,
		"/_site/v1/batch": true, "/_sites": false, "/.well-known/acme-challenge/t": true,
		"/.well-known/other": false, "/a/_gateway/": false, "/": false,
	} {
		if got := reserved(path); got != want {
			t.Errorf("reserved(%q): got %v, want %v", path, got, want)
		}
	}
}

func TestWSDLQuery(t *testing.T) {
	for query, want := range map[string]bool{
		"wsdl": true, "WSDL": true, "wsdl=1": true, "a=b&singleWsdl": true, "xsd=xsd0": true, "XSD=2&x": true,
		"": false, "wsdls": false, "a=wsdl": false, "a&b": false, "=wsdl": false,
	} {
		if got := wsdlQuery(query); got != want {
			t.Errorf("wsdlQuery(%q): got %v, want %v", query, got, want)
		}
	}
}
