package telemetry

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// registry has all that a scrape tells. The figures of the gateway are its own parts,
// which package prometheus would gather in five times the time: it makes several
// objects for each bucket, sends each series through a channel and compares it with
// all others. Those of the Go runtime and of the process come from there.
type registry struct {
	foreign prometheus.Gatherer

	mu       sync.Mutex
	parts    []part    // guarded by mu, and replaced as a whole
	families []*family // by name; guarded by mu, and replaced as a whole
}

// A part has some families.
type part interface {
	// collect adds all series of each of its families, by the values of their labels.
	collect(g *gathering)
}

// gathering is what one scrape tells of the parts.
type gathering struct {
	points [][]point // by family.at
}

// point is what a scrape tells of a series.
type point struct {
	at   values
	text []byte // the labels as in a sample, nil if they are still to be made of at
	v    float64
	from *series // that is counted
}

// put adds a series that was looked up.
func (g *gathering) put(f *family, v float64, at ...string) {
	p := point{v: v}
	copy(p.at[:], at)
	g.points[f.at] = append(g.points[f.at], p)
}

// add adds a part with its families, whose names are new.
func (r *registry) add(p part, of ...*family) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, f := range of {
		f.at = len(r.families) + i
	}
	r.parts = append(slices.Clip(r.parts), p)
	r.families = slices.SortedFunc(slices.Values(slices.Concat(r.families, of)), func(a, b *family) int { return cmp.Compare(a.name, b.name) })
}

// count adds vectors.
func (r *registry) count(list ...*vector) {
	for _, v := range list {
		r.add(v, v.family)
	}
}

// counter adds a counter without labels, which is told from the start.
func (r *registry) counter(name, help string) *series {
	v := counters(name, help)
	r.count(v)
	return v.of(values{})
}

// lookup adds families whose series are asked for at each scrape.
func (r *registry) lookup(look func(put putter), of ...*family) { r.add(&lookups{of, look}, of...) }

// gather asks all parts, and returns their families by name.
func (r *registry) gather(g *gathering) []*family {
	r.mu.Lock()
	parts, families := r.parts, r.families
	r.mu.Unlock()
	for i := range g.points {
		g.points[i] = g.points[i][:0]
	}
	for len(g.points) < len(families) {
		g.points = append(g.points, nil)
	}
	for _, p := range parts {
		p.collect(g)
	}
	return families
}

var _ prometheus.Gatherer = (*registry)(nil)

// Gather implements [prometheus.Gatherer], for the formats that are not text.
func (r *registry) Gather() ([]*dto.MetricFamily, error) {
	return prometheus.Gatherers{r.foreign, prometheus.GathererFunc(r.messages)}.Gather()
}

func (r *registry) messages() (out []*dto.MetricFamily, err error) {
	var g gathering
	for _, f := range r.gather(&g) {
		if points := g.points[f.at]; len(points) > 0 {
			m := &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind}
			for i := range points {
				m.Metric = append(m.Metric, f.message(&points[i]))
			}
			out = append(out, m)
		}
	}
	return out, nil
}

// message makes what package prometheus would have made of a series.
func (f *family) message(p *point) *dto.Metric {
	m := new(dto.Metric)
	for i := range f.labels {
		m.Label = append(m.Label, &dto.LabelPair{Name: &f.labels[i], Value: &p.at[i]})
	}
	switch f.kind {
	case dto.MetricType_COUNTER:
		m.Counter = &dto.Counter{Value: &p.v, CreatedTimestamp: p.from.created()}
	case dto.MetricType_HISTOGRAM:
		m.Histogram = p.from.message()
		m.Histogram.CreatedTimestamp = p.from.created()
	default:
		m.Gauge = &dto.Gauge{Value: &p.v}
	}
	return m
}

// created is when counting began, nil where that is not known: of what is looked up.
func (s *series) created() *timestamppb.Timestamp {
	if s == nil {
		return nil
	}
	return timestamppb.New(s.made)
}

func (h *histogram) message() *dto.Histogram {
	m := new(dto.Histogram)
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
		b := &dto.Bucket{CumulativeCount: new(n), UpperBound: new(math.Inf(1))}
		if i < len(h.bounds) {
			b.UpperBound = &h.bounds[i]
		}
		if e := h.traces[i].Load(); e != nil {
			b.Exemplar = &dto.Exemplar{
				Label: []*dto.LabelPair{{Name: new(traceLabel), Value: &e.trace}}, Value: &e.value, Timestamp: timestamppb.New(e.at),
			}
		}
		if i < len(h.bounds) || b.Exemplar != nil { // else that of +Inf goes without saying
			m.Bucket = append(m.Bucket, b)
		}
	}
	m.SampleCount, m.SampleSum = &n, new(math.Float64frombits(h.sum.Load()))
	return m
}

// traceLabel is the label of an exemplar.
const traceLabel = "trace_id"
