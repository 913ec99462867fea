package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// A Progress shows what goes on while a row is measured. It reads counters and one
// percentile, four times a second on a terminal and once in five seconds elsewhere,
// so that it takes next to nothing from what it shows: a caller may wait for the
// percentile of its shard, some 20 µs. A nil Progress shows nothing.
type Progress struct {
	w        io.Writer
	terminal bool
	width    int

	mu      sync.Mutex
	written bool // a line of a terminal is to be wiped out
	row     string
	first   time.Time // when the first run of the row began
}

// NewProgress returns a Progress that writes to w: one line that is rewritten on
// a terminal of so many columns, a line per 5 s elsewhere (columns 0).
func NewProgress(w io.Writer, columns int) *Progress {
	return &Progress{w: w, terminal: columns > 0, width: columns}
}

// Say shows a line of its own, such as a row that is done, above what goes on.
func (p *Progress) Say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// run shows the run of a meter until the returned function is called.
func (p *Progress) run(m *Meter, spec *Spec, n, of int) (end func()) {
	if p == nil {
		return func() {}
	}
	every := 5 * time.Second
	switch {
	case p.terminal:
		every = 250 * time.Millisecond
	case spec.EverySecond:
		every = time.Second
	}
	stop, gone := make(chan struct{}), make(chan struct{})
	what := func(now time.Time) string { return fmt.Sprintf("%s run %d/%d", spec.name(), n, of) }
	switch eta := p.eta(spec.name(), n, of); {
	case n == 0:
		what = func(time.Time) string { return spec.name() + " warm-up" }
	case !eta.IsZero():
		plain := what
		what = func(now time.Time) string {
			left := max(0, eta.Sub(now).Round(time.Second))
			return fmt.Sprintf("%s ETA %d:%02d", plain(now), left/time.Minute, left%time.Minute/time.Second)
		}
	}
	go func() { // ends before end returns
		defer close(gone)
		tick := time.NewTicker(every)
		defer tick.Stop()
		w := watch{last: time.Now()}
		for {
			select {
			case <-stop:
				return
			case now := <-tick.C:
				p.show(what(now) + " " + w.look(m, now))
			}
		}
	}()
	return func() {
		close(stop)
		<-gone
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wipe()
	}
}

// eta guesses when the last of so many runs of a row ends, from those that are
// over. The zero time: nobody knows.
func (p *Progress) eta(row string, n, of int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.row != row || n <= 1 {
		p.row, p.first = row, now
		return time.Time{}
	}
	each := now.Sub(p.first) / time.Duration(n-1)
	return now.Add(each * time.Duration(of-n+1))
}

// show writes the line of the moment.
func (p *Progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal {
		fmt.Fprintf(p.w, "%s\n", line)
		return
	}
	if r := []rune(line); len(r) >= p.width {
		line = string(r[:p.width-1])
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	p.written = true
}

// wipe clears the line of the moment. mu is held.
func (p *Progress) wipe() {
	if p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.written = false
	}
}

// A watch turns counters into rates.
type watch struct {
	last  time.Time
	ops   int64
	rates []float64
}

// look says how a run goes on: bars of the last rates, the rate, the errors.
func (w *watch) look(m *Meter, now time.Time) string {
	ops, errors := m.counts()
	if ops < w.ops { // the run has begun anew
		w.ops = 0
	}
	rate := float64(ops-w.ops) / max(now.Sub(w.last).Seconds(), 1e-3)
	w.last, w.ops = now, ops
	w.rates = append(w.rates, rate)
	w.rates = w.rates[max(0, len(w.rates)-12):]
	p99 := ""
	if us := m.p99(); us > 0 {
		p99 = " p99 " + micros(us)
	}
	return fmt.Sprintf("%s %s/s%s err %d", bars(w.rates), grouped(rate), p99, errors)
}

// bars draws values as a line of small columns.
func bars(values []float64) string {
	const steps = "▁▂▃▄▅▆▇█"
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if most > 0 {
			i = int(v / most * 7)
		}
		b.WriteString(steps[3*i : 3*i+3]) // each is three octets
	}
	return b.String()
}

// grouped writes a number with thin groups of three: 12 570.
func grouped(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return sign + s
}
