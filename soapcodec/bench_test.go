package soapcodec

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// benchEnvelopes are requests of 1.3 KB with WS-Addressing headers, alike but
// for values.
func benchEnvelopes() (docs [][]byte) {
	for i := range 64 {
		var b strings.Builder
		fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:wsa="http://www.w3.org/2005/08/addressing" xmlns:ord="http://example.com/schemas/orders/v3">
  <soapenv:Header>
    <wsa:To soapenv:mustUnderstand="1">http://orders.example.com/services/OrderService</wsa:To>
    <wsa:Action>http://example.com/schemas/orders/v3/SubmitOrder</wsa:Action>
    <wsa:MessageID>urn:uuid:%08x-ca47-1067-b31d-00dd010662da</wsa:MessageID>
    <wsa:ReplyTo><wsa:Address>http://www.w3.org/2005/08/addressing/anonymous</wsa:Address></wsa:ReplyTo>
  </soapenv:Header>
  <soapenv:Body>
    <ord:SubmitOrder>
`, i*0x9E3779B1)
		for k := range 3 {
			fmt.Fprintf(&b, `      <ord:line id="L%05d" unit="EA">
        <ord:sku>SKU-%08d</ord:sku>
        <ord:description xml:lang="de">Schraube &amp; Mutter</ord:description>
        <ord:quantity>%d</ord:quantity>
      </ord:line>
`, k, i*7919, i*k)
		}
		b.WriteString("    </ord:SubmitOrder>\n  </soapenv:Body>\n</soapenv:Envelope>\n")
		docs = append(docs, []byte(b.String()))
	}
	return docs
}

// BenchmarkVersusStdlib decodes the same envelopes as they are and normalized,
// and reads their tokens with encoding/xml, by turns. It reports the best of
// each and their ratios:
//
//	go test ./soapcodec -run '^$' -bench VersusStdlib -benchtime 100x
func BenchmarkVersusStdlib(b *testing.B) {
	docs, size := benchEnvelopes(), 0
	for _, doc := range docs {
		size += len(doc)
	}
	const rounds = 16
	decode := func(d *Decoder) float64 {
		start := time.Now()
		for range rounds {
			for _, doc := range docs {
				d.ResetBytes(doc)
				if err := d.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		}
		return time.Since(start).Seconds() / rounds
	}
	keep, envelope := NewDecoder(Options{}), NewDecoder(Options{Normalize: Envelope})
	kept, normalized, theirs := math.MaxFloat64, math.MaxFloat64, math.MaxFloat64
	r := bytes.NewReader(nil)
	for b.Loop() {
		kept = min(kept, decode(keep))
		normalized = min(normalized, decode(envelope))
		start := time.Now()
		for _, doc := range docs {
			r.Reset(doc)
			x := xml.NewDecoder(r)
			for {
				_, err := x.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		theirs = min(theirs, time.Since(start).Seconds())
	}
	b.ReportMetric(kept/float64(len(docs))*1e9, "ns/message")
	b.ReportMetric(float64(size)/kept/1e6, "MB/s")
	b.ReportMetric(theirs/kept, "x-stdlib")
	b.ReportMetric(normalized/kept, "normalized/kept")
}
