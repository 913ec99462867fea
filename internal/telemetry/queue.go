package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The bounds of the histograms of stored messages: a delivery takes some
// milliseconds where the backend is up, and days where it is not; a sync of a
// disk some 100 µs, or seconds where others write too.
var (
	latencies  = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21600, 86400, 432000}
	syncTimes  = []float64{0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5}
	groupSizes = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// QueueSample is what a scrape tells of the stored messages of one route.
type QueueSample struct {
	Route                             string
	Backend                           string // "" where the route is gone
	Pending, Retrying, Dead, Orphaned int
	Oldest                            time.Time // acceptance of the oldest one that waits; zero if none does
	Down                              bool      // the backend
	Held                              string    // why it gets no attempts, see BackendSample
	Stopped                           int       // order keys that stand still for a dead letter
	IDs                               int       // messages of which repeats are noticed
}

// LinkSample is what a scrape tells of the messages that wait for another site.
type LinkSample struct {
	Link    string // the name of the site
	Waiting int
	Oldest  time.Time // acceptance of the oldest; zero if none waits
}

// QueueSource is asked at every scrape.
type QueueSource struct {
	// Queues lists the routes that store or have stored messages.
	Queues func() []QueueSample
	// Links lists the links to other sites. Nil is none.
	Links func() []LinkSample
	// DiskFree is the room on the filesystem of the store.
	DiskFree func() (octets int64, ok bool)
}

// queueMetrics are the figures of stored messages that are counted; those that
// are looked up stand in queueCollector.
type queueMetrics struct {
	latency *prometheus.HistogramVec
	dead    *prometheus.CounterVec
	sync    prometheus.Histogram
	group   prometheus.Histogram
	errors  prometheus.Counter
	gaps    prometheus.Counter
	clock   *prometheus.CounterVec
}

func newQueueMetrics() *queueMetrics {
	return &queueMetrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_delivery_latency_seconds",
			Help:    "Time from the acceptance of a stored message to its delivery.",
			Buckets: latencies,
		}, []string{"route"}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_dead_letters_total",
			Help: "Stored messages that became dead letters, by route and reason.",
		}, []string{"route", "reason"}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "gateway_store_sync_seconds",
			Help:    "Time of one sync of the store's disk.",
			Buckets: syncTimes,
		}),
		group: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "gateway_store_group_messages",
			Help:    "Messages made durable by one sync.",
			Buckets: groupSizes,
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_store_errors_total",
			Help: "Errors after which the store is not trusted any more, and places in it that are damaged.",
		}),
		gaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_store_gaps_total",
			Help: "Gaps in the log of stored messages that nothing accounts for.",
		}),
		clock: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_clock_steps_total",
			Help: "Times that the wall clock was set by more than an hour, or was found so at a start.",
		}, []string{"direction"}),
	}
}

func (q *queueMetrics) register(r prometheus.Registerer) {
	for _, direction := range []string{"forward", "back"} {
		q.clock.WithLabelValues(direction) // from 0, so that the first step is an increase
	}
	r.MustRegister(q.latency, q.dead, q.sync, q.group, q.errors, q.gaps, q.clock)
}

// Delivered counts a stored message that was delivered, this long after its
// acceptance.
func (m *Metrics) Delivered(route string, after time.Duration) {
	m.queue.latency.WithLabelValues(route).Observe(after.Seconds())
}

// Died counts a dead letter.
func (m *Metrics) Died(route, reason string) { m.queue.dead.WithLabelValues(route, reason).Inc() }

// Synced counts a sync of the store that made messages durable.
func (m *Metrics) Synced(took time.Duration, messages int) {
	m.queue.sync.Observe(took.Seconds())
	if messages > 0 {
		m.queue.group.Observe(float64(messages))
	}
}

// StoreError counts an error after which the store is not trusted.
func (m *Metrics) StoreError(error) { m.queue.errors.Inc() }

// Damage counts a place of the store that is not as it was written.
func (m *Metrics) Damage(error) { m.queue.errors.Inc() }

// Gap counts a gap in the log, from one sequence number to another.
func (m *Metrics) Gap(_, _ uint64) { m.queue.gaps.Inc() }

// ClockSet counts a step of the wall clock.
func (m *Metrics) ClockSet(by time.Duration) {
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	m.queue.clock.WithLabelValues(direction).Inc()
}

// WatchQueue adds what is looked up in the store at every scrape. It may be
// called once, when there is a store.
func (m *Metrics) WatchQueue(s QueueSource) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(&queueCollector{
		source:   s,
		messages: describe("gateway_queue_messages", "Stored messages, by route and state.", "route", "state"),
		oldest:   describe("gateway_queue_oldest_age_seconds", "Age of the oldest stored message that waits.", "route"),
		stopped:  describe("gateway_queue_stopped_keys", "Order keys that stand still until an operator replays or drops their dead letter.", "route"),
		ids:      describe("gateway_dedup_ids", "Messages of which repeats are noticed.", "route"),
		lag:      describe("gateway_link_lag_messages", "Stored messages that wait for another site.", "link"),
		free:     describe("gateway_disk_free_bytes", "Room on the filesystem of the store."),
	})
}

type queueCollector struct {
	source                                    QueueSource
	messages, oldest, stopped, ids, lag, free *prometheus.Desc
}

var _ prometheus.Collector = (*queueCollector)(nil)

// Describe implements [prometheus.Collector].
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.messages, c.oldest, c.stopped, c.ids, c.lag, c.free} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, q := range c.source.Queues() {
		for _, s := range []struct {
			state string
			n     int
		}{{"pending", q.Pending}, {"retrying", q.Retrying}, {"dead", q.Dead}, {"orphaned", q.Orphaned}} {
			gauge(c.messages, float64(s.n), q.Route, s.state)
		}
		age := 0.0
		if !q.Oldest.IsZero() {
			age = max(0, time.Since(q.Oldest).Seconds())
		}
		gauge(c.oldest, age, q.Route)
		gauge(c.stopped, float64(q.Stopped), q.Route)
		gauge(c.ids, float64(q.IDs), q.Route)
	}
	if c.source.Links != nil {
		for _, l := range c.source.Links() {
			gauge(c.lag, float64(l.Waiting), l.Link)
		}
	}
	if n, ok := c.source.DiskFree(); ok {
		gauge(c.free, float64(n))
	}
}
