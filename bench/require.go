package bench

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// A Requirement is an expression of --require, such as "ping.*.p99<5ms".
type Requirement struct {
	expr      string
	test      string // pattern
	combo     string // pattern; "" is a row without one
	measure   string
	op        string
	value     float64 // in base units
	dimension dimension
}

// A dimension is what a figure measures, by its base unit.
type dimension string

const (
	number  dimension = "" // counts, rates, shares
	seconds dimension = "s"
	bytesOf dimension = "B"
	bits    dimension = "bit/s"
)

// ParseRequirement reads TEST[.ROW].MEASURE OP VALUE; * stands for anything in
// TEST and ROW.
func ParseRequirement(expr string) (*Requirement, error) {
	bad := func(why string) (*Requirement, error) {
		return nil, fmt.Errorf("bench: requirement %.80q: %s", expr, why)
	}
	at := strings.IndexAny(expr, "<>=")
	if at < 0 {
		return bad("no comparison; such as ping.ff.rate>=10000")
	}
	r := &Requirement{expr: expr}
	rest := expr[at:]
	for _, op := range []string{">=", "<=", "==", ">", "<"} {
		if v, ok := strings.CutPrefix(rest, op); ok {
			r.op, rest = op, v
			break
		}
	}
	if r.op == "" {
		return bad("the comparisons are >=, <=, >, < and ==")
	}
	parts := strings.Split(strings.TrimSpace(expr[:at]), ".")
	switch len(parts) {
	case 2:
		r.test, r.measure = parts[0], parts[1]
	case 3:
		r.test, r.combo, r.measure = parts[0], parts[1], parts[2]
	default:
		return bad("want TEST.MEASURE or TEST.ROW.MEASURE")
	}
	for _, pattern := range []string{r.test, r.combo} {
		if _, err := path.Match(pattern, ""); err != nil {
			return bad("a pattern is broken")
		}
	}
	var err error
	if r.value, r.dimension, err = parseQuantity(strings.TrimSpace(rest)); err != nil {
		return bad(err.Error())
	}
	return r, nil
}

// units are what may stand behind a number, longest first.
var units = []struct {
	name      string
	factor    float64
	dimension dimension
}{
	{"Mbit/s", 1e6, bits},
	{"Gbit/s", 1e9, bits},
	{"bit/s", 1, bits},
	{"KiB", 1 << 10, bytesOf},
	{"MiB", 1 << 20, bytesOf},
	{"GiB", 1 << 30, bytesOf},
	{"kB", 1e3, bytesOf},
	{"MB", 1e6, bytesOf},
	{"GB", 1e9, bytesOf},
	{"B", 1, bytesOf},
	{"%", 0.01, number},
	{"/s", 1, number},
}

func parseQuantity(s string) (float64, dimension, error) {
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if err != nil {
				break
			}
			return v * u.factor, u.dimension, nil
		}
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return v, number, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d.Seconds(), seconds, nil
	}
	return 0, number, fmt.Errorf("%.20q is not a value, such as 10000, 5ms, 64MiB or 40%%", s)
}

// Apply checks the results against the requirement: a Check for each row that it
// speaks of, or one without a row when there is none.
func (r *Requirement) Apply(tests []Test) (checks []Check, err error) {
	for i := range tests {
		t := &tests[i]
		if !r.fits(t) {
			continue
		}
		got, dim, ok := measureOf(t, r.measure)
		if !ok {
			continue
		}
		if dim != r.dimension {
			return nil, fmt.Errorf("bench: requirement %.80q: %s is in %s", r.expr, r.measure, dim.name())
		}
		checks = append(checks, Check{
			Expr: r.expr, Row: rowName(t.Name, t.Combo), Got: got, Unit: string(dim), OK: r.holds(got),
			Void: t.Verdict == Invalid || t.Verdict == Generator,
		})
	}
	if len(checks) == 0 {
		checks = []Check{{Expr: r.expr}}
	}
	return checks, nil
}

func (d dimension) name() string {
	switch d {
	case seconds:
		return "units of time, such as 5ms"
	case bytesOf:
		return "octets, such as 64MiB"
	case bits:
		return "bits a second, such as 900Mbit/s"
	}
	return "plain numbers"
}

// comboNames are other names of combinations.
var comboNames = map[string]string{"http": "hh", "framed": "ff", "std": "nn"}

func (r *Requirement) fits(t *Test) bool {
	test, _ := path.Match(r.test, t.Name) // the pattern was checked
	if !test {
		return false
	}
	combo, _ := path.Match(strings.ReplaceAll(r.combo, "/", "|"), strings.ReplaceAll(t.Combo, "/", "|"))
	return combo || r.combo != "" && comboNames[r.combo] == t.Combo && t.Combo != ""
}

func (r *Requirement) holds(got float64) bool {
	switch r.op {
	case ">=":
		return got >= r.value
	case "<=":
		return got <= r.value
	case ">":
		return got > r.value
	case "<":
		return got < r.value
	}
	return got == r.value
}

// measureOf returns a figure of a row by its name, in base units: one of its
// measures, else of its summary.
func measureOf(t *Test, name string) (v float64, d dimension, ok bool) {
	if v, d, ok := ownMeasure(t, name); ok {
		return v, d, true
	}
	s := &t.Summary
	factor, score := scoreUnit(t.Unit)
	l := &s.Latency
	if times := map[string]float64{"latency": l.Mean, "p50": l.P50, "p90": l.P90, "p99": l.P99, "p999": l.P999, "max": l.Max}; l.Max > 0 {
		if us, ok := times[name]; ok {
			return us / 1e6, seconds, true
		}
	}
	switch name {
	case "rate", "mean":
		return s.Mean * factor, score, true
	case "median":
		return s.Median * factor, score, true
	case "min":
		return s.Min * factor, score, true
	case "max":
		return s.Max * factor, score, true
	case "cov":
		return s.CoV, number, true
	case "spread":
		return s.Spread, number, true
	case "err":
		return float64(s.Errors), number, true
	case "eff":
		if t.Eff != nil {
			return *t.Eff, number, true
		}
	case "rss", "peak":
		if m := t.Memory; m != nil {
			return float64(map[string]uint64{"rss": m.RSS, "peak": m.Peak}[name]), bytesOf, true
		}
	case "cpu", "rd", "wr", "csw":
		return perOpMeasure(s.PerOp, name)
	}
	return 0, number, false
}

// ownMeasure returns a figure that stands beside the score of a row.
func ownMeasure(t *Test, name string) (v float64, d dimension, ok bool) {
	for _, m := range t.Measures {
		if m.Name == name {
			return m.Value, dimensionOf(m.Unit), true
		}
	}
	return 0, number, false
}

func perOpMeasure(p *PerOp, name string) (float64, dimension, bool) {
	if p == nil {
		return 0, number, false
	}
	switch name {
	case "rd":
		return p.Reads, number, true
	case "wr":
		return p.Writes, number, true
	case "csw":
		return p.Switches, number, true
	}
	cpu := p.ClientCPU
	if p.ServerCPU != nil {
		cpu += *p.ServerCPU
	}
	return cpu / 1e6, seconds, true
}

func dimensionOf(unit string) dimension {
	switch d := dimension(unit); d {
	case seconds, bytesOf, bits:
		return d
	}
	return number
}

// scoreUnit is what one of Test.Unit is in base units.
func scoreUnit(unit string) (factor float64, d dimension) {
	switch unit {
	case "s":
		return 1, seconds
	case "ms":
		return 1e-3, seconds
	case "µs":
		return 1e-6, seconds
	case "ns":
		return 1e-9, seconds
	case "Mbit/s":
		return 1e6, bits
	case "B":
		return 1, bytesOf
	case "MiB":
		return 1 << 20, bytesOf
	}
	return 1, number
}
