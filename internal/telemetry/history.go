package telemetry

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"soapway/proxy"
)

const (
	// historyStep is the length of a point of [History.Points], and historyPoints
	// how many an hour has.
	historyStep   = 10 * time.Second
	historyPoints = 360
	// routeStep and routePoints are those of what is kept of one route.
	routeStep   = time.Minute
	routePoints = 60

	// Times are counted in four classes for each doubling, from 64 µs to 134 s: a
	// quantile is right within an eighth.
	timeClasses = 2 + 4*(longestBit-shortestBit)
	shortestBit = 6
	longestBit  = 27
)

// Counts are numbers of messages.
type Counts struct {
	Requests  uint64 `json:"requests"`  // answered
	Failed    uint64 `json:"failed"`    // of these: the backend or the gateway failed, or was too busy
	Faults    uint64 `json:"faults"`    // of these: with a fault of the backend
	Refused   uint64 `json:"refused"`   // of these: refused for what they were
	Delivered uint64 `json:"delivered"` // stored messages delivered
	Died      uint64 `json:"died"`      // stored messages that became dead letters
}

// A Point is what a step of the last hour was like.
type Point struct {
	Counts
	P50 time.Duration // half of the requests took at most so long
	P99 time.Duration
}

// A History remembers the last hour, for people who look at the gateway and have
// no monitoring at hand: 10 s for 10 s for all routes, minute for minute for each.
// It is safe for concurrent use, and counting takes no lock but for the first
// message of a step. It forgets what is older, and all of it at a stop.
type History struct {
	all   *recent
	total tally

	routes atomic.Pointer[map[string]*recent] // replaced when a route is new
	adding sync.Mutex                         // held to replace it
}

// NewHistory returns an empty one.
func NewHistory() *History {
	h := &History{all: newRecent(historyStep, historyPoints)}
	h.routes.Store(&map[string]*recent{})
	return h
}

var _ proxy.Observer = (*History)(nil)

// ObserveExchange implements [proxy.Observer]. Hot path: must not allocate
// (TestHistoryAllocs).
func (h *History) ObserveExchange(e proxy.ExchangeEvent) {
	class := classOf(e.Outcome)
	took := timeClass(e.Duration)
	h.total.count(class)
	now := time.Now()
	for _, r := range [2]*recent{h.all, h.route(e.Route)} {
		s := r.at(now)
		s.count(class)
		s.times[took].Add(1)
	}
}

// ObserveAttempt implements [proxy.Observer].
func (*History) ObserveAttempt(proxy.AttemptEvent) {}

// ObserveShadow implements [proxy.Observer].
func (*History) ObserveShadow(proxy.ShadowEvent) {}

// Delivered counts a stored message that was delivered.
func (h *History) Delivered(route string) { h.note(route, delivered) }

// Died counts a dead letter.
func (h *History) Died(route string) { h.note(route, died) }

func (h *History) note(route string, class int) {
	h.total[class].Add(1)
	now := time.Now()
	h.all.at(now).tally[class].Add(1)
	h.route(route).at(now).tally[class].Add(1)
}

func (h *History) route(name string) *recent {
	if r := (*h.routes.Load())[name]; r != nil {
		return r
	}
	h.adding.Lock()
	defer h.adding.Unlock()
	known := *h.routes.Load()
	if r := known[name]; r != nil {
		return r
	}
	more := maps.Clone(known)
	more[name] = newRecent(routeStep, routePoints)
	h.routes.Store(&more)
	return more[name]
}

// Total counts since the start.
func (h *History) Total() Counts { return h.total.counts() }

// Points returns the steps of the last hour, the oldest first and the one under
// way last, and how long one is.
func (h *History) Points() (points []Point, step time.Duration) {
	now := time.Now()
	points = make([]Point, historyPoints)
	for i := range points {
		points[i] = h.all.point(now, historyPoints-1-i, 1)
	}
	return points, historyStep
}

// Whole sums up the last hour of all routes.
func (h *History) Whole() Point { return h.all.point(time.Now(), historyPoints-1, historyPoints) }

// Hour sums up the last hour of a route.
func (h *History) Hour(route string) Point {
	r := (*h.routes.Load())[route]
	if r == nil {
		return Point{}
	}
	return r.point(time.Now(), routePoints-1, routePoints)
}

// The classes of a tally.
const (
	requests = iota
	failed
	faults
	refused
	delivered
	died
	classes
)

// classOf is what an outcome counts as beside a request, or requests for nothing.
func classOf(o proxy.Outcome) int {
	switch o {
	case proxy.OutcomeFailed, proxy.OutcomeBusy, proxy.OutcomeUnknown, proxy.OutcomeInternal:
		return failed
	case proxy.OutcomeFault:
		return faults
	case proxy.OutcomeRejected:
		return refused
	}
	return requests
}

// tally counts by class.
type tally [classes]atomic.Uint64

func (t *tally) count(class int) {
	t[requests].Add(1)
	if class != requests {
		t[class].Add(1)
	}
}

func (t *tally) counts() Counts {
	return Counts{
		Requests: t[requests].Load(), Failed: t[failed].Load(), Faults: t[faults].Load(),
		Refused: t[refused].Load(), Delivered: t[delivered].Load(), Died: t[died].Load(),
	}
}

// recent is a ring of steps.
type recent struct {
	step  time.Duration
	mu    sync.Mutex // held to begin a step
	steps []timed
}

// timed is one step.
type timed struct {
	tally
	when  atomic.Int64 // its number since the epoch; what it counts is of that step
	times [timeClasses]atomic.Uint32
}

func newRecent(step time.Duration, n int) *recent {
	return &recent{step: step, steps: make([]timed, n)}
}

func (r *recent) number(now time.Time) int64 { return now.UnixNano() / int64(r.step) }

// at is the step that now lies in. A message that meets the very change of steps
// an hour later may be lost to both.
func (r *recent) at(now time.Time) *timed {
	n := r.number(now)
	s := &r.steps[n%int64(len(r.steps))]
	if s.when.Load() == n {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.when.Load() != n {
		for i := range s.tally {
			s.tally[i].Store(0)
		}
		for i := range s.times {
			s.times[i].Store(0)
		}
		s.when.Store(n)
	}
	return s
}

// point sums up n steps, of which the first began ago steps before the present one.
func (r *recent) point(now time.Time, ago, n int) (p Point) {
	var times [timeClasses]uint64
	first := r.number(now) - int64(ago)
	for i := range int64(n) {
		s := &r.steps[(first+i)%int64(len(r.steps))]
		if s.when.Load() != first+i {
			continue
		}
		c := s.counts()
		p.Requests += c.Requests
		p.Failed += c.Failed
		p.Faults += c.Faults
		p.Refused += c.Refused
		p.Delivered += c.Delivered
		p.Died += c.Died
		for j := range s.times {
			times[j] += uint64(s.times[j].Load())
		}
	}
	p.P50, p.P99 = quantile(&times, 0.5), quantile(&times, 0.99)
	return p
}

// timeClass is the class that counts a time.
func timeClass(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	bit := bits.Len64(us) - 1 // of its highest
	switch {
	case bit < shortestBit:
		return 0
	case bit >= longestBit:
		return timeClasses - 1
	}
	return 1 + 4*(bit-shortestBit) + int(us>>(bit-2)&3)
}

// classEnd is the end of a class.
func classEnd(c int) time.Duration {
	if c == 0 {
		return time.Microsecond << shortestBit
	}
	c = min(c, timeClasses-2) - 1
	return time.Duration(5+c%4) * (time.Microsecond << (shortestBit + c/4 - 2))
}

// quantile is the time within which a part of all that was counted has ended, 0 if
// nothing was.
func quantile(times *[timeClasses]uint64, part float64) time.Duration {
	n := uint64(0)
	for _, c := range times {
		n += c
	}
	if n == 0 {
		return 0
	}
	rank, seen := uint64(part*float64(n-1))+1, uint64(0)
	for i, c := range times {
		if seen += c; seen >= rank {
			end := classEnd(i)
			if i == 0 || i == timeClasses-1 {
				return end
			}
			start := classEnd(i - 1)
			return start + (end-start)*time.Duration(rank-(seen-c))/time.Duration(c+1)
		}
	}
	return classEnd(timeClasses - 1)
}
