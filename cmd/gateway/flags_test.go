package main

import (
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestNearest(t *testing.T) {
	flags := []string{"json", "config", "action", "connections", "to", "n"}
	for typed, want := range map[string]string{
		"jsno": "json", "confg": "config", "Config": "config", "acton": "action", "conections": "connections",
		"ot": "", "x": "", "": "", "completely-different": "",
	} {
		if got := nearest(typed, flags); got != want {
			t.Errorf("nearest(%q): got %q, want %q", typed, got, want)
		}
	}
}

func TestEdits(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := edits(tt.a, tt.b); got != tt.want {
			t.Errorf("edits(%q, %q): got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestParseRate(t *testing.T) {
	for rate, want := range map[string]time.Duration{
		"": 0, "50/s": 20 * time.Millisecond, "50": 20 * time.Millisecond, "30/m": 2 * time.Second,
		"0.5/s": 2 * time.Second, "1e9": 1,
	} {
		if got, err := parseRate(rate); err != nil || got != want {
			t.Errorf("parseRate(%q): got %v, %v, want %v", rate, got, err, want)
		}
	}
	for _, rate := range []string{"0", "-1/s", "x", "1/h", "1/s/s", "NaN", "Inf", "1e-300", "/s", "2e9"} {
		if got, err := parseRate(rate); err == nil {
			t.Errorf("parseRate(%q): got %v, want an error", rate, got)
		}
	}
}

func TestParseTarget(t *testing.T) {
	good := []struct {
		to   string
		want target
	}{
		{"http://h:1/p?q#f", target{url: "http://h:1/p?q"}},
		{"framed://h:1", target{framed: true, host: "h:1", length: 2}},
		{"framed://h:1/?length=4", target{framed: true, host: "h:1", length: 4}},
		{"framed://[::1]:1?length=2", target{framed: true, host: "[::1]:1", length: 2}},
	}
	for _, tt := range good {
		if got, err := parseTarget(tt.to); err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("parseTarget(%q): got %+v, %v, want %+v", tt.to, got, err, tt.want)
		}
	}
	for _, to := range []string{"https://h", "framed+tls://h:1"} {
		if got, err := parseTarget(to); err != nil || got.tls == nil {
			t.Errorf("parseTarget(%q): got %+v, %v, want TLS", to, got, err)
		}
	}
	for to, want := range map[string]string{
		"": "missing", "h:1": "scheme", "//h": "no scheme", "ftp://h": "scheme", "http://": "no host",
		"http://u:secret@h": "credentials", "framed://h": "HOST:PORT", "framed://h:1/x": "HOST:PORT",
		"framed://h:1?length=3": "length=2 or length=4", "framed://h:1?len=4": "length=2 or length=4",
		"http://h:secret@x:99999999/%zz": "not a URL",
	} {
		_, err := parseTarget(to)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseTarget(%q): got %v, want %q", to, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("parseTarget(%q): the error shows a password: %v", to, err)
		}
	}
}

func TestParseHeaders(t *testing.T) {
	h, err := parseHeaders([]string{"X-A: 1", "x-a:2", "X-A:  3 ", "SOAPAction:", "Empty: "})
	want := map[string][]string{"X-A": {"1", "3"}, "x-a": {"2"}, "SOAPAction": nil, "Empty": nil}
	if err != nil || !reflect.DeepEqual(map[string][]string(h), want) {
		t.Errorf("parseHeaders: got %v, %v, want %v", h, err, want)
	}
	for _, bad := range []string{"", "X-A", ": v", "X A: v", "X-A: a\r\nX-B: b", "Ü: v"} {
		if h, err := parseHeaders([]string{bad}); err == nil {
			t.Errorf("parseHeaders(%q): got %v, want an error", bad, h)
		}
	}
}

func TestCharsetOf(t *testing.T) {
	for body, want := range map[string]string{
		"<a/>":                      "utf-8",
		`<?xml version="1.0"?><a/>`: "utf-8",
		`<?xml version="1.0" encoding="ISO-8859-1"?><a/>`:                 "iso-8859-1",
		"<?xml version='1.0'\n encoding = 'UTF-8' standalone='yes'?><a/>": "utf-8",
		"\xff\xfe<\x00a\x00": "utf-16",
		"\xfe\xff\x00<\x00a": "utf-16",
		"\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a/>":         "utf-8",
		`<?xml version="1.0" encoding="x; y=z"?>`:                                 "utf-8",
		`<?xml version="1.0" ` + strings.Repeat(" ", 200) + `encoding="latin1"?>`: "utf-8",
	} {
		if got := charsetOf([]byte(body)); got != want {
			t.Errorf("charsetOf(%q): got %q, want %q", body, got, want)
		}
	}
}

func TestBuildInfo(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	}
	var b build
	b.fill(info)
	if b.Version != "v1.2.3" || b.Commit != "abc-dirty" {
		t.Errorf("fill: got %+v", b)
	}
	b = build{Version: "9", Commit: "def"}
	b.fill(info)
	if b.Version != "9" || b.Commit != "def" {
		t.Errorf("fill over a release build: got %+v", b)
	}
	b = build{}
	b.fill(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}})
	if b.Version != "" || b.Commit != "" {
		t.Errorf("fill without anything: got %+v", b)
	}
}
