package queue

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkVersusPut sets Put of a strict store beside what one could use
// instead, by turns in one run: JetStream that syncs every message, JetStream
// that syncs none, and, for a single sender, write and fsync of a plain file.
// Each iteration is one turn of every contender; the figures are medians.
//
//	go test ./queue -run '^$' -bench VersusPut -benchtime 5x
func BenchmarkVersusPut(b *testing.B) {
	if err := CheckDir(b.TempDir(), Strict); err != nil {
		b.Skip(err)
	}
	for _, senders := range []int{1, 64, 512} {
		b.Run(fmt.Sprint("senders=", senders), func(b *testing.B) { versusPut(b, senders) })
	}
}

const (
	versusTurn = 700 * time.Millisecond
	versusBody = 1500
)

// contender stores one message durably or as it claims to.
type contender struct {
	name  string
	store func(sender, i int) error
	rates []float64
}

func versusPut(b *testing.B, senders int) {
	s, err := OpenEmbedded(StoreOptions{Dir: b.TempDir(), MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	body := make([]byte, versusBody)
	all := []*contender{
		{name: "put", store: func(sender, i int) error {
			_, err := s.Put(context.Background(), &Message{ID: fmt.Sprintf("%04d-%08d-0000-0000-000000000000", sender, i), Route: "orders", Destination: "erp", Body: body})
			return err
		}},
		{name: "always", store: bareJetStream(b, true, body)},
		{name: "unsynced", store: bareJetStream(b, false, body)},
	}
	if senders == 1 {
		f, err := os.Create(filepath.Join(b.TempDir(), "plain"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		all = append(all, &contender{name: "fsync", store: func(int, int) error {
			if _, err := f.Write(body); err != nil {
				return err
			}
			return f.Sync()
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
	b.ReportMetric(rates["put"]/rates["always"], "x-always")
	b.ReportMetric(rates["put"]/rates["unsynced"], "x-unsynced")
	if senders == 1 {
		b.ReportMetric(rates["put"]/rates["fsync"], "x-fsync")
	}
}

// rate is how many messages a second the senders store, each one at a time.
func rate(b *testing.B, senders int, store func(sender, i int) error) float64 {
	var wg sync.WaitGroup
	counts := make([]int, senders)
	began := time.Now()
	for g := range senders {
		wg.Go(func() {
			for time.Since(began) < versusTurn {
				if err := store(g, counts[g]); err != nil {
					b.Error(err)
					return
				}
				counts[g]++
			}
		})
	}
	wg.Wait()
	n := 0
	for _, c := range counts {
		n += c
	}
	return float64(n) / time.Since(began).Seconds()
}

// bareServer is JetStream in the process, with nothing of ours around it.
func bareServer(b *testing.B, dir string, always bool) (*server.Server, jetstream.JetStream) {
	b.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, SyncAlways: always, JetStreamMaxStore: 64 << 30})
	if err != nil {
		b.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		b.Fatal("server does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		b.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	return srv, js
}

func bareJetStream(b *testing.B, always bool, body []byte) func(int, int) error {
	b.Helper()
	_, js := bareServer(b, b.TempDir(), always)
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage}); err != nil {
		b.Fatal(err)
	}
	return func(int, int) error {
		_, err := js.Publish(context.Background(), "s", body)
		return err
	}
}

// BenchmarkVersusOpen sets the opening of a store with many waiting messages
// beside a bare server on a copy of the same directory.
//
//	go test ./queue -run '^$' -bench VersusOpen -benchtime 5x
func BenchmarkVersusOpen(b *testing.B) {
	const messages = 500_000
	dir := b.TempDir()
	s, err := OpenEmbedded(StoreOptions{Dir: dir, Durability: Relaxed, MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, versusBody)
	var wg sync.WaitGroup
	for g := range 256 {
		wg.Go(func() {
			for i := g; i < messages; i += 256 {
				if _, err := s.Put(b.Context(), &Message{ID: fmt.Sprintf("%08d-0000-0000-0000-000000000000", i), Route: "orders", Destination: "erp", Lane: "l", Body: body}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("clean", func(b *testing.B) { versusOpen(b, dir, messages, func() {}) })
	// A kill leaves an index that is behind, often enough one that is refused.
	b.Run("killed", func(b *testing.B) {
		versusOpen(b, dir, messages, func() {
			if err := os.Remove(filepath.Join(dir, "jetstream", "$G", "streams", streamLog, "msgs", "index.db")); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func versusOpen(b *testing.B, dir string, messages int, before func()) {
	var ours, bare, scan []float64
	for b.Loop() {
		before()
		began := time.Now()
		s, err := OpenEmbedded(StoreOptions{Dir: dir, Durability: Relaxed, MinFree: -1})
		if err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(began).Seconds())
		began = time.Now()
		n := 0
		if err := s.Scan(b.Context(), func(uint64, *Message, int64) error { n++; return nil }); err != nil || n != messages {
			b.Fatal(n, err)
		}
		scan = append(scan, time.Since(began).Seconds())
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		before()
		began = time.Now()
		srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, JetStreamMaxStore: 64 << 30})
		if err != nil {
			b.Fatal(err)
		}
		srv.Start()
		if !srv.ReadyForConnections(time.Minute) {
			b.Fatal("server does not start")
		}
		bare = append(bare, time.Since(began).Seconds())
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours)*1e3, "open-ms")
	b.ReportMetric(median(bare)*1e3, "bare-ms")
	b.ReportMetric(median(ours)/median(bare), "x-bare")
	b.ReportMetric(float64(messages)/median(scan), "scan/s")
}

// BenchmarkTrim sets the ways of removing finished messages beside each other:
// cutting off the log's beginning, one destination's part of it, and single deletes.
func BenchmarkTrim(b *testing.B) {
	s, err := OpenEmbedded(StoreOptions{Dir: b.TempDir(), Durability: Relaxed, MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const count = 4096
	fill := func() []uint64 {
		seqs := make([]uint64, count)
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for i := g; i < count; i += 64 {
					seq, err := s.Put(b.Context(), &Message{ID: "m", Body: make([]byte, versusBody)})
					if err != nil {
						b.Error(err)
						return
					}
					seqs[i] = seq
				}
			})
		}
		wg.Wait()
		slices.Sort(seqs)
		return seqs
	}
	var cut, strand, single []float64
	for b.Loop() {
		seqs := fill()
		began := time.Now()
		if err := s.js.remove(streamLog, seqs[1:]); err != nil {
			b.Fatal(err)
		}
		single = append(single, time.Since(began).Seconds())
		seqs = fill()
		began = time.Now()
		if err := s.js.cut(streamLog, logSubject(""), seqs[count-1]); err != nil {
			b.Fatal(err)
		}
		strand = append(strand, time.Since(began).Seconds())
		seqs = fill()
		began = time.Now()
		if err := s.js.purge(streamLog, seqs[count-1]+1); err != nil {
			b.Fatal(err)
		}
		cut = append(cut, time.Since(began).Seconds())
	}
	slices.Sort(cut)
	slices.Sort(single)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(cut[len(cut)/2]*1e9/count, "cut-ns/message")
	slices.Sort(strand)
	b.ReportMetric(strand[len(strand)/2]*1e9/count, "strand-ns/message")
	b.ReportMetric(single[len(single)/2]*1e9/count, "single-ns/message")
}
