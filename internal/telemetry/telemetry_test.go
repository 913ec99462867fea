package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// scrape returns the exposition, one line a sample.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	m.Request("echo", "Echo", "ok", 3*time.Millisecond)
	m.Request("echo", "Echo", "ok", 4*time.Millisecond)
	m.Request("", "", "no-route", time.Millisecond)
	m.Fault("echo", "NotWellFormed")
	m.Attempt("echo", "answered")
	m.Attempt("echo", "answered")
	m.Scanned(1500)
	m.Scanned(-1) // an unknown length must not reach a counter, which panics
	m.Reloaded(false)

	got := scrape(t, m)
	for _, want := range []string{
		`gateway_requests_total{operation="Echo",outcome="ok",route="echo"} 2`,
		`gateway_requests_total{operation="",outcome="no-route",route=""} 1`,
		`gateway_request_duration_seconds_count{operation="Echo",route="echo"} 2`,
		`gateway_request_duration_seconds_bucket{operation="Echo",route="echo",le="0.0025"} 0`,
		`gateway_request_duration_seconds_bucket{operation="Echo",route="echo",le="0.005"} 2`,
		`gateway_faults_total{code="NotWellFormed",route="echo"} 1`,
		`gateway_attempts_total{result="answered",route="echo"} 2`,
		`gateway_codec_bytes_total 1500`,
		`gateway_config_reload_ok 0`,
		`go_goroutines `,
		`process_start_time_seconds `,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("scrape lacks %s", want)
		}
	}
	m.Reloaded(true)
	if got := scrape(t, m); !strings.Contains(got, "\ngateway_config_reload_ok 1\n") {
		t.Error("gateway_config_reload_ok stayed 0 after a good reload")
	}
}

// TestLabelsAreBounded: nothing that a sender can write makes the number of
// series grow without end, or breaks the exposition.
func TestLabelsAreBounded(t *testing.T) {
	m := NewMetrics()
	for i := range 10 * maxOperations {
		m.Request("echo", fmt.Sprint("Op", i), "ok", 0)
		m.Fault("echo", fmt.Sprint("Code", i))
	}
	m.Request("echo", "\xff\xfe\"\n", "ok", 0)
	m.Request("b", strings.Repeat("ä", 1000), "ok", 0)
	got := scrape(t, m)
	if n := strings.Count(got, "\ngateway_requests_total{"); n > maxOperations+4 {
		t.Errorf("%d series of gateway_requests_total, want at most %d", n, maxOperations+4)
	}
	if n := strings.Count(got, "\ngateway_faults_total{"); n > maxOperations+1 {
		t.Errorf("%d series of gateway_faults_total, want at most %d", n, maxOperations+1)
	}
	if want := `operation="` + strings.Repeat("ä", maxLabel/2) + `"`; !strings.Contains(got, want) {
		t.Errorf("scrape lacks the long operation cut to %s", want)
	}
	// Another route has its own names: one cannot use up those of another.
	m.Request("b", "Fresh", "ok", 0)
	if !strings.Contains(scrape(t, m), `{operation="Fresh",outcome="ok",route="b"} 1`) {
		t.Error("an operation of route b got no name because route echo had used them up")
	}
}

func TestMetricsConcurrent(t *testing.T) {
	m := NewMetrics()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				m.Request("r", fmt.Sprint("Op", (g+i)%150), "ok", time.Microsecond)
				m.Attempt("r", "answered")
				m.Fault("r", fmt.Sprint(i))
			}
		})
	}
	wg.Wait()
	if got := scrape(t, m); !strings.Contains(got, `gateway_attempts_total{result="answered",route="r"} 1600`) {
		t.Error("attempts got lost")
	}
}

func TestAllocs(t *testing.T) {
	m := NewMetrics()
	m.Request("echo", "Echo", "ok", time.Millisecond)
	m.Attempt("echo", "answered")
	if n := testing.AllocsPerRun(100, func() {
		m.Request("echo", "Echo", "ok", time.Millisecond)
		m.Attempt("echo", "answered")
	}); n > 0 {
		t.Errorf("Request and Attempt: %v allocations, want none", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	m := NewMetrics()
	b.ReportAllocs()
	for b.Loop() {
		m.Request("echo", "Echo", "ok", time.Millisecond)
	}
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	l := NewLog(&out)
	derived := l.Logger().With("route", "echo").WithGroup("g")
	derived.Info("one", "k", 1, "took", 1500*time.Microsecond)
	var rec map[string]any
	if err := json.Unmarshal(out.Bytes(), &rec); err != nil || rec["route"] != "echo" {
		t.Errorf("auto on a buffer: got %s (%v), want JSON with the attributes", &out, err)
	}

	if got := out.String(); !strings.Contains(got, `"took_ms":1.5`) {
		t.Errorf("a duration in JSON: got %s, want its unit in the key", got)
	}

	// A logger handed out earlier follows what a reload sets.
	out.Reset()
	if err := l.Set("warn", "text"); err != nil {
		t.Fatal(err)
	}
	derived.Info("two")
	derived.Warn("three", "k", 1, "took", 1500*time.Microsecond)
	if got := out.String(); strings.Contains(got, "two") || !strings.Contains(got, `msg=three route=echo g.k=1 g.took=1.5ms`) {
		t.Errorf("after Set(warn, text): got %q", got)
	}

	// A bad setting changes nothing, not even the good half.
	for _, bad := range [][2]string{{"debug", "xml"}, {"loud", "json"}} {
		if err := l.Set(bad[0], bad[1]); err == nil {
			t.Errorf("Set(%q): got no error", bad)
		}
	}
	out.Reset()
	derived.Info("four")
	derived.Warn("five")
	if got := out.String(); strings.Contains(got, "four") || !strings.Contains(got, "msg=five") {
		t.Errorf("after a bad Set: got %q", got)
	}
	if err := l.Set("", ""); err != nil {
		t.Errorf("Set of the defaults: %v", err)
	}
}

// TestLogLines: records of several loggers do not run into each other.
func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	l := NewLog(&out)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 100 {
				l.Logger().Info("line", "i", i)
				if i == 50 {
					_ = l.Set("info", FormatText)
				}
			}
		})
	}
	wg.Wait()
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "time=") || !strings.HasSuffix(line, "\n") {
			t.Fatalf("broken line %q", line)
		}
	}
}

func TestIsTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, w := range []any{null, &bytes.Buffer{}, nil} {
		if IsTerminal(w) {
			t.Errorf("IsTerminal(%v): got true", w)
		}
	}
}

// TestQueueMetrics: what SPEC.md §5 names of stored messages, counted and
// looked up.
func TestQueueMetrics(t *testing.T) {
	m := NewMetrics()
	m.Delivered("orders", 40*time.Millisecond)
	m.Died("orders", "permanent")
	m.Synced(300*time.Microsecond, 7)
	m.Synced(time.Millisecond, 0) // of bookkeeping: no group of messages
	m.StoreError(os.ErrClosed)
	m.Gap(4, 9)
	if got := scrape(t, m); strings.Contains(got, "gateway_queue_messages") || strings.Contains(got, "gateway_disk_free_bytes") {
		t.Error("without a store the scrape tells of stored messages")
	}
	free := int64(5 << 30)
	m.WatchQueue(QueueSource{
		Queues: func() []QueueSample {
			return []QueueSample{
				{Route: "orders", Backend: "b", Pending: 3, Retrying: 2, Dead: 1, Oldest: time.Now().Add(-time.Hour), Down: true},
				{Route: "second", Backend: "b", Down: true},
				{Route: "gone", Orphaned: 4, Stopped: 2, IDs: 7},
			}
		},
		DiskFree: func() (int64, bool) { return free, free > 0 },
	})
	got := scrape(t, m)
	for _, want := range []string{
		`gateway_queue_messages{route="orders",state="pending"} 3`,
		`gateway_queue_messages{route="orders",state="retrying"} 2`,
		`gateway_queue_messages{route="orders",state="dead"} 1`,
		`gateway_queue_messages{route="gone",state="orphaned"} 4`,
		`gateway_queue_stopped_keys{route="gone"} 2`,
		`gateway_dedup_ids{route="gone"} 7`,
		`gateway_queue_oldest_age_seconds{route="orders"} 360`, // 3600 and a bit
		`gateway_queue_oldest_age_seconds{route="second"} 0`,
		`gateway_delivery_latency_seconds_bucket{route="orders",le="0.025"} 0`,
		`gateway_delivery_latency_seconds_bucket{route="orders",le="0.05"} 1`,
		`gateway_dead_letters_total{reason="permanent",route="orders"} 1`,
		`gateway_store_sync_seconds_count 2`,
		`gateway_store_group_messages_count 1`,
		`gateway_store_group_messages_sum 7`,
		`gateway_store_errors_total 1`,
		`gateway_store_gaps_total 1`,
		`gateway_disk_free_bytes 5.36870912e+09`,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("scrape lacks %s", want)
		}
	}
	free = 0
	if got := scrape(t, m); strings.Contains(got, "gateway_disk_free_bytes ") {
		t.Error("room on the disk is told though it is not known")
	}
}

// TestBackends: the state of backends and nodes is that of the moment.
func TestBackends(t *testing.T) {
	m := NewMetrics()
	b := BackendSample{Name: "b", Nodes: []NodeSample{{"http://a/x", true}, {"http://b/x", false}, {"http://a/x", false}}}
	m.WatchBackends(func() []BackendSample {
		return []BackendSample{b, {Name: "c", Down: true}, {Name: "d", Held: "credentials"}, {Name: "e", Held: "operator", Down: true}}
	})
	want := []string{
		`gateway_backend_up{backend="b",node="http://a/x"} 1`, `gateway_backend_up{backend="b",node="http://b/x"} 0`,
		`gateway_circuit_state{backend="b"} 0`, `gateway_circuit_state{backend="c"} 1`,
		`gateway_circuit_state{backend="d"} 2`, `gateway_circuit_state{backend="e"} 3`,
	}
	for range 2 {
		got := scrape(t, m)
		for _, w := range want {
			if !strings.Contains(got, "\n"+w) {
				t.Errorf("scrape lacks %s", w)
			}
		}
		b.Down, b.Nodes[0].Up, b.Nodes[1].Up = true, false, true
		want = []string{
			`gateway_backend_up{backend="b",node="http://a/x"} 0`, `gateway_backend_up{backend="b",node="http://b/x"} 1`,
			`gateway_circuit_state{backend="b"} 1`,
		}
	}
}

func TestCertificates(t *testing.T) {
	m := NewMetrics()
	m.WatchCertificates(func() []CertificateSample {
		return []CertificateSample{{"web", time.Now().Add(1000*time.Second + 500*time.Millisecond)}, {"old", time.Now().Add(-1000*time.Second + 500*time.Millisecond)}}
	})
	got := scrape(t, m)
	for _, want := range []string{`gateway_certificate_expiry_seconds{listener="web"} 1000.`, `gateway_certificate_expiry_seconds{listener="old"} -999.`} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("scrape lacks %s:\n%s", want, got)
		}
	}
}

// TestStandard: what net/http quotes of a peer's octets stays out of the log.
func TestStandard(t *testing.T) {
	for _, line := range []string{
		"Unsolicited response received on idle HTTP channel starting with \"<s:Body>secret</s:Body>\"; err=<nil>\n",
		"http: something about \"secret\" happened\n",
	} {
		var out bytes.Buffer
		l := NewLog(&out)
		if n, err := l.Standard().Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("Write: got %d, %v", n, err)
		}
		if got := out.String(); strings.Contains(got, "secret") || !strings.Contains(got, "net/http: ") {
			t.Errorf("logged %s", got)
		}
	}
}
