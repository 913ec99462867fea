package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"soapway/soapcodec"
)

// bigEnvelope makes an envelope of about size octets with untidy tags, header
// blocks for this node, comments and a Body of many elements and long texts.
func bigEnvelope(rng *rand.Rand, size int) []byte {
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	var b bytes.Buffer
	b.WriteString(pick("", "<?xml version='1.0'?>", "<?xml version=\"1.0\" encoding='utf-8' ?>\n", "\ufeff"))
	b.WriteString(pick("<e:Envelope", "<e:Envelope\n ") + " xmlns:e = 'http://schemas.xmlsoap.org/soap/envelope/'" + pick("", "  ", "\n") + ">")
	b.WriteString(pick("", "\n  ", "<!-- c -->"))
	if rng.IntN(2) == 0 {
		b.WriteString("<e:Header >" + pick("", " "))
		for i := range rng.IntN(4) {
			fmt.Fprintf(&b, "<h:b%d xmlns:h='urn:h' %s>%s</h:b%d >", i,
				pick("", "e:actor='http://schemas.xmlsoap.org/soap/actor/next'"), strings.Repeat("h", rng.IntN(3000)), i)
			b.WriteString(pick("", "\n", "<!--x-->"))
		}
		b.WriteString("</e:Header >")
	}
	b.WriteString(pick("", " ") + "<e:Body " + ">")
	b.WriteString("<p:Op xmlns:p='urn:p'>")
	for b.Len() < size {
		switch rng.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "<p:i a='1' b=\"2\">%d &amp; é</p:i>", rng.IntN(1000))
		case 1:
			b.WriteString("<!--" + strings.Repeat("c", rng.IntN(200)) + "-->")
		case 2:
			b.WriteString("<![CDATA[" + strings.Repeat("<", rng.IntN(500)) + "]]>")
		default:
			b.WriteString("<p:t>" + strings.Repeat("text ", rng.IntN(2000)) + "</p:t>")
		}
	}
	b.WriteString("</p:Op></e:Body" + pick("", "\n") + ">" + pick("", " \n") + "</e:Envelope " + ">" + pick("", "\n", "<!-- after -->"))
	return b.Bytes()
}

// random gives its octets in pieces of random size.
type random struct {
	rng  *rand.Rand
	data []byte
	max  int
	err  error // at the end
	read int
}

func (r *random) Read(p []byte) (int, error) {
	if r.read == len(r.data) {
		if r.err != nil {
			return 0, r.err
		}
		return 0, io.EOF
	}
	n := min(len(p), 1+r.rng.IntN(r.max), len(r.data)-r.read)
	copy(p, r.data[r.read:r.read+n])
	r.read += n
	return n, nil
}

// newPass is a pass over src.
func newPass(src io.Reader, opt soapcodec.Options) *pass {
	p := &pass{dec: soapcodec.NewDecoder(opt), edits: opt.Node || opt.Normalize != soapcodec.Keep}
	p.tee = tee{src: src, most: unlimited}
	p.dec.Reset(&p.tee)
	return p
}

// drain reads p with buffers of random size and checks, at every step, that the
// tail is held back.
func drain(t *testing.T, p *pass, rng *rand.Rand, max int) ([]byte, error) {
	t.Helper()
	var out []byte
	buf := make([]byte, max)
	for {
		n, err := p.Read(buf[:1+rng.IntN(max)])
		out = append(out, buf[:n]...)
		if !p.done && p.tee.at() > 0 && p.tee.at() > p.tee.total()-holdBack {
			t.Fatalf("octets up to %d of %d read have left before the check was done", p.tee.at(), p.tee.total())
		}
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return out, err
		}
		if n == 0 {
			t.Fatal("Read returned nothing")
		}
	}
}

func TestPassEqualsApply(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for i := range 250 {
		doc := bigEnvelope(rng, []int{100, holdBack - 200, holdBack, 3 * holdBack, 200 << 10}[rng.IntN(5)])
		opt := soapcodec.Options{Node: rng.IntN(2) == 0, Normalize: soapcodec.Normalize(rng.IntN(2))}
		dec := soapcodec.NewDecoder(opt)
		dec.ResetBytes(doc)
		if err := dec.Finish(); err != nil {
			t.Fatalf("document %d: %v\n%.300s", i, err, doc)
		}
		want := soapcodec.Apply(nil, doc, dec.TakeEdits())
		p := newPass(&random{rng: rng, data: doc, max: 1 + rng.IntN(40_000)}, opt)
		got, err := drain(t, p, rng, 1+rng.IntN(50_000))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("document %d, options %+v: got %d octets, %v, want %d (input %d); first difference at %d",
				i, opt, len(got), err, len(want), len(doc), firstDiff(got, want))
		}
		if !opt.Node && opt.Normalize == soapcodec.Keep && !bytes.Equal(got, doc) {
			t.Errorf("document %d: keep changed octets", i)
		}
	}
}

func firstDiff(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestPassHoldsBackTheTail: whatever is wrong, and wherever, at least the last
// 16 KiB of what was read never leave, and the error is that of the message or
// of the source.
func TestPassHoldsBackTheTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	boom := &bodyError{io.ErrUnexpectedEOF}
	for i := range 250 {
		doc := bigEnvelope(rng, []int{1000, holdBack, 4 * holdBack, 150 << 10}[rng.IntN(4)])
		src := &random{rng: rng, max: 1 + rng.IntN(40_000), data: doc}
		var want any = new(*soapcodec.Error)
		switch rng.IntN(4) {
		case 0: // the source breaks off
			src.data = doc[:rng.IntN(len(doc)-20)]
			src.err, want = boom, new(*bodyError)
		case 1: // the document ends too early
			src.data = doc[:bytes.LastIndex(doc, []byte("</e:Env"))]
		case 2: // something follows
			src.data = append(doc, "<x/>"...)
		case 3: // the last end tag is wrong
			j := bytes.LastIndex(doc, []byte("</e:Env"))
			doc[j+4] = 'X'
		}
		opt := soapcodec.Options{Normalize: soapcodec.Normalize(rng.IntN(2))}
		p := newPass(src, opt)
		got, err := drain(t, p, rng, 1+rng.IntN(50_000))
		if !errors.As(err, want) {
			t.Fatalf("document %d: got error %v, want %T", i, err, want)
		}
		if p.tee.at() > max(0, int64(src.read)-holdBack) {
			t.Fatalf("document %d: %d octets of %d have left", i, p.tee.at(), src.read)
		}
		if opt.Normalize == soapcodec.Keep && !bytes.HasPrefix(src.data, got) {
			t.Errorf("document %d: what has left is not a prefix of the document", i)
		}
		if _, again := p.Read(make([]byte, 1)); again != err {
			t.Errorf("document %d: the error is not sticky: %v, then %v", i, err, again)
		}
	}
}

// TestPassMemory: what is held does not grow with the message.
func TestPassMemory(t *testing.T) {
	unit := []byte("<p:t>" + strings.Repeat("text ", 1000) + "</p:t>")
	head := `<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><p:Op xmlns:p="urn:p">`
	const units = 1500 // 7.5 MB
	src := io.MultiReader(strings.NewReader(head), &repeat{unit: unit, left: units}, strings.NewReader("</p:Op></e:Body></e:Envelope>"))
	p := newPass(src, soapcodec.Options{})
	buf := make([]byte, 32<<10)
	most := 0
	var total int64
	for {
		n, err := p.Read(buf)
		total += int64(n)
		most = max(most, cap(p.tee.held))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := int64(len(head) + units*len(unit) + len("</p:Op></e:Body></e:Envelope>")); total != want {
		t.Errorf("got %d octets, want %d", total, want)
	}
	if most > 512<<10 {
		t.Errorf("up to %d KiB were held", most>>10)
	}
}

// repeat gives unit left times.
type repeat struct {
	unit []byte
	left int
	off  int
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.unit[r.off:])
	if r.off += n; r.off == len(r.unit) {
		r.off, r.left = 0, r.left-1
	}
	return n, nil
}

func TestTeeBoundsWhatItHolds(t *testing.T) {
	opt := soapcodec.Options{Node: true}
	doc := `<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Header><h:b xmlns:h="urn:h">`
	p := newPass(io.MultiReader(strings.NewReader(doc), &repeat{unit: []byte("<x/>"), left: 1 << 20}), opt)
	p.tee.most, p.tee.tooMuch = 64<<10, headFault
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{p}); err != headFault {
		t.Errorf("a header without end: got %v, want headFault", err)
	}
	if len(p.tee.held) > 128<<10 {
		t.Errorf("held %d octets", len(p.tee.held))
	}
}

func TestRawPass(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 7))
	for _, name := range append([]string{"identity"}, codings...) {
		for range 3 {
			doc := bigEnvelope(rng, 10+rng.IntN(200<<10))
			// Some noise, so that the coded form is also longer than the tail.
			noise := make([]byte, 100<<10)
			for i := range noise {
				noise[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
			}
			doc = bytes.Replace(doc, []byte("<p:Op xmlns:p='urn:p'>"), append([]byte("<p:Op xmlns:p='urn:p'>"), noise...), 1)
			raw := encode(t, name, doc)
			build := func(data []byte) (*pass, *random) {
				p := &pass{raw: true, dec: soapcodec.NewDecoder(soapcodec.Options{})}
				src := &random{rng: rng, data: data, max: 1 + rng.IntN(30_000)}
				p.tee = tee{src: src, most: unlimited}
				p.dec.Reset(newBody(&p.tee, codingNamed(name), wide))
				return p, src
			}
			p, _ := build(raw)
			got, err := drain(t, p, rng, 30_000)
			if err != nil || !bytes.Equal(got, raw) {
				t.Fatalf("%s: got %d octets of %d, %v", name, len(got), len(raw), err)
			}
			for what, bad := range map[string][]byte{
				"cut": raw[:len(raw)-1-rng.IntN(3)], "trailing": append(bytes.Clone(raw), '!'),
			} {
				p, src := build(bad)
				got, err := drain(t, p, rng, 30_000)
				if err == nil || len(got) > max(0, src.read-holdBack) {
					t.Errorf("%s, %s: got %d octets of %d, error %v", name, what, len(got), src.read, err)
				}
			}
		}
	}
}

func FuzzPass(f *testing.F) {
	f.Add([]byte(env11), uint64(1), true, false)
	f.Add([]byte(env12), uint64(2), false, true)
	f.Add(bigEnvelope(rand.New(rand.NewPCG(1, 1)), 40_000), uint64(3), true, true)
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64, normalize, isNode bool) {
		opt := soapcodec.Options{Node: isNode}
		if normalize {
			opt.Normalize = soapcodec.Envelope
		}
		dec := soapcodec.NewDecoder(opt)
		dec.ResetBytes(doc)
		errWhole := dec.Finish()
		rng := rand.New(rand.NewPCG(seed, 0))
		p := newPass(&random{rng: rng, data: doc, max: 1 + rng.IntN(5000)}, opt)
		got, err := drain(t, p, rng, 1+rng.IntN(5000))
		if (err == nil) != (errWhole == nil) {
			t.Fatalf("whole: %v, streaming: %v", errWhole, err)
		}
		if err == nil && len(doc) < holdBack {
			if want := soapcodec.Apply(nil, doc, dec.TakeEdits()); !bytes.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}
