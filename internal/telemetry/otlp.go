package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	about "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	spans "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpPath is added to the URL of a collector unless it ends with it (OTLP 1.x,
// OTLP/HTTP Request).
const otlpPath = "/v1/traces"

// otlp sends spans to a collector, as protobuf over HTTP.
type otlp struct {
	url    string
	client *http.Client
	log    *slog.Logger
	lost   *series

	// waiting is how many spans have entered and are neither taken nor lost.
	waiting atomic.Int64

	mu   sync.Mutex
	told time.Time // when the log was told of a failure; zero while all is well; guarded by mu
	full time.Time // when it was told that spans found no room; guarded by mu
}

var _ sdk.SpanExporter = (*otlp)(nil)

func newOTLP(to string, log *slog.Logger, lost *series) *otlp {
	if base, query, found := strings.Cut(to, "?"); !strings.HasSuffix(base, otlpPath) {
		to = strings.TrimSuffix(base, "/") + otlpPath
		if found {
			to += "?" + query
		}
	}
	return &otlp{
		url: to, log: log, lost: lost,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:       (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				ForceAttemptHTTP2: true, MaxIdleConns: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 5 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// enter lets a span in that will come by ExportSpans, unless so many wait that it
// could be dropped on its way, where nobody would count it: then it is lost here.
func (o *otlp) enter() bool {
	if o.waiting.Add(1) <= traceQueue {
		return true
	}
	o.waiting.Add(-1)
	o.lost.add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.full) >= time.Minute {
		o.full = time.Now()
		o.log.Warn("the collector of traces is too slow: spans are lost", "waiting", traceQueue)
	}
	return false
}

// abandon counts what still waits as lost: it comes no more.
func (o *otlp) abandon() {
	if n := o.waiting.Swap(0); n > 0 {
		o.lost.add(uint64(n))
	}
}

// ExportSpans implements [sdk.SpanExporter]. It never fails: what is not taken is
// counted and told here.
func (o *otlp) ExportSpans(ctx context.Context, list []sdk.ReadOnlySpan) error {
	body, err := o.encode(list)
	if err == nil {
		err = o.send(ctx, body)
	}
	lost := 0
	if refused, some := errors.AsType[*refusedSpans](err); some {
		lost = min(int(refused.n), len(list))
	} else if err != nil {
		lost = len(list)
	}
	if o.waiting.Add(-int64(len(list))) < 0 {
		lost = 0 // they were given up meanwhile, and are counted
	}
	if err != nil {
		o.lost.add(uint64(lost))
		o.tell(err)
		return nil
	}
	o.mu.Lock()
	o.told = time.Time{}
	o.mu.Unlock()
	return nil
}

// refusedSpans is the error of a collector that has taken the others of a batch.
type refusedSpans struct{ n int64 }

func (e *refusedSpans) Error() string { return fmt.Sprintf("telemetry: it has refused %d spans", e.n) }

// Shutdown implements [sdk.SpanExporter].
func (o *otlp) Shutdown(context.Context) error {
	o.client.CloseIdleConnections()
	return nil
}

// tell logs a failure, once a minute.
func (o *otlp) tell(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.told) < time.Minute {
		return
	}
	o.told = time.Now()
	o.log.Warn("the collector of traces takes no spans", "err", err)
}

const (
	otlpTries   = 4
	otlpWait    = 500 * time.Millisecond
	otlpMaxWait = 5 * time.Second
)

// send makes some tries within the time of ctx, as OTLP asks for: again after a
// broken connection and after 429, 502, 503 and 504.
func (o *otlp) send(ctx context.Context, body []byte) error {
	wait := otlpWait
	for n := 1; ; n++ {
		again, asked, err := o.post(ctx, body)
		if err == nil || !again || n == otlpTries {
			return err
		}
		if asked > 0 {
			wait = asked
		}
		timer := time.NewTimer(min(wait, otlpMaxWait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		wait *= 2
	}
}

func (o *otlp) post(ctx context.Context, body []byte) (again bool, wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, unnamed(err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("User-Agent", "soapway")
	resp, err := o.client.Do(req)
	if err != nil {
		return ctx.Err() == nil, 0, unnamed(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // frees the connection
	switch {
	case resp.StatusCode == http.StatusOK:
		var got collector.ExportTraceServiceResponse
		if proto.Unmarshal(answer, &got) == nil && got.GetPartialSuccess().GetRejectedSpans() > 0 {
			return false, 0, &refusedSpans{got.GetPartialSuccess().GetRejectedSpans()}
		}
		return false, 0, nil
	case resp.StatusCode == 429 || resp.StatusCode == 502 || resp.StatusCode == 503 || resp.StatusCode == 504:
		again = true
		if n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
			wait = time.Duration(n) * time.Second
		}
	}
	return again, wait, fmt.Errorf("telemetry: it answers %s", resp.Status)
}

// unnamed is the reason of an error without the URL, which may hold a password.
func unnamed(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (o *otlp) encode(list []sdk.ReadOnlySpan) ([]byte, error) {
	scope := &spans.ScopeSpans{}
	resource := &spans.ResourceSpans{ScopeSpans: []*spans.ScopeSpans{scope}}
	for i, s := range list {
		if i == 0 { // all are of one provider and one tracer
			resource.Resource = &about.Resource{Attributes: attributes(s.Resource().Attributes())}
			scope.Scope = &common.InstrumentationScope{Name: s.InstrumentationScope().Name}
		}
		scope.Spans = append(scope.Spans, encodeSpan(s))
	}
	doc, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: []*spans.ResourceSpans{resource}})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(doc); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// The bits of Span.flags that tell where the parent is (trace.proto, SpanFlags).
const (
	hasRemote = 0x100
	isRemote  = 0x200
)

func encodeSpan(s sdk.ReadOnlySpan) *spans.Span {
	id, trace := s.SpanContext().SpanID(), s.SpanContext().TraceID()
	out := &spans.Span{
		TraceId: trace[:], SpanId: id[:], TraceState: s.SpanContext().TraceState().String(),
		Name: s.Name(), Kind: spans.Span_SpanKind(s.SpanKind()), // the same numbers
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: attributes(s.Attributes()), Flags: uint32(s.SpanContext().TraceFlags()) | hasRemote,
	}
	if p := s.Parent(); p.SpanID().IsValid() {
		parent := p.SpanID()
		out.ParentSpanId = parent[:]
		if p.IsRemote() {
			out.Flags |= isRemote
		}
	}
	if s.Status().Code == codes.Error {
		out.Status = &spans.Status{Code: spans.Status_STATUS_CODE_ERROR, Message: s.Status().Description}
	}
	return out
}

// attributes has the two types that spans of this program have.
func attributes(list []attribute.KeyValue) []*common.KeyValue {
	out := make([]*common.KeyValue, len(list))
	for i, a := range list {
		v := &common.AnyValue{}
		if a.Value.Type() == attribute.INT64 {
			v.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		} else {
			v.Value = &common.AnyValue_StringValue{StringValue: a.Value.AsString()}
		}
		out[i] = &common.KeyValue{Key: string(a.Key), Value: v}
	}
	return out
}
