package listen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"soapway/internal/memnet"
	"soapway/proxy"
)

// proxyHeader makes a header of the PROXY protocol.
func proxyHeader(command, family byte, addresses string, more string) string {
	rest := addresses + more
	return proxySignature + string([]byte{command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

// addresses are those of a header: of the client, and of where it went.
func addresses(from, to netip.AddrPort) string {
	var b []byte
	b = append(b, from.Addr().AsSlice()...)
	b = append(b, to.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return string(binary.BigEndian.AppendUint16(b, to.Port()))
}

var (
	to4   = netip.MustParseAddrPort("203.0.113.1:443")
	to6   = netip.MustParseAddrPort("[2001:db8::1]:443")
	from4 = netip.MustParseAddrPort("198.51.100.7:4711")
	from6 = netip.MustParseAddrPort("[2001:db8::7]:4711")
	// in6 is from4 as IPv6 has it.
	in6 = netip.MustParseAddrPort("[::ffff:198.51.100.7]:4711")
)

func TestProxyHeader(t *testing.T) {
	tlv := "\x04\x00\x03abc" // to be skipped: a NOOP of three octets
	for _, tt := range []struct {
		name, header string
		want         proxied
		err          error
	}{
		{"IPv4", proxyHeader(0x21, 0x11, addresses(from4, to4), ""), proxied{client: from4}, nil},
		{"IPv6", proxyHeader(0x21, 0x21, addresses(from6, to6), ""), proxied{client: from6}, nil},
		{"IPv4 in IPv6", proxyHeader(0x21, 0x21, addresses(in6, to6), ""), proxied{client: from4}, nil},
		{"IPv4 and more", proxyHeader(0x21, 0x11, addresses(from4, to4), tlv), proxied{client: from4}, nil},
		{"as much more as may be", proxyHeader(0x21, 0x11, addresses(from4, to4), strings.Repeat("x", proxyMost-12)), proxied{client: from4}, nil},
		{"UNIX", proxyHeader(0x21, 0x31, strings.Repeat("u", 216), tlv), proxied{}, nil},
		{"unknown", proxyHeader(0x21, 0x00, "", ""), proxied{}, nil},
		{"unknown and more", proxyHeader(0x21, 0x00, "", tlv), proxied{}, nil},
		{"local", proxyHeader(0x20, 0x00, "", ""), proxied{local: true}, nil},
		{"local with addresses", proxyHeader(0x20, 0x11, addresses(from4, to4), tlv), proxied{local: true}, nil},
		{"local of an odd family", proxyHeader(0x20, 0x77, "abc", ""), proxied{local: true}, nil},
		{"local, short", proxyHeader(0x20, 0x11, "abc", ""), proxied{local: true}, nil},
		{"version 1", "PROXY TCP4 198.51.100.7 203.0.113.1 4711 443\r\n", proxied{}, errProxyOld},
		{"version 3", proxyHeader(0x31, 0x11, addresses(from4, to4), ""), proxied{}, errProxyHeader},
		{"odd command", proxyHeader(0x22, 0x11, addresses(from4, to4), ""), proxied{}, errProxyHeader},
		{"UDP", proxyHeader(0x21, 0x12, addresses(from4, to4), ""), proxied{}, errProxyHeader},
		{"no transport", proxyHeader(0x21, 0x10, addresses(from4, to4), ""), proxied{}, errProxyHeader},
		{"odd family", proxyHeader(0x21, 0x41, addresses(from4, to4), ""), proxied{}, errProxyHeader},
		{"IPv4, short", proxyHeader(0x21, 0x11, addresses(from4, to4)[:11], ""), proxied{}, errProxyHeader},
		{"IPv6, short", proxyHeader(0x21, 0x21, addresses(from4, to4), ""), proxied{}, errProxyHeader},
		{"UNIX, short", proxyHeader(0x21, 0x31, strings.Repeat("u", 215), ""), proxied{}, errProxyHeader},
		{"too long", proxyHeader(0x21, 0x11, addresses(from4, to4), strings.Repeat("x", proxyMost-11)), proxied{}, errProxyHeader},
		{"signature, last octet", strings.Replace(proxyHeader(0x21, 0x11, addresses(from4, to4), ""), "QUIT\n", "QUIT\r", 1), proxied{}, errProxyNone},
		{"a request", "POST / HTTP/1.1\r\nHost: a\r\n\r\n", proxied{}, errProxyNone},
		{"nothing", "", proxied{}, io.EOF},
		{"half", proxyHeader(0x21, 0x11, addresses(from4, to4), "")[:13], proxied{}, io.ErrUnexpectedEOF},
		{"half the addresses", proxyHeader(0x21, 0x11, addresses(from4, to4), "")[:20], proxied{}, io.ErrUnexpectedEOF},
		{"half of what is skipped", strings.TrimSuffix(proxyHeader(0x21, 0x11, addresses(from4, to4), tlv), "c"), proxied{}, io.ErrUnexpectedEOF},
	} {
		for name, cut := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "octets": iotest.OneByteReader} {
			r := strings.NewReader(tt.header)
			if tt.err == nil {
				r = strings.NewReader(tt.header + "behind")
			}
			got, err := readProxyHeader(cut(r))
			if !errors.Is(err, tt.err) || err == nil && got != tt.want {
				t.Errorf("%s, %s: got %+v, %v, want %+v, %v", tt.name, name, got, err, tt.want, tt.err)
			}
			if rest, _ := io.ReadAll(r); err == nil && string(rest) != "behind" {
				t.Errorf("%s, %s: left %q", tt.name, name, rest)
			}
		}
	}
}

// FuzzProxyHeader: a header that is taken says what one made of its values says,
// nothing behind it is read, and how its octets come is of no matter.
func FuzzProxyHeader(f *testing.F) {
	for _, s := range []string{
		proxyHeader(0x21, 0x11, addresses(from4, to4), "\x04\x00\x01x"), proxyHeader(0x21, 0x21, addresses(from6, to6), ""),
		proxyHeader(0x21, 0x31, strings.Repeat("u", 216), ""), proxyHeader(0x20, 0, "", ""), proxyHeader(0x21, 0, "", ""), "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		got, err := readProxyHeader(r)
		again, errAgain := readProxyHeader(iotest.OneByteReader(bytes.NewReader(b)))
		if got != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("got %+v, %v; octet by octet %+v, %v", got, err, again, errAgain)
		}
		read := len(b) - r.Len()
		if read > proxyFixed+proxyMost {
			t.Fatalf("read %d octets", read)
		}
		if err != nil {
			return
		}
		if want := proxyFixed + int(binary.BigEndian.Uint16(b[14:])); read != want || !bytes.HasPrefix(b, []byte(proxySignature)) {
			t.Fatalf("read %d octets, want %d", read, want)
		}
		switch {
		case b[12] == 0x20:
			if got != (proxied{local: true}) {
				t.Fatalf("local: got %+v", got)
			}
		case b[13] == 0x11 || b[13] == 0x21:
			to := to4
			from := got.client
			if b[13] == 0x21 {
				to = to6
				from = netip.AddrPortFrom(netip.AddrFrom16(from.Addr().As16()), from.Port())
			}
			made, err := readProxyHeader(strings.NewReader(proxyHeader(0x21, b[13], addresses(from, to), "")))
			if err != nil || made != got || got.local {
				t.Fatalf("got %+v, made of it %+v, %v", got, made, err)
			}
		default:
			if got != (proxied{}) {
				t.Fatalf("no IP: got %+v", got)
			}
		}
	})
}

// door is a listener of one kind behind a proxy, and a call through it.
type door struct {
	name  string
	start func(t *testing.T, proxies func(netip.Addr) bool, timeouts Timeouts, srv serverFunc, log *logged) runner
	call  func(c net.Conn, body string) (string, error)
}

func doors(ours *authority) []door {
	server := ours.server("gw.test", nil, false)
	web := func(opt HTTPOptions) func(*testing.T, func(netip.Addr) bool, Timeouts, serverFunc, *logged) runner {
		return func(t *testing.T, proxies func(netip.Addr) bool, timeouts Timeouts, srv serverFunc, log *logged) runner {
			opt := opt
			opt.Name, opt.Address, opt.Proxies, opt.Timeouts, opt.Log = "web", "127.0.0.1:0", proxies, timeouts, log.logger()
			l, err := NewHTTP(opt, srv)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
	}
	tcp := func(over *tls.Config) func(*testing.T, func(netip.Addr) bool, Timeouts, serverFunc, *logged) runner {
		return func(t *testing.T, proxies func(netip.Addr) bool, timeouts Timeouts, srv serverFunc, log *logged) runner {
			l, err := NewFramed(FramedOptions{Name: "tcp", Address: "127.0.0.1:0", Length: 4, TLS: over, Proxies: proxies, Timeouts: timeouts, Log: log.logger()}, srv)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
	}
	plain := func(call func(net.Conn, *bufio.Reader, string) (string, error)) func(net.Conn, string) (string, error) {
		return func(c net.Conn, body string) (string, error) { return call(c, bufio.NewReader(c), body) }
	}
	over := func(call func(net.Conn, *bufio.Reader, string) (string, error)) func(net.Conn, string) (string, error) {
		return func(c net.Conn, body string) (string, error) {
			c = tls.Client(c, ours.client(nil, inAnHour))
			return call(c, bufio.NewReader(c), body)
		}
	}
	second := func(t *testing.T) func(net.Conn, string) (string, error) {
		return func(c net.Conn, body string) (string, error) {
			p := speak(t, c)
			a, err := p.answer(p.post(body))
			return a.body.String(), err
		}
	}
	return []door{
		{"fast", web(HTTPOptions{}), plain(callHTTP)},
		{"std", web(HTTPOptions{Engine: Std}), plain(callHTTP)},
		{"framed", tcp(nil), plain(callFramed)},
		{"fast over TLS", web(HTTPOptions{TLS: server}), over(callHTTP)},
		{"std over TLS", web(HTTPOptions{Engine: Std, TLS: server}), over(callHTTP)},
		{"framed over TLS", tcp(server), over(callFramed)},
		{"HTTP/2", web(HTTPOptions{H2C: true}), second(ours.t)},
		{"HTTP/1.1 where HTTP/2 is taken", web(HTTPOptions{H2C: true, Engine: Std}), plain(callHTTP)},
	}
}

// Behind a proxy that is trusted the client is whom it tells.
func TestProxiedClient(t *testing.T) {
	ours := newAuthority(t, "ours")
	for _, d := range doors(ours) {
		t.Run(d.name, func(t *testing.T) {
			noLeaks(t)
			got := make(chan netip.AddrPort, 1)
			addr, _ := running(t, d.start(t, netip.Addr.IsLoopback, Timeouts{}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
				got <- ex.Client
				return echoAny(ctx, ex)
			}, new(logged)))
			for _, tt := range []struct {
				header string
				want   string
			}{
				{proxyHeader(0x21, 0x11, addresses(from4, to4), "\x04\x00\x01x"), from4.String()},
				{proxyHeader(0x21, 0x21, addresses(from6, to6), ""), from6.String()},
				{proxyHeader(0x21, 0x31, strings.Repeat("u", 216), ""), netip.AddrPort{}.String()},
				{proxyHeader(0x21, 0x00, "", ""), netip.AddrPort{}.String()},
				{proxyHeader(0x20, 0x00, "", ""), "peer"},
			} {
				p := connect(t, addr)
				for i := range len(tt.header) {
					p.send(tt.header[i : i+1])
				}
				if answer, err := d.call(p.TCPConn, "<x/>"); answer != "<x/>" {
					t.Errorf("%q: got %q, %v", tt.header, answer, err)
				}
				want := tt.want
				if want == "peer" {
					want = p.LocalAddr().String()
				}
				if c := await(t, got, "exchange"); c.String() != want {
					t.Errorf("%q: got client %v, want %v", tt.header, c, want)
				}
				p.Close()
			}
		})
	}
}

// Whoever is not trusted, sends no header, or none that is right, is closed at
// once and told to nobody but the log.
func TestProxiedRefused(t *testing.T) {
	ours := newAuthority(t, "ours")
	good := proxyHeader(0x21, 0x11, addresses(from4, to4), "")
	for _, d := range doors(ours) {
		t.Run(d.name, func(t *testing.T) {
			noLeaks(t)
			log := new(logged)
			srv := func(context.Context, *proxy.Exchange) *proxy.Reply {
				t.Error("an exchange began")
				return textReply(200, "")
			}
			refuses := func(addr string, say ...string) {
				t.Helper()
				for _, s := range say {
					p := connect(t, addr)
					io.WriteString(p, s)
					if b, err := io.ReadAll(p.r); len(b) > 0 || isTimeout(err) {
						t.Errorf("%.20q: got %q, %v, want it closed", s, b, err)
					}
				}
			}
			addr, stop := running(t, d.start(t, func(netip.Addr) bool { return false }, Timeouts{}, srv, log))
			refuses(addr, "", good, good+"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
			stop()
			if s := log.String(); strings.Count(s, "not from a trusted proxy") != 3 {
				t.Errorf("log: got %q", s)
			}

			addr, stop = running(t, d.start(t, netip.Addr.IsLoopback, Timeouts{}, srv, log))
			refuses(addr, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "PROXY TCP4 198.51.100.7 203.0.113.1 4711 443\r\nPOST / HTTP/1.1\r\n\r\n",
				proxyHeader(0x21, 0x12, addresses(from4, to4), ""), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00")
			stop()
			s := log.String()
			for want, n := range map[string]int{"no header of version 2": 2, "version 1, only version 2": 1, "malformed header": 1} {
				if strings.Count(s, want) != n {
					t.Errorf("log: got %d of %q in %q", strings.Count(s, want), want, s)
				}
			}
			if strings.Contains(s, from4.Addr().String()) && !strings.Contains(d.name, "TLS") {
				t.Errorf("log: a client that nobody vouched for: %q", s)
			}

			addr, _ = running(t, d.start(t, netip.Addr.IsLoopback, Timeouts{Header: 150 * time.Millisecond, Idle: 150 * time.Millisecond}, srv, log))
			refuses(addr, "", good[:5], good[:20], good) // and silence
		})
	}
}

// A stop does not wait for headers.
func TestProxiedStop(t *testing.T) {
	for _, d := range doors(newAuthority(t, "ours")) {
		t.Run(d.name, func(t *testing.T) {
			noLeaks(t)
			addr, stop := running(t, d.start(t, netip.Addr.IsLoopback, Timeouts{Header: time.Hour}, echoAny, new(logged)))
			half := connect(t, addr)
			half.send(proxySignature)
			p := connect(t, addr)
			p.send(proxyHeader(0x20, 0, "", ""))
			if answer, err := d.call(p.TCPConn, "<x/>"); answer != "<x/>" {
				t.Errorf("got %q, %v", answer, err)
			}
			if err := stop(); err != nil {
				t.Errorf("Run: %v", err)
			}
			half.closed()
		})
	}
}

// A peer that has no address of TCP is no trusted proxy.
func TestProxiedPeerWithoutAddress(t *testing.T) {
	noLeaks(t)
	l, err := NewHTTP(HTTPOptions{Address: "memnet", Proxies: netip.Addr.IsValid}, serverFunc(echoServer))
	if err != nil {
		t.Fatal(err)
	}
	pipes := memnet.Listen()
	l.use(newBounded(pipes, 1))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	c, err := pipes.Dial(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		t.Errorf("got %q, %v, want it closed", b, err)
	}
	stop()
	if err := await(t, done, "Run"); err != nil {
		t.Errorf("Run: %v", err)
	}
}
