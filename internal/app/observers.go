package app

import (
	"fmt"
	"time"

	"soapway/internal/admin"
	"soapway/internal/telemetry"
	"soapway/queue"
)

// observer tells the metrics, the last hour, the alarms and whoever watches what
// happens in a queue.
type observer struct {
	metrics    *telemetry.Metrics
	history    *telemetry.History
	happened   *admin.Events
	happenings *happenings
}

var _ queue.Observer = observer{}

// Accepted implements [queue.Observer]: the exchange is counted already.
func (observer) Accepted(string) {}

// Attempted implements [queue.Observer]: the tries are counted already.
func (observer) Attempted(string, queue.Outcome, time.Duration) {}

// Finished implements [queue.Observer].
func (o observer) Finished(route string, waited time.Duration) {
	o.metrics.Delivered(route, waited)
	o.history.Delivered(route)
}

// Died implements [queue.Observer].
func (o observer) Died(route, reason string) {
	o.metrics.Died(route, reason)
	o.history.Died(route)
	o.happened.Publish(admin.Event{Kind: admin.EventDead, Route: route, Text: reason})
}

// ClockSet implements [queue.Observer].
func (o observer) ClockSet(by time.Duration) {
	o.metrics.ClockSet(by)
	o.happenings.note(&o.happenings.clock)
	o.happened.Publish(admin.Event{Kind: admin.EventClock, Text: "the wall clock was set by " + by.Round(time.Second).String()})
}

// Circuit implements [queue.Observer].
func (o observer) Circuit(destination string, open bool) {
	if open {
		o.happened.Publish(admin.Event{Kind: admin.EventDown, Backend: destination, Text: "stored messages for it wait"})
		return
	}
	o.happened.Publish(admin.Event{Kind: admin.EventUp, Backend: destination, Text: "stored messages for it are sent again"})
}

// storeObserver tells whoever watches, and all others, what a store meets.
type storeObserver struct {
	queue.StoreObserver // the others
	happened            *admin.Events
}

var _ queue.StoreObserver = storeObserver{}

// StoreError implements [queue.StoreObserver].
func (o storeObserver) StoreError(err error) {
	o.StoreObserver.StoreError(err)
	o.happened.Publish(admin.Event{Kind: admin.EventStore, Text: err.Error()})
}

// Damage implements [queue.StoreObserver].
func (o storeObserver) Damage(err error) {
	o.StoreObserver.Damage(err)
	o.happened.Publish(admin.Event{Kind: admin.EventStore, Text: err.Error()})
}

// Gap implements [queue.StoreObserver].
func (o storeObserver) Gap(from, to uint64) {
	o.StoreObserver.Gap(from, to)
	o.happened.Publish(admin.Event{Kind: admin.EventStore, Text: fmt.Sprintf("messages %d to %d are missing in the log", from, to)})
}
