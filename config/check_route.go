package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// reservedPaths belong to the gateway on every HTTP listener.
var reservedPaths = []string{"/_gateway/", "/_site/", "/.well-known/acme-challenge/"}

func (l *loader) checkRoutes() {
	names, matches := map[string]string{}, matchIndex{}
	for i := range l.cfg.Routes {
		r := &l.cfg.Routes[i]
		path := l.items["routes"][i]
		l.unique(names, r.Name, path, "route")
		if l.failed[path] {
			continue // not even a map
		}
		l.checkDestination(r, path)
		l.checkMatch(r, path, matches)
		l.checkLimits(&r.Limits.Limits, path+".limits")
		l.checkMethods(r, path)
		l.checkEmptyPost(r, path)
		l.checkWSDL(r, path)
		l.checkAuth(r, path)
		if len(r.SOAP.Accept) != len(slices.Compact(slices.Sorted(slices.Values(r.SOAP.Accept)))) {
			l.need(path+".soap.accept", "a version stands twice", "")
		} else if len(r.SOAP.Accept) == 0 {
			l.need(path+".soap.accept", "accepts no version", "write 1.1, 1.2 or both")
		}
		l.checkDelivery(r, path)
		l.checkShadow(r, path+".shadow.backend")
	}
}

// checkShadow checks that copies go to a backend that exists, and is another one.
func (l *loader) checkShadow(r *Route, path string) {
	s := r.Shadow
	if s == nil || s.Backend == "" {
		return
	}
	l.needIf(l.cfg.Backends[s.Backend] == nil, path, fmt.Sprintf("there is no backend %s", l.quoted(path, s.Backend)), l.didYouMean(path, s.Backend, l.backendNames()))
	if b := l.cfg.Backends[s.Backend]; b != nil {
		_, site := b.SiteNode()
		l.needIf(site, path, "leads to another site, for which messages are stored first", "name a backend on this side; copies are not stored")
	}
	l.needIf(s.Backend == r.Backend, path, "is the backend of the route, which would get messages twice", "name another backend")
}

// checkWSDL checks who may be asked for what a WSDL refers to.
func (l *loader) checkWSDL(r *Route, path string) {
	off := r.WSDL.Mode == WSDLOff
	l.needIf(off && len(r.WSDLHosts) > 0, path+".wsdl_hosts", "there is no WSDL that could refer to a host", "remove it, or wsdl: off")
	l.needIf(off && r.WSDLCheck != WSDLCheckNone, path+".wsdl_check", "there is no WSDL to check by", "remove it, or wsdl: off")
	for i, host := range r.WSDLHosts {
		_, port, ok := hostPort(host)
		if _, err := strconv.ParseUint(port, 10, 16); !ok || port != "" && err != nil {
			at := indexed(path+".wsdl_hosts", i)
			l.need(at, fmt.Sprintf("%s is not a host", l.quoted(at, host)), "write a name or an address, with or without a port")
		}
	}
}

func (l *loader) backendNames() []string { return slices.Sorted(maps.Keys(l.cfg.Backends)) }

// checkDestination checks that a route has one backend, and that it exists.
func (l *loader) checkDestination(r *Route, path string) {
	hasTo, hasBackend := l.isSet(path+".to"), l.isSet(path+".backend")
	switch {
	case hasTo && hasBackend:
		l.need(path+".backend", "the route has both backend and to", "remove one")
	case !hasTo && !hasBackend && !l.meant[path+".to"] && !l.meant[path+".backend"]:
		l.reportKey(path, "has no backend", "name one by backend, or write its nodes: to: [URL]")
	case hasBackend && l.cfg.Backends[r.Backend] == nil:
		l.need(path+".backend", fmt.Sprintf("there is no backend %s", l.quoted(path+".backend", r.Backend)), l.didYouMean(path+".backend", r.Backend, l.backendNames()))
	case hasTo && len(r.To) == 0 && !l.failed[path+".to"]:
		l.need(path+".to", "has no node", "write to: [URL]")
	case hasTo && r.Name != "" && l.cfg.Backends[r.Name] != nil:
		l.need(path+".to", fmt.Sprintf("the nodes of this route are called %s, and so is a backend", l.quoted(path+".name", r.Name)), "use the backend, or rename one of them")
	}
	if !hasTo {
		l.need(path+".timeout", "is for routes with their own nodes", "set timeout in the backend")
	}
	l.checkNodes(r.To, path+".to")
}

func (l *loader) checkMatch(r *Route, path string, seen matchIndex) {
	m := &r.Match
	key := path + ".match"
	if m.None {
		named := slices.ContainsFunc(l.cfg.Listeners, func(ls Listener) bool { return ls.Route == r.Name })
		if !named && !l.cfg.Sites.opens(r.Name) {
			l.need(key, "nothing reaches this route", "name it as the route of a framed listener or in sites.accept, or write conditions")
		}
		return
	}
	for _, reserved := range reservedPaths {
		if strings.HasPrefix(m.Path.Path+"/", reserved) {
			l.need(key+".path", "belongs to the gateway itself", "choose another path than "+reserved)
		}
	}
	if m.Host != "" {
		if host, port, ok := hostPort(m.Host); !ok || port != "" {
			l.need(key+".host", fmt.Sprintf("%s is not a host", l.quoted(key+".host", m.Host)), "write a name or an address, without port")
		} else {
			m.Host = strings.ToLower(host)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if !isToken(name) {
			l.need(joined(key+".headers", name), fmt.Sprintf("%s is not the name of a header field", quote(name)), "")
		}
		if strings.EqualFold(name, "Host") {
			l.need(joined(key+".headers", name), "is a condition of its own", "write match: {host: NAME}")
		}
	}
	if l.failed[key] || l.failedBelow[key] {
		return
	}
	named := slices.ContainsFunc(l.cfg.Listeners, func(ls Listener) bool { return ls.Route == r.Name })
	first, same := seen.covering(m)
	switch first = l.shownKey(first); {
	case same:
		l.report(l.placeOf(key), path, fmt.Sprintf("matches the same messages as %s, which comes first", first), "add a condition, or remove one of them")
	case first != "" && !named:
		l.report(l.placeOf(key), path, fmt.Sprintf("no message reaches this route, %s takes them all before it", first), "put it above "+first+", or give that one a condition more")
	}
	seen.add(m, path)
}

func (l *loader) checkMethods(r *Route, path string) {
	seen := map[string]bool{}
	nodes := r.To
	if b := l.cfg.Backends[r.Backend]; b != nil {
		nodes = b.Nodes
	}
	framed := slices.ContainsFunc(nodes, func(n Node) bool { return n.URL.Framed() })
	for i, m := range r.Methods {
		key := indexed(path+".methods", i)
		switch {
		case framed && m != "POST":
			l.need(key, fmt.Sprintf("%s cannot go to a framed node, which takes nothing but envelopes", l.quoted(key, m)), "remove it, or use HTTP nodes")
		case !isToken(m):
			l.need(key, fmt.Sprintf("%s is not a method", l.quoted(key, m)), "")
		case m != strings.ToUpper(m):
			hint := "did you mean " + strings.ToUpper(m) + "?"
			if l.isHidden(key) {
				hint = ""
			}
			l.need(key, fmt.Sprintf("%s is not in upper case", l.quoted(key, m)), hint)
		case m == "CONNECT":
			l.need(key, l.show(key, m)+" cannot be passed through", "remove it")
		case seen[m]:
			l.need(key, l.show(key, m)+" stands twice", "remove one")
		}
		seen[m] = true
	}
}

// checkEmptyPost checks that an empty message has somewhere to go: to a framed
// node it would be a keep-alive, and for a store it is no message.
func (l *loader) checkEmptyPost(r *Route, path string) {
	if r.EmptyPost != EmptyPostPass {
		return
	}
	nodes := r.To
	if b := l.cfg.Backends[r.Backend]; b != nil {
		nodes = b.Nodes
	}
	switch {
	case r.Delivery == DeliveryQueue && !l.failed[path+".delivery"]:
		l.need(path+".empty_post", "is for delivery: sync", "an empty message is not stored, remove it or set delivery: sync")
	case slices.ContainsFunc(nodes, func(n Node) bool { return n.URL.Framed() }):
		l.need(path+".empty_post", "is for http nodes", "an empty message is a keep-alive to a framed node, remove it")
	}
}

// checkAuth checks that auth names a way of proof that callers of the route can
// take.
func (l *loader) checkAuth(r *Route, path string) {
	a := r.Auth
	if a == nil {
		return
	}
	if a.Basic == "" && a.Bearer == "" && a.APIKey == nil && a.MTLS == nil && a.WSSUsername == "" {
		l.need(path+".auth", "names no way of proof", "add basic, bearer, api_key, mtls or wss_username, or write auth: none")
	}
	if a.MTLS != nil && !slices.ContainsFunc(l.cfg.Listeners, func(ls Listener) bool { return ls.TLS != nil && ls.TLS.ClientCA != "" }) {
		l.reportKey(path+".auth.mtls", "no listener asks for client certificates", "set tls.client_ca of a listener")
	}
	if k := a.APIKey; k != nil {
		if !isToken(k.Header) {
			l.need(path+".auth.api_key.header", "is not the name of a header field", "write a name such as X-Api-Key")
		}
		if len(k.Keys) == 0 {
			l.need(path+".auth.api_key.keys", "is empty", "list the keys, each as file:PATH or ${NAME}")
		}
	}
}
