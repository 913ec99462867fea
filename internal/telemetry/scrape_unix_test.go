//go:build unix

package telemetry

import (
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

// BenchmarkScrape is what a scrape of 200 routes costs, as Prometheus asks for it, beside
// what it would cost with package promhttp: the contract allows 10 ms of CPU time, which
// is told as cpu-ms/op, whatever else the machine does.
func BenchmarkScrape(b *testing.B) {
	m := busy(200)
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
	r.Header.Set("Accept-Encoding", "gzip")
	for _, c := range []struct {
		name string
		h    http.Handler
	}{{"ours", m.Handler()}, {"promhttp", newScraper(m.registry).other}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				w := httptest.NewRecorder()
				c.h.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Code)
				}
				b.ReportMetric(float64(w.Body.Len()), "octets")
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime is what this process has used, the collection of its garbage included.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
