package casetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// TestNeverAcceptsWhatXmllintRefuses makes N documents (default 2000; 1000000
// by hand: N=1000000 go test -timeout 2h -run NeverAccepts ./internal/casetest)
// by mutation and at random. What the codec accepts must be accepted by
// xmllint; a part goes through the gateway's socket too, which must agree with
// the codec and echo octet for octet. SEED repeats a run.
func TestNeverAcceptsWhatXmllintRefuses(t *testing.T) {
	bin := xmllint(t)
	n, seed := envInt(t, "N", 2000), envInt(t, "SEED", int(time.Now().UnixNano()&0xffffff))
	t.Logf("N=%d SEED=%d", n, seed)
	m := &mutator{rng: rand.New(rand.NewPCG(uint64(seed), 1)), seeds: seedDocuments(t)}
	f := shared(t)
	dir := t.TempDir()
	judge := newCodecJudge()
	conn := dial(t, f.g.addr["http"])
	accepted, asked := 0, 0
	var names []string
	var docs [][]byte
	flush := func() {
		for name, why := range lint(t, bin, names) {
			i, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".xml"))
			if excused(why, docs[i]) {
				continue
			}
			t.Errorf("accepted, but xmllint says %q:\n%q", why, docs[i])
		}
		names, docs = names[:0], docs[:0]
	}
	for i := range n {
		doc := m.document()
		ok := judge.accepts(doc)
		if ok {
			accepted++
			name := filepath.Join(dir, strconv.Itoa(len(docs))+".xml")
			if err := os.WriteFile(name, doc, 0o600); err != nil {
				t.Fatal(err)
			}
			names, docs = append(names, name), append(docs, doc)
		}
		if len(docs) == 1000 || i == n-1 && len(docs) > 0 {
			flush()
		}
		if i%20 == 0 {
			asked++
			_ = conn.SetDeadline(time.Now().Add(patience))
			if err := conn.send(request("/echo", fields{{"Content-Type", "text/xml"}}, doc)); err != nil {
				t.Fatalf("document %d: %v", i, err)
			}
			a := conn.answer()
			switch {
			case a.Err != nil:
				t.Fatalf("document %d %q: %s", i, doc, a)
			case (a.Status == 200) != ok:
				t.Errorf("the codec accepts: %v; the gateway: %s\n%q", ok, a, doc)
			case !ok:
				ownFault(t, a)
			case !bytes.Equal(a.Body, doc) && mustKeep(doc):
				t.Errorf("echoed %q\nas %q", doc, a.Body)
			}
		}
		if t.Failed() && len(docs) == 0 {
			t.Fatalf("stopped after %d documents", i+1)
		}
	}
	t.Logf("%d documents, %d accepted and shown to xmllint, %d sent through the socket", n, accepted, asked)
	if accepted < n/20 || accepted > n*19/20 {
		t.Errorf("%d of %d accepted: the mutator makes documents of one kind only", accepted, n)
	}
}

// mustKeep: a UTF-8 document is echoed untouched, others are converted.
func mustKeep(doc []byte) bool {
	_, cs, _, err := decodeText(doc, "")
	return err == nil && cs == "utf-8"
}

func envInt(t *testing.T, name string, def int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number", name, s)
	}
	return n
}

// TestRefusesOnlyWhatXmllintRefuses is the other direction: a document that the
// codec calls not well-formed must be refused by xmllint too.
func TestRefusesOnlyWhatXmllintRefuses(t *testing.T) {
	bin := xmllint(t)
	n, seed := envInt(t, "N", 2000), envInt(t, "SEED", int(time.Now().UnixNano()&0xffffff))
	t.Logf("N=%d SEED=%d", n, seed)
	m := &mutator{rng: rand.New(rand.NewPCG(uint64(seed), 2)), seeds: seedDocuments(t)}
	judge := newCodecJudge()
	dir := t.TempDir()
	asked := 0
	var names []string
	var docs [][]byte
	var reasons []error
	for i := range n {
		doc := m.document()
		if err := judge.judge(doc); isNotWellFormed(err) && !lenientLint(doc) {
			name := filepath.Join(dir, strconv.Itoa(len(docs))+".xml")
			if err := os.WriteFile(name, doc, 0o600); err != nil {
				t.Fatal(err)
			}
			names, docs, reasons = append(names, name), append(docs, doc), append(reasons, err)
		}
		if len(docs) == 1000 || i == n-1 && len(docs) > 0 {
			refused := lint(t, bin, names)
			for j, name := range names {
				if _, ok := refused[name]; !ok {
					t.Errorf("refused with %q, but xmllint takes it:\n%q", reasons[j], docs[j])
				}
			}
			asked += len(docs)
			names, docs, reasons = names[:0], docs[:0], reasons[:0]
			if t.Failed() {
				t.Fatalf("stopped after %d documents", i+1)
			}
		}
	}
	t.Logf("%d documents, %d refusals shown to xmllint", n, asked)
	if asked < n/20 {
		t.Errorf("only %d of %d refused: the mutator is too kind", asked, n)
	}
}

func isNotWellFormed(err error) bool {
	var e *soapcodec.Error
	return errors.As(err, &e) && e.Code == soapcodec.CodeNotWellFormed
}

// lenientLint are documents that xmllint takes although XML 1.0 does not: it
// reads a file as a C string and so ends at a NUL, and takes "1." for a version.
func lenientLint(doc []byte) bool {
	return bytes.IndexByte(doc, 0) >= 0 || shortVersion.Match(doc)
}

var shortVersion = regexp.MustCompile(`version\s*=\s*["']1\.["']`)

// A codecJudge asks the codec in process, which is what the gateway runs.
type codecJudge struct{ dec *soapcodec.Decoder }

func newCodecJudge() *codecJudge {
	return &codecJudge{soapcodec.NewDecoder(soapcodec.Options{})}
}

func (j *codecJudge) accepts(doc []byte) bool { return j.judge(doc) == nil }

func (j *codecJudge) judge(doc []byte) error {
	utf8, _, err := xmlstream.DecodeBytes(doc, "")
	if err != nil {
		return err
	}
	j.dec.ResetBytes(utf8)
	return j.dec.Finish()
}

// A mutator makes documents that are nearly right.
type mutator struct {
	rng   *rand.Rand
	seeds [][]byte
}

// pieces are what parsers disagree about.
var pieces = []string{
	"<", ">", "/>", "</", "<a>", "</a>", "<a/>", "<p:a>", "&", "&amp;", "&lt;", "&#0;", "&#9;", "&#x41;", "&#xD800;", "&#x110000;", "&#X41;", "&a;", "&#;", "&#x;", ";",
	"<!--", "-->", "--", "<!-- c -->", "<!---->", "<!--->", "<?", "?>", "<?pi?>", "<?pi x?>", "<?xml v?>", "<?XML?>", "<?x:y?>", "<![CDATA[", "]]>", "]]", "<![CDATA[]]>", "<![cdata[x]]>",
	"<!DOCTYPE a>", "<!ELEMENT", "<!", " ", "\t", "\n", "\r", "\r\n", "\x00", "\x01", "\x0b", "\x1f", "\x7f", "\x80", "\xc0\xaf", "\xed\xa0\x80", "\xef\xbf\xbe", "\xef\xbf\xbf", "\xef\xbb\xbf",
	"\xf4\x90\x80\x80", "é", "\u00d7", "\u2028", "\u0085", "\u00b7", "\u203f", "\u0300", "\U0001F600", "\U000EFFFF", "\U000F0000",
	`"`, `'`, "=", ` a=""`, ` a=''`, ` a="&lt;"`, ` a="<"`, ` a=">"`, ` a="]]>"`, ` a="1" a="2"`, ` p:a=""`, ` xmlns=""`, ` xmlns="urn:x"`, ` xmlns:p=""`, ` xmlns:p="urn:p"`, ` xmlns:q="urn:p" p:a="" q:a=""`,
	` xmlns:xml="http://www.w3.org/XML/1998/namespace"`, ` xmlns:xml="urn:x"`, ` xmlns:xmlns="urn:x"`, ` xmlns:x="http://www.w3.org/2000/xmlns/"`, ` xmlns:y="http://www.w3.org/XML/1998/namespace"`,
	` xml:lang="en"`, ` xml:space="preserve"`, ` xml:other=""`, ` :a=""`, ` a:=""`, ` a:b:c=""`, ":", "::", "-", ".", "1", "_", "xmlns", "xml:",
	`<?xml version="1.0"?>`, `<?xml version='1.0' encoding='UTF-8'?>`, `<?xml version="1.0" encoding="utf-8" standalone="yes"?>`, `<?xml version="1.1"?>`, `<?xml encoding="UTF-8"?>`, `<?xml version="1.0" standalone="maybe"?>`,
	`<?xml version="1.0" encoding="ISO-8859-1"?>`, `<?xml version="1.0" encoding="windows-1252"?>`, `<?xml version="1.0" encoding="UTF-16"?>`, `<?xml version="1.0"encoding="UTF-8"?>`, `<?xml version = "1.0" ?>`,
	"<e:Body/>", "<e:Body>", "</e:Body>", "<e:Header/>", "</e:Envelope>", "<e:Envelope>",
}

func (m *mutator) piece() string { return pieces[m.rng.IntN(len(pieces))] }

// document is a seed with a few changes, or one built at random.
func (m *mutator) document() []byte {
	if m.rng.IntN(3) == 0 {
		return m.random()
	}
	b := bytes.Clone(m.seeds[m.rng.IntN(len(m.seeds))])
	for range m.rng.IntN(3) + m.rng.IntN(2) {
		at := m.place(b)
		switch m.rng.IntN(9) {
		case 0, 1, 2: // insert a piece
			b = append(b[:at], append([]byte(m.piece()), b[at:]...)...)
		case 3: // overwrite with one
			p := m.piece()
			b = append(b[:at], append([]byte(p), b[min(len(b), at+len(p)):]...)...)
		case 4: // delete
			b = append(b[:at], b[min(len(b), at+1+m.rng.IntN(5)):]...)
		case 5: // flip a bit
			if at < len(b) {
				b[at] ^= 1 << m.rng.IntN(8)
			}
		case 6: // repeat a range
			end := min(len(b), at+m.rng.IntN(40))
			b = append(b[:end], append(bytes.Clone(b[at:end]), b[end:]...)...)
		case 7: // truncate, rarely far
			b = b[:max(0, len(b)-m.rng.IntN(4))]
		case 8: // move a range
			end := min(len(b), at+m.rng.IntN(20))
			cut := bytes.Clone(b[at:end])
			b = append(b[:at], b[end:]...)
			to := m.place(b)
			b = append(b[:to], append(cut, b[to:]...)...)
		}
	}
	return b
}

// place prefers the borders of markup.
func (m *mutator) place(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	at := m.rng.IntN(len(b) + 1)
	if m.rng.IntN(2) == 0 {
		if k := bytes.IndexAny(b[at:], "<>\"'= &"); k >= 0 {
			at += k + m.rng.IntN(2)
		}
	}
	return min(at, len(b))
}

// random builds an envelope whose content is mostly well-formed.
func (m *mutator) random() []byte {
	var b strings.Builder
	if m.rng.IntN(3) == 0 {
		b.WriteString([]string{`<?xml version="1.0"?>`, `<?xml version='1.0' encoding='utf-8'?>` + "\n", "\n ", "<!-- c -->", bom, `<?xml version="1.0" encoding="us-ascii"?>`}[m.rng.IntN(6)])
	}
	ns := []string{ns11, ns12}[m.rng.IntN(2)]
	fmt.Fprintf(&b, `<e:Envelope xmlns:e=%q xmlns:p='urn:p'>`, ns)
	if m.rng.IntN(3) == 0 {
		b.WriteString("<e:Header>")
		m.element(&b, 3)
		b.WriteString("</e:Header>")
	}
	b.WriteString("<e:Body>")
	m.element(&b, 4)
	b.WriteString("</e:Body></e:Envelope>")
	if m.rng.IntN(6) == 0 {
		b.WriteString(m.piece())
	}
	return []byte(b.String())
}

func (m *mutator) element(b *strings.Builder, depth int) {
	name := []string{"p:a", "p:b", "p:é", "p:x-1", "p:_", "p:\u00b7", "p:\u0370"}[m.rng.IntN(7)]
	b.WriteString("<" + name)
	for range m.rng.IntN(3) {
		if m.rng.IntN(4) == 0 {
			b.WriteString(m.piece())
		} else {
			fmt.Fprintf(b, ` a%d="%d&lt;"`, m.rng.IntN(6), m.rng.IntN(100))
		}
	}
	b.WriteString(">")
	for range m.rng.IntN(3) {
		switch {
		case depth > 0 && m.rng.IntN(2) == 0:
			m.element(b, depth-1)
		case m.rng.IntN(6) == 0:
			b.WriteString(m.piece())
		default:
			b.WriteString("text &#233; <![CDATA[<x>]]>")
		}
	}
	b.WriteString("</" + name + ">")
}

// seedDocuments are short messages with every construct, and the bodies of the
// cases where they are at hand.
func seedDocuments(t *testing.T) (seeds [][]byte) {
	for _, v := range []string{"1.1", "1.2"} {
		seeds = append(seeds,
			envelope(v, op), envelope(v, ""),
			[]byte(`<?xml version="1.0" encoding="UTF-8"?>`+"\n"+string(envelope(v, `<t:op xmlns:t="urn:t" t:a="1" b='2'>x<![CDATA[y]]>&amp;&#x20AC;<!-- c --><?pi d?><u xmlns=""/><u xmlns="urn:u"><v/></u></t:op>`))),
			[]byte(`<e:Envelope xmlns:e="`+nsOf[v]+`"><e:Header><h:h xmlns:h="urn:h" e:mustUnderstand="0">1</h:h></e:Header><e:Body e:id="1"><é/></e:Body></e:Envelope>`),
			[]byte(`<Envelope xmlns="`+nsOf[v]+`"><Body><a xmlns=""/></Body></Envelope>`),
			[]byte(`<?xml version="1.0" encoding="ISO-8859-1"?>`+strings.ReplaceAll(string(envelope(v, "<t>X</t>")), "X", "\xe9")))
	}
	if casesDir() == "" {
		return seeds
	}
	paths, err := filepath.Glob(filepath.Join(casesDir(), "*", "request.bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && len(b) > 0 && len(b) < 2000 && b[0] != 0x1f {
			seeds = append(seeds, b)
		}
	}
	return seeds
}

// xmllint is the reference.
func xmllint(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed")
	}
	return p
}

var lintError = regexp.MustCompile(`(?m)^(\S+?):\d+: (?:parser|namespace) error : (.*)$`)

// lint asks xmllint about many files at once and returns those that it
// refuses, with its reason. A namespace error counts as a refusal: xmllint
// goes on after one and exits with 0.
func lint(t *testing.T, bin string, files []string) map[string]string {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"--noout", "--nonet"}, files...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	refused := map[string]string{}
	for _, m := range lintError.FindAllSubmatch(errs.Bytes(), -1) {
		if _, seen := refused[string(m[1])]; !seen {
			refused[string(m[1])] = string(m[2])
		}
	}
	return refused
}

// excused are messages of xmllint that are no faults of the document: it lacks
// a charset that the gateway has; a namespace name is no URI, which is no
// constraint of Namespaces in XML 1.0 and leaves xmllint's exit at 0; or it
// follows the declaration of a document whose byte order mark says otherwise,
// where SPEC.md §3.3 ignores the lower label, and the oracle agrees with us.
func excused(why string, doc []byte) bool {
	if strings.Contains(why, "nsupported encoding") || strings.Contains(why, "is not a valid URI") {
		return true
	}
	text, _, agree, err := decodeText(doc, "")
	if err != nil || agree {
		return false
	}
	_, err = parseXML(text)
	return err == nil
}

// TestLint holds the reference itself to known documents.
func TestLint(t *testing.T) {
	bin := xmllint(t)
	dir := t.TempDir()
	docs := map[string]bool{ // true = refused
		"<a/>": false, "<a>": true, "<p:a/>": true, "<a b='' b=''/>": true, "<a>&#0;</a>": true, "<a xmlns:p='u' xmlns:q='u' p:x='' q:x=''/>": true, "<a:b:c xmlns:a='u'/>": true,
		"<a xmlns='rel'/>": false, "<a><!-- -- --></a>": true, "<a>\xff</a>": true,
	}
	var files []string
	want := map[string]bool{}
	for doc, refused := range docs {
		name := filepath.Join(dir, strconv.Itoa(len(files))+".xml")
		if err := os.WriteFile(name, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		files, want[name] = append(files, name), refused
	}
	got := lint(t, bin, files)
	for name, refused := range want {
		if _, ok := got[name]; ok != refused {
			b, _ := os.ReadFile(name)
			t.Errorf("xmllint refuses %s: %v, want %v", b, ok, refused)
		}
	}
}
