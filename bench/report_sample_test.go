package bench

import (
	"encoding/base64"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// demoResults is a self-test as it could be, the same in every run: something
// of everything that a report shows, and of everything that can be wrong with it.
func demoResults(t testing.TB) *Results {
	t.Helper()
	sampleOnce.Do(func() { sampleMade = makeSample(t) })
	r := *sampleMade
	r.Tests = slices.Clone(r.Tests) // tests change rows
	return &r
}

var (
	sampleOnce sync.Once // histograms take a while to make
	sampleMade *Results
)

func makeSample(t testing.TB) *Results {
	t.Helper()
	floor := Limit{Name: "TCP round trip", Value: 17_500}
	r := &Results{
		Schema: Schema,
		Env: Env{
			Version: "0.9.0", Commit: "a1b2c3d4e5f6", Go: "go1.26.8", OS: "linux", Arch: "amd64", CPU: "AMD EPYC 7763", CPUs: 2, GOMAXPROCS: 2,
			Kernel: "6.18.0", Host: "gw-1", Started: time.Date(2026, 11, 30, 11, 40, 0, 0, time.UTC), Seconds: 141, Command: []string{"bench", "all", "--quick"},
		},
		Limits: &Limits{
			FloorUS: 57, FloorMeanUS: 61, Stream1500: 2300, Stream64K: 11200, MemcpyGBs: 14.1, SyscallNS: 145, NowNS: 70, SleepOverUS: 1030, Cores: 2, Files: 1 << 20,
			Sync: &SyncLimit{Dir: "/var/lib", Mean: 410, P50: 290, P99: 2100},
		},
		Verdict: "ok: 17 valid, 1 DISTURBED, 1 INVALID",
		Notes:   []string{"client and server share this machine"},
	}
	for i, p := range []struct {
		combo, label, founding string
		rate                   float64
	}{
		{"hh", "http client - http listener", "SoapSender-IberBinder", 4827},
		{"hr", "http client - raw http listener", "SoapSender-SocketBinder", 9949},
		{"rh", "raw http client - http listener", "SocketSender-IberBinder", 9120},
		{"rr", "raw http client - raw http listener", "SocketSender-SocketBinder", 13480},
		{"ff", "framed - framed", "FastSocketSender-FastSocketBinder", 12570},
		{"nn", "net/http client - net/http server", "", 5210},
	} {
		tt := sampleTest(t, uint64(i+1), "ping", p.combo, p.label, "messages/s", p.rate, 5)
		tt.Founding, tt.Limit = p.founding, &floor
		eff := tt.Summary.Mean / floor.Value
		tt.Eff, tt.Limiter = &eff, "waiting (wake-up)"
		if p.combo == "hr" {
			tt.Verdict, tt.Reasons = Disturbed, []string{"run 3: 12 % of the machine was used by others"}
		}
		if p.combo == "nn" {
			tt.Verdict, tt.Reasons = Invalid, []string{"spread 14 % > 5 %"}
		}
		r.Tests = append(r.Tests, tt)
	}
	r.Tests = append(r.Tests, sampleThreads(t), sampleTest(t, 20, "web", "", "GET of a page of 1 KiB", "requests/s", 11240, 5))
	start := sampleTest(t, 21, "startup", "", "from the start of the process to the first right reply", "ms", 74.8, 20)
	start.LowerIsBetter = true
	mem := sampleTest(t, 22, "mem", "idle", "idle", "MiB", 26.4, 1)
	mem.LowerIsBetter, mem.Measures = true, []Measure{{"rss", 26.4 * (1 << 20), "B"}, {"goroutines", 31, ""}}
	r.Tests = append(r.Tests, start, mem)
	for i, q := range []struct {
		mode    string
		senders int
		rate    float64
	}{
		{"strict", 1, 1180},
		{"strict", 64, 19_400},
		{"strict", 512, 44_100},
		{"relaxed", 1, 6100},
		{"relaxed", 64, 27_300},
		{"relaxed", 512, 51_800},
		{"jetstream", 1, 590},
		{"jetstream", 64, 2310},
		{"jetstream", 512, 2600},
	} {
		tt := sampleTest(t, uint64(30+i), "queue", q.mode+"-"+trimZero(shortNumber(float64(q.senders))), q.mode, "messages/s", q.rate, 5)
		tt.Params = map[string]any{"mode": q.mode, "senders": q.senders}
		tt.Measures = []Measure{{"delivered", q.rate * 0.93, "/s"}}
		r.Tests = append(r.Tests, tt)
	}
	r.Tests = append(r.Tests, sampleDrain(t))
	for i, n := range []struct {
		protocol string
		mbit     float64
	}{{"raw", 2270}, {"http", 512}, {"rpc", 148}, {"soap", 377}, {"framed", 461}} {
		r.Tests = append(r.Tests, sampleTest(t, uint64(50+i), "net", n.protocol, n.protocol+", 1,500 octets", "Mbit/s", n.mbit, 9))
	}
	return r
}

// sampleTest is a row whose runs lie around mean.
func sampleTest(t testing.TB, seed uint64, name, combo, label, unit string, mean float64, runs int) Test {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	all, samples := histogram(), 1000
	if name != "ping" { // only whose curves are drawn
		samples = 20
	}
	tt := Test{Name: name, Combo: combo, Label: label, Loop: LoopClosed, Processes: "separate", Unit: unit, Conns: 1, Size: 225, Limiter: "cpu", Verdict: Valid}
	for range runs {
		h := all
		if name == "ping" {
			h = histogram()
		}
		for range samples {
			us := 1e6 / max(mean, 100) * (0.7 + 0.5*rnd.ExpFloat64())
			if rnd.IntN(300) == 0 {
				us *= 8
			}
			record(h, time.Duration(us*1e3))
		}
		hdr := ""
		if name == "ping" {
			b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
			if err != nil {
				t.Fatal(err)
			}
			hdr = base64.StdEncoding.EncodeToString(b)
			all.Merge(h)
		}
		value := mean * (1 + 0.02*rnd.NormFloat64())
		server := Cost{CPU: 0.09, Reads: 2000, Writes: 1000, Switches: 1400}
		tt.Runs = append(tt.Runs, Run{
			Value: value, Rate: value, Ops: 1000, Seconds: 1000 / value, Latency: latencyOf(h), HDR: hdr,
			Client: Cost{CPU: 0.07, Reads: 2000, Writes: 1000, Switches: 1300}, Server: &server, Verdict: Valid,
		})
	}
	tt.Summary = summarize(tt.Runs)
	tt.Summary.Latency = latencyOf(all)
	return tt
}

func sampleThreads(t testing.TB) Test {
	t.Helper()
	tt := sampleTest(t, 19, "threads", "hh", "http client - http listener, one message a second each", "threads", 5120, 1)
	tt.Runs[0].Value, tt.Loop = 5120, LoopOpen
	tt.Summary = summarize(tt.Runs)
	found := map[string]any{"stable": 5120, "unstable": 5184}
	var probes []map[string]any
	probe := func(n int, ok bool, why string) {
		probes = append(probes, map[string]any{"threads": n, "stable": ok, "why": why})
	}
	for n := 64; n <= 4096; n *= 2 {
		probe(n, true, "")
	}
	probe(8192, false, "p99 1.9 s > 250 ms")
	probe(8192, false, "p99 2.2 s > 250 ms")
	probe(6144, false, "p99 412 ms > 250 ms")
	probe(5120, true, "")
	probe(5632, false, "it gets slower: 12 ms, then 88 ms")
	probe(5376, false, "p99 301 ms > 250 ms")
	probe(5248, false, "p99 277 ms > 250 ms")
	probe(5184, false, "p99 412 ms > 250 ms")
	probe(5120, true, "")
	found["probes"] = probes
	tt.Detail = found
	return tt
}

func sampleDrain(t testing.TB) Test {
	t.Helper()
	tt := sampleTest(t, 40, "queue", "backlog-strict", "strict, backlog of 10 000 drains", "messages/s", 8300, 3)
	d := &drainDetail{Up: 0.62}
	for i := range 100 {
		at := float64(i) * 0.02
		n := 10_000 * at / d.Up
		if at > d.Up {
			n = 10_000 * math.Max(0, 1-math.Max(0, at-d.Up-0.18)/1.05)
		}
		d.Waiting = append(d.Waiting, drainSample{T: at, N: int64(n)})
	}
	tt.Detail = d
	return tt
}
