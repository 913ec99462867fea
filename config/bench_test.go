package config

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkLoad is a start or a reload with 1,000 routes.
// Measure: go test ./config -run '^$' -bench Load -count 5
func BenchmarkLoad(b *testing.B) {
	var s strings.Builder
	s.WriteString("listeners: [{address: \"127.0.0.1:0\"}]\nroutes:\n")
	for i := range 1000 {
		fmt.Fprintf(&s, "  - name: r%d\n    match: {path: /p%d, operation: A}\n    to: [\"http://h:80/x%d\"]\n    limits: {depth: 5}\n", i, i, i)
	}
	data := []byte(s.String())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := LoadBytes("f", data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
