package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"soapway/internal/telemetry"
)

const (
	// tickEvery is the pause between two looks at what changes all the time.
	tickEvery = time.Second
	// aliveEvery is the pause after which a reader is sent something.
	aliveEvery = 15 * time.Second
	// readTimeout is how long a reader may take for one write.
	readTimeout = 10 * time.Second
)

// Tick is the data of the event tick: what has changed since the last one.
type Tick struct {
	Time     time.Time        `json:"time"`
	Ready    bool             `json:"ready"`
	Reasons  []string         `json:"reasons,omitempty"`
	Degraded []string         `json:"degraded,omitempty"`
	Waiting  int              `json:"waiting"`
	Total    telemetry.Counts `json:"total"` // since the start
	Queues   []RouteStats     `json:"queues,omitempty"`
	Backends []Backend        `json:"backends,omitempty"`
	// QueuesGone and BackendsGone are those that are not there any more.
	QueuesGone   []string `json:"queues_gone,omitempty"`
	BackendsGone []string `json:"backends_gone,omitempty"`
}

// watch is an answer that goes on until somebody leaves.
type watch struct{}

func (a *api) events(*call) (any, error) {
	if a.stopped {
		return nil, ErrStopped
	}
	return watch{}, nil
}

// serveEvents answers with server-sent events (HTML Living Standard, server-sent
// events): the latest ones, or those since Last-Event-ID, then each as it happens,
// and a tick every second in which something has changed.
func (a *api) serveEvents(w http.ResponseWriter, r *http.Request) {
	reader, before, gap, ok := a.happened.subscribe(r.Header.Get("Last-Event-ID"))
	if !ok {
		(&refusal{kind: kindReaders, detail: fmt.Sprintf("%d read already", maxReaders)}).answer(w, r)
		return
	}
	defer a.happened.leave(reader)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // some proxies in front hold back otherwise
	if r.Method == http.MethodHead {
		return
	}
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	_ = s.control.SetReadDeadline(time.Time{}) // else the context ends
	if gap {
		s.event("gap", "", struct{}{})
	}
	for _, e := range before {
		s.event("note", a.happened.id(e.n), e.Event)
	}
	t := ticker{a: a}
	s.event("tick", "", t.next())
	s.flush()

	every := time.NewTicker(tickEvery)
	defer every.Stop()
	quiet := time.Now()
	for s.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-reader.slow:
			s.flush()
			return // it comes back with the id of the last event that it has seen
		case e := <-reader.ch:
			s.event("note", a.happened.id(e.n), e.Event)
		case <-every.C:
			tick := t.next()
			switch {
			case tick != nil:
				s.event("tick", "", tick)
			case time.Since(quiet) >= aliveEvery:
				s.write([]byte(": alive\n\n"))
			default:
				continue
			}
		}
		if len(reader.ch) == 0 {
			s.flush()
			quiet = time.Now()
		}
	}
}

// eventStream writes events; after the first error it does nothing.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (s *eventStream) write(b []byte) {
	if s.err != nil {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(readTimeout))
	_, s.err = s.w.Write(b)
}

func (s *eventStream) event(kind, id string, data any) {
	text, err := json.Marshal(data) // on one line
	if err != nil {
		s.err = err
		return
	}
	line := "event: " + kind + "\n"
	if id != "" {
		line = "id: " + id + "\n" + line
	}
	s.write(append(append([]byte(line+"data: "), text...), "\n\n"...))
}

func (s *eventStream) flush() {
	if s.err != nil {
		return
	}
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.err = err
	}
}

// ticker finds out what has changed since it last looked.
type ticker struct {
	a     *api
	known map[string]string // what was last sent of each queue and backend
	state string            // and of all else
}

// next returns what has changed, nil if nothing has. The first has everything.
func (t *ticker) next() *Tick {
	if t.known == nil {
		t.known = map[string]string{}
	}
	tick := &Tick{Reasons: t.a.ready(), Degraded: t.a.degraded(), Waiting: t.a.queue().Waiting(), Total: t.a.gateway.History().Total()}
	tick.Ready = len(tick.Reasons) == 0
	there := map[string]bool{}
	for _, q := range t.a.queue().Stats() {
		there["q"+q.Route] = true
		if t.differs("q"+q.Route, q) {
			tick.Queues = append(tick.Queues, q)
		}
	}
	for _, b := range t.a.gateway.Backends() {
		there["b"+b.Name] = true
		if t.differs("b"+b.Name, b) {
			tick.Backends = append(tick.Backends, b)
		}
	}
	gone := false
	for key := range t.known {
		if there[key] {
			continue
		}
		gone = true
		delete(t.known, key)
		if key[0] == 'q' {
			tick.QueuesGone = append(tick.QueuesGone, key[1:])
		} else {
			tick.BackendsGone = append(tick.BackendsGone, key[1:])
		}
	}
	state, _ := json.Marshal([]any{tick.Reasons, tick.Degraded, tick.Waiting, tick.Total})
	if string(state) == t.state && !gone && tick.Queues == nil && tick.Backends == nil {
		return nil
	}
	t.state = string(state)
	tick.Time = time.Now()
	return tick
}

func (t *ticker) differs(key string, v any) bool {
	b, err := json.Marshal(v)
	if err != nil || t.known[key] == string(b) {
		return false
	}
	t.known[key] = string(b)
	return true
}
