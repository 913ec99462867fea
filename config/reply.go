package config

import (
	"net"
	"reflect"
	"strings"
)

// replyHost takes an item of reply_hosts apart: host or host:port, an IPv6 address
// in brackets. The port is "" when it is not written.
func replyHost(text string) (host, port, message, hint string) {
	host, port, ok := hostPort(strings.ToLower(text))
	switch {
	case strings.Contains(text, "://"), strings.Contains(text, "/"):
		return "", "", "is a URL", "write the host alone, such as erp.example.com or erp.example.com:8443"
	case strings.Contains(text, "*"):
		return "", "", "is a pattern", "name each host"
	case !ok || host == "":
		return "", "", "is not a host", "write host or host:port, or [address]:port for IPv6"
	case port != "" && !isPort(port, 1):
		return "", "", "has a port that is none", "a port is 1 to 65535"
	}
	return host, port, "", ""
}

// ReplyNodes are the places that answers to stored messages of the route may be
// sent to: for each host http and https, at its port, or without one at the
// scheme's own. Path is "/", and Host has no port that is the scheme's own.
func (r *Route) ReplyNodes() []NodeURL {
	var nodes []NodeURL
	seen := map[NodeURL]bool{}
	for _, text := range r.ReplyHosts {
		host, port, wrong, _ := replyHost(text)
		if wrong != "" {
			continue // reported when it was loaded
		}
		for _, scheme := range [...]NodeScheme{NodeHTTP, NodeHTTPS} {
			own := "80"
			n := NodeURL{Scheme: scheme, Path: "/", Host: host}
			if n.TLS() {
				own = "443"
			}
			if strings.Contains(host, ":") {
				n.Host = "[" + host + "]"
			}
			if port != "" && port != own {
				n.Host += ":" + port
				own = port
			}
			n.Address = net.JoinHostPort(host, own)
			if !seen[n] {
				seen[n] = true
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// Origin is scheme and authority of an http or https node.
func (n NodeURL) Origin() string { return string(n.Scheme) + "://" + n.Host }

// ReplyBackend is the backend of one of [Route.ReplyNodes] of c: that node with the
// defaults. It is the same each time.
func (c *Config) ReplyBackend(n NodeURL) *Backend { return c.meta.replies[n] }

// replyBackends makes the backends of all ReplyNodes.
func (l *loader) replyBackends() map[NodeURL]*Backend {
	made := map[NodeURL]*Backend{}
	for i := range l.cfg.Routes {
		for _, n := range l.cfg.Routes[i].ReplyNodes() {
			if made[n] != nil {
				continue
			}
			b, node := &Backend{}, Node{}
			l.setDefaults(reflect.ValueOf(b).Elem())
			l.setDefaults(reflect.ValueOf(&node).Elem())
			node.URL = n
			b.Nodes = []Node{node}
			made[n] = b
		}
	}
	return made
}
