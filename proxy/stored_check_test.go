package proxy

import (
	"strings"
	"testing"
)

func TestCheckStored(t *testing.T) {
	meta := func(m storedMeta) string { m.V, m.SOAP = metaVersion, "1.1"; return string(m.append(nil)) }
	field := func(name, value string) string {
		return meta(storedMeta{Header: [][2]octets{{octets(name), octets(value)}}})
	}
	for name, tt := range map[string]struct {
		meta string
		good bool
	}{
		"least":                  {meta(storedMeta{}), true},
		"all":                    {meta(storedMeta{Tail: "/a%20b", Query: "x=1&y", Host: "a.example:80", Action: "urn:a b", Header: [][2]octets{{"X-A", "b\tc \xe9"}, {"Soapaction", `""`}}}), true},
		"no JSON":                {"{", false},
		"another form":           {`{"v":2,"soap":"1.1"}`, false},
		"line in a value":        {field("X-A", "b\r\nX-B: c"), false},
		"bare line feed":         {field("X-A", "b\nc"), false},
		"zero":                   {field("X-A", "b\x00"), false},
		"line in a name":         {field("X-A: b\r\nX", "c"), false},
		"no name":                {field("", "c"), false},
		"framing":                {field("transfer-encoding", "chunked"), false},
		"length":                 {field("Content-Length", "1"), false},
		"connection":             {field("Connection", "X-A"), false},
		"host":                   {field("Host", "a"), false},
		"space in the path":      {meta(storedMeta{Tail: "/a HTTP/1.1"}), false},
		"path without a slash":   {meta(storedMeta{Tail: "@evil.example/"}), false},
		"line in the query":      {meta(storedMeta{Query: "a\r\nb"}), false},
		"space in the host":      {meta(storedMeta{Host: "a b"}), false},
		"line in the action":     {meta(storedMeta{Action: "a\r\nb"}), false},
		"octets above a char":    {`{"v":1,"soap":"1.1","query":{"octets":"\u0100"}}`, false},
		"a line by octets alone": {`{"v":1,"soap":"1.1","header":[["A",{"octets":"\u000a"}]]}`, false},
	} {
		if err := CheckStored([]byte(tt.meta)); (err == nil) != tt.good {
			t.Errorf("%s: CheckStored(%s): got %v, want good %t", name, tt.meta, err, tt.good)
		} else if err != nil && strings.ContainsAny(err.Error(), "\r\n\x00") {
			t.Errorf("%s: the error has control characters: %q", name, err)
		}
	}
}
