package app

import (
	"slices"

	"soapway/config"
	"soapway/proxy"
	"soapway/proxy/balance"
)

// policy makes the policy of a backend with these nodes. Where it hashes,
// messages without a key go by the default one.
func policy(c *config.Backend, nodes []proxy.Node) balance.Policy {
	switch c.Balance {
	case config.BalanceRoundRobin:
		return new(balance.RoundRobin)
	case config.BalanceRandom:
		return new(balance.Random)
	case config.BalanceHash:
		hashed := make([]balance.HashNode, len(nodes))
		for i, n := range nodes {
			hashed[i] = balance.HashNode{Name: n.Name(), Weight: c.Nodes[i].Weight}
		}
		return balance.NewHash(hashed, new(balance.LeastRequests))
	}
	return new(balance.LeastRequests)
}

// weights are the shares of the nodes, nil if all are the same.
func weights(nodes []config.Node) []int {
	w := make([]int, len(nodes))
	even := true
	for i, n := range nodes {
		w[i] = n.Weight
		even = even && n.Weight == w[0]
	}
	if even {
		return nil
	}
	return w
}

var compressions = map[config.Compress]proxy.Compress{
	config.CompressGzip: proxy.CompressGzip, config.CompressZstd: proxy.CompressZstd,
}

// places are those at a backend, nil if their number is not bounded.
func places(c *config.Backend) *proxy.Places {
	n := placesOf(c)
	if n == unbounded {
		return nil
	}
	return proxy.NewPlaces(n, c.QueueWait.Or(forever))
}

// placesOf is how many exchanges may be under way at a backend. One with an HTTP
// node has a connection for itself: who must wait for one waits here, before a node
// is chosen, so that the node which is free first is the one that is taken.
func placesOf(c *config.Backend) int {
	n := countOr(c.MaxConcurrency, unbounded)
	if slices.ContainsFunc(c.Nodes, func(n config.Node) bool { return n.URL.Scheme == config.NodeHTTP || n.URL.Scheme == config.NodeHTTPS }) {
		n = min(n, countOr(c.MaxConnections, unbounded))
	}
	return n
}

func hashBy(h config.HashBy) proxy.HashBy {
	kinds := map[config.HashKind]proxy.HashKind{
		config.HashCookie: proxy.HashCookie, config.HashHeader: proxy.HashHeader,
		config.HashClient: proxy.HashClient, config.HashKey: proxy.HashKey,
	}
	return proxy.HashBy{Kind: kinds[h.Kind], Name: h.Name}
}
