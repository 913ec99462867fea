// Package retry says when something that failed is tried again. It is pure: time
// and randomness are arguments.
package retry

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Policy is a schedule of attempts (CONFIG.md `retry`). The zero value is the
// default schedule.
type Policy struct {
	Initial  time.Duration // wait after the first attempt; default 1s
	Factor   float64       // each wait is this times the one before; default 2
	Max      time.Duration // longest wait; default 10m
	Jitter   float64       // a wait varies by ± this part of itself, 0 ≤ Jitter < 1; default 0.2, negative = none
	Expire   time.Duration // from acceptance; later no attempt begins. Default 120h, negative = never
	Attempts int           // most attempts; 0 = no limit
}

// MaxRetryAfter bounds what a destination may ask for (SPEC.md §4).
const MaxRetryAfter = time.Hour

// WithDefaults fills the zero fields.
func (p Policy) WithDefaults() Policy {
	if p.Initial == 0 {
		p.Initial = time.Second
	}
	if p.Factor == 0 {
		p.Factor = 2
	}
	if p.Max == 0 {
		p.Max = 10 * time.Minute
	}
	switch {
	case p.Jitter == 0:
		p.Jitter = 0.2
	case p.Jitter < 0:
		p.Jitter = 0
	}
	if p.Expire == 0 {
		p.Expire = 120 * time.Hour
	}
	return p
}

// Validate reports every bad field at once; call it after WithDefaults.
func (p Policy) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Initial < 0 {
		bad("option Initial: got %v, want more than 0", p.Initial)
	}
	if p.Factor < 1 || math.IsInf(p.Factor, 0) || math.IsNaN(p.Factor) {
		bad("option Factor: got %v, want 1 or more", p.Factor)
	}
	if p.Max < p.Initial {
		bad("option Max: got %v, want at least Initial (%v)", p.Max, p.Initial)
	}
	if p.Jitter >= 1 || math.IsNaN(p.Jitter) {
		bad("option Jitter: got %v, want less than 1", p.Jitter)
	}
	if p.Attempts < 0 {
		bad("option Attempts: got %d, want 0 (no limit) or more", p.Attempts)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("retry: options: %w", err)
	}
	return nil
}

// Wait is how long to wait after attempt n (from 1) has failed. random is in
// [0,1). What the destination asked for with Retry-After is a lower bound, up to
// [MaxRetryAfter].
func (p Policy) Wait(n int, random float64, after time.Duration) time.Duration {
	w := float64(p.Initial) * math.Pow(p.Factor, float64(n-1))
	w = min(w, float64(p.Max)) // also when Pow has overflowed to +Inf
	w *= 1 + p.Jitter*(2*random-1)
	return max(time.Duration(w), min(after, MaxRetryAfter))
}

// Expired reports whether no attempt may begin any more, age after acceptance.
func (p Policy) Expired(age time.Duration) bool { return p.Expire > 0 && age >= p.Expire }

// Spent reports whether n finished attempts are all that are allowed.
func (p Policy) Spent(n int) bool { return p.Attempts > 0 && n >= p.Attempts }
