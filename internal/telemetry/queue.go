package telemetry

import "time"

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
	Awaiting                          int       // messages that other sites have taken and are to answer
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

// queueMetrics are the figures of stored messages that are counted; the others are
// looked up, see WatchQueue.
type queueMetrics struct {
	latency *vector // by route
	dead    *vector // by reason, route
	clock   *vector // by direction
	sync    *series
	group   *series
	errors  *series
	gaps    *series
}

func newQueueMetrics(r *registry) *queueMetrics {
	syncs := histograms("gateway_store_sync_seconds", "Time of one sync of the store's disk.", syncTimes)
	groups := histograms("gateway_store_group_messages", "Messages made durable by one sync.", groupSizes)
	q := &queueMetrics{
		latency: histograms("gateway_delivery_latency_seconds",
			"Time from the acceptance of a stored message to its delivery.", latencies, "route"),
		dead: counters("gateway_dead_letters_total",
			"Stored messages that became dead letters, by route and reason.", "reason", "route"),
		clock: counters("gateway_clock_steps_total",
			"Times that the wall clock was set by more than an hour, or was found so at a start.", "direction"),
		sync:  syncs.of(values{}),
		group: groups.of(values{}),
		errors: r.counter("gateway_store_errors_total",
			"Errors after which the store is not trusted any more, and places in it that are damaged."),
		gaps: r.counter("gateway_store_gaps_total", "Gaps in the log of stored messages that nothing accounts for."),
	}
	r.count(q.latency, q.dead, q.clock, syncs, groups)
	for _, direction := range []string{"forward", "back"} {
		q.clock.of(values{direction}) // from 0, so that the first step is an increase
	}
	return q
}

// Delivered counts a stored message that was delivered, this long after its
// acceptance.
func (m *Metrics) Delivered(route string, after time.Duration) {
	m.queue.latency.of(values{route}).observe(after.Seconds())
}

// Died counts a dead letter.
func (m *Metrics) Died(route, reason string) { m.queue.dead.of(values{reason, route}).add(1) }

// Synced counts a sync of the store that made messages durable.
func (m *Metrics) Synced(took time.Duration, messages int) {
	m.queue.sync.observe(took.Seconds())
	if messages > 0 {
		m.queue.group.observe(float64(messages))
	}
}

// StoreError counts an error after which the store is not trusted.
func (m *Metrics) StoreError(error) { m.queue.errors.add(1) }

// Damage counts a place of the store that is not as it was written.
func (m *Metrics) Damage(error) { m.queue.errors.add(1) }

// Gap counts a gap in the log, from one sequence number to another.
func (m *Metrics) Gap(_, _ uint64) { m.queue.gaps.add(1) }

// ClockSet counts a step of the wall clock.
func (m *Metrics) ClockSet(by time.Duration) {
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	m.queue.clock.of(values{direction}).add(1)
}

// WatchQueue adds what is looked up in the store at every scrape. It may be
// called once, when there is a store.
func (m *Metrics) WatchQueue(s QueueSource) {
	messages := gauges("gateway_queue_messages", "Stored messages, by route and state.", "route", "state")
	oldest := gauges("gateway_queue_oldest_age_seconds", "Age of the oldest stored message that waits.", "route")
	stopped := gauges("gateway_queue_stopped_keys", "Order keys that stand still until an operator replays or drops their dead letter.", "route")
	ids := gauges("gateway_dedup_ids", "Messages of which repeats are noticed.", "route")
	lag := gauges("gateway_link_lag_messages", "Stored messages that wait for another site.", "link")
	free := gauges("gateway_disk_free_bytes", "Room on the filesystem of the store.")
	m.registry.lookup(func(put putter) {
		for _, q := range s.Queues() {
			if q.Awaiting > 0 {
				put(messages, float64(q.Awaiting), q.Route, "awaiting")
			}
			put(messages, float64(q.Dead), q.Route, "dead")
			put(messages, float64(q.Orphaned), q.Route, "orphaned")
			put(messages, float64(q.Pending), q.Route, "pending")
			put(messages, float64(q.Retrying), q.Route, "retrying")
			age := 0.0
			if !q.Oldest.IsZero() {
				age = max(0, time.Since(q.Oldest).Seconds())
			}
			put(oldest, age, q.Route)
			put(stopped, float64(q.Stopped), q.Route)
			put(ids, float64(q.IDs), q.Route)
		}
		if s.Links != nil {
			for _, l := range s.Links() {
				put(lag, float64(l.Waiting), l.Link)
			}
		}
		if n, ok := s.DiskFree(); ok {
			put(free, float64(n))
		}
	}, messages, oldest, stopped, ids, lag, free)
}
