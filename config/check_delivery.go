package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// storing are the named backends that stored messages go to.
func (c *Config) storing() map[string]bool {
	names := map[string]bool{}
	for i := range c.Routes {
		if r := &c.Routes[i]; r.Stores() && r.Backend != "" {
			names[r.Backend] = true
		}
	}
	return names
}

// checkCircuits checks the keys of backends that are for stored messages alone.
func (l *loader) checkCircuits() {
	for i := range l.cfg.Routes {
		if l.failed[l.items["routes"][i]+".delivery"] {
			return // it may store
		}
	}
	stored := l.cfg.storing()
	var def Probe
	l.setDefaults(reflect.ValueOf(&def).Elem())
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Backends)) {
		if stored[name] {
			continue
		}
		b, path := l.cfg.Backends[name], joined("backends", name)
		const message, hint = "is for stored messages", "no route with delivery: queue or sync-then-queue has this backend, remove it"
		l.needIf(b.Probe.Initial != def.Initial, path+".probe.initial", message, hint)
		l.needIf(b.Probe.Max != def.Max, path+".probe.max", message, hint)
	}
}

// none reports whether there is no key.
func (o *OrderBy) none() bool { return o.Kind == OrderNone || o.Kind == "" }

// keyed reports whether the backend of a route spreads its messages by their key.
func (l *loader) keyed(r *Route) bool {
	b := l.cfg.Backends[r.Backend]
	return b != nil && b.HashBy.Kind == HashKey
}

// secretFields hold what is not stored with a message (SPEC.md §3.8), and what
// must not come into a listing as its key.
var secretFields = []string{"Authorization", "Cookie", "Proxy-Authorization"}

// checkKey checks where a key comes from.
func (l *loader) checkKey(o *OrderBy, path string) {
	secret := func(name string) bool { return strings.EqualFold(name, o.HTTP) }
	l.needIf(o.Kind == OrderHTTP && slices.ContainsFunc(secretFields, secret), path,
		"the field "+o.HTTP+" is a secret", "use another field")
}

// checkReply checks the keys about the answers to stored messages. Who asks for a
// reply sends no envelope that could prove who that is.
func (l *loader) checkReply(r, def *Route, path string) {
	sent := r.Reply == ReplyTo
	kept := r.Reply == ReplyStore || sent
	l.needIf(kept && !r.Stores(), path+".reply", "is for delivery: queue", "the caller of a sync route gets the answer, remove it")
	if !l.failed[path+".reply"] {
		l.needIf(!kept && r.ReplyKeep != def.ReplyKeep, path+".reply_keep", "is for reply: store", "set reply: store, or remove it")
		l.needIf(!sent && len(r.ReplyHosts) > 0, path+".reply_hosts", "is for reply: reply-to", "set reply: reply-to, or remove it")
	}
	l.needIf(sent && len(r.ReplyHosts) == 0, path+".reply", "has no place to send a reply to", "name the hosts that wsa:ReplyTo may name in reply_hosts")
	for i, text := range r.ReplyHosts {
		_, _, message, hint := replyHost(text)
		l.needIf(message != "", indexed(path+".reply_hosts", i), message, hint)
	}
	a := r.Auth
	l.needIf(r.Reply == ReplyStore && a != nil && a.WSSUsername != "" && a.Basic == "" && a.Bearer == "" && a.APIKey == nil && a.MTLS == nil, path+".reply",
		"can not be asked for by callers that are known by wss_username alone", "let them prove who they are by basic, bearer or api_key too")
}

// checkDelivery checks the keys that say how messages of a route are delivered.
// A key that is only for stored messages is a mistake on another route, where
// it asks for something.
func (l *loader) checkDelivery(r *Route, path string) {
	if r.Retry.Initial > r.Retry.Max {
		l.need(path+".retry", "initial is longer than max", "")
	}
	if l.failed[path+".delivery"] {
		return
	}
	l.checkKey(&r.OrderBy, path+".order_by")
	if r.Dedup != nil {
		l.checkKey(&r.Dedup.By.Key, path+".dedup.by")
		l.needIf(r.Delivery != DeliveryQueue, path+".dedup", "is for delivery: queue", "set delivery: queue, or remove it")
	}
	var route Route
	l.setDefaults(reflect.ValueOf(&route).Elem())
	l.needIf(r.Delivery != DeliverySyncThenQueue && r.Hold != route.Hold, path+".hold",
		"is for delivery: sync-then-queue", "set delivery: sync-then-queue, or remove it")
	l.checkReply(r, &route, path)
	if r.Stores() {
		l.needIf(r.OnDead == OnDeadStop && r.OrderBy.none() && !l.failed[path+".order_by"], path+".on_dead",
			"has nothing to stop", "set order_by, or remove it")
		return
	}
	l.needIf(r.Assurance != AtMostOnce, path+".assurance", "not available yet", "sync routes are at-most-once")
	const message, hint = "is for delivery: queue", "set delivery: queue, or remove it"
	l.needIf(!r.OrderBy.none() && !l.keyed(r), path+".order_by", message, hint)
	l.needIf(r.OnDead == OnDeadStop, path+".on_dead", message, hint)
	l.needIf(r.Quota != nil, path+".quota", message, hint)
	l.needIf(r.StoreCredentials, path+".store_credentials", message, hint)
	var def Retry
	l.setDefaults(reflect.ValueOf(&def).Elem())
	if r.Retry == def {
		return
	}
	if l.isSet(path + ".retry") {
		l.need(path+".retry", message, hint)
		return
	}
	for _, f := range fieldsOf(reflect.TypeFor[Retry]()) { // by the environment
		l.need(joined(path+".retry", f.key), message, hint)
	}
}
