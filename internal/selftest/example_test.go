package selftest_test

import (
	"fmt"

	"soapway/internal/selftest"
)

// Without a program that could be started, and without Run, which waits for it,
// nothing is.
func Example() {
	r := selftest.New(selftest.Options{Dir: "data/selftest"})
	_, err := r.Start("ping")
	fmt.Println(len(r.State().Tests), err)
	// Output: 7 the gateway is stopping
}
