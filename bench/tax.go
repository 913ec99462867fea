package bench

import "strings"

// viaSuffix marks the row of a combination with a gateway in between.
const viaSuffix = "+gw"

// AddTax tells each row that went through a gateway what that took: the mean
// latency with it less that of the same row without, and the processor time.
func AddTax(tests []Test) {
	for i := range tests {
		t := &tests[i]
		code, ok := strings.CutSuffix(t.Combo, viaSuffix)
		if !ok {
			continue
		}
		for j := range tests {
			d := &tests[j]
			if d.Name != t.Name || d.Combo != code || d.Summary.Latency.Mean == 0 {
				continue
			}
			tax := (t.Summary.Latency.Mean - d.Summary.Latency.Mean) / 1e6
			t.Measures = append(t.Measures, Measure{Name: "tax", Value: tax, Unit: "s"})
			if cpu, _, ok := measureOf(t, "cpu"); ok {
				direct, _, _ := measureOf(d, "cpu")
				t.Measures = append(t.Measures, Measure{Name: "tax-cpu", Value: cpu - direct, Unit: "s"})
			}
		}
	}
}
