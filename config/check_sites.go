package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// SiteNode is the node of a backend that leads to another site; such a backend has no
// other.
func (b *Backend) SiteNode() (NodeURL, bool) {
	for i := range b.Nodes {
		if n := b.Nodes[i].URL; n.Scheme == NodeSite {
			return n, true
		}
	}
	return NodeURL{}, false
}

// SiteNode is the node of the route that leads to another site.
func (c *Config) SiteNode(r *Route) (NodeURL, bool) {
	if _, b := c.BackendOf(r); b != nil {
		return b.SiteNode()
	}
	return NodeURL{}, false
}

// checkSiteNodes checks what leads to other sites, and what comes from them.
func (l *loader) checkSiteNodes() {
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Backends)) {
		if b := l.cfg.Backends[name]; b != nil {
			l.checkSiteNode(b.Nodes, joined("backends", name)+".nodes")
		}
	}
	for i := range l.cfg.Routes {
		r, path := &l.cfg.Routes[i], l.items["routes"][i]
		nodes := r.To
		if b := l.cfg.Backends[r.Backend]; b != nil {
			nodes = b.Nodes
		} else {
			l.checkSiteNode(r.To, path+".to")
		}
		if slices.ContainsFunc(nodes, func(n Node) bool { return n.URL.Scheme == NodeSite }) {
			l.checkSiteRoute(r, path)
		}
	}
	if s := l.cfg.Sites; s != nil {
		for i := range s.Accept {
			for j, name := range s.Accept[i].Routes {
				key := indexed(l.items["sites.accept"][i]+".routes", j)
				r := l.route(name)
				if r != nil && !r.Stores() {
					l.reportKey(key, "does not store messages, and other sites send no others", "give the route delivery: queue")
				}
			}
		}
	}
}

// checkSiteNode checks a list of nodes, of which one may lead to a site.
func (l *loader) checkSiteNode(nodes []Node, path string) {
	for i := range nodes {
		n := &nodes[i].URL
		if n.Scheme != NodeSite {
			continue
		}
		key := indexed(path, i)
		if len(nodes) > 1 {
			l.reportKey(key, "stands beside other nodes, and a message must not go to two", "give the site a backend of its own")
		}
		if !l.cfg.Sites.knows(n.Site) {
			l.reportKey(key, fmt.Sprintf("there is no link to site %s", l.quoted(key+".url", n.Site)),
				"add it to sites.links, or to sites.accept if it fetches from here")
		}
	}
}

// knows reports whether there is a link to a site, or one from it.
func (s *Sites) knows(site string) bool {
	return s != nil && (slices.ContainsFunc(s.Links, func(l Link) bool { return l.Name == site }) ||
		slices.ContainsFunc(s.Accept, func(a SiteAccept) bool { return a.Name == site }))
}

// checkSiteRoute checks a route that leads to another site.
func (l *loader) checkSiteRoute(r *Route, path string) {
	if r.Delivery != DeliveryQueue && !l.failed[path+".delivery"] {
		l.reportKey(path, "leads to another site, for which messages are stored first", "set delivery: queue")
	}
	var def Retry
	l.setDefaults(reflect.ValueOf(&def).Elem())
	const message, hint = "links do not expire messages", "remove it"
	l.needIf(r.Retry.Expire != def.Expire, path+".retry.expire", message, hint)
	l.needIf(r.Retry.Attempts != def.Attempts, path+".retry.attempts", message, hint)
}
