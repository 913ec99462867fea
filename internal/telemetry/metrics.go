package telemetry

import (
	"net/http"
	"sync"
	"sync/atomic"
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
	registry *registry
	requests *vector // by operation, outcome, route
	duration *vector // by operation, route
	faults   *vector // by code, route
	attempts *vector // by result, route
	shadows  *vector // by result, route
	codec    *series
	skipped  *vector // by route
	queue    *queueMetrics
	refused  atomic.Bool // the last reload

	// The series of an exchange, by what the message calls its operation: few of
	// these have a label of their own.
	exchanges known[exchangeKey, exchangeSeries]

	mu         sync.Mutex
	operations map[string]map[string]struct{} // route -> operations named so far; guarded by mu
	codes      map[string]struct{}            // fault codes named so far; guarded by mu
}

type exchangeKey struct{ route, operation, outcome string }

type exchangeSeries struct{ total, duration *series }

// NewMetrics returns a registry with the metrics of the gateway, of the Go
// runtime and of the process.
func NewMetrics() *Metrics {
	foreign := prometheus.NewRegistry()
	foreign.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{
		registry: &registry{foreign: foreign},
		requests: counters("gateway_requests_total",
			"Requests answered, by route, operation and outcome.", "operation", "outcome", "route"),
		duration: histograms("gateway_request_duration_seconds",
			"Time from the first octet of a request to the last of its answer.", durations, "operation", "route"),
		faults: counters("gateway_faults_total",
			"Faults and refusals that the gateway made itself, by route and code.", "code", "route"),
		attempts: counters("gateway_attempts_total",
			"Tries at backend nodes, by route and result.", "result", "route"),
		shadows: counters("gateway_shadow_total",
			"Copies of messages for shadow backends, by route and result.", "result", "route"),
		skipped: counters("gateway_normalize_skipped_total",
			"Messages that were not normalized because that could have broken a signature, by route.", "route"),
		operations: map[string]map[string]struct{}{},
		codes:      map[string]struct{}{},
	}
	m.registry.count(m.requests, m.duration, m.faults, m.attempts, m.shadows, m.skipped)
	m.codec = m.registry.counter("gateway_codec_bytes_total", "Octets of XML checked.")
	reload := gauges("gateway_config_reload_ok",
		"1 if the configuration as it stands on disk is the one in use, 0 if the last reload was refused.")
	m.registry.lookup(func(put putter) { put(reload, truth(!m.refused.Load())) }, reload)
	m.queue = newQueueMetrics(m.registry)
	return m
}

// Handler serves the metrics in the format that the scraper asks for.
func (m *Metrics) Handler() http.Handler { return newScraper(m.registry) }

// Reloaded tells whether the last reload of the configuration was taken.
func (m *Metrics) Reloaded(ok bool) { m.refused.Store(!ok) }

// Request counts an answered request. The operation is "" where none is known.
func (m *Metrics) Request(route, operation, outcome string, took time.Duration) {
	s := m.seriesOf(route, operation, outcome)
	s.total.add(1)
	s.duration.observe(took.Seconds())
}

// traced is Request for one that is traced, which becomes the exemplar of its bucket.
func (m *Metrics) traced(route, operation, outcome string, took time.Duration, trace string) {
	s := m.seriesOf(route, operation, outcome)
	s.total.add(1)
	v := took.Seconds()
	s.duration.traces[s.duration.observe(v)].Store(&exemplar{trace, v, time.Now()})
}

// seriesOf finds the series of an exchange or makes them.
func (m *Metrics) seriesOf(route, operation, outcome string) exchangeSeries {
	k := exchangeKey{route, label(operation), outcome}
	if s, ok := m.exchanges.get(k); ok {
		return s
	}
	k.operation = m.operation(route, k.operation)
	if s, ok := m.exchanges.get(k); ok {
		return s
	}
	return m.exchanges.add(k, func() exchangeSeries {
		return exchangeSeries{
			total:    m.requests.of(values{k.operation, k.outcome, k.route}),
			duration: m.duration.of(values{k.operation, k.route}),
		}
	})
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
func (m *Metrics) Fault(route, code string) { m.faults.of(values{m.code(label(code)), route}).add(1) }

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
func (m *Metrics) Attempt(route, result string) { m.attempts.of(values{result, route}).add(1) }

// Shadow counts a copy of a message for a shadow backend.
func (m *Metrics) Shadow(route, result string) { m.shadows.of(values{result, route}).add(1) }

// Scanned counts octets that went through the codec.
func (m *Metrics) Scanned(n int64) {
	if n > 0 {
		m.codec.add(uint64(n))
	}
}

// NormalizeSkipped counts a message that went on as it was, for its signature.
func (m *Metrics) NormalizeSkipped(route string) { m.skipped.of(values{route}).add(1) }

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
