package retry

import (
	"testing"
	"testing/quick"
	"time"
)

func TestWait(t *testing.T) {
	def := Policy{}.WithDefaults()
	exact := Policy{Jitter: -1}.WithDefaults()
	tests := []struct {
		name   string
		p      Policy
		n      int
		random float64
		after  time.Duration
		want   time.Duration
	}{
		{"first", exact, 1, 0.9, 0, time.Second},
		{"second", exact, 2, 0, 0, 2 * time.Second},
		{"tenth", exact, 10, 0, 0, 512 * time.Second},
		{"capped", exact, 11, 0, 0, 10 * time.Minute},
		{"overflow", exact, 1 << 30, 0, 0, 10 * time.Minute},
		{"least jitter", def, 1, 0, 0, 800 * time.Millisecond},
		{"no jitter in the middle", def, 1, 0.5, 0, time.Second},
		{"asked for more", exact, 1, 0, 90 * time.Second, 90 * time.Second},
		{"asked for less", exact, 11, 0, time.Second, 10 * time.Minute},
		{"asked for too much", exact, 1, 0, 48 * time.Hour, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Wait(tt.n, tt.random, tt.after); got != tt.want {
				t.Errorf("Wait(%d, %v, %v): got %v, want %v", tt.n, tt.random, tt.after, got, tt.want)
			}
		})
	}
}

// Whatever the attempt and the draw, a wait stays within its bounds.
func TestWaitIsBounded(t *testing.T) {
	p := Policy{Jitter: 0.5}.WithDefaults()
	check := func(n uint16, draw uint16) bool {
		w := p.Wait(int(n)+1, float64(draw)/65536, 0)
		return w >= p.Initial/2 && w <= p.Max+p.Max/2
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

func TestExpiredAndSpent(t *testing.T) {
	p := Policy{Attempts: 3}.WithDefaults()
	if p.Expired(120*time.Hour-1) || !p.Expired(120*time.Hour) {
		t.Error("Expired: the limit is not 120h")
	}
	if (Policy{Expire: -1}).WithDefaults().Expired(1 << 60) {
		t.Error("Expired: a negative Expire must mean never")
	}
	if p.Spent(2) || !p.Spent(3) || (Policy{}).Spent(1<<40) {
		t.Error("Spent: got the wrong limit")
	}
}

func TestValidate(t *testing.T) {
	if err := (Policy{}).WithDefaults().Validate(); err != nil {
		t.Errorf("Validate(defaults): got %v, want nil", err)
	}
	for name, p := range map[string]Policy{
		"Initial": {Initial: -1}, "Factor": {Factor: 0.5}, "Max": {Max: 1}, "Jitter": {Jitter: 1}, "Attempts": {Attempts: -1},
	} {
		if err := p.WithDefaults().Validate(); err == nil {
			t.Errorf("Validate with a bad %s: got nil", name)
		}
	}
}
