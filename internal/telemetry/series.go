package telemetry

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// values are those of the labels of a family, in the order of its labels; the places
// beyond are "".
type values [3]string

func (v *values) compare(w *values) int {
	return cmp.Or(cmp.Compare(v[0], w[0]), cmp.Compare(v[1], w[1]), cmp.Compare(v[2], w[2]))
}

// A family is what all series of one name have in common.
type family struct {
	name, help string
	kind       dto.MetricType
	labels     []string  // in alphabetic order, as a scrape has them
	bounds     []float64 // of the buckets of a histogram, ascending, without +Inf
	at         int       // its place in a gathering, see registry.add

	// le are the bounds and +Inf as the labels of their buckets: in the format of
	// Prometheus, and in that of OpenMetrics.
	le [2][]string
}

func newFamily(kind dto.MetricType, name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: kind, labels: labels}
}

func gauges(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_GAUGE, name, help, labels...)
}

// A vector is a family whose series are counted. They are found without a lock and
// without an allocation (TestAllocs), and never go away.
type vector struct {
	*family
	series known[values, *series]
	sorted atomic.Pointer[[]*series] // as of some scrape: there may be more by now
}

var _ part = (*vector)(nil)

// series is a counter or a histogram.
type series struct {
	at   values
	text []byte    // the labels, as between the braces of a sample
	made time.Time // when counting began
	n    atomic.Uint64
	*histogram
}

// histogram counts observations. A scrape adds the buckets up, so that the count of
// all is always their sum; the sum of what was observed may be that of a moment later.
type histogram struct {
	bounds []float64
	counts []atomic.Uint64 // of each bucket alone, the last is that of +Inf
	sum    atomic.Uint64   // the bits of a float64
	traces []atomic.Pointer[exemplar]
}

// exemplar is the latest exchange in a bucket that was traced.
type exemplar struct {
	trace string
	value float64
	at    time.Time
}

func counters(name, help string, labels ...string) *vector {
	return &vector{family: newFamily(dto.MetricType_COUNTER, name, help, labels...)}
}

func histograms(name, help string, bounds []float64, labels ...string) *vector {
	f := newFamily(dto.MetricType_HISTOGRAM, name, help, labels...)
	f.bounds = bounds
	for i, open := range []bool{false, true} {
		x := exposition{open: open}
		for _, b := range append(slices.Clone(bounds), math.Inf(1)) {
			f.le[i] = append(f.le[i], string(append(x.number([]byte(`le="`), b), '"')))
		}
	}
	return &vector{family: f}
}

// of returns the series with the values of the labels, from now on also in scrapes.
func (v *vector) of(at values) *series {
	if s, ok := v.series.get(at); ok {
		return s
	}
	return v.series.add(at, func() *series {
		s := &series{at: at, text: v.text(nil, &at), made: time.Now()}
		if v.bounds != nil {
			n := len(v.bounds) + 1
			s.histogram = &histogram{bounds: v.bounds, counts: make([]atomic.Uint64, n), traces: make([]atomic.Pointer[exemplar], n)}
		}
		return s
	})
}

// text appends labels as they stand between the braces of a sample.
func (f *family) text(dst []byte, at *values) []byte {
	for i, name := range f.labels {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name...), `="`...)
		dst = append(appendLabel(dst, at[i]), '"')
	}
	return dst
}

// add counts n more.
func (s *series) add(n uint64) { s.n.Add(n) }

// observe adds an observation, and returns the number of its bucket.
func (h *histogram) observe(v float64) (bucket int) {
	for bucket < len(h.bounds) && v > h.bounds[bucket] {
		bucket++
	}
	h.counts[bucket].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return bucket
		}
	}
}

// collect implements part.
func (v *vector) collect(g *gathering) {
	for _, s := range v.list() {
		g.points[v.at] = append(g.points[v.at], point{at: s.at, text: s.text, v: float64(s.n.Load()), from: s})
	}
}

// list returns the series by the values of their labels.
func (v *vector) list() []*series {
	all := v.series.all()
	if sorted := v.sorted.Load(); sorted != nil && len(*sorted) == len(all) {
		return *sorted
	}
	list := make([]*series, 0, len(all))
	for _, s := range all {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *series) int { return a.at.compare(&b.at) })
	v.sorted.Store(&list)
	return list
}

// lookups are families whose series are asked for at each scrape.
type lookups struct {
	of   []*family
	look func(put putter)
}

// putter tells the value of a series of f, by the values of its labels.
type putter = func(f *family, v float64, at ...string)

var _ part = (*lookups)(nil)

// collect implements part. Of two series with the same labels the first counts.
func (l *lookups) collect(g *gathering) {
	l.look(g.put)
	for _, f := range l.of {
		p := g.points[f.at]
		slices.SortStableFunc(p, func(a, b point) int { return a.at.compare(&b.at) })
		g.points[f.at] = slices.CompactFunc(p, func(a, b point) bool { return a.at == b.at })
	}
}

// truth is 1 for true and 0 for false.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
