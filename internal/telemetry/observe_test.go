package telemetry

import (
	"strings"
	"testing"
	"time"

	"soapway/proxy"
)

func TestObserve(t *testing.T) {
	m := NewMetrics()
	m.ObserveExchange(proxy.ExchangeEvent{Route: "a", Operation: "Op", Outcome: proxy.OutcomeAnswered, CodecBytes: 100, Duration: time.Second})
	m.ObserveExchange(proxy.ExchangeEvent{Route: "a", Outcome: proxy.OutcomeFault, CodecBytes: 11, NormalizeSkipped: true})
	m.ObserveExchange(proxy.ExchangeEvent{Outcome: proxy.OutcomeRejected, Code: "NoRoute", Status: 404})
	m.ObserveExchange(proxy.ExchangeEvent{Route: "a", Outcome: proxy.OutcomeFailed, Code: "BackendTimeout"})
	m.ObserveAttempt(proxy.AttemptEvent{Route: "a", Class: proxy.Answered, Status: 200})
	m.ObserveAttempt(proxy.AttemptEvent{Route: "a", Class: proxy.NotSent})
	m.ObserveAttempt(proxy.AttemptEvent{Route: "a", Class: proxy.Maybe, Timeout: true})
	got := scrape(t, m)
	for _, want := range []string{
		`gateway_requests_total{operation="Op",outcome="answered",route="a"} 1`,
		`gateway_requests_total{operation="",outcome="rejected",route=""} 1`,
		`gateway_request_duration_seconds_sum{operation="Op",route="a"} 1`,
		`gateway_faults_total{code="NoRoute",route=""} 1`,
		`gateway_faults_total{code="BackendTimeout",route="a"} 1`,
		`gateway_attempts_total{result="answered",route="a"} 1`,
		`gateway_attempts_total{result="not_sent",route="a"} 1`,
		`gateway_attempts_total{result="maybe_processed",route="a"} 1`,
		`gateway_codec_bytes_total 111`,
		`gateway_normalize_skipped_total{route="a"} 1`,
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("scrape lacks %s", want)
		}
	}
	if n := strings.Count(got, "\ngateway_faults_total{"); n != 2 {
		t.Errorf("%d series of gateway_faults_total, want 2: those of a backend are counted as its answers", n)
	}
}
