package bench

import (
	"strings"
	"testing"
	"time"
)

// TestStoreWatch: what the disk did is counted from run to run, and named as the
// limiter when it was busy nearly all the time.
func TestStoreWatch(t *testing.T) {
	w := &storeWatch{before: storeUse{syncing: 10, syncs: 100, messages: 1000}}
	m := newMeter(nil, nil, nil)
	w.add(storeUse{syncing: 10.9, syncs: 200, messages: 3000}, time.Second, m)
	if got := w.limiter(); got != limiterDisk {
		t.Errorf("a disk that is busy 90 %% of the time: got %q", got)
	}
	near(t, "messages a sync", w.group(), 20, 1e-9)
	near(t, "measure group", m.measures[0].Value, 20, 1e-9)
	near(t, "measure disk_busy", m.measures[1].Value, 0.9, 1e-9)
	w.before = storeUse{syncing: 10.9, syncs: 200, messages: 3000}
	w.add(storeUse{syncing: 11.4, syncs: 300, messages: 3100}, time.Second, m)
	if got := w.limiter(); got != "" {
		t.Errorf("70 %% over both runs: got %q", got)
	}
	near(t, "messages a sync", w.group(), 2100.0/200, 1e-9)
	if got := new(storeWatch).limiter(); got != "" || new(storeWatch).group() != 0 {
		t.Errorf("nothing was seen: got %q", got)
	}
}

// TestMetricIn finds a metric by its whole name.
func TestMetricIn(t *testing.T) {
	const text = "# HELP a_sum x\na_sum_total 3\na_sum 1.5e-3\nb{x=\"1\"} 2\n"
	if v, ok := metricIn(text, "a_sum"); !ok || v != 1.5e-3 {
		t.Errorf("got %v, %v", v, ok)
	}
	for _, name := range []string{"a", "b", "HELP"} {
		if v, ok := metricIn(text, name); ok {
			t.Errorf("%s: got %v", name, v)
		}
	}
}

// TestStartThatEnds: a gateway that ends before it answers is told at once.
func TestStartThatEnds(t *testing.T) {
	lab := NewLab(LabOptions{Command: []string{"false"}, Dir: t.TempDir()})
	err := NewStartup(StartupOptions{Lab: lab}).Once(t.Context(), newMeter(nil, nil, nil))
	if err == nil || !strings.Contains(err.Error(), "ended before it answered") {
		t.Errorf("got %v", err)
	}
}
