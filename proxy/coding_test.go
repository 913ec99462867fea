package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"soapway/internal/field"
)

// encode applies a coding; "raw" is deflate without the zlib header.
func encode(t testing.TB, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch name {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, err = flate.NewWriter(&b, 6)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	case "br":
		w = brotli.NewWriterLevel(&b, 2)
	default:
		return data
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var codings = []string{"gzip", "deflate", "raw", "zstd", "br"}

func codingNamed(name string) coding {
	if name == "raw" {
		return codingDeflate
	}
	return codingOf(name)
}

var wide = Limits{}.withDefaults()

func TestContentCoding(t *testing.T) {
	for _, c := range []struct {
		fields []string
		want   coding
	}{
		{nil, codingIdentity},
		{[]string{""}, codingIdentity},
		{[]string{"identity"}, codingIdentity},
		{[]string{"gzip"}, codingGzip},
		{[]string{" X-GZIP "}, codingGzip},
		{[]string{"Deflate"}, codingDeflate},
		{[]string{"ZSTD"}, codingZstd},
		{[]string{"br"}, codingBrotli},
		{[]string{"identity, br"}, codingBrotli},
		{[]string{"snappy"}, codingUnknown},
		{[]string{"compress"}, codingUnknown},
		{[]string{"gzip, gzip"}, codingUnknown},
		{[]string{"gzip", "br"}, codingUnknown},
		{[]string{"gzip;q=1"}, codingUnknown},
	} {
		h := field.List{}
		for _, v := range c.fields {
			h.Add("Content-Encoding", v)
		}
		if got := contentCoding(h); got != c.want {
			t.Errorf("contentCoding(%q): got %v, want %v", c.fields, got, c.want)
		}
	}
}

func TestBodyDecodes(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 300_000} {
		data := []byte(strings.Repeat("<p>abcdefgh</p>", size/15+1)[:size])
		for _, name := range codings {
			raw := encode(t, name, data)
			for kind, r := range map[string]io.Reader{
				"whole":                    bytes.NewReader(raw),
				"byte by byte":             iotest.OneByteReader(bytes.NewReader(raw)),
				"EOF with the last octets": iotest.DataErrReader(bytes.NewReader(raw)),
			} {
				b := newBody(r, codingNamed(name), wide)
				got, err := io.ReadAll(b)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s, %d octets, %s: got %d octets, %v", name, size, kind, len(got), err)
				}
				if b.n != int64(size) || b.wire.n != int64(len(raw)) {
					t.Errorf("%s, %d octets, %s: counted %d of %d", name, size, kind, b.n, b.wire.n)
				}
				if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("%s: read behind the end: %d, %v", name, n, err)
				}
			}
		}
	}
}

func TestBodyErrors(t *testing.T) {
	data := []byte(strings.Repeat("<p>abcdefgh</p>", 500))
	boom := errors.New("boom")
	for _, name := range codings {
		raw := encode(t, name, data)
		c := codingNamed(name)
		check := func(what string, r io.Reader, want any) {
			t.Helper()
			_, err := io.ReadAll(newBody(r, c, wide))
			if !errors.As(err, want) {
				t.Errorf("%s, %s: got %v, want %T", name, what, err, want)
			}
		}
		// Every cut, with the transport's end at the same place: corrupt.
		for cut := 1; cut < len(raw); cut++ {
			check(fmt.Sprint("cut at ", cut), bytes.NewReader(raw[:cut]), new(*codingError))
		}
		if got, err := io.ReadAll(newBody(strings.NewReader(""), c, wide)); err != nil || len(got) != 0 {
			t.Errorf("%s, nothing: got %q, %v", name, got, err)
		}
		check("broken off", io.MultiReader(bytes.NewReader(raw[:len(raw)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)), new(*bodyError))
		check("broken off at once", iotest.ErrReader(boom), new(*bodyError))
		check("octets behind", bytes.NewReader(append(bytes.Clone(raw), "trailing"...)), new(*codingError))
		check("not coded", strings.NewReader("<Envelope>not compressed at all</Envelope>"), new(*codingError))
		flipped := bytes.Clone(raw)
		if name == "gzip" || name == "deflate" { // those that have a checksum at the end
			flipped[len(flipped)-map[string]int{"gzip": 5, "deflate": 2}[name]] ^= 0x40
			check("bad checksum", bytes.NewReader(flipped), new(*codingError))
		}
	}
	_, err := io.ReadAll(newBody(iotest.ErrReader(boom), codingIdentity, wide))
	if b := new(bodyError); !errors.As(err, &b) || !errors.Is(err, boom) {
		t.Errorf("identity: got %v, want a bodyError of %v", err, boom)
	}
}

func TestBodyLimits(t *testing.T) {
	big := bytes.Repeat([]byte(" "), 3<<20)
	for _, name := range append([]string{"identity"}, codings...) {
		raw := encode(t, name, big)
		c := codingNamed(name)
		lim := Limits{MaxMessage: 2 << 20, DecodeRatio: -1}.withDefaults()
		n, err := io.Copy(io.Discard, newBody(bytes.NewReader(raw), c, lim))
		if !errors.Is(err, errTooLarge) || n > 2<<20 {
			t.Errorf("%s over max_message: got %d octets, %v", name, n, err)
		}
		lim = Limits{MaxMessage: -1, DecodeRatio: -1}.withDefaults()
		if n, err = io.Copy(io.Discard, newBody(bytes.NewReader(raw), c, lim)); err != nil || n != 3<<20 {
			t.Errorf("%s without limits: got %d octets, %v", name, n, err)
		}
		if name == "identity" {
			continue
		}
		lim = Limits{MaxMessage: -1}.withDefaults()
		n, err = io.Copy(io.Discard, newBody(bytes.NewReader(raw), c, lim))
		if !errors.Is(err, errRatio) || n > ratioGrace+200*int64(len(raw)) || n < ratioGrace/2 {
			t.Errorf("%s over decode_ratio: got %d octets of %d, %v", name, n, len(raw), err)
		}
	}
	// Within the grace any ratio passes.
	raw := encode(t, "gzip", big[:ratioGrace])
	if n, err := io.Copy(io.Discard, newBody(bytes.NewReader(raw), codingGzip, wide)); err != nil || n != ratioGrace {
		t.Errorf("within the grace: got %d octets, %v", n, err)
	}
}

// TestBombIsCheap: a bomb costs no more memory than the decoder's window.
func TestBombIsCheap(t *testing.T) {
	for _, name := range codings {
		raw := encode(t, name, bytes.Repeat([]byte(" "), 16<<20))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		lim := Limits{MaxMessage: -1, DecodeRatio: -1}.withDefaults()
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, newBody(bytes.NewReader(raw), codingNamed(name), lim), make([]byte, 32<<10)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 12<<20 {
			t.Errorf("%s: 16 MiB of blanks allocated %d MiB", name, grown>>20)
		}
	}
}

// TestZstdWindow: a frame that asks for a window above 8 MiB is refused (RFC 9659).
func TestZstdWindow(t *testing.T) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(32<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if _, err := w.Write(bytes.Repeat([]byte("abcdefgh"), 128<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lim := Limits{MaxMessage: -1, DecodeRatio: -1}.withDefaults()
	n, err := io.Copy(io.Discard, newBody(&b, codingZstd, lim))
	if ce := new(codingError); !errors.As(err, &ce) || n != 0 {
		t.Errorf("a window of 32 MiB: got %d octets, %v, want a codingError", n, err)
	}
}

func FuzzBody(f *testing.F) {
	for i, name := range codings {
		f.Add(encode(f, name, []byte(env11)), byte(i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, which byte) {
		c := codingNamed(codings[int(which)%len(codings)])
		lim := Limits{MaxMessage: 1 << 20}.withDefaults()
		whole, errWhole := io.ReadAll(newBody(bytes.NewReader(raw), c, lim))
		parts, errParts := io.ReadAll(newBody(iotest.OneByteReader(bytes.NewReader(raw)), c, lim))
		if (errWhole == nil) != (errParts == nil) || errWhole == nil && !bytes.Equal(whole, parts) {
			t.Errorf("whole: %d octets, %v; byte by byte: %d octets, %v", len(whole), errWhole, len(parts), errParts)
		}
		if int64(len(whole)) > lim.MaxMessage {
			t.Errorf("got %d octets, the limit is %d", len(whole), lim.MaxMessage)
		}
	})
}
