package casetest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
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
// story, over a restart of the gateway (issue 10; SPEC.md §5).
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
	startAgain(t, g, cfg, b)
	if !eventually(patience, func() bool { return b.gotComplete() == 1 }) {
		t.Fatal("the message was not delivered")
	}
	answered := func(s *otlp.Span) bool { return strings.Contains(s.String(), `"answered"`) }
	if !eventually(patience, func() bool { return slices.ContainsFunc(c.named("attempt"), answered) }) {
		t.Fatal("the attempt that was answered is not told")
	}
	accepts, waits, attempts := c.named("orders"), c.named("wait"), c.named("attempt")
	if len(accepts) != 1 || len(waits) != 1 || hex.EncodeToString(accepts[0].GetParentSpanId()) != callersSpan {
		t.Fatalf("%d spans of the exchange below %x, %d of waiting", len(accepts), accepts[0].GetParentSpanId(), len(waits))
	}
	for _, s := range slices.Concat(waits, attempts) {
		if hex.EncodeToString(s.GetTraceId()) != callersTrace || string(s.GetParentSpanId()) != string(accepts[0].GetSpanId()) {
			t.Errorf("%s is not below the exchange: %v", s.GetName(), s)
		}
	}
	if waits[0].GetStartTimeUnixNano() > waits[0].GetEndTimeUnixNano() || accepts[0].GetStartTimeUnixNano() != waits[0].GetStartTimeUnixNano() {
		t.Errorf("it waits from %d to %d, and was taken at %d", waits[0].GetStartTimeUnixNano(), waits[0].GetEndTimeUnixNano(), accepts[0].GetStartTimeUnixNano())
	}
	last := attempts[slices.IndexFunc(attempts, answered)]
	got := b.got()[0].Fields
	if want := "00-" + callersTrace + "-" + hex.EncodeToString(last.GetSpanId()) + "-01"; got.get("traceparent") != want || got.get("tracestate") != "vendor=1" {
		t.Errorf("the backend got traceparent %q and tracestate %q, want %q", got.get("traceparent"), got.get("tracestate"), want)
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
