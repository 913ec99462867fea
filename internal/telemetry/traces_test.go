package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"soapway/proxy"
	"soapway/soapcodec"
)

// a collector of traces that answers what it is told, else takes all.
type fakeCollector struct {
	*httptest.Server

	mu      sync.Mutex
	answers []int // statuses of the next requests
	asked   int
	paths   []string
	spans   []*spans.Span
	service string
}

func newCollector(t *testing.T, answers ...int) *fakeCollector {
	c := &fakeCollector{answers: answers}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		c.paths = append(c.paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
		if len(c.answers) > 0 {
			status := c.answers[0]
			c.answers = c.answers[1:]
			if status != 200 {
				w.WriteHeader(status)
				return
			}
		}
		var req collector.ExportTraceServiceRequest
		z, err := gzip.NewReader(r.Body)
		if err == nil {
			var doc []byte
			if doc, err = io.ReadAll(z); err == nil {
				err = proto.Unmarshal(doc, &req)
			}
		}
		if err != nil {
			t.Error(err)
			w.WriteHeader(400)
			return
		}
		for _, rs := range req.GetResourceSpans() {
			for _, a := range rs.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					c.service = a.GetValue().GetStringValue()
				}
			}
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// runTracer runs a tracer; the returned function stops it, which sends what is left.
func runTracer(t *testing.T, log io.Writer) (*Tracer, *Metrics, func()) {
	t.Helper()
	m := NewMetrics()
	tr := NewTracer("1.2.3", slog.New(slog.NewTextHandler(log, nil)), m)
	stop, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tr.Run(stop, context.Background()) }()
	return tr, m, func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

const callersTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTracerBegin(t *testing.T) {
	tr, _, end := runTracer(t, io.Discard)
	defer end()
	if got := tr.Begin(callersTrace, ""); got.On() {
		t.Errorf("off: got %+v", got)
	}
	tr.Set("http://127.0.0.1:1", 0)
	for field, on := range map[string]bool{
		callersTrace: true,
		strings.Replace(callersTrace, "-01", "-00", 1): false,
		"":                                false,
		"rubbish":                         false,
		"cc" + callersTrace[2:] + "-more": true,
	} {
		got := tr.Begin(field, "a=b")
		if got.On() != on || on && (got.State != "a=b" || got.String()[:36] != "00"+callersTrace[2:36] || got.Parent == [8]byte{} || got.Span == got.Parent) {
			t.Errorf("Begin(%s): got %+v", field, got)
		}
	}
	tr.Set("http://127.0.0.1:1", 1)
	root := tr.Begin("", "")
	if !root.On() || root.Parent != [8]byte{} {
		t.Errorf("all are sampled: got %+v", root)
	}
	if c := tr.Child(root); c.ID != root.ID || c.Parent != root.Span || c.Span == root.Span {
		t.Errorf("Child of %+v: got %+v", root, c)
	}
	tr.Set("http://127.0.0.1:1", 0.25)
	n := 0
	for range 4000 {
		if p := tr.Begin("", ""); p.On() {
			n++
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("%d of 4000 are sampled, want a quarter", n)
	}
	tr.Set("", 1)
	if got := tr.Begin("", ""); got.On() {
		t.Errorf("off again: got %+v", got)
	}
}

// tracedStory makes the events of an exchange that is stored, and of two attempts.
func tracedStory(tr *Tracer) (accept proxy.Trace) {
	began := time.Now().Add(-10 * time.Second)
	accept = tr.Begin(callersTrace, "vendor=1")
	tr.Exchange(&proxy.ExchangeEvent{
		ID: "m1", Listener: "http", Route: "orders", Operation: "placeOrder", Status: 202, Outcome: proxy.OutcomeStored, Duration: time.Second, Trace: accept,
		Exchange: &proxy.Exchange{Received: began, Method: "POST", Target: "/orders?token=hunter2", Client: netip.MustParseAddrPort("10.0.0.1:5")}, Version: soapcodec.V11,
	})
	for n, class := range []proxy.Class{proxy.NotSent, proxy.Answered} {
		e := proxy.AttemptEvent{ID: "m1", Route: "orders", Backend: "erp", Node: "http://10.0.0.5", Class: class, Trace: tr.Child(accept), Attempt: n + 1, Duration: time.Second}
		if n == 0 {
			e.Waited = began.Add(time.Second)
		} else {
			e.Status = 200
		}
		tr.Attempt(&e)
	}
	return accept
}

// TestTracerStory: accept, wait and attempts are one trace, below the caller's span.
func TestTracerStory(t *testing.T) {
	c := newCollector(t)
	tr, _, end := runTracer(t, io.Discard)
	tr.Set(c.URL, 0)
	accept := tracedStory(tr)
	end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.service != "soapway" || len(c.paths) == 0 || c.paths[0] != "POST /v1/traces application/x-protobuf" {
		t.Errorf("service %q, requests %q", c.service, c.paths)
	}
	var names []string
	for _, s := range c.spans {
		names = append(names, s.GetName())
		want := accept.Span
		if s.GetName() == "orders placeOrder" {
			want = accept.Parent
			if s.GetKind() != spans.Span_SPAN_KIND_SERVER || s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano() != 1e9 || [8]byte(s.GetSpanId()) != accept.Span {
				t.Errorf("the exchange is %v", s)
			}
		}
		if [16]byte(s.GetTraceId()) != accept.ID || [8]byte(s.GetParentSpanId()) != want || s.GetTraceState() != "vendor=1" || s.GetFlags() != 0x301 {
			t.Errorf("%s stands elsewhere: %v", s.GetName(), s)
		}
		if text := s.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "m1") {
			t.Errorf("attributes: %s", text)
		}
		if failed := s.GetStatus().GetCode() == spans.Status_STATUS_CODE_ERROR; failed != strings.Contains(s.String(), "not_sent") {
			t.Errorf("%s: status %v", s.GetName(), s.GetStatus())
		}
	}
	if got := strings.Join(names, ", "); got != "orders placeOrder, wait, attempt, attempt" {
		t.Errorf("spans: %s", got)
	}
}

// TestTracerCollectors: one that is busy is asked again, one that refuses or is not
// there loses spans, which is counted and told once.
func TestTracerCollectors(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []int
		dead    bool
		asked   int
		lost    string
	}{
		{name: "busy", answers: []int{503, 429, 200}, asked: 3, lost: "0"},
		{name: "refuses", answers: []int{400}, asked: 1, lost: "4"},
		{name: "dead", dead: true, lost: "4"},
	} {
		var log bytes.Buffer
		col := newCollector(t, c.answers...)
		tr, m, end := runTracer(t, &log)
		if c.dead {
			col.Close()
		}
		tr.Set(col.URL+"/base/", 1)
		tracedStory(tr)
		end()
		if got := scrape(t, m); !strings.Contains(got, "\ngateway_trace_spans_lost_total "+c.lost+"\n") {
			t.Errorf("%s: lost is not %s", c.name, c.lost)
		}
		col.mu.Lock()
		if col.asked != c.asked || !c.dead && !strings.HasPrefix(col.paths[0], "POST /base/v1/traces") {
			t.Errorf("%s: asked %d times, %q", c.name, col.asked, col.paths)
		}
		col.mu.Unlock()
		if told := strings.Count(log.String(), "takes no spans"); told != map[bool]int{false: 1, true: 0}[c.lost == "0"] || strings.Contains(log.String(), col.URL) {
			t.Errorf("%s: the log has %s", c.name, &log)
		}
	}
}

// TestTracerAllocs: no collector costs nothing, and who is not sampled hardly anything.
func TestTracerAllocs(t *testing.T) {
	tr, _, end := runTracer(t, io.Discard)
	defer end()
	x, a := &proxy.ExchangeEvent{}, &proxy.AttemptEvent{}
	for _, to := range []string{"", "http://127.0.0.1:1"} {
		tr.Set(to, 0)
		if n := testing.AllocsPerRun(100, func() {
			x.Trace = tr.Begin("", "")
			tr.Exchange(x)
			tr.Attempt(a)
		}); n > 0 {
			t.Errorf("to %q: %g allocations", to, n)
		}
	}
}
