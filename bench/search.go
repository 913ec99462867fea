package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// A Probe is one try at a number of threads.
type Probe struct {
	Threads   int     `json:"threads"`
	Window    float64 `json:"window_s"`
	Scheduled int64   `json:"scheduled"`
	Sent      int64   `json:"sent"`
	Errors    int64   `json:"errors"`
	Refused   int64   `json:"refused"` // connections that were not made
	P50       float64 `json:"p50_us"`  // from due to reply
	P99       float64 `json:"p99_us"`
	First     float64 `json:"first_third_us"` // median of the requests due in the first third of the window
	Last      float64 `json:"last_third_us"`
	LagP99    float64 `json:"lag_p99_us"` // the sender's own fault
	Cores     float64 `json:"cores"`      // processors used by both sides; 0: not known
	Stable    bool    `json:"stable"`
	Generator bool    `json:"generator,omitempty"` // not stable, but by the sender's fault
	Why       string  `json:"why,omitempty"`       // the clause that failed
}

// SearchOptions are the settings of a search for the highest stable number of
// threads; the zero value is the search of the record.
type SearchOptions struct {
	// First is the number to begin with. Default 64.
	First int
	// Most is the largest number to try: of descriptors, say. Default no limit.
	Most int
	// Warmup and Window are those of a probe. Default 3s and 10s.
	Warmup, Window time.Duration
	// Confirm is the window of the last stage. Default 30s.
	Confirm time.Duration
	// Probes is how many there may be before the last stage. Default no limit.
	Probes int
	// Lag is the p99 from due to reply that a stable number keeps. Default 250ms.
	Lag time.Duration
}

// recordFirst is the number that the search of the record begins with.
const recordFirst = 64

func (o SearchOptions) withDefaults() SearchOptions {
	if o.First == 0 {
		o.First = recordFirst
	}
	if o.Most == 0 {
		o.Most = math.MaxInt32
	}
	if o.Warmup == 0 {
		o.Warmup = 3 * time.Second
	}
	if o.Window == 0 {
		o.Window = 10 * time.Second
	}
	if o.Confirm == 0 {
		o.Confirm = 30 * time.Second
	}
	if o.Probes == 0 {
		o.Probes = math.MaxInt
	}
	if o.Lag == 0 {
		o.Lag = 250 * time.Millisecond
	}
	o.First = min(o.First, o.Most)
	return o
}

// Found is the outcome of a search.
type Found struct {
	Stable    int     `json:"stable"`              // 0: not even the first was stable
	Unstable  int     `json:"unstable"`            // the smallest that was not stable; 0: none was met
	Why       string  `json:"why,omitempty"`       // why Unstable was not
	Generator bool    `json:"generator,omitempty"` // it was the sender's fault: the server may do more
	Confirmed bool    `json:"confirmed"`           // by the long last stage
	Note      string  `json:"note,omitempty"`      // how the search ended when not by itself
	Probes    []Probe `json:"probes"`
}

// maxBisections bounds the second stage.
const maxBisections = 8

// A search looks for the highest stable number of threads by separate probes of
// fixed load: doubling, halving the gap, confirming. A controller that follows
// the load would settle on rates that nobody can sustain.
type search struct {
	opt   SearchOptions
	probe func(ctx context.Context, threads int, window time.Duration) (Probe, error)
	found Found
}

// run searches. On an error Found has what was found before it.
func (s *search) run(ctx context.Context) (Found, error) {
	s.opt = s.opt.withDefaults()
	err := s.double(ctx)
	if err == nil && s.found.Stable > 0 {
		if err = s.bisect(ctx); err == nil {
			err = s.confirm(ctx)
		}
	}
	return s.found, err
}

// try probes n, twice when the first fails: one bad moment of the machine shall
// not decide.
func (s *search) try(ctx context.Context, n int) (stable bool, err error) {
	var p Probe
	for range 2 {
		if p, err = s.once(ctx, n, s.opt.Window); err != nil {
			return false, err
		}
		if p.Stable {
			s.found.Stable = max(s.found.Stable, n)
			if n >= s.found.Unstable { // what failed before was a bad moment
				s.found.Unstable, s.found.Why, s.found.Generator = 0, "", false
			}
			return true, nil
		}
	}
	s.fails(&p)
	return false, nil
}

func (s *search) once(ctx context.Context, n int, window time.Duration) (Probe, error) {
	p, err := s.probe(ctx, n, window)
	if err != nil {
		return p, err
	}
	judgeProbe(&p, s.opt.Lag)
	s.found.Probes = append(s.found.Probes, p)
	return p, nil
}

func (s *search) fails(p *Probe) {
	if s.found.Unstable == 0 || p.Threads < s.found.Unstable {
		s.found.Unstable, s.found.Why, s.found.Generator = p.Threads, p.Why, p.Generator
	}
}

// spent reports whether there may be no more probes.
func (s *search) spent() bool {
	if len(s.found.Probes) < s.opt.Probes {
		return false
	}
	s.found.Note = fmt.Sprintf("ended after %d probes", len(s.found.Probes))
	return true
}

func (s *search) double(ctx context.Context) error {
	for n := s.opt.First; ; n = min(2*n, s.opt.Most) {
		stable, err := s.try(ctx, n)
		if err != nil {
			return err
		}
		switch {
		case !stable && s.found.Stable == 0 && n > recordFirst:
			n = recordFirst / 2 // it was too bold: from the beginning
		case !stable && s.found.Stable == 0:
			s.found.Note = fmt.Sprintf("not even the first number, %d, is stable: %s", n, s.found.Why)
			return nil
		case !stable:
			return nil
		case n == s.opt.Most:
			s.found.Note = fmt.Sprintf("%d is the most that can be tried here", n)
			return nil
		}
		if s.spent() {
			return nil
		}
	}
}

func (s *search) bisect(ctx context.Context) error {
	for range maxBisections {
		lo, hi := s.found.Stable, s.found.Unstable
		if hi == 0 || hi-lo <= max(lo/100, 1) || s.spent() {
			return nil
		}
		if _, err := s.try(ctx, lo+(hi-lo)/2); err != nil {
			return err
		}
	}
	return nil
}

// confirm probes the best for longer, and less when that fails.
func (s *search) confirm(ctx context.Context) error {
	n := s.found.Stable
	for tries := 0; ; tries++ {
		p, err := s.once(ctx, n, s.opt.Confirm)
		if err != nil {
			return err
		}
		if p.Stable {
			s.found.Stable, s.found.Confirmed = n, true
			return nil
		}
		s.fails(&p)
		s.found.Stable = n
		if tries == 3 || n == 1 {
			s.found.Note = "no number was confirmed"
			return nil
		}
		n = max(1, n*95/100)
	}
}

// judgeProbe says whether a number is stable, and which clause it breaks.
func judgeProbe(p *Probe, lag time.Duration) {
	ms := func(us float64) float64 { return us / 1e3 }
	p.Stable, p.Generator, p.Why = false, false, ""
	done := p.Scheduled - p.Errors
	switch {
	case p.Refused > 0:
		p.Why = fmt.Sprintf("%d of %d connections were not made", p.Refused, p.Threads)
	case p.LagP99 > float64(maxLag.Microseconds()):
		p.Generator = true
		p.Why = fmt.Sprintf("the generator was late by its own fault: p99 %.0f ms > %d ms", ms(p.LagP99), maxLag.Milliseconds())
	case float64(p.Sent) < 0.99*float64(p.Scheduled):
		p.Why = fmt.Sprintf("sent %.1f %% of what was due < 99 %%", 100*float64(p.Sent)/float64(p.Scheduled))
	case done <= 0 || float64(p.Errors) > maxErrors*float64(p.Scheduled):
		p.Why = fmt.Sprintf("%d of %d replies failed or were wrong > 0.1 %%", p.Errors, p.Scheduled)
	case p.P99 > float64(lag.Microseconds()):
		p.Why = fmt.Sprintf("p99 %.0f ms > %d ms", ms(p.P99), lag.Milliseconds())
	case p.Last > 1.2*p.First+5000:
		p.Why = fmt.Sprintf("it grows: median %.1f ms in the first third, %.1f ms in the last", ms(p.First), ms(p.Last))
	default:
		p.Stable = true
	}
}

// maxErrors is the share of requests that may fail at a stable number.
const maxErrors = 0.001
