package balance_test

import (
	"fmt"

	"soapway/proxy/balance"
)

type loads []int64

func (l loads) Len() int         { return len(l) }
func (l loads) Load(i int) int64 { return l[i] }
func (l loads) Weight(int) int64 { return 1 }
func (l loads) Again() bool      { return false }

func (l loads) Key() (uint64, bool) { return 0, false }

func Example() {
	var p balance.LeastRequests
	fmt.Println(p.Pick(loads{7, 2}))
	// Output: 1
}
