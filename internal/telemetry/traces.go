package telemetry

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"soapway/proxy"
)

const (
	// traceQueue is how many finished spans wait for the collector, those that are on
	// their way to it included; more are lost.
	traceQueue = 8192
	traceBatch = 512
	traceDelay = time.Second
	// traceTimeout is how long one batch is tried, and how long a stop waits.
	traceTimeout = 10 * time.Second
)

// Tracer makes spans of exchanges and tries and sends them to a collector. Where a
// collector does not answer, spans are lost and nothing else happens.
//
// Places in traces are given out when something begins, and spans are made once it
// is over, so that an exchange that is not sampled costs a random number, and with
// no collector nothing at all. Make it with [NewTracer]; it is off until [Tracer.Set].
type Tracer struct {
	log     *slog.Logger
	version string
	lost    *series
	rand    func() uint64

	state atomic.Pointer[traceState] // nil = off

	mu      sync.Mutex
	closing sync.WaitGroup // providers that are being shut down
}

// traceState is what a reload replaces.
type traceState struct {
	to       string
	bound    uint64 // ids of which the last eight octets are below it are sampled
	out      *otlp
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

var _ proxy.Tracer = (*Tracer)(nil)

// NewTracer returns a tracer that is off. version is that of the gateway.
func NewTracer(version string, log *slog.Logger, m *Metrics) *Tracer {
	t := &Tracer{
		log: log, version: version, rand: rand.Uint64,
		lost: m.registry.counter("gateway_trace_spans_lost_total",
			"Spans that the collector of traces did not take, or was too slow for."),
	}
	return t
}

// Set sends spans to the collector at the URL to, of OTLP over HTTP, or to nobody
// if it is "". sample is the share of exchanges that are traced, 0 to 1, of those
// whose callers have not decided.
func (t *Tracer) Set(to string, sample float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.state.Load()
	switch {
	case to == "":
		t.state.Store(nil)
	case old != nil && old.to == to:
		s := *old
		s.bound = boundOf(sample)
		t.state.Store(&s)
		return
	default:
		t.state.Store(t.open(to, sample))
	}
	if old != nil {
		t.closing.Go(func() { shutTraces(context.Background(), old) })
	}
}

// boundOf is where ids end that are sampled. Every gateway decides alike on a trace.
func boundOf(sample float64) uint64 {
	if sample >= 1 {
		return math.MaxUint64
	}
	return uint64(sample * math.MaxUint64)
}

func (t *Tracer) open(to string, sample float64) *traceState {
	about := []attribute.KeyValue{attribute.String("service.name", "soapway")}
	if t.version != "" {
		about = append(about, attribute.String("service.version", t.version))
	}
	out := newOTLP(to, t.log, t.lost)
	provider := sdk.NewTracerProvider(
		sdk.WithResource(resource.NewSchemaless(about...)),
		sdk.WithSampler(sdk.AlwaysSample()), // who has no place has no span
		sdk.WithIDGenerator(placed{}),
		sdk.WithBatcher(out,
			sdk.WithMaxQueueSize(traceQueue), // it drops what finds no room and tells nobody: see otlp.enter sdk.WithMaxExportBatchSize(traceBatch),
			sdk.WithBatchTimeout(traceDelay), sdk.WithExportTimeout(traceTimeout)),
	)
	return &traceState{to: to, bound: boundOf(sample), out: out, provider: provider, tracer: provider.Tracer("soapway/proxy")}
}

func shutTraces(ctx context.Context, s *traceState) {
	ctx, cancel := context.WithTimeout(ctx, traceTimeout)
	defer cancel()
	_ = s.provider.Shutdown(ctx)
	s.out.abandon()
}

// Run waits for stop and then sends what is left, until cut is done. Its shape is
// that of a part in package lifecycle.
func (t *Tracer) Run(stop, cut context.Context) error {
	<-stop.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.state.Swap(nil); s != nil {
		shutTraces(cut, s)
	}
	t.closing.Wait()
	return nil
}

// Begin implements [proxy.Tracer]. What the caller has decided holds.
func (t *Tracer) Begin(traceparent, tracestate string) proxy.Trace {
	s := t.state.Load()
	if s == nil {
		return proxy.Trace{}
	}
	if traceparent != "" {
		if p, sampled, ok := proxy.ParseTrace(traceparent); ok {
			if !sampled {
				return proxy.Trace{}
			}
			return proxy.Trace{ID: p.ID, Span: t.span(), Parent: p.Span, State: tracestate}
		}
	}
	low := t.rand()
	if low >= s.bound {
		return proxy.Trace{}
	}
	p := proxy.Trace{Span: t.span()}
	binary.BigEndian.PutUint64(p.ID[:8], t.rand()|1) // not all zero
	binary.BigEndian.PutUint64(p.ID[8:], low)
	return p
}

// Child implements [proxy.Tracer].
func (t *Tracer) Child(of proxy.Trace) proxy.Trace {
	return proxy.Trace{ID: of.ID, Span: t.span(), Parent: of.Span, State: of.State}
}

func (t *Tracer) span() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], t.rand()|1)
	return id
}

// placed makes the SDK use the ids that have been given out.
type placed struct{}

type placeKey struct{}

var _ sdk.IDGenerator = placed{}

// NewIDs implements [sdk.IDGenerator].
func (placed) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p := ctx.Value(placeKey{}).(*proxy.Trace)
	return p.ID, p.Span
}

// NewSpanID implements [sdk.IDGenerator].
func (placed) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(placeKey{}).(*proxy.Trace).Span
}

// made is a span that is over.
type made struct {
	place  *proxy.Trace
	name   string
	kind   trace.SpanKind
	remote bool // its parent is in another process, or was
	from   time.Time
	to     time.Time
	failed string // "" = it went well
	about  []attribute.KeyValue
}

// put makes a span.
func (s *traceState) put(m *made) {
	if !s.out.enter() {
		return
	}
	ctx := context.WithValue(context.Background(), placeKey{}, m.place)
	if m.place.Parent != [8]byte{} {
		state, _ := trace.ParseTraceState(m.place.State) // one that is not valid is none
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: m.place.ID, SpanID: m.place.Parent, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: m.remote,
		}))
	}
	_, span := s.tracer.Start(ctx, m.name, trace.WithSpanKind(m.kind), trace.WithTimestamp(m.from), trace.WithAttributes(m.about...))
	if m.failed != "" {
		span.SetStatus(codes.Error, m.failed)
	}
	span.End(trace.WithTimestamp(m.to))
}

// Exchange makes the span of an exchange that is traced.
func (t *Tracer) Exchange(e *proxy.ExchangeEvent) {
	s := t.state.Load()
	if s == nil || !e.Trace.On() {
		return
	}
	name := e.Route
	if name == "" {
		name = "no route"
	} else if e.Operation != "" {
		name += " " + label(e.Operation)
	}
	m := &made{
		place: &e.Trace, name: name, kind: trace.SpanKindServer, remote: true, from: e.Exchange.Received,
		to: e.Exchange.Received.Add(e.Duration),
		about: []attribute.KeyValue{
			attribute.String("soapway.message_id", e.ID), attribute.String("soapway.listener", e.Listener),
			attribute.String("soapway.route", e.Route), attribute.String("soapway.outcome", string(e.Outcome)),
			attribute.Int("http.response.status_code", e.Status),
		},
	}
	if x := e.Exchange; !x.Framed {
		path, _, _ := strings.Cut(x.Target, "?") // a query may hold secrets
		m.about = append(m.about, attribute.String("http.request.method", valid(x.Method, maxAccessText)), attribute.String("url.path", valid(path, maxAccessPath)))
	}
	if e.Operation != "" {
		m.about = append(m.about, attribute.String("soapway.operation", label(e.Operation)))
	}
	if a := e.Exchange.Client; a.IsValid() {
		m.about = append(m.about, attribute.String("client.address", a.Addr().String()))
	}
	if e.Code != "" {
		m.about = append(m.about, attribute.String("soapway.code", string(e.Code)))
	}
	switch e.Outcome {
	case proxy.OutcomeFailed, proxy.OutcomeBusy, proxy.OutcomeUnknown, proxy.OutcomeInternal:
		m.failed = string(e.Outcome)
	}
	s.put(m)
}

// Attempt makes the span of a try that is traced, and before the first for a stored
// message one of the time that it has waited.
func (t *Tracer) Attempt(e *proxy.AttemptEvent) {
	s := t.state.Load()
	if s == nil || !e.Trace.On() {
		return
	}
	end := time.Now()
	began := end.Add(-e.Duration)
	id := attribute.String("soapway.message_id", e.ID)
	if !e.Waited.IsZero() {
		wait := t.Child(proxy.Trace{ID: e.Trace.ID, Span: e.Trace.Parent, State: e.Trace.State})
		s.put(&made{place: &wait, name: "wait", kind: trace.SpanKindInternal, remote: true, from: e.Waited, to: began, about: []attribute.KeyValue{id}})
	}
	m := &made{
		place: &e.Trace, name: "attempt", kind: trace.SpanKindClient, remote: e.Attempt > 0, from: began, to: end,
		about: []attribute.KeyValue{
			id, attribute.String("soapway.route", e.Route), attribute.String("soapway.backend", e.Backend),
			attribute.String("soapway.node", valid(e.Node, maxAccessPath)), attribute.String("soapway.result", e.Class.String()),
		},
	}
	if e.Attempt > 0 {
		m.about = append(m.about, attribute.Int("soapway.attempt", e.Attempt))
	}
	if e.Status > 0 {
		m.about = append(m.about, attribute.Int("http.response.status_code", e.Status))
	}
	switch {
	case e.Timeout:
		m.failed = "timeout"
	case e.Class != proxy.Answered:
		m.failed = e.Class.String()
	case e.Status >= 500:
		m.failed = "status"
	}
	s.put(m)
}

// valid makes a text from outside fit for an attribute: UTF-8 and short.
func valid(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
