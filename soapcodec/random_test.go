package soapcodec

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// generator makes envelopes with every liberty that XML and SOAP leave, some
// that they do not leave, and a known seed.
type generator struct {
	*rand.Rand
	out strings.Builder
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) write(s ...string) {
	for _, s := range s {
		g.out.WriteString(s)
	}
}

// blank is white space inside a tag; minimum 0 or 1.
func (g *generator) blank(minimum int) {
	for range minimum + g.IntN(3) {
		g.write(g.pick(" ", "\n", "\t", "\r\n"))
	}
}

// gap is what may stand between the tags of the frame.
func (g *generator) gap() {
	for range g.IntN(4) {
		g.write(g.pick(" ", "\n\t", "<!-- c -->", "<!---->", "&#32;", "<![CDATA[ \n]]>", "<!--<s:Body>-->"))
		if g.IntN(60) == 0 {
			g.write(g.pick("<?p i?>", "x", "&#65;"))
		}
	}
}

func (g *generator) attribute(name, value string) {
	g.blank(1)
	g.write(name)
	g.blank(0)
	g.write("=")
	g.blank(0)
	quote := g.pick("'", `"`)
	g.write(quote, value, quote)
}

func (g *generator) noise() {
	if g.IntN(3) == 0 {
		g.attribute(g.pick("a", "b", "s:encodingStyle", "xml:lang"), g.pick("", "v", "a&quot;b", "x>y", "l\nine", "&#x41;", "é"))
	}
	if g.IntN(4) == 0 {
		g.attribute("c", g.pick("x", "/>"))
	}
	if g.IntN(20) == 0 {
		g.attribute(g.pick("Id", "xml:id"), "i")
	}
}

// frame writes one of the three elements.
func (g *generator) frame(name string, attrs, content func()) {
	g.write("<s:", name)
	if attrs != nil {
		attrs()
	}
	g.noise()
	g.blank(0)
	if content == nil {
		g.write("/>")
		return
	}
	g.write(">")
	content()
	g.write("</s:", name)
	g.blank(0)
	g.write(">")
}

func (g *generator) block() {
	g.write(g.pick(
		"<h:A/>", "<h:A >x</h:A >", "<h:B s:mustUnderstand = '1'/>", "<h:C s:actor='http://schemas.xmlsoap.org/soap/actor/next'/>",
		"<h:D s:role='http://www.w3.org/2003/05/soap-envelope/role/next' s:relay='true'> <!-- in --> </h:D>",
		"<a:MessageID xmlns:a='http://www.w3.org/2005/08/addressing'> urn:1 </a:MessageID>",
		"<a:ReplyTo xmlns:a='http://www.w3.org/2005/08/addressing'><a:Address>urn:r</a:Address></a:ReplyTo>",
		"<d:Reference xmlns:d='http://www.w3.org/2000/09/xmldsig#' URI='#i'/>",
	))
	if g.IntN(30) == 0 {
		g.write("<d:Reference xmlns:d='http://www.w3.org/2000/09/xmldsig#' URI=''/>")
	}
	if g.IntN(60) == 0 {
		g.write("<plain/>")
	}
}

func (g *generator) envelope() string {
	g.out.Reset()
	g.write(g.pick("", "\xEF\xBB\xBF", "<?xml version='1.0' ?>", "\xEF\xBB\xBF<?xml version=\"1.0\"?>", "\n"))
	for range g.IntN(3) {
		g.write(g.pick("\n", "<!-- before -->", " "))
	}
	g.frame("Envelope", func() {
		g.attribute("xmlns:s", g.pick(NS11, NS12))
		g.attribute("xmlns:h", "urn:h")
	}, func() {
		g.gap()
		for range g.IntN(10) / 4 {
			g.frame("Header", nil, g.maybe(func() {
				for range g.IntN(4) {
					g.gap()
					g.block()
				}
				g.gap()
			}))
			g.gap()
		}
		g.frame("Body", nil, g.maybe(func() {
			for range g.IntN(4) {
				g.write(g.pick(" text ", "<!-- c -->", "<h:Op  x = '1' />", "<?p i?>", "<s:Fault><faultcode>s:Server</faultcode></s:Fault>", "<s:Body/>", "<d:Reference xmlns:d='http://www.w3.org/2000/09/xmldsig#' URI='#i'/>"))
			}
		}))
		g.gap()
		for range g.IntN(8) / 6 {
			g.write("<h:Trailer  t = '1'><!-- c --> </h:Trailer >")
			g.gap()
		}
	})
	for range g.IntN(3) {
		g.write(g.pick("\n", "<!-- after -->"))
	}
	return g.out.String()
}

func (g *generator) maybe(f func()) func() {
	if g.IntN(5) == 0 {
		return nil
	}
	return f
}

// TestRandomEnvelopes holds the properties of FuzzNormalize over envelopes that
// a mutation of octets rarely finds.
func TestRandomEnvelopes(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(1, 2))}
	accepted, skipped, edited := 0, 0, 0
	d := NewDecoder(Options{Normalize: Envelope})
	n := 4000
	if testing.Short() {
		n = 400
	}
	for range n {
		doc := []byte(g.envelope())
		d.ResetBytes(doc)
		if err := d.Finish(); err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("Finish(%q): got %v, want an *Error", doc, err)
			}
			continue
		}
		accepted++
		if d.Facts().NormalizeSkipped {
			skipped++
		} else if len(d.TakeEdits()) > 0 {
			edited++
		}
		checkNormalize(t, doc)
		checkTranslate(t, doc)
	}
	// The generator must reach all three, or the test proves little.
	if accepted < n/3 || skipped < n/100 || edited < n/4 {
		t.Errorf("of %d envelopes %d were accepted, %d kept for a signature, %d edited: the generator is off its aim", n, accepted, skipped, edited)
	}
	t.Logf("of %d envelopes %d were accepted, %d kept for a signature, %d edited", n, accepted, skipped, edited)
}
