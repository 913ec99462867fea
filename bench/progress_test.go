package bench

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: on a terminal one line that is rewritten four times a second and
// wiped out, elsewhere a line in 5 s; also while a run begins anew.
func TestProgress(t *testing.T) {
	show := func(columns int) string {
		var b strings.Builder
		synctest.Test(t, func(t *testing.T) {
			p := NewProgress(&b, columns)
			m := newMeter(nil, nil, nil)
			end := p.run(m, &Spec{Name: "ping", Combo: "ff"}, 1, 5)
			m.Start()
			for i := range 26 {
				m.Shard(i).Done(time.Now())
				time.Sleep(200 * time.Millisecond)
			}
			m.Reset()
			m.Shard(0).Fail(errors.New("x"), time.Now())
			time.Sleep(5 * time.Second)
			end()
			p.Say("done")
		})
		return b.String()
	}
	if got, want := show(0), "ping.ff run 1/5 █ 5/s p99 1ns err 0\nping.ff run 1/5 █▁ 0/s err 1\ndone\n"; got != want {
		t.Errorf("no terminal: got %q, want %q", got, want)
	}
	got := show(30)
	if n := strings.Count(got, "\r\x1b[Kping.ff run 1/5 "); n < 35 || n > 45 {
		t.Errorf("terminal: %d updates in 10 s:\n%q", n, got)
	}
	if !strings.HasSuffix(got, "\r\x1b[Kdone\n") {
		t.Errorf("terminal: the line is left behind: %q", got)
	}
	for line := range strings.SplitSeq(got, "\r\x1b[K") {
		if n := len([]rune(line)); n > 30 {
			t.Errorf("terminal: a line of %d columns: %q", n, line)
		}
	}
	var none *Progress
	none.run(newMeter(nil, nil, nil), &Spec{}, 1, 1)()
	none.Say("nothing")
}

// TestETA: from the second run on it is known how long the row will take; a run
// without an end is shown each second.
func TestETA(t *testing.T) {
	var b strings.Builder
	synctest.Test(t, func(t *testing.T) {
		p := NewProgress(&b, 0)
		m := newMeter(nil, nil, nil)
		spec := &Spec{Name: "ping"}
		for n := range 3 {
			end := p.run(m, spec, n, 2)
			time.Sleep(12 * time.Second)
			end()
		}
		end := p.run(m, &Spec{Name: "threads", EverySecond: true}, 1, 1)
		time.Sleep(2500 * time.Millisecond)
		end()
	})
	want := "ping warm-up ▁ 0/s err 0\nping warm-up ▁▁ 0/s err 0\n" +
		"ping run 1/2 ▁ 0/s err 0\nping run 1/2 ▁▁ 0/s err 0\n" +
		"ping run 2/2 ETA 0:07 ▁ 0/s err 0\nping run 2/2 ETA 0:02 ▁▁ 0/s err 0\n" +
		"threads run 1/1 ▁ 0/s err 0\nthreads run 1/1 ▁▁ 0/s err 0\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBars(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{nil, ""},
		{[]float64{0, 0}, "▁▁"},
		{[]float64{1, 4, 8}, "▁▄█"},
	} {
		if got := bars(tt.values); got != tt.want {
			t.Errorf("bars(%v): got %s, want %s", tt.values, got, tt.want)
		}
	}
	for v, want := range map[float64]string{0: "0", 999: "999", 12570.4: "12 570", 1e6: "1 000 000", -1234: "-1 234"} {
		if got := grouped(v); got != want {
			t.Errorf("grouped(%v): got %q, want %q", v, got, want)
		}
	}
}
