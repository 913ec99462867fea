package config

import (
	"maps"
	"reflect"
	"slices"
)

// storing are the named backends that stored messages go to.
func (c *Config) storing() map[string]bool {
	names := map[string]bool{}
	for i := range c.Routes {
		if r := &c.Routes[i]; r.Delivery == DeliveryQueue && r.Backend != "" {
			names[r.Backend] = true
		}
	}
	return names
}

// checkCircuits checks the keys of backends that are for stored messages alone.
func (l *loader) checkCircuits() {
	for i := range l.cfg.Routes {
		if l.failed[l.items["routes"][i]+".delivery"] {
			return // it may be queue
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
		const message, hint = "is for stored messages", "no route with delivery: queue has this backend, remove it"
		l.needIf(b.Probe.Initial != def.Initial, path+".probe.initial", message, hint)
		l.needIf(b.Probe.Max != def.Max, path+".probe.max", message, hint)
	}
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
	if r.Delivery == DeliveryQueue {
		return
	}
	l.needIf(r.Assurance != AtMostOnce, path+".assurance", "not available yet", "sync routes are at-most-once")
	const message, hint = "is for delivery: queue", "set delivery: queue, or remove it"
	l.needIf(r.OrderBy.Kind == OrderRoute, path+".order_by", message, hint)
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
