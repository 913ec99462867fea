package telemetry

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"soapway/proxy"
)

// busy is a gateway of many routes: each has some operations, a backend of two nodes
// and stored messages.
func busy(routes int) *Metrics {
	m := NewMetrics()
	var queues []QueueSample
	var backends []BackendSample
	for i := range routes {
		route := fmt.Sprintf("route-%d", i)
		for op := range 1 {
			for _, outcome := range []proxy.Outcome{proxy.OutcomeAnswered, proxy.OutcomeFault, proxy.OutcomeFailed} {
				m.ObserveExchange(proxy.ExchangeEvent{Route: route, Operation: fmt.Sprintf("operation-%d", op), Outcome: outcome, Duration: time.Millisecond, CodecBytes: 1})
			}
		}
		m.ObserveExchange(proxy.ExchangeEvent{Route: route, Outcome: proxy.OutcomeFailed, Code: "BackendTimeout"})
		for _, class := range []proxy.Class{proxy.Answered, proxy.NotSent, proxy.Maybe} {
			m.ObserveAttempt(proxy.AttemptEvent{Route: route, Class: class})
		}
		m.Delivered(route, time.Second)
		m.Died(route, "expired")
		queues = append(queues, QueueSample{Route: route, Backend: route, Pending: i, Oldest: time.Now()})
		backends = append(backends, BackendSample{Name: route, Nodes: []NodeSample{{Name: "http://10.0.0.5:9000", Up: true}, {Name: "http://10.0.0.6:9000"}}})
	}
	m.WatchQueue(QueueSource{Queues: func() []QueueSample { return queues }, Links: func() []LinkSample { return []LinkSample{{Link: "hq", Waiting: 7}} }, DiskFree: func() (int64, bool) { return 1 << 40, true }})
	m.WatchBackends(func() []BackendSample { return backends })
	return m
}

// once is a gatherer that tells at all times what another has told first: figures of
// the Go runtime are never the same twice.
func once(g prometheus.Gatherer) prometheus.Gatherer {
	families, err := g.Gather()
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err })
}

// TestExposition: what is written is what expfmt writes, octet for octet.
func TestExposition(t *testing.T) {
	synctest.Test(t, testExposition) // where ages do not change
}

func testExposition(t *testing.T) {
	m := busy(3)
	m.ObserveExchange(proxy.ExchangeEvent{Route: "traced", Outcome: proxy.OutcomeAnswered, Duration: 3 * time.Millisecond, Trace: proxy.Trace{ID: [16]byte{15: 1}}})
	m.ObserveExchange(proxy.ExchangeEvent{Route: "traced", Outcome: proxy.OutcomeAnswered, Duration: time.Hour, Trace: proxy.Trace{ID: [16]byte{15: 2}}})
	m.Died("a \\ \"\n ä", "expired")
	m.Scanned(12_345_678)
	m.WatchLinks(func() []TrafficSample {
		return []TrafficSample{{Name: "z", Up: true, Sent: map[string]uint64{"stored": 3, "duplicate": 1}}, {Name: "a", Idle: true, BytesIn: 1 << 40}}
	})
	odd := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "odd", Help: "A \\ and a \"quote\"\nand a line."}, []string{"l"})
	for i, v := range []float64{0, 1, -1, 0.1, 1e6, 1 << 20, 1e21, 1e-9, -12345678.5, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.Copysign(0, -1)} {
		odd.WithLabelValues(fmt.Sprintf("%d \\ \"\n ä", i)).Set(v)
	}
	untyped := prometheus.NewUntypedFunc(prometheus.UntypedOpts{Name: "untyped"}, func() float64 { return 7 })
	plain := prometheus.NewCounter(prometheus.CounterOpts{Name: "a_plain", Help: "Without total."})
	plain.(prometheus.ExemplarAdder).AddWithExemplar(2, prometheus.Labels{"a": "b", "c": "\""})
	spread := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spread", Buckets: []float64{1, 2}})
	spread.(prometheus.ExemplarObserver).ObserveWithExemplar(3, prometheus.Labels{"a": "b"})
	all := prometheus.NewRegistry()
	all.MustRegister(odd, untyped, plain, spread)
	m.registry.foreign = once(prometheus.Gatherers{m.registry.foreign, all})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	s := newScraper(m.registry)
	for _, accept := range []string{"", "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0", "application/openmetrics-text; version=1.0.0; escaping=underscores"} {
		header := http.Header{"Accept": {accept}}
		format := expfmt.NegotiateAccept(header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
		var want bytes.Buffer
		enc := expfmt.NewEncoder(&want, format)
		for _, f := range families {
			if err := enc.Encode(f); err != nil {
				t.Fatal(err)
			}
		}
		if c, ok := enc.(expfmt.Closer); ok {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, coding := range []string{"", "gzip"} {
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.Header = header.Clone()
			r.Header.Set("Accept-Encoding", coding)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			body := w.Body.Bytes()
			if coding != "" {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				if body, err = io.ReadAll(z); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want.String(), string(body)); diff != "" {
				t.Errorf("%q, %q (-want +got):\n%.3000s", accept, coding, diff)
			}
			if got := w.Header().Get("Content-Type"); got != string(format) {
				t.Errorf("%q: Content-Type %q, want %q", accept, got, format)
			}
		}
	}
	if w := httptest.NewRecorder(); true {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
		s.ServeHTTP(w, r)
		if w.Code != 200 || w.Body.Len() == 0 || expfmt.ResponseFormat(w.Header()).FormatType() != expfmt.TypeProtoDelim {
			t.Errorf("protobuf: got %d, %q", w.Code, w.Header())
		}
	}
}
