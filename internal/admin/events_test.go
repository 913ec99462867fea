package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/memnet"
	"soapway/internal/telemetry"
)

// steered is a Gateway that a test changes.
type steered struct {
	noGateway
	history *telemetry.History
	err     error
	links   []Link

	mu       sync.Mutex
	backends []Backend // guarded by mu
}

func (g *steered) History() *telemetry.History { return g.history }
func (g *steered) Backends() []Backend {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.backends
}
func (g *steered) Links() []Link { return g.links }
func (g *steered) Reload() error { return g.err }
func (g *steered) Configuration() Configuration {
	return Configuration{Path: "gateway.yaml", Digest: "d", Text: "routes: []\n"}
}

// happens is an event as a reader gets it.
type happens struct{ id, kind, data string }

// reads opens the events on a new connection, and returns the way to the next one.
func reads(t *testing.T, ln *memnet.Listener, lastID string) (status int, next func() (happens, bool), end func()) {
	t.Helper()
	c := dial(t, ln)
	head := "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n"
	if lastID != "" {
		head += "Last-Event-ID: " + lastID + "\r\n"
	}
	if _, err := fmt.Fprint(c, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return resp.StatusCode, func() (e happens, ok bool) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if e.kind != "" {
					return e, true
				}
			}
		}
		return e, false
	}, func() { _ = c.Close() }
}

// TestEvents: a reader gets what has happened, then each event as it happens, and
// once a second what has changed, if something has.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(Events)
		g := &steered{history: telemetry.NewHistory(), backends: []Backend{{Name: "erp", State: BackendUp}}}
		q := &scripted{}
		ln, stop, _, done := serve(t, Options{Events: events, Gateway: g, Queue: always(q)})
		events.Publish(Event{Kind: EventDown, Backend: "erp"})
		status, next, end := reads(t, ln, "")
		if status != 200 {
			t.Fatalf("status %d", status)
		}
		first, _ := next()
		if first.kind != "note" || first.id == "" || !strings.Contains(first.data, `"kind":"down","backend":"erp"`) {
			t.Errorf("first: got %+v", first)
		}
		var tick Tick
		e, _ := next()
		if err := json.Unmarshal([]byte(e.data), &tick); err != nil || e.kind != "tick" || e.id != "" || len(tick.Queues) != 1 || len(tick.Backends) != 1 || !tick.Ready {
			t.Errorf("second: got %+v (%v)", e, err)
		}
		time.Sleep(3500 * time.Millisecond) // nothing changes
		g.mu.Lock()
		g.backends = []Backend{{Name: "bills", State: BackendDown}}
		g.mu.Unlock()
		tick = Tick{}
		e, _ = next()
		if err := json.Unmarshal([]byte(e.data), &tick); err != nil || len(tick.Queues) != 0 || len(tick.Backends) != 1 || !slices.Equal(tick.BackendsGone, []string{"erp"}) {
			t.Errorf("a change: got %+v (%v)", e, err)
		}
		events.Publish(Event{Kind: EventDead, Route: "orders", Text: "permanent"})
		last, _ := next()
		if last.kind != "note" || !strings.Contains(last.data, `"route":"orders"`) {
			t.Errorf("an event: got %+v", last)
		}
		end()

		// Who comes back gets what it has missed, and no more.
		events.Publish(Event{Kind: EventUp, Backend: "bills"})
		_, next, end = reads(t, ln, last.id)
		if e, _ := next(); !strings.Contains(e.data, `"kind":"up"`) {
			t.Errorf("back: got %+v, want the event in between", e)
		}
		end()
		for _, id := range []string{"0000-1", "x", first.id + "9999", "-"} {
			_, next, end = reads(t, ln, id)
			if e, _ := next(); e.kind != "gap" {
				t.Errorf("back with the id %q: got %+v, want a gap", id, e)
			}
			end()
		}
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestEventReaders: there are so many and no more; one who does not read is dropped
// and holds up nobody; a stop ends them all.
func TestEventReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(Events)
		ln, stop, _, done := serve(t, Options{Events: events})
		for range maxReaders {
			if status, _, _ := reads(t, ln, ""); status != 200 {
				t.Fatalf("status %d", status)
			}
		}
		if status, _, _ := reads(t, ln, ""); status != 503 {
			t.Errorf("one too many: status %d, want 503", status)
		}
		kinds := []string{EventDead, EventDown, EventUp, EventClock, EventReload, EventStore, EventChange, EventRefused}
		for range 20 { // nobody reads
			for _, kind := range kinds {
				events.Publish(Event{Kind: kind, Text: strings.Repeat("x", 10_000)})
			}
			time.Sleep(2 * time.Second)
		}
		events.mu.Lock()
		left := len(events.readers)
		events.mu.Unlock()
		if left != 0 {
			t.Errorf("%d readers are left that do not read", left)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestEventsOverflow: who is too slow for the queue in front of it is dropped at once.
func TestEventsOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(Events)
		r, _, _, _ := events.subscribe("")
		for range readerEvents + 1 {
			events.Publish(Event{Kind: EventDead})
			time.Sleep(eventPause)
		}
		select {
		case <-r.slow:
		default:
			t.Error("a reader that is too slow is not told so")
		}
		if len(events.readers) != 0 {
			t.Error("it is still there")
		}
	})
}

// TestEventFlood: of many events of a kind some are told, and how many others there
// were; those of another kind are told all the same, and the memory stays bounded.
func TestEventFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(Events)
		for range 100_000 {
			events.Publish(Event{Kind: EventDead})
		}
		events.Publish(Event{Kind: EventUp})
		time.Sleep(time.Second)
		events.Publish(Event{Kind: EventDead})
		_, before, _, _ := events.subscribe("")
		if n := len(before); n != eventsAtOnce+2 || before[n-2].Kind != EventUp || before[n-1].Missed != 100_000-eventsAtOnce {
			t.Errorf("got %d events, the last %+v", n, before[n-1])
		}
		for range 10 * keptEvents {
			time.Sleep(eventPause)
			events.Publish(Event{Kind: EventUp})
		}
		if len(events.kept) > 2*keptEvents {
			t.Errorf("%d events are kept", len(events.kept))
		}
		r, before, gap, ok := events.subscribe(events.id(events.last - 3))
		if len(before) != 3 || gap || !ok || before[2].n != events.last {
			t.Errorf("the last three: got %d, gap %v", len(before), gap)
		}
		events.leave(r)
	})
}
