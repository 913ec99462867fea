package bench

import (
	"math"
	"testing"
)

// TestFoundingSeries: the three series of the founding table, with the figures
// that were computed for them by hand: spread 0.12, 2.61 and 0.63 %, half width of
// the t-interval 0.15, 3.24 and 0.78 %. All are valid.
func TestFoundingSeries(t *testing.T) {
	for _, tt := range []struct {
		name       string
		values     []float64
		spread, ci float64
		want       string
	}{
		// With three values a, b, c the half width is 4.303 s/√3.
		{"narrow", []float64{1000, 1000.6, 1001.2}, 0.0012, 0.0015, ""},
		{"wide, and within 5 %", []float64{1000, 1013, 1026.4}, 0.0261, 0.0324, ""},
		{"spread above 5 %", []float64{100, 103, 107}, 0.0677, 0.0843, "spread 7 % > 5 %"},
		{"one value", []float64{5}, 0, math.NaN(), ""},
	} {
		s := summarizeValues(tt.values)
		if math.Abs(s.Spread-tt.spread) > 0.0005 {
			t.Errorf("%s: spread %.4f, want %.4f", tt.name, s.Spread, tt.spread)
		}
		if s.CI95 == nil != math.IsNaN(tt.ci) || s.CI95 != nil && math.Abs(*s.CI95-tt.ci) > 0.0005 {
			t.Errorf("%s: interval %v, want %.4f", tt.name, s.CI95, tt.ci)
		}
		if got := judgeSpread(tt.values, false, 0.025); got != tt.want {
			t.Errorf("%s: judgeSpread: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestMoreRunsSettle: runs that spread are settled once there are so many that
// their mean is known well enough, and never by their spread when the row is
// judged by its interval.
func TestMoreRunsSettle(t *testing.T) {
	values := []float64{96, 104, 97, 103, 98, 102, 99, 101, 100, 100}
	if judgeSpread(values[:3], false, 0.025) == "" {
		t.Error("three runs that spread by 8 % are settled")
	}
	if why := judgeSpread(values, false, 0.025); why != "" {
		t.Errorf("ten runs with a narrow interval: %s", why)
	}
	if why := judgeSpread([]float64{99, 101, 100}, true, 0.001); why == "" {
		t.Error("by interval: a spread of 2 % counts")
	}
}

func TestStudent(t *testing.T) {
	for freedom, want := range map[int]float64{1: 12.706, 4: 2.776, 9: 2.262, 30: 2.042, 31: 2.0395, 60: 2.0003, 120: 1.9799} {
		if got := student95(freedom); math.Abs(got-want) > 0.0006 {
			t.Errorf("student95(%d): got %.4f, want %.4f", freedom, got, want)
		}
	}
}

func TestSlope(t *testing.T) {
	for _, tt := range []struct {
		name   string
		series []float64
		want   float64
		ok     bool
	}{
		{"too short", []float64{1, 2, 3}, 0, false},
		{"flat", []float64{100, 100, 100, 100, 100}, 0, false},
		{"rising by a tenth a second", []float64{80, 90, 100, 110, 120}, 0.5, true},
		{"falling", []float64{120, 110, 100, 90, 80}, -0.5, true},
		{"noise", []float64{100, 130, 90, 120, 80, 125}, -0.06, false},
		{"nothing came", []float64{0, 0, 0, 0}, 0, false},
	} {
		got, ok := slope(tt.series)
		if ok != tt.ok || ok && math.Abs(got-tt.want) > 0.01 {
			t.Errorf("%s: slope: got %.3f, %v, want %.3f, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}
