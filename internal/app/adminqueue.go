package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/proxy"
	"soapway/queue"
)

// adminQueue shows a queue to the admin API.
type adminQueue struct {
	*queue.Queue
	store   queue.Store
	cfg     func() *config.Config // which says what is hidden
	stopped bool                  // nothing runs: the store is only looked at
}

var _ admin.Queue = (*adminQueue)(nil)

// shown is the queue as the admin API sees it, nil while no store is open.
func (p *depot) shown() admin.Queue {
	if s := p.present.Load(); s != nil {
		return &adminQueue{Queue: s.queue, store: s.store, cfg: p.cfg.Load}
	}
	return nil
}

// adminErrors are the admin API's names for the errors of a queue.
var adminErrors = []struct{ ours, theirs error }{
	{queue.ErrNoRoute, admin.ErrNoRoute},
	{queue.ErrNotFound, admin.ErrNoMessage},
	{queue.ErrCursor, admin.ErrCursor},
	{queue.ErrBusy, admin.ErrBusy},
	{queue.ErrBackup, admin.ErrBackup},
	{queue.ErrCorrupt, admin.ErrDamaged},
	{queue.ErrFull, admin.ErrFull},
	{queue.ErrNoTarget, admin.ErrTarget},
	{queue.ErrUnknown, admin.ErrUnknown}, // before the errors that it may wrap
	{queue.ErrClosed, admin.ErrClosed},
}

func adminError(err error) error {
	for _, e := range adminErrors {
		if errors.Is(err, e.ours) {
			if err == e.ours {
				return e.theirs
			}
			return fmt.Errorf("%w: %w", e.theirs, err)
		}
	}
	return err
}

// Store implements [admin.Queue].
func (a *adminQueue) Store() (admin.StoreInfo, bool) {
	i := a.store.Info()
	s := admin.StoreInfo{
		ID: i.ID, Epoch: i.Epoch, Clean: i.Clean, Dir: i.Dir, Durability: i.Durability,
		Messages: i.Messages, Bytes: i.Bytes, Opened: i.Opened,
	}
	if err := a.store.Err(); err != nil {
		s.Error = err.Error()
	}
	return s, true
}

// Stats implements [admin.Queue].
func (a *adminQueue) Stats() []admin.RouteStats {
	stats := a.Queue.Stats()
	out := make([]admin.RouteStats, 0, len(stats))
	for i := range stats {
		if !idleReturn(&stats[i]) {
			out = append(out, adminStats(&stats[i]))
		}
	}
	return out
}

func adminStats(s *queue.RouteStats) admin.RouteStats {
	return admin.RouteStats{
		Route: s.Route, Destination: s.Destination, Pending: s.Pending, Retrying: s.Retrying, Dead: s.Dead, Orphaned: s.Orphaned, Awaiting: s.Awaiting,
		InFlight: s.InFlight, Bytes: s.Bytes, Oldest: s.Oldest, Paused: s.Paused, Stopped: s.Stopped, IDs: s.IDs,
		Down: s.Down, NextProbe: s.NextProbe, Held: string(s.Held), LastError: s.LastError, Loading: s.Loading,
	}
}

// List implements [admin.Queue].
func (a *adminQueue) List(f admin.Filter) ([]admin.Entry, string, error) {
	page, next, err := a.Queue.List(a.filter(f))
	if err != nil {
		return nil, "", adminError(err)
	}
	out, hide := make([]admin.Entry, len(page)), masksOf(a.cfg())
	for i := range page {
		out[i] = adminEntry(&page[i], hide.of(page[i].Route))
	}
	return out, next, nil
}

// filter is f for the queue. Where order keys are hidden a text is not looked for in
// them: who may ask for one text after the other would read them so.
func (a *adminQueue) filter(f admin.Filter) queue.Filter {
	return queue.Filter{
		Route: f.Route, State: queue.State(f.State), Operation: f.Operation, Since: f.Since, Text: f.Text,
		After: f.After, Limit: f.Limit, NoLane: f.Text != "" && masksOf(a.cfg()).of(f.Route).key,
	}
}

func adminEntry(e *queue.Entry, hide routeMask) admin.Entry {
	return admin.Entry{
		ID: e.ID, Route: e.Route, Destination: e.Destination, Lane: hide.lane(e.Lane), Operation: e.Operation,
		State: string(e.State), InFlight: e.InFlight, Accepted: e.Accepted, Died: e.Died, Delivered: e.Delivered, Site: e.Site, Handed: e.Handed, Size: e.Size,
		Attempts: e.Attempts, NextAttempt: e.NextAttempt, Reason: e.Reason, Text: e.Text,
		Stops: e.Stops, WaitsFor: e.WaitsFor,
	}
}

// Get implements [admin.Queue].
func (a *adminQueue) Get(id string) (*admin.Detail, error) {
	d, err := a.Queue.Get(id)
	if err != nil {
		return nil, adminError(err)
	}
	hide := masksOf(a.cfg()).of(d.Route)
	out := &admin.Detail{
		Entry: adminEntry(&d.Entry, hide), Header: keptFields(d.Message.Meta, hide), Reply: d.Reply, ReplyType: d.ReplyType,
	}
	if err := hide.mask(out, d.Message); err != nil {
		return nil, adminError(err)
	}
	if d.State == queue.StateAwaiting {
		out.EnvelopeError = "site " + d.Site + " has it"
	}
	for _, r := range d.History {
		out.Attempts = append(out.Attempts, admin.Attempt{
			N: r.N, At: r.At, Status: r.Status, Reason: r.Reason, Maybe: r.Maybe, NotBefore: r.NotBefore,
		})
	}
	return out, nil
}

// keptFields are the header fields kept with a message; none where Meta cannot
// be read, which its attempts then tell.
func keptFields(meta []byte, hide routeMask) (out []admin.Field) {
	fields, err := proxy.StoredFields(meta)
	if err != nil {
		return nil
	}
	for _, f := range fields {
		out = append(out, admin.Field{Name: f[0], Value: f[1], Secret: hide.field(f[0])})
	}
	return out
}

// Replay implements [admin.Queue].
func (a *adminQueue) Replay(ctx context.Context, id string) error {
	return adminError(a.Queue.Replay(ctx, id))
}

// Drop implements [admin.Queue].
func (a *adminQueue) Drop(ctx context.Context, id string) error {
	return adminError(a.Queue.Drop(ctx, id))
}

// ReplayAll implements [admin.Queue].
func (a *adminQueue) ReplayAll(ctx context.Context, f admin.Filter) (int, error) {
	n, err := a.Queue.ReplayAll(ctx, a.filter(f))
	return n, adminError(err)
}

// DropAll implements [admin.Queue].
func (a *adminQueue) DropAll(ctx context.Context, f admin.Filter) (int, error) {
	n, err := a.Queue.DropAll(ctx, a.filter(f))
	return n, adminError(err)
}

// Move implements [admin.Queue].
func (a *adminQueue) Move(ctx context.Context, ids []string, to string) (admin.Moved, error) {
	m, err := a.Queue.Move(ctx, ids, to)
	return admin.Moved(m), adminError(err)
}

// MoveAll implements [admin.Queue].
func (a *adminQueue) MoveAll(ctx context.Context, f admin.Filter, to string) (admin.Moved, error) {
	m, err := a.Queue.MoveAll(ctx, a.filter(f), to)
	return admin.Moved(m), adminError(err)
}

// Pause implements [admin.Queue].
func (a *adminQueue) Pause(ctx context.Context, route string) error {
	return adminError(a.Queue.Pause(ctx, route))
}

// Resume implements [admin.Queue].
func (a *adminQueue) Resume(ctx context.Context, route string) error {
	return adminError(a.Queue.Resume(ctx, route))
}

// Flush implements [admin.Queue]. On a stopped store there is nothing that
// could be hastened: the times of the next attempts are part of what is stored,
// and a tool changes no message.
func (a *adminQueue) Flush(ctx context.Context, route string) error {
	if a.stopped {
		return fmt.Errorf("flush: %w", admin.ErrStopped)
	}
	return adminError(a.Queue.Flush(ctx, route))
}

// Hold implements [admin.Queue].
func (a *adminQueue) Hold(ctx context.Context, route string) error {
	return adminError(a.Queue.Hold(ctx, route))
}

// Release implements [admin.Queue].
func (a *adminQueue) Release(ctx context.Context, route string) error {
	return adminError(a.Queue.Release(ctx, route))
}

// A StoppedStore is the store of a gateway that does not run, opened for the
// operator. It sends no message.
type StoppedStore struct {
	store *queue.Embedded
	audit *admin.Audit
	api   http.Handler
}

// OpenStopped opens the store of cfg as a start of the gateway would, and as
// one that changes nothing about how that start will judge the last stop.
// queue.ErrNoStore, queue.ErrLocked.
func OpenStopped(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ *StoppedStore, err error) {
	if len(cfg.Store.URL) > 0 {
		return nil, errors.New("the store is a cluster: only a running gateway can show it")
	}
	o, err := storeOptions(cfg, log, nil)
	if err != nil {
		return nil, config.Problems{storeProblem(cfg, err)}
	}
	o.Inspect = true
	store, err := queue.OpenEmbedded(o)
	if errors.Is(err, queue.ErrKey) {
		return nil, config.Problems{storeProblem(cfg, err)}
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = store.Close()
		}
	}()
	q, err := queue.New(store, idle{}, queue.Options{Log: log})
	if err != nil {
		return nil, err
	}
	if err := q.Configure(queueRoutes(cfg, nil)); err != nil {
		return nil, err
	}
	if err := q.Load(ctx); err != nil {
		return nil, err
	}
	if err := q.Configure(queueRoutes(cfg, holders(q))); err != nil {
		return nil, err
	}
	shown := &adminQueue{Queue: q, store: store, cfg: func() *config.Config { return cfg }, stopped: true}
	audit, problems := openAudit(cfg, log)
	if problems != nil {
		return nil, problems
	}
	return &StoppedStore{store: store, audit: audit, api: admin.Local(shown, admin.Options{Log: log, Audit: audit})}, nil
}

// holders are the routes of which messages wait, or would after a replay.
func holders(q *queue.Queue) map[string]bool {
	has := map[string]bool{}
	for _, st := range q.Stats() {
		has[st.Route] = st.Pending+st.Retrying+st.Orphaned+st.Dead > 0
	}
	return has
}

// API is the admin API over the store.
func (s *StoppedStore) API() http.Handler { return s.api }

// Dir is the absolute path of the store.
func (s *StoppedStore) Dir() string { return s.store.Info().Dir }

// Close lets go of the store. No request may be under way.
func (s *StoppedStore) Close() error { return errors.Join(s.store.Close(), s.audit.Close()) }

// idle delivers nothing.
type idle struct{}

var _ queue.Deliverer = idle{}

func (idle) Deliver(context.Context, *queue.Delivery) queue.Outcome {
	return queue.Outcome{Verdict: queue.Aborted}
}

func (idle) Probe(context.Context, string) error { return admin.ErrStopped }
