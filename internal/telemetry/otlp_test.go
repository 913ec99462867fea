package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"soapway/proxy"
)

// tell makes n spans of exchanges.
func tell(tr *Tracer, n int) {
	for range n {
		tr.Exchange(&proxy.ExchangeEvent{ID: "m", Route: "r", Trace: tr.Begin("", ""), Exchange: &proxy.Exchange{Received: time.Now(), Framed: true}})
	}
}

// TestTracerSlow: what finds no room while the collector does not answer is counted at
// once and told once; all else arrives. Each span is either taken or counted.
func TestTracerSlow(t *testing.T) {
	const more = 100
	answer := make(chan struct{})
	inner := newCollector(t)
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-answer
		inner.Config.Handler.ServeHTTP(w, r)
	}))
	defer c.Close()
	var log bytes.Buffer
	tr, m, end := runTracer(t, &log)
	tr.Set(c.URL, 1)
	tell(tr, traceQueue+more)
	want := fmt.Sprintf("\ngateway_trace_spans_lost_total %d\n", more)
	if got := scrape(t, m); !strings.Contains(got, want) {
		t.Errorf("lost is not %d:\n%s", more, got[strings.Index(got, "gateway_trace"):])
	}
	if n := strings.Count(log.String(), "the collector of traces is too slow"); n != 1 {
		t.Errorf("told %d times: %s", n, &log)
	}
	close(answer)
	end()
	inner.mu.Lock()
	defer inner.mu.Unlock()
	if len(inner.spans) != traceQueue || !strings.Contains(scrape(t, m), want) {
		t.Errorf("%d spans arrived, want %d", len(inner.spans), traceQueue)
	}
}

// TestTracerCut: what still waits when a stop is cut off is counted.
func TestTracerCut(t *testing.T) {
	over := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer c.Close()
	defer close(over)
	m := NewMetrics()
	tr := NewTracer("", slog.New(slog.NewTextHandler(io.Discard, nil)), m)
	tr.Set(c.URL, 1)
	tell(tr, 3*traceBatch)
	stop, end := context.WithCancel(context.Background())
	end()
	if err := tr.Run(stop, stop); err != nil {
		t.Fatal(err)
	}
	if got := scrape(t, m); !strings.Contains(got, fmt.Sprintf("\ngateway_trace_spans_lost_total %d\n", 3*traceBatch)) {
		t.Errorf("lost: %s", got[strings.Index(got, "gateway_trace"):])
	}
}

// TestTracerPartly: of a batch that is taken in part the rest is counted.
func TestTracerPartly(t *testing.T) {
	for _, refused := range []int64{1, 1000} {
		c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			doc, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: refused}})
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(doc)
		}))
		tr, m, end := runTracer(t, io.Discard)
		tr.Set(c.URL, 1)
		tell(tr, 5)
		end()
		if got := scrape(t, m); !strings.Contains(got, fmt.Sprintf("\ngateway_trace_spans_lost_total %d\n", min(refused, 5))) {
			t.Errorf("%d refused: %s", refused, got[strings.Index(got, "gateway_trace"):])
		}
		c.Close()
	}
}
