package telemetry

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/proxy"
)

func TestTimeClasses(t *testing.T) {
	last := -1
	for us := time.Duration(0); us < 200_000_000; us += 1 + us/50 {
		d := us * time.Microsecond
		c := timeClass(d)
		if c < last || c >= timeClasses {
			t.Fatalf("timeClass(%v): got %d behind %d of %d", d, c, last, timeClasses)
		}
		last = c
		if c == timeClasses-1 {
			continue
		}
		if end := classEnd(c); d >= end || c > 0 && d < classEnd(c-1) {
			t.Fatalf("timeClass(%v): got %d, which is from %v to %v", d, c, classEnd(max(0, c-1)), end)
		}
	}
	if last != timeClasses-1 {
		t.Errorf("the last class is %d, want %d", last, timeClasses-1)
	}
	if got := timeClass(-time.Second); got != 0 {
		t.Errorf("timeClass(-1s): got %d, want 0", got)
	}
}

// TestHistoryQuantiles: a quantile is that of the sorted times, within an eighth.
func TestHistoryQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 10, 1000, 100_000} {
		h := NewHistory()
		times := make([]time.Duration, n)
		for i := range times {
			times[i] = time.Duration(100+r.ExpFloat64()*20_000) * time.Microsecond
			h.ObserveExchange(proxy.ExchangeEvent{Route: "r", Duration: times[i]})
		}
		slices.Sort(times)
		p := h.Hour("r")
		for _, q := range []struct {
			part float64
			got  time.Duration
		}{{0.5, p.P50}, {0.99, p.P99}} {
			want := times[int(q.part*float64(n-1))]
			if off := float64(q.got-want) / float64(want); off < -0.26 || off > 0.26 || n >= 1000 && (off < -0.125 || off > 0.125) {
				t.Errorf("%d times, quantile %.2f: got %v, want about %v", n, q.part, q.got, want)
			}
		}
	}
}

// TestHistoryForgets: what is an hour old is gone, and what comes is counted in
// its step.
func TestHistoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHistory()
		outcomes := []proxy.Outcome{
			proxy.OutcomeAnswered, proxy.OutcomeFault, proxy.OutcomeFailed, proxy.OutcomeBusy, proxy.OutcomeRejected, proxy.OutcomeStored, proxy.OutcomeInternal, proxy.OutcomeUnknown,
		}
		for _, o := range outcomes {
			h.ObserveExchange(proxy.ExchangeEvent{Route: "orders", Outcome: o, Duration: time.Millisecond})
		}
		h.Delivered("orders")
		h.Died("orders")
		want := Counts{Requests: 8, Failed: 4, Faults: 1, Refused: 1, Delivered: 1, Died: 1}
		check := func(now, hour, route bool) {
			t.Helper()
			points, step := h.Points()
			if len(points)*int(step) != int(time.Hour) {
				t.Fatalf("%d points of %v", len(points), step)
			}
			if got := points[len(points)-1].Counts; (got == want) != now {
				t.Errorf("at %v the present step has %+v, want the messages: %v", time.Now(), got, now)
			}
			if got := slices.ContainsFunc(points, func(p Point) bool { return p.Counts == want }); got != hour {
				t.Errorf("at %v the hour has the messages: %v, want %v", time.Now(), got, hour)
			}
			if got := h.Hour("orders").Counts; (got == want) != route {
				t.Errorf("at %v the route has %+v, want the messages: %v", time.Now(), got, route)
			}
			if got := h.Total(); got != want {
				t.Errorf("total: got %+v, want %+v", got, want)
			}
		}
		check(true, true, true)
		time.Sleep(10 * time.Second)
		check(false, true, true)
		time.Sleep(58 * time.Minute)
		check(false, true, true)
		time.Sleep(2 * time.Minute)
		check(false, false, false)
		h.ObserveExchange(proxy.ExchangeEvent{Route: "orders", Outcome: proxy.OutcomeAnswered})
		if got := h.Hour("orders").Requests; got != 1 {
			t.Errorf("after an hour the same step counts %d, want 1", got)
		}
		if got := h.Hour("nothing"); got != (Point{}) {
			t.Errorf("a route without messages: got %+v", got)
		}
	})
}

// TestHistoryCounts: nothing is lost between goroutines within an hour.
func TestHistoryCounts(t *testing.T) {
	h := NewHistory()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				h.ObserveExchange(proxy.ExchangeEvent{Route: "orders", Outcome: proxy.OutcomeFault, Duration: time.Millisecond})
			}
		})
	}
	wg.Wait()
	if got := h.Hour("orders").Counts; got != (Counts{Requests: 8000, Faults: 8000}) {
		t.Errorf("got %+v, want 8000 faults", got)
	}
}

func TestHistoryAllocs(t *testing.T) {
	h := NewHistory()
	e := proxy.ExchangeEvent{Route: "orders", Outcome: proxy.OutcomeAnswered, Duration: time.Millisecond}
	h.ObserveExchange(e)
	if got := testing.AllocsPerRun(1000, func() { h.ObserveExchange(e) }); got > 0 {
		t.Errorf("ObserveExchange allocates %v times", got)
	}
}

func BenchmarkHistory(b *testing.B) {
	h := NewHistory()
	e := proxy.ExchangeEvent{Route: "orders", Outcome: proxy.OutcomeAnswered, Duration: time.Millisecond}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.ObserveExchange(e)
		}
	})
}
