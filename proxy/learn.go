package proxy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"soapway/proxy/describe"
	"soapway/soapcodec"
	"soapway/soapcodec/wsdl"
)

// The times between tries to get a description that a route asks for.
const (
	relearnFirst = 5 * time.Second
	relearnMost  = 5 * time.Minute
	learnMost    = time.Minute // for all documents of one service
)

// wishes are the descriptions that a front wants to know. Messages put them here
// and do not wait: what the description says counts once it is known.
type wishes struct {
	mu    sync.Mutex
	roots map[describe.Location]*wish
	busy  bool // one is being granted: one at a time for each front
	told  bool // the log knows that one can not be granted yet
	wake  chan<- struct{}
}

type wish struct {
	ask  bool          // the source may be asked; else what is kept will do
	due  time.Time     // when it is tried
	wait time.Duration // until the next try
	vain bool          // the source has none: it is not asked again for messages
}

// want asks for the description from root on.
func (w *wishes) want(root describe.Location, ask bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(root, ask)
}

// found is want for a description that a caller has just got from the source.
func (w *wishes) found(root describe.Location) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.roots[root]; old != nil && old.vain {
		delete(w.roots, root)
	}
	w.put(root, true)
}

func (w *wishes) put(root describe.Location, ask bool) {
	switch old := w.roots[root]; {
	case old != nil && (old.ask || !ask):
		return
	case old == nil && len(w.roots) >= describe.MaxDocuments:
		return
	}
	w.roots[root] = &wish{ask: ask, wait: relearnFirst}
	wakeUp(w.wake)
}

func wakeUp(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will wake anyway
	}
}

// next takes a wish that is due; ok is false if none is, and then at is when one
// will be, zero for never.
func (w *wishes) next(now time.Time) (root describe.Location, ask, ok bool, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy {
		return "", false, false, time.Time{}
	}
	for r, wish := range w.roots {
		if wish.vain {
			continue
		}
		if !wish.due.After(now) {
			w.busy = true
			return r, wish.ask, true, time.Time{}
		}
		if at.IsZero() || wish.due.Before(at) {
			at = wish.due
		}
	}
	return "", false, false, at
}

// tell reports whether the log is to be told; that happens once.
func (w *wishes) tell() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.told
	w.told = true
	return first
}

// The ends of a wish.
type fate uint8

const (
	granted fate = iota // or given up
	inVain              // there is nothing to be had
	later               // tried again after a growing while
)

// settle ends the wish that next took.
func (w *wishes) settle(root describe.Location, asked bool, how fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	wish := w.roots[root]
	switch {
	case wish == nil || wish.ask && !asked: // it has become a larger one meanwhile
	case how == inVain:
		wish.vain = true
	case how == later:
		wish.due, wish.wait = time.Now().Add(wish.wait), min(2*wish.wait, relearnMost)
	default:
		delete(w.roots, root)
	}
	wakeUp(w.wake)
}

// Learn gets the descriptions that routes want to know, until ctx ends: those of
// routes that ask for an operation, at once and, while messages come, again when
// they are old, unless the source has none; of other routes what is kept on disk, and what a caller has asked
// for. Before each use of the present table it calls hold, and release when
// that is over. It returns once no goroutine of its own is left.
func (h *Handler) Learn(ctx context.Context, hold func() (release func())) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		release := hold()
		t := h.table.Load()
		f, root, ask, at := t.nextWish(time.Now())
		if f != nil {
			wg.Go(func() {
				defer release()
				f.learn(ctx, root, ask, h.opt.Log)
			})
			continue
		}
		release()
		var due <-chan time.Time
		var timer *time.Timer
		if !at.IsZero() {
			timer = time.NewTimer(time.Until(at))
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-h.swapped:
		case <-t.wake:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// nextWish takes a wish of any route that is due, or tells when one will be.
func (t *Table) nextWish(now time.Time) (f *front, root describe.Location, ask bool, at time.Time) {
	for _, r := range t.byName {
		if r.front == nil {
			continue
		}
		root, ask, ok, due := r.front.wishes.next(now)
		if ok {
			return r.front, root, ask, time.Time{}
		}
		if !due.IsZero() && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return nil, "", false, at
}

// learn grants a wish.
func (f *front) learn(ctx context.Context, root describe.Location, ask bool, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, learnMost)
	defer cancel()
	if !ask {
		_, _ = f.Recall(ctx, root) // or nothing is kept
		f.wishes.settle(root, false, granted)
		return
	}
	s, err := f.Service(ctx, root)
	how := granted
	var status *describe.StatusError
	switch {
	case !f.asks:
	case err == nil && len(s.Operations()) == 0, errors.As(err, &status) && status.Status < 500:
		how = inVain
	case err != nil:
		how = later
	}
	if how != granted && ctx.Err() == nil && f.wishes.tell() {
		log.Info("the operations of the service are not known: match.operation compares with the elements in Body alone",
			"route", f.route.Name, "document", string(root), "err", err)
	}
	f.wishes.settle(root, true, how)
}

// known is the description of the service that a path of the route leads to; nil
// as long as it is not known. A route that asks for an operation gets it, and
// again when it is old.
func (f *front) known(tail string) *describe.Service {
	root := f.root(tail)
	s := f.Known(root)
	if f.asks && (s == nil || s.Old()) {
		f.wishes.want(root, true)
	}
	return s
}

// names reports whether the description says that a message asks for the operation
// q (CONFIG.md match.operation).
func (f *front) names(tail string, m *bodyFacts, q soapcodec.QName, anySpace bool) bool {
	s := f.known(tail)
	if s == nil {
		return false
	}
	op, ok := s.Operation(m.operation, m.action, m.addressed)
	return ok && op.Name == q.Local && (anySpace || op.Space == q.Space)
}

// described is the operation of the description that the message asks for; nil if
// it is not known.
func (c *call) described() *wsdl.Operation {
	if c.route == nil || c.route.front == nil || c.child.IsZero() {
		return nil
	}
	s := c.route.front.Known(c.route.front.root(c.route.tail(c.target.path)))
	if s == nil {
		return nil
	}
	soapAction, _ := soapcodec.ParseSOAPAction(c.ex.Header.Values(soapActionKey))
	op, _ := s.Operation(c.child, soapAction, c.ct.Action, c.action)
	return op
}

// oneWay is what decides about the answer to a stored message: on a route with
// `oneway: auto` what the description, if it is known, says of its operation.
func (c *call) oneWay(m *Stored, meta *storedMeta) OneWay {
	f := c.route.front
	if c.route.OneWay != OneWayAuto || f == nil || m.Operation == "" {
		return c.route.OneWay
	}
	s := f.known(string(meta.Tail))
	if s == nil {
		return OneWayAuto
	}
	op, ok := s.Operation(soapcodec.QName{Space: string(meta.Space), Local: m.Operation}, meta.action(), string(meta.Action))
	if !ok || !op.OneWay {
		return OneWayAuto
	}
	return OneWayYes
}
