package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

// check reports what is wrong between keys. It runs on the completed
// configuration, also when single keys were bad, and says nothing more about
// those.
func (l *loader) check() {
	l.checkListeners()
	l.checkAdmin()
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Backends)) {
		l.checkBackend(name, l.cfg.Backends[name])
	}
	l.checkNamespaces()
	l.checkLimits(&l.cfg.Limits, "limits")
	l.checkRoutes()
	l.checkCircuits()
	l.checkSites()
	l.checkSiteNodes()
	l.checkStore()
}

// need reports a problem with a key that was written and is right by itself.
func (l *loader) need(key, message, hint string) {
	if l.isSet(key) && !l.failed[key] {
		l.reportKey(key, message, hint)
	}
}

func (l *loader) needIf(wrong bool, key, message, hint string) {
	if wrong {
		l.need(key, message, hint)
	}
}

func (l *loader) checkListeners() {
	names, addresses := map[string]string{}, map[string]string{}
	var def Listener
	l.setDefaults(reflect.ValueOf(&def).Elem())
	for i := range l.cfg.Listeners {
		ls := &l.cfg.Listeners[i]
		path := l.items["listeners"][i]
		l.unique(names, ls.Name, path, "listener")
		l.reportAddress(addresses, ls.Address, path+".address")
		if l.failed[path+".protocol"] {
			continue
		}
		// A key of the other protocol is a mistake only where it asks for
		// something: its default asks for nothing.
		if ls.Protocol == ProtocolFramed {
			const message, hint = "is for http listeners", "remove it, this one is framed"
			l.needIf(ls.H2C, path+".h2c", message, hint)
			l.needIf(ls.Engine != def.Engine, path+".engine", message, hint)
			l.needIf(ls.Timeouts.Header != def.Timeouts.Header && ls.TLS == nil && !ls.ProxyProtocol, path+".timeouts.header", message, hint)
		} else {
			const message, hint = "is for framed listeners", "write protocol: framed, or remove it"
			l.needIf(ls.Length != def.Length, path+".length", message, hint)
			l.needIf(ls.Route != "", path+".route", message, hint)
		}
		if ls.Route != "" && l.route(ls.Route) == nil {
			l.need(path+".route", fmt.Sprintf("there is no route %s", l.quoted(path+".route", ls.Route)), l.didYouMean(path+".route", ls.Route, l.routeNames()))
		}
		l.needIf(ls.H2C && ls.TLS != nil, path+".h2c", "is for listeners without tls", "remove it: over tls clients ask for HTTP/2 by themselves")
		if ls.TLS != nil {
			l.checkServerTLS(ls.TLS, path+".tls")
			l.checkServerFiles(ls.TLS, path+".tls")
		}
		if ls.ProxyProtocol && len(l.cfg.TrustedProxies) == 0 {
			l.need(path+".proxy_protocol", "no proxy is trusted", "list those that may send it in trusted_proxies")
		}
	}
}

// unique reports a name that an earlier item of the list has.
func (l *loader) unique(seen map[string]string, name, path, kind string) {
	if name == "" || l.failed[path+".name"] {
		return
	}
	if first, twice := seen[name]; twice {
		line := ""
		if at, ok := l.places[first]; ok && at.line > 0 {
			line = fmt.Sprintf("the first is in line %d, ", at.line)
		}
		l.report(l.placeOf(path+".name"), path, fmt.Sprintf("a second %s has the name %s", kind, l.quoted(path+".name", name)), line+"give one of them another name")
		return
	}
	seen[name] = path
}

// reportAddress reports an address that is taken already. Port 0 never is.
func (l *loader) reportAddress(seen map[string]string, address, key string) {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return
	}
	if first, twice := seen[address]; twice {
		l.need(key, fmt.Sprintf("%s is also %s", l.show(key, address), l.shownKey(first)), "give each listener its own address")
		return
	}
	seen[address] = key
}

func (l *loader) checkAdmin() {
	a := &l.cfg.Admin
	host, port, err := net.SplitHostPort(a.Address)
	if err != nil {
		return
	}
	if !isLoopback(host) && a.Token.IsZero() && !l.failed["admin.token"] {
		hint := "set admin.token to file:PATH or ${NAME}, or keep to the address 127.0.0.1"
		if !l.isHidden("admin.address") {
			hint = "set admin.token to file:PATH or ${NAME}, or keep the address 127.0.0.1:" + port
		}
		l.report(l.placeOf("admin.address"), "admin.token", "is required when admin listens off loopback", hint)
	}
	for i := range l.cfg.Listeners {
		if ls := &l.cfg.Listeners[i]; ls.Address == a.Address && port != "0" {
			path := l.items["listeners"][i]
			key := path + ".address"
			address := l.show(key, l.show("admin.address", a.Address))
			if l.isSet("admin.address") {
				key = "admin.address"
			}
			l.need(key, fmt.Sprintf("%s is the address of both listener %s and admin", address, l.quoted(path+".name", ls.Name)), "give each its own address")
		}
	}
	if a.TLS != nil {
		l.checkServerTLS(a.TLS, "admin.tls")
		l.checkServerFiles(a.TLS, "admin.tls")
	}
}

func isLoopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

func (l *loader) checkServerTLS(t *ServerTLS, path string) {
	if t.ACME != nil {
		if t.Certificate != "" || t.Key != "" {
			l.reportKey(path, "has both acme and a certificate of its own", "remove one")
		}
	} else {
		l.pair(t.Certificate, t.Key, path, true)
	}
	if t.ClientAuth != "" && t.ClientCA == "" {
		l.need(path+".client_auth", "needs client_ca", "name the PEM file of the authorities of the clients")
	}
}

// checkServerFiles checks that the files can be used, and what an authority is asked for.
func (l *loader) checkServerFiles(t *ServerTLS, path string) {
	if t.Certificate != "" && t.Key != "" {
		l.checkPair(t.Certificate, t.Key, path)
	}
	l.checkAuthorities(t.ClientCA, path+".client_ca")
	if t.ACME != nil {
		l.checkACME(t.ACME, path+".acme")
	}
}

// checkPair checks that a certificate and its key can be used together.
func (l *loader) checkPair(certificate, key File, path string) {
	if l.failed[path+".certificate"] || l.failed[path+".key"] {
		return
	}
	if _, err := tls.LoadX509KeyPair(string(certificate), string(key)); err != nil {
		l.need(path+".certificate", "cannot be used with the key: "+l.fileError(err, path+".certificate", path+".key"), "both are PEM files, and belong together")
	}
}

// checkAuthorities checks that a file has certificates.
func (l *loader) checkAuthorities(file File, key string) {
	if file == "" || l.failed[key] {
		return
	}
	data, err := os.ReadFile(string(file))
	if err != nil {
		l.need(key, "cannot be read: "+l.fileError(err, key), "check the path and the permissions")
	} else if !x509.NewCertPool().AppendCertsFromPEM(data) {
		l.need(key, fmt.Sprintf("%s has no certificate", l.quoted(key, string(file))), "it must be a PEM file")
	}
}

// pair checks that a certificate and its key are both there.
func (l *loader) pair(certificate, key File, path string, required bool) bool {
	switch {
	case certificate == "" && key == "" && required:
		l.reportKey(path, "has no certificate", "set certificate and key")
	case certificate == "" && key != "":
		l.need(path+".key", "needs a certificate", "set certificate too")
	case certificate != "" && key == "":
		l.need(path+".certificate", "needs a key", "set key too")
	default:
		return certificate != ""
	}
	return false
}

// checkClientTLS checks also that the files can be used: it is run for
// backends, whose TLS this version acts on.
func (l *loader) checkClientTLS(t *ClientTLS, path string) {
	if l.pair(t.Certificate, t.Key, path, false) {
		l.checkPair(t.Certificate, t.Key, path)
	}
	l.checkAuthorities(t.CA, path+".ca")
	if t.Insecure && t.CA != "" {
		l.need(path+".insecure", "makes ca useless", "remove one of them")
	}
}

// fileError is an error of the system about the file of one of some keys,
// without the operation.
func (l *loader) fileError(err error, keys ...string) string {
	var pe *os.PathError
	if !errors.As(err, &pe) {
		return err.Error()
	}
	for _, key := range keys {
		if l.isHidden(key) && l.isSet(key) && l.abs(l.fileOf(key)) == pe.Path {
			return fmt.Sprintf("%s: %v", l.quoted(key, ""), pe.Err)
		}
	}
	return fmt.Sprintf("%s: %v", quote(pe.Path), pe.Err)
}

// fileOf is the path that a key holds.
func (l *loader) fileOf(key string) string { return l.set[l.setIndex[key]].value.String() }

func (l *loader) checkBackend(name string, b *Backend) {
	path := joined("backends", name)
	if !isBackendName(name) {
		at, ok := l.keyPlaces[path]
		if !ok {
			at = l.placeOf(path)
		}
		l.report(at, path, fmt.Sprintf("%s is not a name of a backend", quote(name)), "it has letters, digits, - and _")
	}
	l.checkNodes(b.Nodes, path+".nodes")
	if b.TLS != nil {
		l.checkClientTLS(b.TLS, path+".tls")
		if !anyNode(b.Nodes, NodeURL.TLS) {
			l.need(path+".tls", "no node of this backend uses TLS", "write https:// or framed+tls://, or remove it")
		}
	}
	if !anyNode(b.Nodes, func(n NodeURL) bool { return !n.Framed() }) {
		const message, hint = "is for http nodes", "remove it, all nodes are framed"
		l.needIf(len(b.Headers) > 0, path+".headers", message, hint)
		l.needIf(b.Host != HostNode, path+".host", message, hint)
		l.needIf(b.Redirects != RedirectsPass, path+".redirects", message, hint)
		l.needIf(b.Compress != CompressOff, path+".compress", message, hint)
		l.needIf(b.MaxConcurrency.None(), path+".queue_wait", message, "remove it: where all connections are in use, framed nodes get several messages over one")
	}
	l.checkFields(b.Headers, path+".headers")
	if b.HashBy.Kind != "" && b.Balance != BalanceHash {
		l.need(path+".hash_by", "is for balance: hash", "set balance: hash, or remove it")
	}
	if b.Balance == BalanceHash && b.HashBy.Kind == "" && !l.failed[path+".hash_by"] {
		l.need(path+".balance", "needs hash_by", "write hash_by: cookie:NAME, header:NAME, client or key")
	}
	if h := b.Health; h != nil {
		ways := 0
		for _, set := range []bool{h.Path != "", h.SOAP != "", h.TCP} {
			if set {
				ways++
			}
		}
		if ways != 1 {
			l.need(path+".health", "needs one way to check", "set one of path, soap and tcp")
		}
		switch {
		case h.Path == "":
		case h.Path[0] != '/' || strings.ContainsFunc(h.Path, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }):
			l.need(path+".health.path", fmt.Sprintf("%s is not a path", l.quoted(path+".health.path", h.Path)), "it begins with a slash, and has no blanks")
		case slices.ContainsFunc(b.Nodes, func(n Node) bool { return n.URL.Framed() }):
			l.need(path+".health.path", "is for http nodes", "framed nodes are checked by soap or tcp")
		}
	}
	// A shorter one would also end before a free connection is taken.
	l.needIf(b.QueueWait < Duration(time.Millisecond), path+".queue_wait", "is too short", "write at least 1ms")
	if b.QueueWait > b.ConnectTimeout {
		l.need(path+".queue_wait", "is longer than connect_timeout, which bounds it", "make one of them longer or shorter")
	}
	if b.Probe.Initial > b.Probe.Max {
		l.need(path+".probe", "initial is longer than max", "")
	}
}

func anyNode(nodes []Node, f func(NodeURL) bool) bool {
	return len(nodes) == 0 || slices.ContainsFunc(nodes, func(n Node) bool { return f(n.URL) })
}

func (l *loader) checkNodes(nodes []Node, path string) {
	seen := map[NodeURL]bool{}
	for i, n := range nodes {
		if n.URL.Scheme == "" {
			continue
		}
		if seen[n.URL] {
			at := indexed(path, i)
			l.reportKey(at, fmt.Sprintf("the node %s stands twice", l.show(at+".url", n.URL.String())), "remove one, or give it a weight")
		}
		seen[n.URL] = true
	}
}

// checkFields checks header fields that are added to requests: they must not
// be those that the gateway itself writes.
func (l *loader) checkFields(fields map[string]Secret, path string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		key := joined(path, name)
		lower := strings.ToLower(name)
		switch {
		case !isToken(name):
			l.need(key, fmt.Sprintf("%s is not the name of a header field", quote(name)), "")
		case lower == "host":
			l.need(key, "Host is not added", "use the host of the node's URL, or host: client")
		case slices.Contains(ownFields, lower) || strings.HasPrefix(lower, "gateway-"):
			l.need(key, name+" is written by the gateway itself", "remove it")
		case strings.ContainsFunc(fields[name].Reveal(), func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			l.need(key, "the value has a line end or another control character", "")
		}
	}
}

// ownFields are the fields that belong to the message's framing, its content
// or the path it took.
var ownFields = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "keep-alive", "proxy-connection",
	"soapaction", "te", "trailer", "transfer-encoding", "upgrade", "via",
}

func (l *loader) checkNamespaces() {
	for _, prefix := range slices.Sorted(maps.Keys(l.cfg.Namespaces)) {
		key := joined("namespaces", prefix)
		switch {
		case !isNCName(prefix) || strings.HasPrefix(strings.ToLower(prefix), "xml"):
			l.need(key, fmt.Sprintf("%s is not a prefix", quote(prefix)), "a prefix is a name without colon that does not begin with xml")
		case l.cfg.Namespaces[prefix] == "":
			l.need(key, "the URI is empty", "write {}local for names without a namespace")
		}
	}
}

func (l *loader) checkLimits(lim *Limits, path string) {
	if !lim.MaxMessage.None() && lim.Buffer > lim.MaxMessage {
		l.need(path+".buffer", fmt.Sprintf("%s is more than max_message, %s", l.show(path+".buffer", lim.Buffer.String()), l.show(path+".max_message", lim.MaxMessage.String())), "make it smaller")
	}
}

func (l *loader) checkSites() {
	s := l.cfg.Sites
	if s == nil {
		return
	}
	names := map[string]string{}
	for i := range s.Links {
		path := l.items["sites.links"][i]
		l.unique(names, s.Links[i].Name, path, "link")
		l.pair(s.Links[i].Certificate, s.Links[i].Key, path, false)
	}
	names = map[string]string{}
	for i := range s.Accept {
		a := &s.Accept[i]
		path := l.items["sites.accept"][i]
		l.unique(names, a.Name, path, "site")
		for j, r := range a.Routes {
			if l.route(r) == nil {
				key := indexed(path+".routes", j)
				l.reportKey(key, fmt.Sprintf("there is no route %s", l.quoted(key, r)), l.didYouMean(key, r, l.routeNames()))
			}
		}
	}
}

// leastStore is the least that a store is good for: some messages of the
// largest size, and room for what died.
const leastStore = Size(64 << 20)

func (l *loader) checkStore() {
	s := &l.cfg.Store
	if len(s.URL) > 0 {
		l.need("store.dir", "is for the embedded store", "remove it or url")
		return
	}
	if !s.MaxBytes.None() && s.MaxBytes < leastStore {
		l.need("store.max_bytes", fmt.Sprintf("%s is too small for a store", l.show("store.max_bytes", s.MaxBytes.String())), fmt.Sprintf("make it at least %v", leastStore))
	}
	l.needIf(!s.EncryptionKey.IsZero() && s.EncryptionKey.File() == "", "store.encryption_key", "must be file:PATH", "keys stand in a file of their own, one on a line, the one in use first")
	// As with listeners, a default asks for nothing.
	const message, hint = "is for a cluster", "set url, or remove it"
	var def Store
	l.setDefaults(reflect.ValueOf(&def).Elem())
	l.needIf(s.Replicas != def.Replicas, "store.replicas", message, hint)
	l.needIf(s.Credentials != "", "store.credentials", message, hint)
	l.needIf(s.TLS != nil, "store.tls", message, hint)
	l.needIf(!s.Monitor.IsZero(), "store.monitor", message, hint)
	l.needIf(s.AssumeSynced, "store.assume_synced", message, hint)
}

func (l *loader) route(name string) *Route {
	for i := range l.cfg.Routes {
		if l.cfg.Routes[i].Name == name {
			return &l.cfg.Routes[i]
		}
	}
	return nil
}

// routeNames are the names of routes that may be shown.
func (l *loader) routeNames() []string {
	var names []string
	for i, r := range l.cfg.Routes {
		if !l.isHidden(l.items["routes"][i] + ".name") {
			names = append(names, r.Name)
		}
	}
	return names
}

// didYouMean is the hint at a name, the value of a key, that is not in a list.
func (l *loader) didYouMean(key, name string, names []string) string {
	if near := nearest(name, names); near != "" && !l.isHidden(key) {
		return "did you mean " + near + "?"
	}
	names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	if len(names) == 0 || len(names) > 8 {
		return ""
	}
	slices.SortFunc(names, cmp.Compare)
	return "there is " + strings.Join(names, ", ")
}
