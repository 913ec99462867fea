package proxy

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// headerCase forwards fields and returns those that concern the test.
func forward(t *testing.T, in http.Header, trusted bool, change func(*forwarding), decoded bool, b Backend) http.Header {
	t.Helper()
	ex := exchange("", "")
	ex.ID = "id"
	ex.Header = field.Of(in)
	f := forwarding{table: &Table{via: "1.1 gateway"}, ex: ex, trusted: trusted, host: "gw.test", scheme: "http"}
	if change != nil {
		change(&f)
	}
	h := f.requestHeader(decoded)
	h.Set(messageID, ex.ID)
	(&backend{Backend: b}).addOwn(&h)
	if d := cmp.Diff(field.Of(in), ex.Header); d != "" {
		t.Errorf("the request's own fields were changed:\n%s", d)
	}
	return h.HTTP()
}

func TestRequestHeader(t *testing.T) {
	own := http.Header{ // what is always added
		"Via": {"1.1 gateway"}, "X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Host": {"gw.test"},
		"X-Forwarded-Proto": {"http"}, "Forwarded": {"for=192.0.2.7;host=gw.test;proto=http"}, "Gateway-Message-Id": {"id"},
	}
	for _, c := range []struct {
		name     string
		in, want http.Header // want: on top of own; nil value = absent
		trusted  bool
		decoded  bool
		change   func(*forwarding)
		backend  Backend
	}{
		{name: "nothing"},
		{
			name: "hop by hop",
			in: http.Header{
				"Connection": {"keep-alive, X-Hop", "close"}, "X-Hop": {"1"}, "Keep-Alive": {"5"}, "Proxy-Connection": {"x"},
				"Proxy-Authorization": {"x"}, "Proxy-Authenticate": {"x"}, "Te": {"trailers"}, "Trailer": {"X"}, "Upgrade": {"h2c"},
				"Transfer-Encoding": {"chunked"}, "Content-Length": {"3"}, "Host": {"x"}, "Expect": {"100-continue"},
				"Http2-Settings": {"x"}, "X-Kept": {"a", "b"},
			},
			want: http.Header{"X-Kept": {"a", "b"}},
		},
		{
			name: "Connection strips no field that the message needs",
			in: http.Header{
				"Connection":   {"Content-Type, SOAPAction, authorization, X-Forwarded-For, Via, content-encoding, traceparent, gateway-message-id"},
				"Content-Type": {"text/xml"}, "Soapaction": {`"a"`}, "Authorization": {"Basic x"}, "Content-Encoding": {"gzip"}, "Traceparent": {"00-1"},
			},
			want: http.Header{
				"Content-Type": {"text/xml"}, "SOAPAction": {`"a"`}, "Authorization": {"Basic x"}, "Content-Encoding": {"gzip"}, "Traceparent": {"00-1"},
			},
		},
		{
			name: "SOAPAction in any spelling, with its value as it came",
			in:   http.Header{"sOAPaction": {` "urn:a" `}},
			want: http.Header{"SOAPAction": {` "urn:a" `}},
		},
		{name: "empty SOAPAction", in: http.Header{"Soapaction": {""}}, want: http.Header{"SOAPAction": {""}}},
		{
			name: "not trusted",
			in: http.Header{
				"X-Forwarded-For": {"10.9.9.9"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"1"},
				"Forwarded": {"for=10.9.9.9"}, "Gateway-Attempt": {"9"}, "gateway-possible-duplicate": {"true"}, "Gateway-Message-Id": {"x"},
				"Via": {"1.0 fred"},
			},
			want: http.Header{"Via": {"1.0 fred, 1.1 gateway"}},
		},
		{
			name: "not trusted, in the spelling that CGI cannot tell apart",
			in:   http.Header{"X_forwarded_for": {"10.9.9.9"}, "X-Forwarded_proto": {"https"}, "Gateway_possible_duplicate": {"true"}, "X_kept": {"1"}},
			want: http.Header{"X_kept": {"1"}},
		},
		{
			name: "own credentials replace the caller's in that spelling too", in: http.Header{"X_api-Key": {"caller"}},
			backend: Backend{Headers: map[string]string{"X-API-Key": "own"}},
			want:    http.Header{"X-API-Key": {"own"}},
		},
		{
			name: "trusted", trusted: true,
			in: http.Header{
				"X-Forwarded-For": {"10.9.9.9"}, "X-Forwarded-Host": {"pub.test"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"8443"},
				"Forwarded": {"for=10.9.9.9", "for=x"}, "Gateway-Attempt": {"9"}, "Gateway-Message-Id": {"x"}, "Via": {"1.0 fred", "1.1 bert"},
			},
			want: http.Header{
				"X-Forwarded-For": {"10.9.9.9, 192.0.2.7"}, "X-Forwarded-Host": {"pub.test"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"8443"},
				"Forwarded": {"for=10.9.9.9, for=x, for=192.0.2.7;host=gw.test;proto=http"}, "Gateway-Attempt": {"9"}, "Via": {"1.0 fred, 1.1 bert, 1.1 gateway"},
			},
		},
		{name: "accepted codings", in: http.Header{"Accept-Encoding": {"gzip, snappy;q=1, br;q=0.5", "*, x-GZIP"}}, want: http.Header{"Accept-Encoding": {"gzip, br;q=0.5, x-GZIP"}}},
		{name: "no known coding", in: http.Header{"Accept-Encoding": {"snappy, *;q=0.1"}}, want: http.Header{"Accept-Encoding": {"identity"}}},
		{name: "identity stays", in: http.Header{"Accept-Encoding": {"identity;q=1, gzip;q=0"}}, want: http.Header{"Accept-Encoding": {"identity;q=1, gzip;q=0"}}},
		{
			name: "decoded", decoded: true,
			in:   http.Header{"Content-Encoding": {"gzip"}, "Content-Digest": {"x"}, "Content-Md5": {"x"}, "Digest": {"x"}, "Content-Language": {"nl"}},
			want: http.Header{"Content-Language": {"nl"}},
		},
		{name: "no user agent is added", in: http.Header{"Accept": {"*/*"}}, want: http.Header{"Accept": {"*/*"}}},
		{
			name: "own credentials replace the caller's", in: http.Header{"authorization": {"Basic caller"}},
			backend: Backend{Headers: map[string]string{"Authorization": "Bearer own"}},
			want:    http.Header{"Authorization": {"Bearer own"}},
		},
		{
			name:   "IPv6 over TLS",
			change: func(f *forwarding) { f.ex.Client = netip.MustParseAddrPort("[2001:db8::1]:5"); f.scheme = "https" },
			want: http.Header{
				"X-Forwarded-For": {"2001:db8::1"}, "X-Forwarded-Proto": {"https"}, "Forwarded": {`for="[2001:db8::1]";host=gw.test;proto=https`},
			},
		},
		{
			name: "mapped IPv4, host with a port",
			change: func(f *forwarding) {
				f.ex.Client = netip.MustParseAddrPort("[::ffff:192.0.2.9]:5")
				f.host = "gw.test:8080"
			},
			want: http.Header{
				"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Host": {"gw.test:8080"}, "Forwarded": {`for=192.0.2.9;host="gw.test:8080";proto=http`},
			},
		},
		{
			name:   "framed: no host, no protocol",
			change: func(f *forwarding) { f.host, f.scheme = "", "" },
			want:   http.Header{"X-Forwarded-Host": nil, "X-Forwarded-Proto": nil, "Forwarded": {"for=192.0.2.7"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := own.Clone()
			for k, v := range c.want {
				want[k] = v
				if v == nil {
					delete(want, k)
				}
			}
			got := forward(t, c.in, c.trusted, c.change, c.decoded, c.backend)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("requestHeader (-want +got):\n%s", d)
			}
		})
	}
}

func TestReplyHeader(t *testing.T) {
	in := http.Header{
		"Content-Type": {"text/xml"}, "Content-Length": {"3"}, "Connection": {"X-Hop, Set-Cookie"}, "X-Hop": {"1"}, "Set-Cookie": {"a=1", "b=2"},
		"Keep-Alive": {"x"}, "Via": {"1.1 lb"}, "Server": {"x"},
	}
	f := forwarding{table: &Table{via: "1.1 gateway"}}
	want := http.Header{"Content-Type": {"text/xml"}, "Set-Cookie": {"a=1", "b=2"}, "Via": {"1.1 lb, 1.1 gateway"}, "Server": {"x"}}
	if d := cmp.Diff(want, f.replyHeader(field.Of(in)).HTTP()); d != "" {
		t.Errorf("replyHeader (-want +got):\n%s", d)
	}
}

func TestFramedHeader(t *testing.T) {
	for _, c := range []struct {
		version soapcodec.Version
		action  string
		want    http.Header
	}{
		{soapcodec.V11, "", http.Header{"Content-Type": {"text/xml; charset=utf-8"}, "SOAPAction": {`""`}}},
		{soapcodec.V11, "urn:a", http.Header{"Content-Type": {"text/xml; charset=utf-8"}, "SOAPAction": {`"urn:a"`}}},
		{soapcodec.V12, "", http.Header{"Content-Type": {"application/soap+xml; charset=utf-8"}}},
		{soapcodec.V12, "urn:a", http.Header{"Content-Type": {`application/soap+xml; charset=utf-8; action="urn:a"`}}},
		{soapcodec.V11, "a\r\nEvil: 1\"\\é", http.Header{"Content-Type": {"text/xml; charset=utf-8"}, "SOAPAction": {`"a%0D%0AEvil:%201%22%5C%C3%A9"`}}},
	} {
		h := field.List{}
		framedHeader(&h, c.version, c.action)
		if d := cmp.Diff(c.want, h.HTTP()); d != "" {
			t.Errorf("framedHeader(%v, %q) (-want +got):\n%s", c.version, c.action, d)
		}
	}
}

func TestHeadBytes(t *testing.T) {
	h := field.List{{Name: "SOAPACTION", Value: "a"}, {Name: "Content-Type", Value: "b"}}
	ex := &Exchange{Method: "POST", Target: "/a?b", Host: "gw", Header: h}
	if got := headBytes(ex); got != int64(len("POST /a?b HTTP/1.1\r\nHost: gw\r\nSOAPACTION: a\r\nContent-Type: b\r\n\r\n")) {
		t.Errorf("headBytes: got %d", got)
	}
}

func FuzzHeaderSafe(f *testing.F) {
	f.Add("urn:a")
	f.Add("\r\n\"\\\x00é")
	f.Fuzz(func(t *testing.T, s string) {
		got := headerSafe(s)
		for i := range len(got) {
			if c := got[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
				t.Fatalf("headerSafe(%q): %q has octet %q", s, got, c)
			}
		}
		if !strings.ContainsAny(s, "%\"\\ ") && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e }) && got != s {
			t.Errorf("headerSafe(%q): changed to %q", s, got)
		}
	})
}

// TestHopByHopNames: what a node behind CGI takes for a field of one connection does
// not go on either.
func TestHopByHopNames(t *testing.T) {
	for name, want := range map[string]bool{
		"Transfer-Encoding": true, "Transfer_Encoding": true, "transfer_encoding": true, "Content_Length": true, "Proxy_Authorization": true, "Keep_alive": true,
		"Content_Type": false, "X_Transfer_Encoding": false, "Transfer__Encoding": false, "X-A": false,
	} {
		if got := hopByHop(canonical(name)); got != want {
			t.Errorf("hopByHop(%q): got %v, want %v", name, got, want)
		}
	}
}
