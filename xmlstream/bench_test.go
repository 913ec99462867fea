package xmlstream

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The documents of the benchmarks, the same in every run. There are several of
// each small one, alike but for values, so that neither the branch predictor
// nor a cache of ours sees the same octets again and again.

const benchHead = `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:wsa="http://www.w3.org/2005/08/addressing" xmlns:ord="http://example.com/schemas/orders/v3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">
  <soapenv:Header>
    <wsa:To soapenv:mustUnderstand="1">http://orders.example.com/services/OrderService</wsa:To>
    <wsa:Action>http://example.com/schemas/orders/v3/SubmitOrder</wsa:Action>
    <wsa:MessageID>urn:uuid:%08x-ca47-1067-b31d-00dd010662da</wsa:MessageID>
    <wsse:Security xmlns:wsse="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd" soapenv:mustUnderstand="1"><wsse:UsernameToken><wsse:Username>gateway%d</wsse:Username><wsse:Password Type="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#PasswordText">s3cr&amp;t%x</wsse:Password></wsse:UsernameToken></wsse:Security>
  </soapenv:Header>
  <soapenv:Body>
    <ord:SubmitOrder>
`

const benchTail = `    </ord:SubmitOrder>
  </soapenv:Body>
</soapenv:Envelope>
`

var benchGoods = [...]string{"Widget", "Gasket &lt;rev B&gt;", "Schäkel", "Bolt &amp; nut", "Hydraulic cylinder, double acting", "ボルト M8"}

func benchHeader(rnd *rand.Rand) string {
	return fmt.Sprintf(benchHead, rnd.Uint32(), rnd.IntN(1000), rnd.Uint32())
}

// benchOrder is an order of about size octets, one tag in 28 octets.
func benchOrder(seed uint64, size int) []byte {
	rnd := rand.New(rand.NewPCG(seed, 7))
	var b strings.Builder
	b.WriteString(benchHeader(rnd))
	for i := 0; b.Len()+len(benchTail) < size; i++ {
		fmt.Fprintf(&b, "      <ord:line xsi:type=\"ord:OrderLine\" id=\"L%05d\" unit=\"EA\">\n", i)
		fmt.Fprintf(&b, "        <ord:sku>SKU-%08d</ord:sku>\n", rnd.IntN(100_000_000))
		fmt.Fprintf(&b, "        <ord:description xml:lang=\"en\">%s</ord:description>\n", benchGoods[rnd.IntN(len(benchGoods))])
		fmt.Fprintf(&b, "        <ord:quantity>%d</ord:quantity>\n", 1+rnd.IntN(500))
		fmt.Fprintf(&b, "        <ord:price currency=\"EUR\">%.2f</ord:price>\n", rnd.Float64()*1000)
		b.WriteString("        <ord:note/>\n      </ord:line>\n")
	}
	b.WriteString(benchTail)
	return []byte(b.String())
}

// benchAttachment is one text of base64, in lines of 76 characters.
func benchAttachment(size int) []byte {
	rnd := rand.New(rand.NewPCG(1, 7))
	var b strings.Builder
	b.WriteString(benchHeader(rnd))
	b.WriteString(`      <ord:attachment name="scan.pdf" contentType="application/pdf">`)
	line := make([]byte, 57)
	for b.Len()+len(benchTail) < size {
		for i := range line {
			line[i] = byte(rnd.Uint32())
		}
		b.WriteString(base64.StdEncoding.EncodeToString(line))
		b.WriteByte('\n')
	}
	b.WriteString("</ord:attachment>\n")
	b.WriteString(benchTail)
	return []byte(b.String())
}

// benchSets are the documents by name.
func benchSets() []struct {
	name string
	docs [][]byte
} {
	var small [][]byte
	for i := range uint64(64) {
		small = append(small, benchOrder(i, 2<<10))
	}
	return []struct {
		name string
		docs [][]byte
	}{
		{"envelope", small},
		{"orders", [][]byte{benchOrder(100, 1<<20)}},
		{"base64", [][]byte{benchAttachment(1 << 20)}},
	}
}

// scanAll does what a user of every token would: it asks for names, values and
// text.
func scanAll(s *Scanner) (sum int, err error) {
	for {
		k, err := s.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return sum, err
		}
		switch k {
		case Start:
			sum += len(s.Local()) + len(s.Space())
			attrs := s.Attrs()
			for i := range attrs {
				sum += len(attrs[i].Name.Local) + len(attrs[i].Raw)
			}
		case End:
			sum += len(s.Local())
		case Text:
			sum += len(s.Text())
		}
	}
}

func scanStdlib(doc *bytes.Reader) (sum int, err error) {
	d := xml.NewDecoder(doc)
	for {
		t, err := d.Token()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return sum, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			sum += len(t.Name.Local) + len(t.Name.Space)
		case xml.EndElement:
			sum += len(t.Name.Local)
		case xml.CharData:
			sum += len(t)
		}
	}
}

// BenchmarkVersusStdlib scans the same documents with a Scanner and with
// encoding/xml, by turns, and reports the best of each and their ratio:
//
//	go test ./xmlstream -run '^$' -bench VersusStdlib -benchtime 100x
func BenchmarkVersusStdlib(b *testing.B) {
	for _, set := range benchSets() {
		size := 0
		for _, doc := range set.docs {
			size += len(doc)
		}
		for _, over := range []string{"bytes", "reader"} {
			b.Run(set.name+"/"+over, func(b *testing.B) {
				s, r := NewScanner(Limits{}), bytes.NewReader(nil)
				ours, theirs := math.MaxFloat64, math.MaxFloat64
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					rounds := max(1, 1<<20/size)
					for range rounds {
						for _, doc := range set.docs {
							if over == "bytes" {
								s.ResetBytes(doc)
							} else {
								r.Reset(doc)
								s.Reset(r)
							}
							if _, err := scanAll(s); err != nil {
								b.Fatal(err)
							}
						}
					}
					ours = min(ours, time.Since(start).Seconds()/float64(rounds))
					start = time.Now()
					for _, doc := range set.docs {
						r.Reset(doc)
						if _, err := scanStdlib(r); err != nil {
							b.Fatal(err)
						}
					}
					theirs = min(theirs, time.Since(start).Seconds())
				}
				b.ReportMetric(float64(size)/ours/1e6, "MB/s")
				b.ReportMetric(float64(size)/theirs/1e6, "stdlib-MB/s")
				b.ReportMetric(theirs/ours, "ratio")
			})
		}
	}
}

// BenchmarkScanAll is for profiles.
func BenchmarkScanAll(b *testing.B) {
	for _, set := range benchSets() {
		b.Run(set.name, func(b *testing.B) {
			s := NewScanner(Limits{})
			size := 0
			for _, doc := range set.docs {
				size += len(doc)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, doc := range set.docs {
					s.ResetBytes(doc)
					if _, err := scanAll(s); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
