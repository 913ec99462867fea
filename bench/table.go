package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// WriteTable writes results for people: where they were measured, a block for
// each test, the limits of the machine, and the verdict. paint colours what
// cannot be believed; nil leaves it as it is.
func WriteTable(w io.Writer, r *Results, paint func(Verdict, string) string) error {
	if paint == nil {
		paint = func(_ Verdict, s string) string { return s }
	}
	var b strings.Builder
	e := r.Env
	fmt.Fprintf(&b, "gateway %s%s %s %s/%s  %d cpu %s  kernel %s\n", e.Version, inBrackets(shortCommit(e.Commit)), e.Go, e.OS, e.Arch, e.CPUs, e.CPU, e.Kernel)
	for _, block := range blocks(r.Tests) {
		b.WriteByte('\n')
		writeBlock(&b, block, paint)
	}
	if r.Limits != nil {
		writeLimits(&b, r.Limits)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	for _, c := range r.Require {
		fmt.Fprintf(&b, "require %s\n", c)
	}
	if r.Verdict != "" {
		fmt.Fprintf(&b, "VERDICT %s\n", r.Verdict)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func shortCommit(s string) string {
	hash, dirty, _ := strings.Cut(s, "-")
	if dirty != "" {
		dirty = "-" + dirty
	}
	return hash[:min(len(hash), 8)] + dirty
}

// blocks groups neighbouring rows of one test that can share their columns.
func blocks(tests []Test) (blocks [][]Test) {
	for _, t := range tests {
		n := len(blocks)
		if n > 0 {
			last := &blocks[n-1][0]
			if last.Name == t.Name && last.Unit == t.Unit && last.Loop == t.Loop {
				blocks[n-1] = append(blocks[n-1], t)
				continue
			}
		}
		blocks = append(blocks, []Test{t})
	}
	return blocks
}

// blockTitle says what all rows of a block have in common.
func blockTitle(block []Test) string {
	t := &block[0]
	parts := []string{t.Name}
	if t.Loop != LoopNone {
		parts = append(parts, t.Loop+" loop")
	}
	if t.Processes != "" {
		parts = append(parts, "client and server: "+map[string]string{"separate": "separate processes", "one": "one process"}[t.Processes])
	}
	parts = append(parts, inCommon(block, func(t *Test) string {
		if t.Conns == 0 || t.Loop == LoopOpen { // the callers are its score
			return ""
		}
		return counted(t.Conns, "connection")
	})...)
	parts = append(parts, inCommon(block, func(t *Test) string {
		if t.Size == 0 {
			return ""
		}
		return grouped(float64(t.Size)) + " B"
	})...)
	parts = append(parts, inCommon(block, func(t *Test) string {
		if n, ok := t.Params["count"]; ok {
			return fmt.Sprintf("n=%v", n)
		}
		return ""
	})...)
	return strings.Join(append(parts, inCommon(block, runsOf)...), ", ")
}

// inCommon is what all rows of a block say alike, if they do.
func inCommon(block []Test, say func(*Test) string) []string {
	first := say(&block[0])
	for i := range block {
		if first == "" || say(&block[i]) != first {
			return nil
		}
	}
	return []string{first}
}

// runsOf is how often a row was run.
func runsOf(t *Test) string {
	if len(t.Runs) < 2 {
		return ""
	}
	s := counted(len(t.Runs), "run")
	if t.Cold != nil {
		s += " + 1 warm-up"
	}
	return s
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(float64(n)) + " " + what + "s"
}

func writeBlock(b *strings.Builder, block []Test, paint func(Verdict, string) string) {
	lines := [][]string{{blockTitle(block), "", block[0].Unit, "cov", "p50", "p90", "p99", "max", "cpu/op", "of limit", "limiter"}}
	combos := 0
	for i := range block {
		combos = max(combos, utf8.RuneCountInString(block[i].Combo))
	}
	for i := range block {
		lines = append(lines, tableRow(&block[i], combos))
	}
	widths := make([]int, len(lines[0]))
	for n, line := range lines {
		for i, cell := range line {
			if n == 0 && i == 0 {
				continue // the title may run over the empty column beside it
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if over := utf8.RuneCountInString(lines[0][0]) - widths[0] - widths[1] - 2; over > 0 {
		widths[1] += over
	}
	for n, line := range lines {
		text := joinCells(line, widths, n == 0)
		if n == 0 {
			b.WriteString(text + "\n")
			continue
		}
		t := &block[n-1]
		if t.Verdict != Valid {
			text += "  " + string(t.Verdict)
		}
		b.WriteString(paint(t.Verdict, text) + "\n")
		for _, why := range t.Reasons {
			fmt.Fprintf(b, "      %s\n", why)
		}
		writeRest(b, t, inCommon(block, runsOf) == nil)
	}
	for _, l := range limitsOf(block) {
		fmt.Fprintf(b, "      limit: %s\n", l)
	}
}

// writeRest writes below a row what has no column: what an operation takes, the
// memory beside it, its own measures, and what it tried.
func writeRest(b *strings.Builder, t *Test, runs bool) {
	var parts []string
	if s := runsOf(t); runs && s != "" {
		parts = append(parts, s)
	}
	if t.Summary.Errors > 0 {
		parts = append(parts, fmt.Sprintf("err %d", t.Summary.Errors))
	}
	if p := t.Summary.PerOp; p != nil && t.Loop != LoopNone {
		parts = append(parts, fmt.Sprintf("rd/op %.1f · wr/op %.1f · csw/op %.1f", p.Reads, p.Writes, p.Switches))
		if p.Ceiling > 0 {
			parts = append(parts, fmt.Sprintf("the processors allow %s/s", figure(p.Ceiling)))
		}
	}
	for _, m := range t.Measures {
		parts = append(parts, m.Name+" "+withUnit(m.Value, m.Unit))
	}
	if _, _, ok := ownMeasure(t, "rss"); t.Memory != nil && !ok {
		parts = append(parts, memoryText(t.Memory))
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "      %s\n", strings.Join(parts, " · "))
	}
	writeProbes(b, t)
}

// memoryText says what a row took in memory.
func memoryText(m *MemoryUse) string {
	of := ""
	if m.Of != "server" {
		of = " of " + m.Of
	}
	return fmt.Sprintf("memory%s %s, peak %s", of, octets(float64(m.RSS)), octets(float64(m.Peak)))
}

// writeProbes writes what a search has tried, a line each.
func writeProbes(b *strings.Builder, t *Test) {
	probes := probesOf(t)
	if len(probes) == 0 {
		return
	}
	fmt.Fprintf(b, "      %8s  %8s  %8s  %8s  %8s  %8s  %8s  %s\n", "threads", "window", "sent", "err", "p50", "p99", "lag p99", "outcome")
	for _, p := range probes {
		fmt.Fprintf(b, "      %8s  %8s  %8s  %8s  %8s  %8s  %8s  %s\n", p.Threads, p.Window, p.Sent, p.Errors, p.P50, p.P99, p.Lag, p.Outcome)
	}
}

// limitsOf names what the rows of a block are measured against, each once.
func limitsOf(block []Test) (limits []string) {
	for i := range block {
		t := &block[i]
		if t.Limit == nil {
			continue
		}
		s := fmt.Sprintf("%s %s, by %s", figure(t.Limit.Value), t.Unit, t.Limit.Name)
		if !slices.Contains(limits, s) {
			limits = append(limits, s)
		}
	}
	return limits
}

// joinCells lays out a line: text to the left, figures to the right.
func joinCells(cells []string, widths []int, title bool) string {
	var b strings.Builder
	for i, cell := range cells {
		width := widths[i]
		if title && i == 0 {
			width = widths[0] + 2 + widths[1]
		}
		if title && i == 1 {
			continue
		}
		if i > 0 {
			b.WriteString("  ")
		}
		pad := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell)))
		if i < 2 || i == len(cells)-1 {
			b.WriteString(cell + pad)
		} else {
			b.WriteString(pad + cell)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// tableRow makes the cells of a row; combos is the width of the longest code of a
// combination. A figure that a test does not have is "-".
func tableRow(t *Test, combos int) []string {
	s := &t.Summary
	label := "  " + t.Label
	if combos > 0 {
		label = fmt.Sprintf("  %-*s  %s", combos, t.Combo, t.Label)
	}
	founding := ""
	if t.Founding != "" {
		founding = "(" + t.Founding + ")"
	}
	cells := []string{label, founding, figure(s.Mean), "-", "-", "-", "-", "-", "-", "-", t.Limiter}
	if len(t.Runs) > 1 {
		cells[3] = fmt.Sprintf("%.1f%%", 100*s.CoV)
	}
	if l := s.Latency; l.Max > 0 {
		cells[4], cells[5], cells[6], cells[7] = micros(l.P50), micros(l.P90), micros(l.P99), micros(l.Max)
	}
	if p := s.PerOp; p != nil && t.Loop != LoopNone {
		cells[8] = fmt.Sprintf("%.0f+?µs", p.ClientCPU)
		if p.ServerCPU != nil {
			cells[8] = fmt.Sprintf("%.0f+%.0fµs", p.ClientCPU, *p.ServerCPU)
		}
	}
	if t.Eff != nil {
		cells[9] = fmt.Sprintf("%.0f%%", 100**t.Eff)
	}
	return cells
}

// figure writes a score with about four digits.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a):
		return grouped(v)
	case a < 10:
		return fmt.Sprintf("%.3g", v)
	case a < 1000:
		return fmt.Sprintf("%.1f", v)
	}
	return grouped(v)
}

// micros writes a time that is given in microseconds.
func micros(us float64) string {
	switch {
	case us < 1:
		return fmt.Sprintf("%.0fns", us*1e3)
	case us < 1e3:
		return fmt.Sprintf("%.0fµs", us)
	case us < 1e6:
		return fmt.Sprintf("%.3gms", us/1e3)
	}
	return fmt.Sprintf("%.3gs", us/1e6)
}

// withUnit writes a figure in a base unit as people read it.
func withUnit(v float64, unit string) string {
	switch unit {
	case "s":
		return micros(v * 1e6)
	case "B":
		return octets(v)
	case "bit/s":
		return figure(v/1e6) + " Mbit/s"
	case "":
		if v == math.Trunc(v) {
			return grouped(v) // a count
		}
		return figure(v)
	case "/s":
		return figure(v) + unit
	}
	return figure(v) + " " + unit
}

func octets(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if math.Abs(v) >= u.size {
			return fmt.Sprintf("%.1f %s", v/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f B", v)
}

func writeLimits(b *strings.Builder, l *Limits) {
	var parts []string
	add := func(v float64, format string, args ...any) {
		if v > 0 {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(l.FloorUS, "TCP round trip p50 %s", micros(l.FloorUS))
	add(l.Stream1500, "loopback %s Mbit/s by 1,500 B, %s by 64 KiB", figure(l.Stream1500), figure(l.Stream64K))
	add(l.MemcpyGBs, "copy %.1f GB/s", l.MemcpyGBs)
	if l.Sync != nil {
		add(l.Sync.Mean, "write+sync mean %s, p50 %s, p99 %s", micros(l.Sync.Mean), micros(l.Sync.P50), micros(l.Sync.P99))
	}
	add(l.SyscallNS, "system call %.0fns", l.SyscallNS)
	add(l.NowNS, "clock %.0fns", l.NowNS)
	add(l.SleepOverUS, "a sleep of 50µs is %s too long", micros(l.SleepOverUS))
	if len(parts) > 0 {
		fmt.Fprintf(b, "\nlimits: %s\n", strings.Join(parts, " · "))
	}
	for _, u := range l.Unmeasured {
		fmt.Fprintf(b, "not measured: %s\n", u)
	}
}

// String is what is printed of a check.
func (c Check) String() string {
	got := withUnit(c.Got, c.Unit)
	switch {
	case c.Row == "":
		return c.Expr + ": no such row"
	case c.Void:
		return fmt.Sprintf("%s: %s got %s, which cannot be believed", c.Expr, c.Row, got)
	case c.OK:
		return fmt.Sprintf("%s: %s ok, got %s", c.Expr, c.Row, got)
	}
	return fmt.Sprintf("%s: %s FAILED, got %s", c.Expr, c.Row, got)
}
