package casetest

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// scale is a number that the environment may set, for measurements by hand.
func scale(t testing.TB, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q, want a number", name, text)
	}
	return n
}

// A parcelReader is a message with one attachment of many octets, made while it is
// read.
type parcelReader struct {
	io.Reader
	length int64
}

// litter is a piece of the attachment, with what looks like delimiters.
var litter = func() []byte {
	var b bytes.Buffer
	for i := uint64(1); b.Len() < 64<<10; i++ {
		fmt.Fprintf(&b, "%x\x00\r\n--=_b\r\n\xff\n-", i*0x9E3779B97F4A7C15)
	}
	return b.Bytes()
}()

func newParcel(octets int64) *parcelReader {
	head := "--=_b 1\r\nContent-Type: application/xop+xml; charset=UTF-8; type=\"text/xml\"\r\nContent-ID: <root@test>\r\n\r\n" +
		string(envelope("1.1", knownOp)) + "\r\n--=_b 1\r\nContent-Type: application/octet-stream\r\nContent-ID: <a@test>\r\n\r\n"
	const tail = "\r\n--=_b 1--\r\n"
	return &parcelReader{
		io.MultiReader(strings.NewReader(head), io.LimitReader(&repeat{}, octets), strings.NewReader(tail)),
		int64(len(head)) + octets + int64(len(tail)),
	}
}

// repeat is litter without end.
type repeat struct{ at int }

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, litter[r.at:])
	r.at = (r.at + n) % len(litter)
	return n, nil
}

// sumSeed makes sums comparable within one run.
var sumSeed = maphash.MakeSeed()

func sumOfParcel(octets int64) uint64 {
	h := new(maphash.Hash)
	h.SetSeed(sumSeed)
	_, _ = io.Copy(h, newParcel(octets))
	return h.Sum64()
}

// readSum reads a body with a length, or chunked, and returns the sum of its octets.
func readSum(r *recorder, h head) (uint64, error) {
	sum := new(maphash.Hash)
	sum.SetSeed(sumSeed)
	n, err := strconv.ParseInt(h.Fields.get("Content-Length"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("no length: %s", h.Raw)
	}
	_, err = io.CopyN(sum, r.r, n)
	return sum.Sum64(), err
}

// TestLargeParcel sends a message with a large attachment up, and gets one down,
// through a sync route: octet for octet, in memory that does not depend on its
// size. 1 GiB: MIB=1024 go test ./internal/casetest -run TestLargeParcel -v
func TestLargeParcel(t *testing.T) {
	octets := int64(scale(t, "MIB", 128)) << 20
	limit := time.Duration(max(60, octets>>20)) * time.Second
	want := sumOfParcel(octets)
	b := listenHTTP(t)
	b.take(func(p *peer) {
		_ = p.SetDeadline(time.Now().Add(limit))
		h, err := p.r.head()
		if err != nil {
			return
		}
		if got, err := readSum(p.r, h); err != nil || got != want {
			t.Errorf("the node got other octets, or %v", err)
		}
		m := newParcel(octets)
		_, _ = p.Write(appendHead(nil, "HTTP/1.1 200 OK", fields{{"Content-Type", parcelType}, {"Content-Length", fmt.Sprint(m.length)}, {"Connection", "close"}}))
		_, _ = io.Copy(struct{ io.Writer }{p}, m)
	})
	g := start(t, httpOnly+fmt.Sprintf("routes: [{name: r, to: [\"http://%s/\"], limits: {max_message: 8GiB}}]\n", b.addr), b)
	began := time.Now()
	grown := g.growth(t, func() {
		c := dial(t, g.addr["http"])
		_ = c.SetDeadline(time.Now().Add(limit))
		m := newParcel(octets)
		_ = c.send(appendHead(nil, "POST / HTTP/1.1", fields{{"Host", "gw"}, {"Content-Type", parcelType}, {"Content-Length", fmt.Sprint(m.length)}}))
		if _, err := io.Copy(struct{ io.Writer }{c}, m); err != nil {
			t.Errorf("up: %v", err)
		}
		h, err := c.r.head()
		if err != nil || !strings.Contains(h.Line, " 200 ") {
			t.Fatalf("the answer is %s, %v", h.Raw, err)
		}
		if got, err := readSum(c.r, h); err != nil || got != want {
			t.Errorf("down: other octets, or %v", err)
		}
	})
	t.Logf("%d MiB up and down in %s, memory grew by %.1f MiB", octets>>20, time.Since(began).Round(time.Millisecond), float64(grown)/(1<<20))
	if grown > 64<<20 {
		t.Errorf("memory grew by %d MiB, want at most 64", grown>>20)
	}
}

// TestIdleConnections: callers that keep their connections open cost little.
// 10,000: CONNS=10000 go test ./internal/casetest -run TestIdleConnections -v
func TestIdleConnections(t *testing.T) {
	n := scale(t, "CONNS", 1000)
	g := start(t, preamble+`
listeners:
  - {name: fast, address: "127.0.0.1:0", max_connections: none, timeouts: {idle: 10m}}
  - {name: std, address: "127.0.0.1:0", engine: std, max_connections: none, timeouts: {idle: 10m}}
routes: [{name: r, to: ["builtin:echo"]}]
`)
	msg := request("/", xml11("urn:test"), numbered(1))
	for _, engine := range []string{"fast", "std"} {
		before := g.memory(t, "VmRSS")
		conns := make([]net.Conn, n)
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					c, err := net.DialTimeout("tcp", g.addr[engine], patience)
					if err != nil {
						t.Errorf("connection %d: %v", i, err)
						return
					}
					conns[i] = c
					_ = c.SetDeadline(time.Now().Add(patience))
					if _, err := c.Write(msg); err != nil {
						t.Error(err)
						return
					}
					r := &recorder{r: bufio.NewReaderSize(c, 4<<10)}
					h, err := r.head()
					if err == nil {
						_, _, err = r.body(h, false)
					}
					if err != nil || !strings.Contains(h.Line, " 200 ") {
						t.Errorf("connection %d: %s, %v", i, h.Line, err)
						return
					}
				}
			})
		}
		wg.Wait()
		pause(2 * time.Second) // they are idle, and give back what they read into
		at := g.memory(t, "VmRSS")
		// The runtime collects by itself within two minutes; stacks shrink by half each time.
		for range 3 {
			if _, err := g.get("/debug/pprof/heap?gc=1"); err != nil {
				t.Fatal(err)
			}
		}
		pause(time.Second)
		after := g.memory(t, "VmRSS")
		t.Logf("engine %s: %d idle connections, %.1f MiB resident, %.1f MiB once collected, %.1f KiB each over the %.1f MiB before",
			engine, n, mib(at), mib(after), float64(after-before)/float64(n)/1024, mib(before))
		if most := max(64<<20, int64(n)*200<<20/10_000); after > most && !raced() && engine == "fast" {
			t.Errorf("%d idle connections: %d MiB are resident, want at most %d", n, after>>20, most>>20)
		}
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// TestManyClients: 1,000 callers with messages of 100 KB, all at once, and each gets
// its own answer. A backend has fewer connections than that: the others wait.
func TestManyClients(t *testing.T) {
	const clients, rounds = 1000, 3
	b := listenHTTP(t)
	b.take(func(p *peer) { // keeps no record of so many octets
		for {
			h, err := p.r.head()
			if err != nil {
				return
			}
			body, _, err := p.r.body(h, false)
			if err != nil {
				return
			}
			if _, err := p.Write(response(200, fields{{"Content-Type", "text/xml"}}, body)); err != nil {
				return
			}
			p.r = newRecorder(p)
		}
	})
	g := start(t, httpOnly+fmt.Sprintf(`
backends: {b: {nodes: ["http://%s/"], connect_timeout: 60s, queue_wait: 60s, timeout: 60s}}
routes: [{name: r, backend: b}]
`, b.addr), b)
	filler := strings.Repeat("<i>some text, and more</i>\n", 100_000/27)
	var wg sync.WaitGroup
	var bad atomic.Int64
	for i := range clients {
		wg.Go(func() {
			c, err := net.DialTimeout("tcp", g.addr["http"], patience)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for k := range rounds {
				_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
				msg := envelope("1.1", fmt.Sprintf("<n>%d-%d</n>%s", i, k, filler))
				_, err := c.Write(request("/", xml11("urn:test"), msg))
				var h head
				var body []byte
				r := newRecorder(c)
				if err == nil {
					if h, err = r.head(); err == nil {
						body, _, err = r.body(h, false)
					}
				}
				if err != nil || !strings.Contains(h.Line, " 200 ") || !bytes.Equal(body, msg) {
					if bad.Add(1) < 5 {
						t.Errorf("client %d, message %d: %s, %v", i, k, h.Line, err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if n := bad.Load(); n > 0 {
		t.Errorf("%d of %d clients failed", n, clients)
	}
}

// TestExpectAndProof: who must prove who he is, and asks before he sends the body, is
// refused before he has sent it, and asked for it once he proves it.
func TestExpectAndProof(t *testing.T) {
	b := listenHTTP(t)
	g := start(t, preamble+fmt.Sprintf(`
listeners:
  - {name: fast, address: "127.0.0.1:0"}
  - {name: std, address: "127.0.0.1:0", engine: std}
routes: [{name: r, to: ["http://%s/"], auth: {api_key: {header: X-Key, keys: [one-of-the-keys]}}}]
`, b.addr), b)
	msg := numbered(300)
	ask := append(xml11("urn:test"), field{"Host", "gw"}, field{"Content-Length", fmt.Sprint(len(msg))}, field{"Expect", "100-continue"})
	for _, engine := range []string{"fast", "std"} {
		c := dial(t, g.addr[engine])
		_ = c.send(appendHead(nil, "POST / HTTP/1.1", ask))
		if a := c.answer(); a.Status != 401 || len(a.Interim) != 0 || !a.Fields.has("WWW-Authenticate") || a.Err != nil {
			t.Errorf("%s, without a proof: %s, %d interim answers", engine, a, len(a.Interim))
		}
		if !c.closes(5 * time.Second) { // the body may follow, or not: nobody can tell
			t.Errorf("%s: the connection stays after a refusal of a body that was not sent", engine)
		}
		c = dial(t, g.addr[engine])
		_ = c.send(appendHead(nil, "POST / HTTP/1.1", append(ask, field{"X-Key", "one-of-the-keys"})))
		if h, err := c.r.head(); err != nil || !strings.HasPrefix(h.Line, "HTTP/1.1 100") {
			t.Fatalf("%s, with a proof: %s, %v", engine, h.Raw, err)
		}
		_ = c.send(msg)
		if a := c.answer(); a.Status != 200 || a.Err != nil {
			t.Errorf("%s: %s", engine, a)
		}
	}
	if calls := b.got(); len(calls) != 2 || calls[0].Fields.has("Expect") || !bytes.Equal(calls[0].Body, msg) {
		t.Errorf("the node got %d requests", len(calls))
	}
}
