package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// BenchmarkVersusEncrypted sets Put of a sealed store beside that of a plain one,
// by turns in one run; and the same for reading. Each iteration is one turn of
// every contender; the figures are medians.
//
//	go test ./queue -run '^$' -bench VersusEncrypted -benchtime 5x
func BenchmarkVersusEncrypted(b *testing.B) {
	durability := Strict
	if CheckDir(b.TempDir(), Strict) != nil {
		durability = Relaxed
	}
	for _, size := range []int{versusBody, 100 << 10} {
		for _, senders := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("octets=%d/senders=%d", size, senders), func(b *testing.B) { versusEncrypted(b, durability, size, senders) })
		}
	}
}

func versusEncrypted(b *testing.B, durability string, size, senders int) {
	if size*senders > 16<<20 {
		b.Skip("the disk, and nothing else, would be measured")
	}
	body := make([]byte, size)
	var all []*contender
	for _, name := range []string{"plain", "sealed"} {
		o := StoreOptions{Dir: b.TempDir(), MinFree: -1, Durability: durability}
		if name == "sealed" {
			o.Keys = testKeys(b, testKeyA)
		}
		s, err := OpenEmbedded(o)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		all = append(all,
			&contender{name: name, store: func(sender, i int) error {
				_, err := s.Put(context.Background(), &Message{ID: fmt.Sprintf("%04d-%08d-0000-0000-000000000000", sender, i), Route: "orders", Destination: "erp", Body: body})
				return err
			}},
			&contender{name: name + "-get", store: func(sender, _ int) error {
				_, err := s.Get(uint64(sender) + 1)
				return err
			}})
	}
	for b.Loop() {
		for _, c := range all {
			c.rates = append(c.rates, rate(b, senders, c.store))
		}
	}
	b.ReportMetric(0, "ns/op")
	rates := make(map[string]float64)
	for _, c := range all {
		slices.Sort(c.rates)
		rates[c.name] = c.rates[len(c.rates)/2]
		b.ReportMetric(rates[c.name], c.name+"/s")
	}
	b.ReportMetric(rates["sealed"]/rates["plain"], "x-plain")
	b.ReportMetric(rates["sealed-get"]/rates["plain-get"], "x-plain-get")
}

// BenchmarkSealRecord is what sealing and opening cost for one message.
//
//	go test ./queue -run '^$' -bench SealRecord
func BenchmarkSealRecord(b *testing.B) {
	keys := testKeys(b, testKeyA)
	r := record{"gw.in.00.1234", headerMessage, string(make([]byte, 200)), make([]byte, versusBody)}
	out, err := keys.sealRecord(r)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(versusBody)
		for b.Loop() {
			if _, err := keys.sealRecord(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(versusBody)
		for b.Loop() {
			if _, err := keys.openRecord(out.subject, natsMessage(out), true); err != nil {
				b.Fatal(err)
			}
		}
	})
}
