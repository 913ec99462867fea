package casetest

import (
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traces is a collector of OTLP over HTTP.
type traces struct {
	*httptest.Server

	mu    sync.Mutex
	spans []*otlp.Span
}

func collectTraces(t *testing.T) *traces {
	c := &traces{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req collector.ExportTraceServiceRequest
		z, err := gzip.NewReader(r.Body)
		if err == nil {
			var doc []byte
			if doc, err = io.ReadAll(z); err == nil {
				err = proto.Unmarshal(doc, &req)
			}
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// named returns the spans of a name, and the ids of all by it.
func (c *traces) named(name string) (list []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			list = append(list, s)
		}
	}
	return list
}

const (
	callersTrace  = "0af7651916cd43dd8448eb211c80319c"
	callersSpan   = "b7ad6b7169203331"
	callersParent = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// TestTraceOfStored: accept, wait, each attempt and what the backend does are one
// story, over a restart of the gateway (issue 10; SPEC.md §5): attempts that reach
// nobody, then one that the backend fails and one that it answers.
func TestTraceOfStored(t *testing.T) {
	c := collectTraces(t)
	addr := refusedAddr(t)
	cfg := fmt.Sprintf("telemetry: {otlp: %q, sample: 0}\n", c.URL) + queueConfig(ordersRoute(addr, quick))
	g := start(t, cfg)
	a := post(t, g.addr["http"], "/orders", append(xml11("urn:test"), field{"traceparent", callersParent}, field{"tracestate", "vendor=1"}), numbered(1))
	if a.Status != 202 {
		t.Fatalf("got %s", a)
	}
	if !eventually(patience, func() bool { return len(c.named("attempt")) >= 1 }) {
		t.Fatal("no attempt is told to the collector")
	}
	term(t, g)
	b := listenAt(t, addr)
	b.do(func(p *peer, _ *call) {
		if b.gotComplete() == 1 {
			_, _ = p.Write(response(500, nil, nil))
		} else {
			_, _ = p.Write(response(202, nil, nil))
		}
	})
	startAgain(t, g, cfg, b)
	if !eventually(patience, func() bool { return b.gotComplete() == 2 }) {
		t.Fatalf("%d attempts reached the backend, want 2", b.gotComplete())
	}
	// A probe of the circuit may be an attempt too; those that reached the backend are the last.
	if !eventually(patience, func() bool { return len(answered(c)) == 2 }) {
		t.Fatal("the attempts that were answered are not told")
	}
	for _, got := range b.got() { // the backend tells of its own work, as its library would
		c.add(backendSpan(t, got.Fields.get("traceparent")))
		if got.Fields.get("tracestate") != "vendor=1" {
			t.Errorf("the backend got tracestate %q", got.Fields.get("tracestate"))
		}
	}
	checkStory(t, c, a.Fields.get("Gateway-Message-Id"))
}

// answered are the spans of tries that got an answer, in their order.
func answered(c *traces) (list []*otlp.Span) {
	for _, s := range c.named("attempt") {
		if attribute(s, "soapway.result") == "answered" {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *otlp.Span) int { return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()) })
	return list
}

func attribute(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if n, ok := a.GetValue().GetValue().(*common.AnyValue_IntValue); ok {
				return strconv.FormatInt(n.IntValue, 10)
			}
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// add adds a span that somebody else tells the collector.
func (c *traces) add(s *otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, s)
}

// backendSpan is what a backend makes of a traceparent (W3C Trace Context): a span below
// that which it names.
func backendSpan(t *testing.T, traceparent string) *otlp.Span {
	t.Helper()
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 || parts[0] != "00" || parts[3] != "01" {
		t.Fatalf("the backend got traceparent %q", traceparent)
	}
	trace, err := hex.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	parent, err := hex.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	return &otlp.Span{Name: "backend", TraceId: trace, ParentSpanId: parent, SpanId: append([]byte("b"), parent[1:]...)}
}

// checkStory looks at all that the collector knows as one who opens the trace would:
// everything hangs on the caller's span, nothing is missing in between.
func checkStory(t *testing.T, c *traces, id string) {
	t.Helper()
	c.mu.Lock()
	all := slices.Clone(c.spans)
	c.mu.Unlock()
	byID := map[string]*otlp.Span{}
	for _, s := range all {
		if byID[string(s.GetSpanId())] != nil {
			t.Errorf("two spans have the id %x", s.GetSpanId())
		}
		byID[string(s.GetSpanId())] = s
	}
	under := map[string]int{} // how often a span of a name is below one of another
	for _, s := range all {
		above := "caller"
		if p := byID[string(s.GetParentSpanId())]; p != nil {
			above = p.GetName()
		} else if hex.EncodeToString(s.GetParentSpanId()) != callersSpan {
			t.Errorf("%s hangs on nothing: %v", s.GetName(), s)
		}
		under[s.GetName()+" below "+above]++
		if hex.EncodeToString(s.GetTraceId()) != callersTrace {
			t.Errorf("%s is in another trace: %v", s.GetName(), s)
		}
		if s.GetName() != "backend" && attribute(s, "soapway.message_id") != id {
			t.Errorf("%s is of the message %q, want %s", s.GetName(), attribute(s, "soapway.message_id"), id)
		}
	}
	attempts := c.named("attempt")
	if len(attempts) < 3 {
		t.Errorf("%d attempts are told, want those that reached nobody too", len(attempts))
	}
	want := map[string]int{"orders below caller": 1, "wait below orders": 1, "attempt below orders": len(attempts), "backend below attempt": 2}
	if !maps.Equal(under, want) {
		t.Errorf("the trace has %v, want %v", under, want)
	}
	slices.SortFunc(attempts, func(a, b *otlp.Span) int { return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()) })
	last := 0
	for i, s := range attempts {
		n, err := strconv.Atoi(attribute(s, "soapway.attempt"))
		if err != nil || n < last {
			t.Errorf("attempt %d of the trace has the number %q after %d", i+1, attribute(s, "soapway.attempt"), last)
		}
		last = n
	}
	accept, wait := c.named("orders")[0], c.named("wait")[0]
	if wait.GetStartTimeUnixNano() != accept.GetStartTimeUnixNano() || wait.GetEndTimeUnixNano() > attempts[0].GetStartTimeUnixNano() || wait.GetEndTimeUnixNano() < wait.GetStartTimeUnixNano() {
		t.Errorf("it waits from %d to %d, was taken at %d and first tried at %d",
			wait.GetStartTimeUnixNano(), wait.GetEndTimeUnixNano(), accept.GetStartTimeUnixNano(), attempts[0].GetStartTimeUnixNano())
	}
}

// TestTraceOfSync: the node is told of the try where the exchange is sampled; else
// what the caller has sent goes on, and nothing is made up (SPEC.md §3.8). A
// collector that is not there changes nothing.
func TestTraceOfSync(t *testing.T) {
	b := listenHTTP(t)
	b.answerWith(response(200, xml11(""), envelope("1.1", "<r/>")))
	c := collectTraces(t)
	dead := "http://" + refusedAddr(t)
	for _, run := range []struct{ to, sample string }{{c.URL, "0"}, {c.URL, "1"}, {dead, "1"}} {
		b.reset()
		b.answerWith(response(200, xml11(""), envelope("1.1", "<r/>")))
		g := start(t, httpOnly+fmt.Sprintf(`
telemetry: {otlp: %q, sample: %s}
routes: [{name: sync, to: ["http://%s/"]}]
`, run.to, run.sample, b.addr))
		unsampled := strings.TrimSuffix(callersParent, "1") + "0"
		for _, sent := range []string{"", callersParent, unsampled} {
			f := xml11("urn:test")
			if sent != "" {
				f = append(f, field{"Traceparent", sent})
			}
			if a := post(t, g.addr["http"], "/", f, envelope("1.1", "<t/>")); a.Status != 200 {
				t.Fatalf("got %s", a)
			}
			calls := b.got()
			got := calls[len(calls)-1].Fields
			switch traced := sent == callersParent || sent == "" && run.sample == "1"; {
			case !traced && got.get("Traceparent") != sent:
				t.Errorf("sample %s, sent %q: the node got %q", run.sample, sent, got.get("Traceparent"))
			case traced && (len(got.get("Traceparent")) != 55 || !strings.HasSuffix(got.get("Traceparent"), "-01") || got.get("Traceparent") == sent):
				t.Errorf("sample %s, sent %q: the node got %q", run.sample, sent, got.get("Traceparent"))
			case sent == callersParent && got.get("Traceparent")[:36] != sent[:36]:
				t.Errorf("sample %s: the node got another trace: %q", run.sample, got.get("Traceparent"))
			}
		}
		if err := g.stop(); err != nil {
			t.Error(err)
		}
		g.ended = true
	}
	if n := len(c.named("sync")); n != 3 {
		t.Errorf("%d exchanges were traced, want 3", n)
	}
}
