package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"soapway/internal/field"
	"soapway/soapcodec"
)

// TestEachRouteHasItsOwnLimits: while the envelope decides on the route, the
// widest limits of all candidates hold; once it is chosen its own do.
func TestEachRouteHasItsOwnLimits(t *testing.T) {
	wide, narrow := newNode("http://node.test/w"), newNode("http://node.test/n")
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		{
			Name: "wide", Match: Match{Path: "/depot", Action: "urn:wide"}, Backend: &Backend{Nodes: []Node{wide}},
			Methods: []string{"PUT"}, EmptyPost: true,
			Limits: Limits{HeaderBytes: 1 << 20, MaxMessage: 64 << 20, DecodeRatio: -1, Buffer: 8 << 20},
		},
		{
			Name: "narrow", Match: Match{Path: "/depot"}, Backend: &Backend{Nodes: []Node{narrow}},
			Methods: []string{"PUT"}, EmptyPost: true,
			Limits: Limits{HeaderBytes: 1 << 10, MaxMessage: 8 << 20, DecodeRatio: 10, Buffer: 8 << 20},
		},
	}}), Options{})
	bomb := encode(t, "gzip", []byte(strings.Replace(env11, "x<", strings.Repeat("x", 4<<20)+"<", 1)))
	for name, c := range map[string]struct {
		change func(*Exchange)
		status int // 500: the fault Limit
	}{
		"fields":          {func(ex *Exchange) { ex.Header.Set("X-Big", strings.Repeat("x", 2000)) }, 431},
		"fields of a PUT": {func(ex *Exchange) { ex.Method = "PUT"; ex.Header.Set("X-Big", strings.Repeat("x", 2000)) }, 431},
		"fields without body": {func(ex *Exchange) {
			ex.Length, ex.Body = 0, http.NoBody
			ex.Header.Set("X-Big", strings.Repeat("x", 2000))
		}, 431},
		"ratio": {func(ex *Exchange) {
			ex.Header.Set("Content-Encoding", "gzip")
			ex.Length, ex.Body = int64(len(bomb)), bytes.NewReader(bomb)
		}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			ex := exchange("text/xml; charset=utf-8", env11)
			c.change(ex)
			if got := serve(t, h, ex); c.status == 500 {
				got.wantFault(t, soapcodec.V11, soapcodec.CodeLimit)
			} else {
				got.wantPlain(t, c.status, soapcodec.CodeTooLarge)
			}
		})
	}
	if n := len(narrow.got) + len(wide.got); n != 0 {
		t.Errorf("the nodes got %d requests", n)
	}
}

// endless is a coded body that never yields an octet and never ends: empty
// blocks of one stream, empty members, empty frames. It gives up after most.
func endless(t *testing.T, name string, most int64) io.Reader {
	t.Helper()
	unit := encode(t, name, nil)
	switch name {
	case "deflate":
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, flate.NoCompression)
		w.Flush() // an empty stored block
		unit = b.Bytes()
	case "blocks":
		var b bytes.Buffer
		gzip.NewWriter(&b).Flush()
		return io.MultiReader(bytes.NewReader(b.Bytes()), &repeat{unit: b.Bytes()[len(b.Bytes())-5:], left: int(most / 5)})
	case "zstd":
		unit = append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 4, 0, 0}, make([]byte, 1024)...) // a skippable frame
	case "br":
		// Metadata blocks of no octets (RFC 7932 §9.2).
		return io.MultiReader(strings.NewReader("\x0c"), &repeat{unit: bytes.Repeat([]byte{0x06}, 4096), left: int(most) / 4096})
	}
	return &repeat{unit: unit, left: int(most) / len(unit)}
}

// TestCodedOctetsAreBounded: max_message also bounds a coded body that decodes
// to nothing.
func TestCodedOctetsAreBounded(t *testing.T) {
	const limit, most = 2 << 20, 64 << 20
	for _, name := range []string{"gzip", "blocks", "deflate", "zstd", "br"} {
		t.Run(name, func(t *testing.T) {
			c := codingNamed(name)
			if name == "blocks" {
				c = codingGzip
			}
			src := &counter{r: endless(t, name, most)}
			b := newBody(src, c, Limits{MaxMessage: limit, DecodeRatio: 200})
			n, err := io.Copy(io.Discard, struct{ io.Reader }{b})
			if n != 0 || !errors.Is(err, errTooLarge) {
				t.Errorf("got %d octets, %v, want %v", n, err, errTooLarge)
			}
			if src.n > 2*limit {
				t.Errorf("%d octets were read under a limit of %d", src.n, limit)
			}
		})
	}
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// TestUncheckedNeverReachesFramedNodes: a frame is an envelope; a GET has none,
// and an empty frame is a keep-alive.
func TestUncheckedNeverReachesFramedNodes(t *testing.T) {
	n := newNode("framed://node.test:7000")
	h := one(t, Route{WSDLPass: true, EmptyPost: true}, n)
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/depot", ""}, {"GET", "/depot?wsdl", ""}, {"HEAD", "/depot?xsd=1", ""}, {"PUT", "/depot", "not XML"},
	} {
		ex := exchange("", c.body)
		ex.Method, ex.Target = c.method, c.target
		g := serve(t, h, ex)
		g.wantPlain(t, 405, "")
		if g.Header.Get("Allow") != "POST" {
			t.Errorf("%s %s: Allow is %q, want POST", c.method, c.target, g.Header.Get("Allow"))
		}
	}
	serve(t, h, exchange("", "")).wantFault(t, soapcodec.V11, soapcodec.CodeInvalidEnvelope)
	if len(n.got) != 0 {
		t.Errorf("the node got %d requests", len(n.got))
	}
	_, err := Compile(TableOptions{Routes: []Route{{Name: "r", Methods: []string{"GET"}, Backend: &Backend{Nodes: []Node{n}}}}})
	if err == nil || !strings.Contains(err.Error(), "option Methods") {
		t.Errorf("Compile with GET to a framed node: got %v, want an error", err)
	}
}

// TestLocationWithoutHost: an HTTP/1.0 caller need not name a host; what it gets
// is then relative.
func TestLocationWithoutHost(t *testing.T) {
	n := newNode("http://node.test/svc")
	n.answer = always(respond(303, "", "", "Location", "http://node.test/svc/new"), nil)
	ex := exchange("text/xml", env11)
	ex.Host, ex.Target = "", "/p/x"
	g := serve(t, one(t, Route{Match: Match{Path: "/p/*"}}, n), ex)
	if l := g.Header.Get("Location"); l != "/p/new" {
		t.Errorf("Location: got %q, want /p/new", l)
	}
}

// TestReplyOfNothing: the coded octets of a reply are held until they have been
// checked, so those that decode to nothing must not come for ever.
func TestReplyOfNothing(t *testing.T) {
	var head bytes.Buffer
	w := gzip.NewWriter(&head)
	io.WriteString(w, strings.TrimSuffix(reply11, "</s:Body></s:Envelope>"))
	w.Flush()
	src := &counter{r: io.MultiReader(&head, &repeat{unit: []byte{0, 0, 0, 0xff, 0xff}, left: 4 << 20})} // stored blocks of no octets
	n := newNode("http://node.test/svc")
	n.answer = always(&Response{
		Status: 200, Length: -1, Body: io.NopCloser(src),
		Header: field.Of(http.Header{"Content-Type": {"text/xml"}, "Content-Encoding": {"gzip"}}),
	}, nil)
	g := serve(t, one(t, Route{Limits: Limits{Buffer: 64 << 10}}, n), exchange("text/xml", env11))
	if g.Code != soapcodec.CodeReplyTooLarge {
		t.Errorf("got %d, code %q, %v, want %s", g.Status, g.Code, g.err, soapcodec.CodeReplyTooLarge)
	}
	if src.n > 1<<20 {
		t.Errorf("%d octets were held", src.n)
	}
}

// TestMemoryFollowsOctets: who announces a large body and sends nothing makes
// the gateway hold next to nothing.
func TestMemoryFollowsOctets(t *testing.T) {
	for _, sent := range []int{1, 10 << 10, 64 << 10, 200 << 10, 1 << 20} {
		buf := new(buffer)
		stop := errors.New("silence")
		_, err := buf.fill(io.MultiReader(strings.NewReader(strings.Repeat("x", sent)), failing{stop}), 8<<20, 7<<20)
		if err != stop || len(buf.b) != sent {
			t.Fatalf("fill: got %d octets, %v", len(buf.b), err)
		}
		if most := max(64<<10, 4*sent) + 1; cap(buf.b) > most {
			t.Errorf("%d of 7 MiB announced octets: %d are held, want at most %d", sent, cap(buf.b), most)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
