package health_test

import (
	"fmt"

	"soapway/proxy/health"
)

func Example() {
	g := health.NewGroup(2, health.Options{Failures: 3})
	for range 3 {
		g.Failed(0, "connection refused")
	}
	fmt.Println(g.Share(0, 1000), g.Share(1, 1000))
	g.Succeeded(0) // it had nowhere else to go
	fmt.Println(g.Up(0))
	// Output:
	// 0 1000
	// true
}
