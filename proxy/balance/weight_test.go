package balance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestRoundRobinIsSmooth(t *testing.T) {
	for _, c := range []struct {
		weights []int64
		want    string
	}{
		{[]int64{5, 1, 1}, "aabacaa aabacaa"},
		{[]int64{1, 1, 1}, "abc abc"},
		{[]int64{2, 1}, "aba aba"},
		{[]int64{1, 0, 2}, "cac cac"},
		{[]int64{0, 0, 3}, "ccc"},
	} {
		var p RoundRobin
		n := &nodes{loads: make([]int64, len(c.weights)), weights: c.weights}
		var got strings.Builder
		for _, r := range c.want {
			if r == ' ' {
				got.WriteString(" ")
				continue
			}
			got.WriteString(string(rune('a' + p.Pick(n))))
		}
		if got.String() != c.want {
			t.Errorf("weights %v: got %s, want %s", c.weights, got.String(), c.want)
		}
	}
}

// TestRoundRobinReturns: a node that was out for long is not owed anything when
// it returns, and owes nothing.
func TestRoundRobinReturns(t *testing.T) {
	var p RoundRobin
	n := &nodes{loads: make([]int64, 2), weights: []int64{1, 1}}
	for range 3 {
		p.Pick(n)
	}
	n.weights[1] = 0
	for range 1000 {
		if i := p.Pick(n); i != 0 {
			t.Fatalf("Pick with node 1 out: got %d", i)
		}
	}
	n.weights[1] = 1
	var got [2]int
	for range 10 {
		got[p.Pick(n)]++
	}
	if got[0] < 4 || got[1] < 4 {
		t.Errorf("after the return of node 1: got %v, want 5 of each", got)
	}
}

// TestWeightsAreShares: over many messages to idle nodes each policy gives every
// node the share of its weight.
func TestWeightsAreShares(t *testing.T) {
	const draws = 60000
	weights := []int64{1, 2, 3}
	for name, p := range map[string]Policy{
		"least-requests": &LeastRequests{Rand: rand.New(rand.NewPCG(1, 2))},
		"round-robin":    &RoundRobin{},
		"random":         &Random{Rand: rand.New(rand.NewPCG(3, 4))},
		"hash":           NewHash([]HashNode{{"a", 1}, {"b", 2}, {"c", 3}}, nil),
	} {
		n := &nodes{loads: make([]int64, 3), weights: weights, keyed: true}
		var got [3]int
		for k := range draws {
			n.key = KeyOf(fmt.Sprint(k))
			got[p.Pick(n)]++
		}
		for i, w := range weights {
			if want := draws * int(w) / 6; got[i] < want*95/100 || got[i] > want*105/100 {
				t.Errorf("%s: node of weight %d was picked %d times, want about %d", name, w, got[i], want)
			}
		}
	}
}

// TestLeastRequestsWeighsLoads: under load a node of three times the weight has
// three times the tries under way before the other is preferred.
func TestLeastRequestsWeighsLoads(t *testing.T) {
	p := &LeastRequests{Rand: rand.New(rand.NewPCG(5, 6))}
	for _, c := range []struct {
		loads []int64
		want  int
	}{{[]int64{1, 0}, 0}, {[]int64{3, 0}, 1}, {[]int64{30, 8}, 1}, {[]int64{25, 8}, 0}, {[]int64{30, 10}, 0}, {[]int64{33, 10}, 1}, {[]int64{0, 1}, 0}} {
		for range 100 {
			if i := p.Pick(&nodes{loads: c.loads, weights: []int64{3, 1}}); i != c.want {
				t.Fatalf("Pick of loads %v, weights 3 and 1: got %d, want %d", c.loads, i, c.want)
			}
		}
	}
}

// TestHashDisturbsLittle: without a node only its keys move, and to all others;
// with it back everything is as before; and the order of the list is nothing.
func TestHashDisturbsLittle(t *testing.T) {
	const keys = 20000
	names := []HashNode{{Name: "http://a"}, {Name: "http://b"}, {Name: "http://c"}, {Name: "http://d"}}
	all := NewHash(names, nil)
	fewer := NewHash([]HashNode{names[3], names[0], names[1]}, nil) // without c, in another order
	old := map[int]int{0: 3, 1: 0, 2: 1}                            // of a node of fewer: its number in all
	n := &nodes{loads: make([]int64, 4), keyed: true}
	n3 := &nodes{loads: make([]int64, 3), keyed: true}
	out := &nodes{loads: make([]int64, 4), weights: []int64{1, 1, 0, 1}, keyed: true}
	var moved [4]int
	for k := range keys {
		n.key = KeyOf(fmt.Sprint("key ", k))
		n3.key, out.key = n.key, n.key
		was, is, ejected := all.Pick(n), old[fewer.Pick(n3)], all.Pick(out)
		if is != ejected {
			t.Fatalf("key %d: node %d without c, but %d while c is out", k, is, ejected)
		}
		if was != 2 && is != was {
			t.Fatalf("key %d of node %d moved to %d when c went away", k, was, is)
		}
		if was == 2 {
			moved[is]++
		}
	}
	for _, i := range []int{0, 1, 3} {
		if want := keys / 12; moved[i] < want*85/100 || moved[i] > want*115/100 {
			t.Errorf("%d keys of c moved to node %d, want about %d", moved[i], i, want)
		}
	}
}

// TestHashIsFixed: the node of a key is the same in every version, or an update
// would end sessions.
func TestHashIsFixed(t *testing.T) {
	p := NewHash([]HashNode{{Name: "http://10.0.0.1:9000/"}, {Name: "http://10.0.0.2:9000/"}, {Name: "http://10.0.0.3:9000/"}}, nil)
	n := &nodes{loads: make([]int64, 3), keyed: true}
	var got strings.Builder
	for _, key := range []string{"", "a", "b", "c", "dock-4411", "192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		n.key = KeyOf(key)
		fmt.Fprint(&got, p.Pick(n))
	}
	if want := "00212210"; got.String() != want {
		t.Errorf("nodes of the keys: got %s, want %s", got.String(), want)
	}
}

func TestHashWithoutKey(t *testing.T) {
	p := NewHash([]HashNode{{Name: "a"}, {Name: "b"}}, &RoundRobin{})
	n := &nodes{loads: make([]int64, 2)}
	for k := range 6 {
		if i := p.Pick(n); i != k%2 {
			t.Errorf("message %d without a key: got node %d, want that of the other policy", k, i)
		}
	}
}

func TestHashBind(t *testing.T) {
	p := NewHash([]HashNode{{Name: "a"}, {Name: "b"}, {Name: "c"}}, nil)
	n := &nodes{loads: make([]int64, 3), tried: map[int]bool{}, keyed: true, key: KeyOf("session")}
	home := p.Pick(n)
	other := (home + 1) % 3
	p.Bind(n.key, other)
	if i := p.Pick(n); i != other {
		t.Fatalf("Pick of a bound key: got %d, want %d", i, other)
	}
	n.tried[other] = true // it is out: as if it was not bound
	if i := p.Pick(n); i != home {
		t.Errorf("Pick while the bound node is out: got %d, want %d", i, home)
	}
	delete(n.tried, other)
	if i := p.Pick(n); i != other {
		t.Errorf("Pick with the bound node back: got %d, want %d", i, other)
	}
	p.Bind(n.key, home)
	if i := p.Pick(n); i != home || len(p.bound.young)+len(p.bound.old) != 0 {
		t.Errorf("Pick of a key bound to its own node: got %d and %d bindings, want %d and none", i, len(p.bound.young), home)
	}
}

// TestBindingsAreBounded: however many sessions there are, memory is bounded,
// and those in use stay.
func TestBindingsAreBounded(t *testing.T) {
	var b bindings
	b.put(1, 1, false)
	for k := range uint64(5 * generation) {
		b.put(k+2, 2, false)
		if k%1000 == 0 {
			if node, ok := b.get(1); !ok || node != 1 {
				t.Fatalf("a key in use was forgotten after %d others", k)
			}
		}
	}
	if n := len(b.young) + len(b.old); n > 2*generation {
		t.Errorf("%d bindings, want at most %d", n, 2*generation)
	}
	if _, ok := b.get(2); ok {
		t.Error("the oldest key that nobody used is still there")
	}
	if _, ok := b.get(5 * generation); !ok {
		t.Error("one of the last keys is not there")
	}
}

func BenchmarkHash(b *testing.B) {
	p := NewHash([]HashNode{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}, nil)
	n := &nodes{loads: make([]int64, 4), keyed: true}
	for b.Loop() {
		n.key++
		p.Pick(n)
	}
}
