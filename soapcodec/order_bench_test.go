package soapcodec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// orders are messages of one kind with the header blocks of WS-Addressing, as
// internal/proxyversus sends one, alike but for values and the number of lines.
func orders(lines int) (all [][]byte) {
	for i := range uint64(64) {
		rnd := rand.New(rand.NewPCG(i, 5))
		var b strings.Builder
		fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<soap:Envelope xmlns:soap="%s" xmlns:wsa="%s" xmlns:o="urn:example:orders">
  <soap:Header>
    <wsa:MessageID>urn:uuid:%08x-3b7a-4f9e-9d58-0f0e6f1b2c3d</wsa:MessageID>
    <wsa:To>http://orders.example/orders</wsa:To>
    <wsa:Action>urn:example:orders:Submit</wsa:Action>
  </soap:Header>
  <soap:Body>
    <o:Submit>
      <o:Customer id="C-%d">Harbour Supplies &amp; Sons</o:Customer>
`, NS11, nsAddressing, rnd.Uint32(), rnd.IntN(100_000))
		for k := range lines + rnd.IntN(5)*min(1, lines) {
			fmt.Fprintf(&b, `      <o:Line no="%d"><o:Article>A-%d</o:Article><o:Quantity unit="pc">%d</o:Quantity><o:Price currency="EUR">%d.%02d</o:Price></o:Line>`+"\n",
				k+1, rnd.IntN(1_000_000), 1+rnd.IntN(500), rnd.IntN(1000), rnd.IntN(100))
		}
		b.WriteString("    </o:Submit>\n  </soap:Body>\n</soap:Envelope>")
		all = append(all, []byte(b.String()))
	}
	return all
}

// BenchmarkDecodeOrders also reports the best of its rounds, which is what other
// work on the machine disturbs least.
func BenchmarkDecodeOrders(b *testing.B) {
	for _, lines := range []int{0, 10} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			docs := orders(lines)
			d := NewDecoder(Options{})
			best := time.Duration(math.MaxInt64)
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				for _, doc := range docs {
					d.ResetBytes(doc)
					if err := d.Finish(); err != nil {
						b.Fatal(err)
					}
				}
				best = min(best, time.Since(began))
			}
			b.ReportMetric(float64(best.Nanoseconds())/float64(len(docs)), "best-ns/message")
		})
	}
}
