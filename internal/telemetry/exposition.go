package telemetry

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// scraper answers scrapes in the text formats of Prometheus (0.0.4) and OpenMetrics
// (1.0), and leaves others to package promhttp. It writes what expfmt would, octet
// for octet (TestExposition). Measure, beside those two in one run:
//
//	go test ./internal/telemetry -run '^$' -bench Scrape -cpu 1
type scraper struct {
	from  *registry
	other http.Handler
	busy  chan struct{} // holds one for each scrape under way
	pool  sync.Pool     // of *exposition
}

// maxScrapes is how many scrapes are answered at a time.
const maxScrapes = 4

func newScraper(r *registry) *scraper {
	return &scraper{
		from: r, busy: make(chan struct{}, maxScrapes),
		other: promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true}),
		pool:  sync.Pool{New: func() any { return new(exposition) }},
	}
}

// ServeHTTP implements [http.Handler].
func (s *scraper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	open := format.FormatType() == expfmt.TypeOpenMetrics
	if !open && format.FormatType() != expfmt.TypeTextPlain {
		s.other.ServeHTTP(w, r)
		return
	}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		http.Error(w, "too many scrapes at a time", http.StatusServiceUnavailable)
		return
	}
	foreign, err := s.from.foreign.Gather()
	if err != nil && len(foreign) == 0 {
		http.Error(w, "the metrics cannot be gathered", http.StatusInternalServerError)
		return
	}
	x := s.pool.Get().(*exposition)
	defer s.pool.Put(x)
	x.b, x.open = x.b[:0], open
	x.all(s.from.gather(&x.gathering), foreign)
	w.Header().Set("Content-Type", string(format))
	w.Header().Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(x.b)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	if x.zip == nil {
		x.zip, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	}
	x.zip.Reset(w)
	_, _ = x.zip.Write(x.b) // a scraper that has left needs none
	_ = x.zip.Close()
}

// exposition is a scrape that is being written.
type exposition struct {
	gathering

	b      []byte
	open   bool   // as OpenMetrics
	labels []byte // of the series that is being written
	made   []byte // memory of labels
	more   []byte // memory of one more label
	zip    *gzip.Writer
}

// all writes the families of the gateway, which were gathered, and those of others,
// both by their names.
func (x *exposition) all(own []*family, foreign []*dto.MetricFamily) {
	for len(own) > 0 || len(foreign) > 0 {
		if len(own) == 0 || len(foreign) > 0 && foreign[0].GetName() < own[0].name {
			x.foreign(foreign[0])
			foreign = foreign[1:]
			continue
		}
		x.own(own[0], x.points[own[0].at])
		own = own[1:]
	}
	if x.open {
		x.b = append(x.b, "# EOF\n"...)
	}
}

var typeWords = map[dto.MetricType]string{
	dto.MetricType_COUNTER: "counter", dto.MetricType_GAUGE: "gauge", dto.MetricType_SUMMARY: "summary",
	dto.MetricType_HISTOGRAM: "histogram", dto.MetricType_UNTYPED: "untyped",
}

var helpEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

// head begins the metrics of a name. In OpenMetrics that of a counter is without
// its _total, one that has none is of no known type, and a quotation mark in a help
// text is escaped.
func (x *exposition) head(name string, help *string, kind dto.MetricType, unit string) {
	about, word := name, typeWords[kind]
	if x.open {
		if kind == dto.MetricType_COUNTER {
			about = strings.TrimSuffix(name, "_total")
		}
		if kind == dto.MetricType_UNTYPED || kind == dto.MetricType_COUNTER && about == name {
			word = "unknown"
		}
	}
	if help != nil {
		text := helpEscaper.Replace(*help)
		if x.open {
			text = strings.ReplaceAll(text, `"`, `\"`)
		}
		x.line("# HELP ", about, text)
	}
	x.line("# TYPE ", about, word)
	if x.open && unit != "" {
		x.line("# UNIT ", about, unit)
	}
}

func (x *exposition) line(what, name, text string) {
	x.b = append(append(append(append(append(x.b, what...), name...), ' '), text...), '\n')
}

// own writes a family of the gateway; one that has no series is not there.
func (x *exposition) own(f *family, points []point) {
	if len(points) == 0 {
		return
	}
	x.head(f.name, &f.help, f.kind, "")
	for i := range points {
		p := &points[i]
		if x.labels = p.text; x.labels == nil {
			x.made = f.text(x.made[:0], &p.at)
			x.labels = x.made
		}
		if f.kind == dto.MetricType_HISTOGRAM {
			x.counted(f, p.from.histogram)
		} else {
			x.sample(f.name, "", p.v, nil)
		}
	}
}

// counted writes a histogram of the gateway.
func (x *exposition) counted(f *family, h *histogram) {
	le := f.le[0]
	if x.open {
		le = f.le[1]
	}
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
		x.begin(f.name, "_bucket", le[i])
		x.b = strconv.AppendUint(x.b, n, 10)
		if x.open {
			if e := h.traces[i].Load(); e != nil {
				x.b = append(append(append(x.b, " # {"+traceLabel+`="`...), e.trace...), `"} `...)
				x.b = x.number(x.b, e.value)
				x.b = x.number(append(x.b, ' '), float64(e.at.UnixNano())/1e9)
			}
		}
		x.b = append(x.b, '\n')
	}
	x.sample(f.name, "_sum", math.Float64frombits(h.sum.Load()), nil)
	x.count(f.name, "_count", n)
}

// foreign writes a family of another collector.
func (x *exposition) foreign(f *dto.MetricFamily) {
	name := f.GetName()
	x.head(name, f.Help, f.GetType(), f.GetUnit())
	for _, m := range f.GetMetric() {
		x.metric(name, f.GetType(), m)
	}
}

func (x *exposition) metric(name string, kind dto.MetricType, m *dto.Metric) {
	x.made = x.made[:0]
	for i, l := range m.GetLabel() {
		if i > 0 {
			x.made = append(x.made, ',')
		}
		x.made = append(append(x.made, l.GetName()...), `="`...)
		x.made = append(appendLabel(x.made, l.GetValue()), '"')
	}
	x.labels = x.made
	switch kind {
	case dto.MetricType_COUNTER:
		x.sample(name, "", m.GetCounter().GetValue(), m.GetCounter().GetExemplar())
	case dto.MetricType_GAUGE:
		x.sample(name, "", m.GetGauge().GetValue(), nil)
	case dto.MetricType_UNTYPED:
		x.sample(name, "", m.GetUntyped().GetValue(), nil)
	case dto.MetricType_SUMMARY:
		s := m.GetSummary()
		for _, q := range s.GetQuantile() {
			x.begin(name, "", x.bound("quantile", q.GetQuantile()))
			x.end(q.GetValue(), nil)
		}
		x.sample(name, "_sum", s.GetSampleSum(), nil)
		x.count(name, "_count", s.GetSampleCount())
	case dto.MetricType_HISTOGRAM:
		x.histogram(name, m.GetHistogram())
	}
}

func (x *exposition) histogram(name string, h *dto.Histogram) {
	last := math.Inf(-1)
	for _, b := range h.GetBucket() {
		last = b.GetUpperBound()
		x.bucket(name, last, b.GetCumulativeCount(), b.GetExemplar())
	}
	if !math.IsInf(last, 1) {
		x.bucket(name, math.Inf(1), h.GetSampleCount(), nil)
	}
	x.sample(name, "_sum", h.GetSampleSum(), nil)
	x.count(name, "_count", h.GetSampleCount())
}

func (x *exposition) bucket(name string, bound float64, n uint64, e *dto.Exemplar) {
	x.begin(name, "_bucket", x.bound("le", bound))
	x.b = strconv.AppendUint(x.b, n, 10)
	x.exemplar(e)
	x.b = append(x.b, '\n')
}

// bound is the one label of a sample whose value is a number.
func (x *exposition) bound(name string, v float64) string {
	x.more = append(append(x.more[:0], name...), `="`...)
	x.more = append(x.number(x.more, v), '"')
	return string(x.more)
}

func (x *exposition) sample(name, suffix string, v float64, e *dto.Exemplar) {
	x.begin(name, suffix, "")
	x.end(v, e)
}

func (x *exposition) count(name, suffix string, n uint64) {
	x.begin(name, suffix, "")
	x.b = append(strconv.AppendUint(x.b, n, 10), '\n')
}

// begin writes a sample up to its value; more is one more label, "" for none.
func (x *exposition) begin(name, suffix, more string) {
	x.b = append(append(x.b, name...), suffix...)
	if len(x.labels) > 0 || more != "" {
		x.b = append(append(x.b, '{'), x.labels...)
		if len(x.labels) > 0 && more != "" {
			x.b = append(x.b, ',')
		}
		x.b = append(append(x.b, more...), '}')
	}
	x.b = append(x.b, ' ')
}

func (x *exposition) end(v float64, e *dto.Exemplar) {
	x.b = x.number(x.b, v)
	x.exemplar(e)
	x.b = append(x.b, '\n')
}

// exemplar writes one, which only OpenMetrics has.
func (x *exposition) exemplar(e *dto.Exemplar) {
	if e == nil || !x.open {
		return
	}
	x.b = append(x.b, " # {"...)
	for i, l := range e.GetLabel() {
		if i > 0 {
			x.b = append(x.b, ',')
		}
		x.b = append(append(x.b, l.GetName()...), `="`...)
		x.b = append(appendLabel(x.b, l.GetValue()), '"')
	}
	x.b = x.number(append(x.b, "} "...), e.GetValue())
	if t := e.GetTimestamp(); t != nil {
		x.b = x.number(append(x.b, ' '), float64(t.AsTime().UnixNano())/1e9)
	}
}

// number appends a value; OpenMetrics tells floats from whole numbers.
func (x *exposition) number(dst []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(dst, "+Inf"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e6: // most are, and none has an exponent
		dst = strconv.AppendInt(dst, int64(v), 10)
		if x.open {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	if x.open && !bytes.ContainsAny(dst[start:], ".eNI") {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendLabel appends the value of a label as it stands between quotes.
func appendLabel(dst []byte, v string) []byte {
	for i := range len(v) {
		switch c := v[i]; c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
