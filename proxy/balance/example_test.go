package balance_test

import (
	"fmt"

	"soapway/proxy/balance"
)

type loads []int64

func (l loads) Len() int         { return len(l) }
func (l loads) Load(i int) int64 { return l[i] }
func (l loads) Tried(int) bool   { return false }

func Example() {
	var p balance.LeastRequests
	fmt.Println(p.Pick(loads{7, 2}))
	// Output: 1
}
