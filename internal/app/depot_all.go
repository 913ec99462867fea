package app

import (
	"context"
	"fmt"

	"soapway/proxy"
	"soapway/queue"
)

// What comes and goes over links comes and goes in batches.

// EnqueueAll implements [proxy.BatchEnqueuer].
func (p *depot) EnqueueAll(ctx context.Context, ms []*proxy.Stored) ([]proxy.Receipt, []error) {
	receipts, errs := make([]proxy.Receipt, len(ms)), make([]error, len(ms))
	s, err := p.taking()
	if err != nil {
		for i := range errs {
			if errs[i] = err; ms[i].Behind {
				errs[i] = proxy.ErrBehind
			}
		}
		return receipts, errs
	}
	all := make([]*queue.Message, len(ms))
	for i, m := range ms {
		all[i] = messageOf(m)
		if m.Identity != nil {
			all[i].Identity = queue.Identity(*m.Identity)
		}
	}
	results := s.queue.PutAll(ctx, all)
	var repeated []*queue.Label
	for i := range results {
		if r := &results[i]; r.Err == nil {
			if receipts[i], r.Err = s.receipt(&r.Kept); receipts[i].Repeat != "" && all[i].Came != nil {
				repeated = append(repeated, all[i].Came)
			}
		}
		errs[i] = enqueued(&receipts[i], results[i].Err)
	}
	if len(repeated) == 0 {
		return receipts, errs
	}
	// Their labels are in no record: they must be remembered all the same.
	err = s.noAnswers(ctx, all, receipts)
	if err == nil {
		err = s.queue.Consume(ctx, repeated...)
	}
	if err != nil {
		for i := range receipts {
			if receipts[i].Repeat != "" && all[i].Came != nil {
				receipts[i], errs[i] = proxy.Receipt{}, fmt.Errorf("%w: %w", proxy.ErrStoreUnknown, err)
			}
		}
	}
	return receipts, errs
}

// DeliverAll implements [queue.BatchDeliverer], as Deliver does for one.
func (p *depot) DeliverAll(ctx context.Context, ds []*queue.Delivery) []queue.Outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.abort, func() { cancel(context.Cause(p.abort)) })()
	g := p.door.enter()
	defer g.leave()
	if site, ok := returning(ds[0].Destination); ok {
		return p.sites.sendReturns(ctx, site, ds)
	}
	ms, tries := make([]*proxy.Stored, len(ds)), make([]proxy.Try, len(ds))
	for i, d := range ds {
		ms[i], tries[i] = storedOf(d), tryOf(d)
	}
	results := p.handler.DeliverAll(ctx, ms, tries)
	out := make([]queue.Outcome, len(results))
	for i := range results {
		out[i] = outcomeOf(&results[i], ds[i])
	}
	return out
}
