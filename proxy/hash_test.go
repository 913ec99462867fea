package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"soapway/proxy/balance"
	"soapway/soapcodec"
)

// hashed is a backend of three nodes that hashes.
func hashed(by HashBy) (*Backend, []*node) {
	var all []*node
	b := &Backend{Name: "b", HashBy: by}
	var names []balance.HashNode
	for i := range 3 {
		n := newNode(fmt.Sprintf("http://node%d.test/svc", i))
		all = append(all, n)
		b.Nodes = append(b.Nodes, n)
		names = append(names, balance.HashNode{Name: n.name})
	}
	b.Policy = balance.NewHash(names, new(balance.RoundRobin))
	return b, all
}

// at returns the number of the node that got the one message since the last call.
func at(t *testing.T, nodes []*node) int {
	t.Helper()
	found := -1
	for i, n := range nodes {
		if len(n.got) > 0 {
			if found >= 0 || len(n.got) > 1 {
				t.Fatal("a message came to more than one node, or twice")
			}
			found = i
		}
		n.got = nil
	}
	return found
}

// TestHashBy: messages of one key go to one node, those of many keys to all,
// and those without a key in turn.
func TestHashBy(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		name string
		by   HashBy
		key  func(ex *Exchange, i int) // gives the exchange the i-th key
		none func(ex *Exchange)        // takes it away
	}{
		{
			"cookie",
			HashBy{Kind: HashCookie, Name: "sid"},
			func(ex *Exchange, i int) {
				ex.Header.Set("Cookie", "xsid=1; a=b")
				ex.Header.Add("Cookie", fmt.Sprintf(" sid = k%d; sid=other", i))
			},
			func(ex *Exchange) { ex.Header.Set("Cookie", "SID=1; sid=; xsid=1") },
		},
		{
			"header",
			HashBy{Kind: HashHeader, Name: "X-Customer"},
			func(ex *Exchange, i int) {
				ex.Header.Set("x-customer", fmt.Sprint(i))
				ex.Header.Add("x-customer", "0")
			},
			func(ex *Exchange) { ex.Header.Del("x-customer") },
		},
		{
			"client",
			HashBy{Kind: HashClient},
			func(ex *Exchange, i int) {
				ex.Client = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), uint16(4000+len(ex.Target)))
				ex.Header.Set("X-Forwarded-For", "198.51.100.99") // of nobody whom we trust
			},
			func(ex *Exchange) { ex.Client = netip.AddrPort{} },
		},
		{
			"client behind trusted proxies",
			HashBy{Kind: HashClient},
			func(ex *Exchange, i int) {
				ex.Client = netip.MustParseAddrPort("10.0.0.1:77")
				ex.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.1, 192.0.2.%d:9999, 10.3.3.3", i))
			},
			func(ex *Exchange) {
				ex.Header.Set("X-Forwarded-For", "203.0.113.1, unknown")
				ex.Client = netip.AddrPort{}
			},
		},
		{
			"key",
			HashBy{Kind: HashKey},
			func(ex *Exchange, i int) { ex.Header.Set("X-Order", fmt.Sprint(i)) },
			func(ex *Exchange) { ex.Header.Del("X-Order") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, nodes := hashed(c.by)
			h := NewHandler(mustCompile(t, TableOptions{TrustedProxies: trusted, Routes: []Route{{
				Name: "r", Backend: b, OrderBy: Key{Source: KeyHTTP, Field: "X-Order"},
			}}}), Options{})
			send := func(change func(ex *Exchange)) int {
				ex := exchange("text/xml", env11)
				change(ex)
				serve(t, h, ex).wantAnswer(t, 200, reply11)
				return at(t, nodes)
			}
			used := map[int]int{}
			for i := range 48 {
				home := send(func(ex *Exchange) { c.key(ex, i) })
				used[home]++
				for range 2 {
					if got := send(func(ex *Exchange) { ex.Target = "/depot/else"; c.key(ex, i) }); got != home {
						t.Fatalf("key %d: node %d, then %d", i, home, got)
					}
				}
			}
			if len(used) != 3 || used[0] < 6 || used[1] < 6 || used[2] < 6 {
				t.Errorf("48 keys over 3 nodes: got %v", used)
			}
			for i := range 6 {
				if got := send(func(ex *Exchange) { c.key(ex, 0); c.none(ex) }); got != i%3 {
					t.Errorf("message %d without a key: got node %d, want %d", i, got, i%3)
				}
			}
		})
	}
}

// TestHashByKeyOfStored: a stored message is hashed by its lane.
func TestHashByKeyOfStored(t *testing.T) {
	b, nodes := hashed(HashBy{Kind: HashKey})
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{{Name: "r", Backend: b, Delivery: Queue, OrderBy: Key{Source: KeyHTTP, Field: "X-Order"}}}}), Options{})
	m := storedMessage(t, env11)
	used := map[int]bool{}
	for i := range 24 {
		m.Lane = fmt.Sprint(i)
		h.Deliver(t.Context(), m, Try{Attempt: 1})
		home := at(t, nodes)
		h.Deliver(t.Context(), m, Try{Attempt: 2})
		if got := at(t, nodes); got != home {
			t.Errorf("lane %d: node %d, then %d", i, home, got)
		}
		used[home] = true
	}
	if len(used) != 3 {
		t.Errorf("24 lanes over 3 nodes used %v", used)
	}
	m.Lane = NoKey
	for i := range 6 {
		h.Deliver(t.Context(), m, Try{Attempt: 1})
		if got := at(t, nodes); got != i%3 {
			t.Errorf("message %d without a key: got node %d, want %d", i, got, i%3)
		}
	}
}

// TestSessionStaysAtItsNode: a cookie that a node has set leads back to it.
func TestSessionStaysAtItsNode(t *testing.T) {
	b, nodes := hashed(HashBy{Kind: HashCookie, Name: "sid"})
	for _, n := range nodes {
		n.answer = func(_ context.Context, req *Request) (*Response, error) {
			if name := req.Header.Get("X-Open"); name != "" {
				return respond(200, "text/xml", reply11, "Set-Cookie", "theme=dark", "set-cookie", "sid="+name+"; Path=/; HttpOnly"), nil
			}
			return respond(200, "text/xml", reply11, "Set-Cookie", "sid=; Max-Age=0"), nil
		}
	}
	h := one(t, Route{Backend: b})
	for i := range 30 {
		name := fmt.Sprintf("s%d", i)
		serve(t, h, exchange("text/xml", env11, "X-Open", name))
		home := at(t, nodes)
		for range 2 {
			serve(t, h, exchange("text/xml", env11, "Cookie", "sid="+name))
			if got := at(t, nodes); got != home {
				t.Fatalf("session %s: opened at node %d, went on at %d", name, home, got)
			}
		}
	}
}

// TestEmptyPostHasOneNode: an empty message of a session goes to no second node,
// one with a body does.
func TestEmptyPostHasOneNode(t *testing.T) {
	for body, tries := range map[string]int{"": 1, env11: 2} {
		b, nodes := hashed(HashBy{Kind: HashCookie, Name: "sid"})
		for _, n := range nodes {
			n.answer = always(nil, &SendError{Class: NotSent, Err: errDial})
		}
		b.Nodes = b.Nodes[:2]
		b.Policy = new(balance.RoundRobin)
		typ := "text/xml"
		if body == "" {
			typ = ""
		}
		serve(t, one(t, Route{Backend: b, EmptyPost: true}), exchange(typ, body)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendUnavailable)
		if n := len(nodes[0].got) + len(nodes[1].got); n != tries {
			t.Errorf("a body of %d octets was tried %d times, want %d", len(body), n, tries)
		}
	}
}
