package config

import "reflect"

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
		// The start of an attempt is not yet recorded before its first octet.
		l.needIf(r.Assurance != AtLeastOnce, path+".assurance", "not available yet", "queue routes are at-least-once")
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
