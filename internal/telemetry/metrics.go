package telemetry

import (
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

const (
	// maxOperations is how many operations of a route, and how many fault
	// codes, are counted under their own names.
	maxOperations = 100
	// maxLabel bounds a label value that comes from a message, in bytes.
	maxLabel = 64
	// other stands for the values beyond these bounds.
	other = "other"
)

// durations are the bounds of gateway_request_duration_seconds: a built-in
// echo takes some 0.1 ms, a backend's default time-out is 30 s.
var durations = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// Metrics are the figures of one gateway. Create it with [NewMetrics].
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	faults   *prometheus.CounterVec
	attempts *prometheus.CounterVec
	shadows  *prometheus.CounterVec
	reload   prometheus.Gauge
	codec    prometheus.Counter
	skipped  *prometheus.CounterVec
	queue    *queueMetrics

	// The children of requests and duration, and of attempts, so that an
	// exchange costs two map lookups and no allocation (TestAllocs).
	series known[seriesKey, *series]
	count  known[attemptKey, prometheus.Counter]

	mu         sync.Mutex
	operations map[string]map[string]struct{} // route -> operations named so far; guarded by mu
	codes      map[string]struct{}            // fault codes named so far; guarded by mu
}

type attemptKey struct{ route, result string }

type seriesKey struct{ route, operation, outcome string }

type series struct {
	total    prometheus.Counter
	duration prometheus.Observer
}

// NewMetrics returns a registry with the metrics of the gateway, of the Go
// runtime and of the process.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_requests_total",
			Help: "Requests answered, by route, operation and outcome.",
		}, []string{"route", "operation", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_request_duration_seconds",
			Help:    "Time from the first octet of a request to the last of its answer.",
			Buckets: durations,
		}, []string{"route", "operation"}),
		faults: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_faults_total",
			Help: "Faults and refusals that the gateway made itself, by route and code.",
		}, []string{"route", "code"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_attempts_total",
			Help: "Tries at backend nodes, by route and result.",
		}, []string{"route", "result"}),
		shadows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_shadow_total",
			Help: "Copies of messages for shadow backends, by route and result.",
		}, []string{"route", "result"}),
		reload: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_config_reload_ok",
			Help: "1 if the configuration as it stands on disk is the one in use, 0 if the last reload was refused.",
		}),
		codec: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_codec_bytes_total",
			Help: "Octets of XML checked.",
		}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_normalize_skipped_total",
			Help: "Messages that were not normalized because that could have broken a signature, by route.",
		}, []string{"route"}),
		queue:      newQueueMetrics(),
		operations: map[string]map[string]struct{}{},
		codes:      map[string]struct{}{},
	}
	m.registry.MustRegister(m.requests, m.duration, m.faults, m.attempts, m.shadows, m.reload, m.codec, m.skipped,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.queue.register(m.registry)
	m.reload.Set(1)
	return m
}

// Handler serves the metrics in the format that the scraper asks for.
func (m *Metrics) Handler() http.Handler { return newScraper(m.registry) }

// Reloaded tells whether the last reload of the configuration was taken.
func (m *Metrics) Reloaded(ok bool) {
	if ok {
		m.reload.Set(1)
	} else {
		m.reload.Set(0)
	}
}

// Request counts an answered request. The operation is "" where none is known.
func (m *Metrics) Request(route, operation, outcome string, took time.Duration) {
	s := m.seriesOf(route, operation, outcome)
	s.total.Inc()
	s.duration.Observe(took.Seconds())
}

// traced is Request for one that is traced, which becomes the exemplar of its bucket.
func (m *Metrics) traced(route, operation, outcome string, took time.Duration, trace string) {
	s := m.seriesOf(route, operation, outcome)
	s.total.Inc()
	s.duration.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
}

// seriesOf finds the cached series or makes it.
func (m *Metrics) seriesOf(route, operation, outcome string) *series {
	k := seriesKey{route, label(operation), outcome}
	if s, ok := m.series.get(k); ok {
		return s
	}
	k.operation = m.operation(route, k.operation)
	if s, ok := m.series.get(k); ok {
		return s
	}
	s := &series{
		total:    m.requests.WithLabelValues(k.route, k.operation, k.outcome),
		duration: m.duration.WithLabelValues(k.route, k.operation),
	}
	m.series.put(k, s)
	return s
}

// operation returns op if it has, or now gets, a name of its own on this
// route, and "other" if not.
func (m *Metrics) operation(route, op string) string {
	if op == "" {
		return op
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.operations[route]
	if known == nil {
		known = map[string]struct{}{}
		m.operations[route] = known
	}
	if _, ok := known[op]; !ok {
		if len(known) >= maxOperations {
			return other
		}
		known[op] = struct{}{}
	}
	return op
}

// Fault counts a fault or refusal that the gateway made, by its code.
func (m *Metrics) Fault(route, code string) {
	m.faults.WithLabelValues(route, m.code(label(code))).Inc()
}

func (m *Metrics) code(code string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.codes[code]; known {
		return code
	}
	if len(m.codes) >= maxOperations {
		return other
	}
	m.codes[code] = struct{}{}
	return code
}

// Attempt counts one try at a node.
func (m *Metrics) Attempt(route, result string) {
	k := attemptKey{route, result}
	c, ok := m.count.get(k)
	if !ok {
		c = m.attempts.WithLabelValues(route, result)
		m.count.put(k, c)
	}
	c.Inc()
}

// Shadow counts a copy of a message for a shadow backend.
func (m *Metrics) Shadow(route, result string) { m.shadows.WithLabelValues(route, result).Inc() }

// Scanned counts octets that went through the codec.
func (m *Metrics) Scanned(n int64) {
	if n > 0 {
		m.codec.Add(float64(n))
	}
}

// NormalizeSkipped counts a message that went on as it was, for its signature.
func (m *Metrics) NormalizeSkipped(route string) { m.skipped.WithLabelValues(route).Inc() }

// label makes a word from a message fit to be a label value: UTF-8, which the
// exposition format demands, and short. Words that are both, which is all of
// them in practice, are returned as they are.
func label(s string) string {
	if len(s) > maxLabel {
		cut := maxLabel
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	if !utf8.ValidString(s) {
		return other
	}
	return s
}
