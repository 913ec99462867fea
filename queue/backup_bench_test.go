package queue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkBackupBeside accepts messages from 64 senders, in turns without and with
// a backup of 40,000 waiting messages beside them, and prints ratios. Measure:
// go test ./queue -run '^$' -bench BackupBeside -benchtime 4x
func BenchmarkBackupBeside(b *testing.B) {
	dir := b.TempDir()
	s, err := OpenEmbedded(StoreOptions{Dir: dir, Durability: durabilityHere(dir), MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	q, err := New(s, &node{}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("<x/>"), 400)
	accept := func(ctx context.Context, most int) (waits []time.Duration) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				var own []time.Duration
				for i := 0; ctx.Err() == nil && (most == 0 || i < most/64); i++ {
					began := time.Now()
					_, err := s.Put(context.Background(), &Message{ID: fmt.Sprintf("%d-%d-%d", began.UnixNano(), g, i), Destination: "erp", Body: body})
					if err != nil {
						b.Error(err)
						return
					}
					own = append(own, time.Since(began))
				}
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, own...)
			})
		}
		wg.Wait()
		slices.Sort(waits)
		return waits
	}
	accept(b.Context(), 40_000)
	const turn = 2 * time.Second
	var alone, beside []time.Duration
	var octets, backups int
	var took time.Duration
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), turn)
		alone = append(alone, accept(ctx, 0)...)
		cancel()
		ctx, cancel = context.WithTimeout(b.Context(), turn)
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				counts, err := q.Backup(context.Background(), io.Discard)
				if err != nil {
					b.Error(err)
					return
				}
				octets += int(counts.Octets)
				took += time.Since(began)
				backups++
			}
		})
		beside = append(beside, accept(ctx, 0)...)
		cancel()
		wg.Wait()
	}
	slices.Sort(alone)
	slices.Sort(beside)
	p99 := func(d []time.Duration) float64 { return d[len(d)*99/100].Seconds() * 1000 }
	b.ReportMetric(float64(len(beside))/float64(len(alone)), "rate-ratio")
	b.ReportMetric(float64(len(alone))/(turn.Seconds()*float64(b.N)), "alone/s")
	b.ReportMetric(p99(beside)/p99(alone), "p99-ratio")
	b.ReportMetric(p99(alone), "p99-alone-ms")
	b.ReportMetric(float64(octets)/took.Seconds()/1e6, "backup-MB/s")
	b.ReportMetric(took.Seconds()/float64(backups), "s/backup")
}
