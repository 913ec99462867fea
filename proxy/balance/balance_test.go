package balance

import (
	"math/rand/v2"
	"sync"
	"testing"
)

type nodes struct {
	loads   []int64
	weights []int64 // nil: 1 each
	tried   map[int]bool
	key     uint64
	keyed   bool
}

func (n *nodes) Len() int            { return len(n.loads) }
func (n *nodes) Load(i int) int64    { return n.loads[i] }
func (n *nodes) Again() bool         { return len(n.tried) > 0 }
func (n *nodes) Key() (uint64, bool) { return n.key, n.keyed }

func (n *nodes) Weight(i int) int64 {
	switch {
	case n.tried[i]:
		return 0
	case n.weights != nil:
		return n.weights[i]
	}
	return 1
}

// policies are all of them, for what must hold for each.
func policies(size int) map[string]Policy {
	var names []HashNode
	for i := range size {
		names = append(names, HashNode{Name: string(rune('a' + i))})
	}
	return map[string]Policy{
		"least-requests": &LeastRequests{Rand: rand.New(rand.NewPCG(1, 2))},
		"round-robin":    &RoundRobin{},
		"random":         &Random{Rand: rand.New(rand.NewPCG(3, 4))},
		"hash":           NewHash(names, &Random{}),
	}
}

func TestPickSkipsTried(t *testing.T) {
	for size := range 6 {
		for name, p := range policies(size) {
			n := &nodes{loads: make([]int64, size), tried: map[int]bool{}, key: 7, keyed: true}
			for left := size; left > 0; left-- {
				i := p.Pick(n)
				if i < 0 || i >= size || n.tried[i] {
					t.Fatalf("%s: Pick of %d nodes with %d left: got %d", name, size, left, i)
				}
				n.tried[i] = true
			}
			if i := p.Pick(n); i != -1 {
				t.Errorf("%s: Pick with all %d tried: got %d, want -1", name, size, i)
			}
		}
	}
}

func TestLeastRequestsIsExactForTwo(t *testing.T) {
	p := &LeastRequests{Rand: rand.New(rand.NewPCG(3, 4))}
	for range 1000 {
		if i := p.Pick(&nodes{loads: []int64{5, 4}}); i != 1 {
			t.Fatalf("Pick(5, 4): got %d, want 1", i)
		}
		if i := p.Pick(&nodes{loads: []int64{0, 9, 1}, tried: map[int]bool{0: true}}); i != 2 {
			t.Fatalf("Pick(tried, 9, 1): got %d, want 2", i)
		}
	}
}

func TestLeastRequestsTiesAreEven(t *testing.T) {
	const draws, size = 40000, 4
	p := &LeastRequests{Rand: rand.New(rand.NewPCG(5, 6))}
	n := &nodes{loads: make([]int64, size)}
	var got [size]int
	for range draws {
		got[p.Pick(n)]++
	}
	for i, c := range got {
		if c < draws/size*95/100 || c > draws/size*105/100 {
			t.Errorf("node %d of %d equals was picked %d times of %d", i, size, c, draws)
		}
	}
}

// TestLeastRequestsAvoidsTheLoaded: with one node far more loaded than the
// others, two different draws never both hit it, so it is never picked.
func TestLeastRequestsAvoidsTheLoaded(t *testing.T) {
	p := &LeastRequests{} // the runtime's randomness
	n := &nodes{loads: []int64{0, 1000, 0}}
	for range 2000 {
		if i := p.Pick(n); i == 1 {
			t.Fatal("Pick(0, 1000, 0): got the loaded node")
		}
	}
}

func TestRoundRobinIsEvenUnderConcurrency(t *testing.T) {
	const workers, each, size = 8, 300, 3
	var p RoundRobin
	n := &nodes{loads: make([]int64, size)}
	var mu sync.Mutex
	var got [size]int
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				i := p.Pick(n)
				mu.Lock()
				got[i]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i, c := range got {
		if c != workers*each/size {
			t.Errorf("node %d was picked %d times, want %d", i, c, workers*each/size)
		}
	}
}

func TestRoundRobinOrder(t *testing.T) {
	var p RoundRobin
	n := &nodes{loads: make([]int64, 3)}
	for k := range 7 {
		if i := p.Pick(n); i != k%3 {
			t.Errorf("pick %d: got node %d, want %d", k, i, k%3)
		}
	}
}

// TestRoundRobinRetries: a message that is tried at a second node takes one turn
// all the same, so that a dead node is not the first choice of every message.
func TestRoundRobinRetries(t *testing.T) {
	p := new(RoundRobin)
	var first [2]int
	for range 20 {
		n := &nodes{loads: make([]int64, 2), tried: map[int]bool{}}
		i := p.Pick(n)
		first[i]++
		if i == 1 { // dead
			n.tried[1] = true
			if j := p.Pick(n); j != 0 {
				t.Fatalf("second Pick: got %d, want 0", j)
			}
		}
	}
	if first != [2]int{10, 10} {
		t.Errorf("first picks: got %v, want 10 of each", first)
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	n := &nodes{loads: make([]int64, 4), key: 7, keyed: true}
	for name, p := range policies(4) {
		if a := testing.AllocsPerRun(100, func() { p.Pick(n) }); a != 0 {
			t.Errorf("%s: Pick allocates %v times", name, a)
		}
	}
}

func BenchmarkLeastRequests(b *testing.B) {
	var p LeastRequests
	n := &nodes{loads: make([]int64, 4)}
	for b.Loop() {
		p.Pick(n)
	}
}
