package bench

import (
	"fmt"
	"strings"
)

// A foundingMeasure is one figure of the founding documents and the row that
// measures it today.
type foundingMeasure struct {
	what    string
	row     string  // ping.hh
	measure string  // of the row; "" is its score
	of      string  // "mean", "min" or "max" of the runs; "" is the mean
	value   float64 // 0: the documents ask for the measure and print no figure of it
	unit    string  // as the row has it
	on      string  // the machine
	remark  string
}

const (
	onP4    = "Pentium 4, 2.4 GHz"
	onP3    = "Pentium III"
	onGiga  = "two machines, 1 Gbit/s"
	onTomca = "Java VM"
)

// foundingMeasures is every measure of the founding documents, in their order.
var foundingMeasures = []foundingMeasure{
	{what: "start, shortest", row: "startup", of: "min", value: 141, unit: "ms", on: onP4},
	{what: "start, mean", row: "startup", value: 160, unit: "ms", on: onP4},
	{what: "start, longest", row: "startup", of: "max", value: 221, unit: "ms", on: onP4},
	{what: "web pages, one connection", row: "web", unit: "/s"},
	{what: "SOAP messages, SoapSender – IberBinder", row: "ping.hh", value: 177.7, unit: "/s", on: onP4},
	{what: "SOAP messages, SoapSender – SocketBinder", row: "ping.hr", value: 414.7, unit: "/s", on: onP4},
	{what: "SOAP messages, SocketSender – IberBinder", row: "ping.rh", value: 416.8, unit: "/s", on: onP4},
	{what: "SOAP messages, SocketSender – SocketBinder", row: "ping.rr", value: 765.5, unit: "/s", on: onP4},
	{what: "SOAP messages, FastSocketSender – FastSocketBinder", row: "ping.ff", value: 790.0, unit: "/s", on: onP4},
	{what: "threads that send one message a second", row: "threads.hh", value: 65, unit: "", on: onP3, remark: "the table for the Pentium 4 repeats 416.8 of another cell"},
	{what: "network, http", row: "net.http", unit: "Mbit/s", on: onGiga},
	{what: "network, rmi (here NATS request and reply)", row: "net.rpc", unit: "Mbit/s", on: onGiga},
	{what: "network, raw", row: "net.raw", value: 899.7, unit: "Mbit/s", on: onGiga, remark: "95.6 % of what the line carries; here over the loopback"},
	{what: "look-up, in process", row: "calls.lookup", value: 26, unit: "µs", on: onP3},
	{what: "local call, in process", row: "calls.local", value: 88, unit: "µs", on: onP3},
	{what: "remote call, in process", row: "calls.remote", value: 95, unit: "µs", on: onTomca},
	{what: "look-up, out of process", row: "calls.lookup-out", unit: "µs"},
	{what: "remote call, out of process", row: "calls.remote-out", value: 8140, unit: "µs", on: onTomca},
	{what: "resident memory, idle", row: "mem.idle", measure: "rss", value: 52712 << 10, unit: "B", on: onP4},
	{what: "reliable: accepted, 64 senders", row: "queue.strict-64", unit: "/s"},
	{what: "reliable: delivered, 64 senders", row: "queue.strict-64", measure: "delivered", unit: "/s"},
	{what: "reliable: lost in outage, cut, kill and restart", row: "queue.drill", measure: "lost", unit: ""},
}

// A FoundingRow is a measure of the founding documents beside what was measured
// here.
type FoundingRow struct {
	What     string  `json:"what"`
	Row      string  `json:"row"`
	Founding string  `json:"founding"` // "" where the documents print no figure
	On       string  `json:"on,omitempty"`
	Here     string  `json:"here"`            // "" if it was not measured
	Ratio    float64 `json:"ratio,omitempty"` // how many times better; 0 if one of the two is missing
	Verdict  Verdict `json:"verdict,omitempty"`
	Remark   string  `json:"remark,omitempty"`
}

// FoundingRows returns every measure of the founding documents in their order,
// with what results have of it.
func FoundingRows(r *Results) []FoundingRow {
	rows := make([]FoundingRow, len(foundingMeasures))
	for i, f := range foundingMeasures {
		row := FoundingRow{What: f.what, Row: f.row, On: f.on, Remark: f.remark}
		if f.value > 0 {
			row.Founding = withUnit(foundingUnit(f.value, f.unit))
		}
		if t := findTest(r.Tests, f.row); t != nil {
			if v, ok := f.of1(t); ok {
				row.Here, row.Verdict = withUnit(foundingUnit(v, f.unit)), t.Verdict
				if f.value > 0 && v > 0 {
					row.Ratio = v / f.value
					if t.LowerIsBetter {
						row.Ratio = f.value / v
					}
				}
			}
		}
		rows[i] = row
	}
	return rows
}

// foundingUnit gives a figure the unit that [withUnit] writes.
func foundingUnit(v float64, unit string) (float64, string) {
	switch unit {
	case "ms":
		return v / 1e3, "s"
	case "µs":
		return v / 1e6, "s"
	case "Mbit/s":
		return v * 1e6, "bit/s"
	}
	return v, unit
}

// of1 is the figure of a row that stands beside f.
func (f *foundingMeasure) of1(t *Test) (float64, bool) {
	if f.measure != "" {
		for _, m := range t.Measures {
			if m.Name == f.measure {
				return m.Value, true
			}
		}
		return 0, false
	}
	switch f.of {
	case "min":
		return t.Summary.Min, len(t.Runs) > 0
	case "max":
		return t.Summary.Max, len(t.Runs) > 0
	}
	return t.Summary.Mean, len(t.Runs) > 0
}

// findTest returns the row with that name, or the first of its combinations.
func findTest(tests []Test, name string) *Test {
	for i := range tests {
		if rowName(tests[i].Name, tests[i].Combo) == name {
			return &tests[i]
		}
	}
	return nil
}

// FoundingTable writes the rows for people.
func FoundingTable(r *Results) string {
	var b strings.Builder
	rows := FoundingRows(r)
	width := 0
	for _, row := range rows {
		width = max(width, len([]rune(row.What)))
	}
	fmt.Fprintf(&b, "%-*s  %14s  %14s  %8s\n", width, "measure of the founding documents", "founding", "here", "better")
	for _, row := range rows {
		line := fmt.Sprintf("%s  %14s  %14s  %8s", pad(row.What, width), or(row.Founding, "-"), or(row.Here, "not measured"), row.Times())
		if row.Verdict != "" && row.Verdict != Valid {
			line += "  " + string(row.Verdict)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// pad fills s with blanks up to width characters.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-len([]rune(s))))
}
