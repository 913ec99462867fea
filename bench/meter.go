package bench

import (
	"encoding/base64"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest time that a histogram can hold; what took longer is
// counted as this long.
const longest = time.Minute

// histogram returns one for times of 1 ns to [longest] with three digits:
// 221 KB.
func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(longest), 3)
}

// A Meter measures one run. A scenario calls [Meter.Start] when all is ready,
// records every operation through a [Shard], and calls [Meter.Stop] before it
// cleans up: only what is between the two is timed and charged.
type Meter struct {
	sampler Sampler
	servers []int        // processes of the server side
	others  func() []int // all processes of ours at the moment

	shards atomic.Pointer[[]*Shard]
	began  time.Time
	ended  time.Time
	before sample
	after  sample
	conns  int // callers, for Little's law; 0: the law has nothing to say

	mu       sync.Mutex
	score    *float64
	measures []Measure
	notes    []note
}

// note is a judgement that a scenario passes on a run by itself.
type note struct {
	verdict Verdict
	reason  string
}

// newMeter returns a Meter with a shard for each processor.
func newMeter(s Sampler, servers []int, others func() []int) *Meter {
	m := &Meter{sampler: s, servers: servers, others: others}
	m.Reset()
	return m
}

// Reset forgets all that was recorded and measured: for a run that tries several
// times and wants to be known by the last.
func (m *Meter) Reset() {
	shards := make([]*Shard, runtime.GOMAXPROCS(0))
	for i := range shards {
		shards[i] = newShard()
	}
	m.shards.Store(&shards)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.score, m.measures, m.notes, m.conns = nil, nil, nil, 0
}

// each are the places to record in. Progress reads them while a run resets.
func (m *Meter) each() []*Shard { return *m.shards.Load() }

// Start begins the timed part.
func (m *Meter) Start() {
	m.Sample()
	m.StartAt(time.Now())
}

// StartAt sets when the timed part begins, for goroutines that know the time
// before it has come. [Meter.Sample] is to be called at that time.
func (m *Meter) StartAt(at time.Time) {
	m.began = at
	for _, s := range m.each() {
		s.began = at
	}
}

// Sample looks at what both sides have used so far: what they use from here on
// is charged.
func (m *Meter) Sample() { m.before = m.sample() }

// Stop ends the timed part. Operations that are recorded after it count too:
// their replies came late.
func (m *Meter) Stop() { m.StopAt(time.Now()) }

// StopAt ends the timed part at a time that has just come.
func (m *Meter) StopAt(at time.Time) {
	m.ended = at
	m.after = m.sample()
}

// Began is when the timed part began.
func (m *Meter) Began() time.Time { return m.began }

// Callers says how many callers there were, for Little's law.
func (m *Meter) Callers(n int) { m.conns = n }

// Score sets the value of the run, in the unit of the test. Without it the value
// is the number of right replies per second.
func (m *Meter) Score(v float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.score = &v
}

// Measure adds a figure beside the score; unit as in [Measure].
func (m *Meter) Measure(name string, v float64, unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.measures = append(m.measures, Measure{Name: name, Value: v, Unit: unit})
}

// Judge passes a verdict on the run that only the scenario can know.
func (m *Meter) Judge(v Verdict, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, note{v, reason})
}

// Shard returns the i-th of the places to record in, of which there are few: a
// goroutine takes one by its own number.
func (m *Meter) Shard(i int) *Shard { return m.each()[i%len(m.each())] }

// counts returns what was recorded so far. It costs the recorders nothing.
func (m *Meter) counts() (ops, errors int64) {
	for _, s := range m.each() {
		ops += s.ops.Load()
		errors += s.errors.Load()
	}
	return ops, errors
}

// p99 is the largest of those of the shards so far, in µs: near enough to that of
// all, since callers are spread over them by their numbers.
func (m *Meter) p99() (us float64) {
	for _, s := range m.each() {
		s.mu.Lock()
		us = max(us, float64(s.latency.ValueAtPercentile(99))/1e3)
		s.mu.Unlock()
	}
	return us
}

// A Shard records operations. It may be shared by goroutines.
type Shard struct {
	began       time.Time // of the timed part
	ops, errors atomic.Int64

	mu      sync.Mutex
	latency *hdrhistogram.Histogram // of the right replies
	service *hdrhistogram.Histogram // open loop only
	lag     *hdrhistogram.Histogram // open loop only
	idle    time.Duration           // time of callers outside of right replies, for Little's law
	span    time.Duration           // time that callers were there, where they know it themselves
	perSec  []float64               // right replies by the second in which they came
	first   error                   // the first error
	due     int64
	sent    int64
}

func newShard() *Shard { return &Shard{latency: histogram()} }

// Done records a right reply, now, to a request of a closed loop that began then.
func (s *Shard) Done(began time.Time) {
	now := time.Now()
	took := now.Sub(began)
	s.mu.Lock()
	record(s.latency, took)
	s.second(now)
	s.mu.Unlock()
	s.ops.Add(1)
}

// Took records a right reply of a closed loop that took so long, whenever it came.
func (s *Shard) Took(took time.Duration) {
	s.mu.Lock()
	record(s.latency, took)
	s.mu.Unlock()
	s.ops.Add(1)
}

// Due records that n requests of an open loop had their time, sent or not.
func (s *Shard) Due(n int64) {
	s.mu.Lock()
	s.due += n
	s.mu.Unlock()
}

// Open is the life of one request of an open loop.
type Open struct {
	Due  time.Time // when it should have been sent
	Free time.Time // when the caller was free to send it: the end of the reply before
	Sent time.Time // when it was sent
	Done time.Time // when its reply was there
}

// Response is the time from due to reply, which is what a user sees.
func (o Open) Response() time.Duration { return o.Done.Sub(o.Due) }

// Service is the time from send to reply.
func (o Open) Service() time.Duration { return o.Done.Sub(o.Sent) }

// Lag is how late the request was sent by the sender's own fault: counted from
// when it was due and the caller was free. What the reply before took from it is
// the server's fault and part of the response.
func (o Open) Lag() time.Duration {
	from := o.Due
	if o.Free.After(from) {
		from = o.Free
	}
	return max(0, o.Sent.Sub(from))
}

// Sent records that a request of an open loop was sent.
func (s *Shard) Sent() {
	s.mu.Lock()
	s.sent++
	s.mu.Unlock()
}

// Idle adds time that a caller spent on nothing.
func (s *Shard) Idle(d time.Duration) {
	s.mu.Lock()
	s.idle += d
	s.mu.Unlock()
}

// Span adds time that a caller was there. Without it all were there from start to
// stop.
func (s *Shard) Span(d time.Duration) {
	s.mu.Lock()
	s.span += d
	s.mu.Unlock()
}

// DoneOpen records a right reply of an open loop.
func (s *Shard) DoneOpen(o Open) {
	s.mu.Lock()
	if s.service == nil {
		s.service, s.lag = histogram(), histogram()
	}
	record(s.latency, o.Response())
	record(s.service, o.Service())
	record(s.lag, o.Lag())
	s.second(o.Done)
	s.mu.Unlock()
	s.ops.Add(1)
}

// Fail records a request that got no reply, a fault or a wrong one, now. The time
// since it began is part of the caller's, not of the latencies.
func (s *Shard) Fail(err error, began time.Time) {
	took := time.Since(began)
	s.mu.Lock()
	if s.first == nil {
		s.first = err
	}
	s.idle += took
	s.mu.Unlock()
	s.errors.Add(1)
}

// second counts a reply in the second of the run in which it came.
func (s *Shard) second(at time.Time) {
	i := int(at.Sub(s.began) / time.Second)
	for len(s.perSec) <= i {
		s.perSec = append(s.perSec, 0)
	}
	if i >= 0 {
		s.perSec[i]++
	}
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	// A value that is too large is the only error, and there is none.
	_ = h.RecordValue(int64(min(max(d, 1), longest)))
}

// run makes a Run of what was recorded; all goroutines of the run have ended.
func (m *Meter) run() (Run, *hdrhistogram.Histogram) {
	all := m.merge()
	r := Run{
		Seconds: m.ended.Sub(m.began).Seconds(),
		Latency: latencyOf(all.latency),
		Series:  m.series(all.perSec),
		Verdict: Valid,
	}
	r.Ops, r.Errors = m.counts()
	r.Scheduled, r.Sent = all.due, all.sent
	if all.first != nil {
		r.FirstError = clip(all.first.Error(), 300)
	}
	if r.Seconds > 0 {
		r.Rate = float64(r.Ops) / r.Seconds
	}
	r.Value = r.Rate
	if m.score != nil {
		r.Value = *m.score
	}
	if all.service != nil {
		service, lag := latencyOf(all.service), latencyOf(all.lag)
		r.Service, r.Lag = &service, &lag
	}
	if b, err := all.latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil && r.Ops > 0 {
		r.HDR = base64.StdEncoding.EncodeToString(b)
	}
	r.Little = m.little(&r, all)
	r.Measures = m.measures
	m.charge(&r)
	for _, n := range m.notes {
		r.judge(n.verdict, n.reason)
	}
	return r, all.latency
}

// little is the share of the callers' time that the rate and the mean times
// account for: N = X (R + Z). It takes R from the histogram, so that a latency
// which was not recorded, or wrongly, shows. nil: nothing to say.
func (m *Meter) little(r *Run, all *Shard) *float64 {
	there := all.span
	if there == 0 {
		there = time.Duration(m.conns) * m.ended.Sub(m.began)
	}
	if there <= 0 || r.Ops == 0 {
		return nil
	}
	service := all.latency
	if all.service != nil {
		service = all.service
	}
	busy := service.Mean() * float64(service.TotalCount())
	share := (busy + float64(all.idle)) / float64(there)
	return &share
}

// judge makes the verdict of a run worse, never better.
func (r *Run) judge(v Verdict, reason string) {
	r.Verdict = worse(r.Verdict, v)
	r.Reasons = append(r.Reasons, reason)
}

// merge returns the sum of the shards.
func (m *Meter) merge() *Shard {
	sum := newShard()
	for _, s := range m.each() {
		s.mu.Lock()
		sum.latency.Merge(s.latency)
		if s.service != nil {
			if sum.service == nil {
				sum.service, sum.lag = histogram(), histogram()
			}
			sum.service.Merge(s.service)
			sum.lag.Merge(s.lag)
		}
		sum.idle += s.idle
		sum.span += s.span
		for i, n := range s.perSec {
			for len(sum.perSec) <= i {
				sum.perSec = append(sum.perSec, 0)
			}
			sum.perSec[i] += n
		}
		if sum.first == nil {
			sum.first = s.first
		}
		sum.due += s.due
		sum.sent += s.sent
		s.mu.Unlock()
	}
	return sum
}

// series leaves out the last second, which is not a whole one.
func (m *Meter) series(perSec []float64) []float64 {
	whole := int(m.ended.Sub(m.began) / time.Second)
	return perSec[:min(len(perSec), whole)]
}

// latencyOf summarises a histogram of nanoseconds.
func latencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	q := h.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9})
	return Latency{
		Mean: h.Mean() / 1e3,
		P50:  us(q[0]), P90: us(q[1]), P99: us(q[2]), P999: us(q[3]),
		Max: us(h.Max()),
	}
}

// clip cuts text from outside to n octets.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
