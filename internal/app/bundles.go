package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"soapway/internal/admin"
	"soapway/internal/bundle"
	"soapway/proxy"
	"soapway/queue"
)

const (
	// exportPage is how many messages are listed at once for an export.
	exportPage = 1000
	// An import takes up this many messages at once, and this many octets of them once
	// there is one: they share the syncs of the disk.
	importCount  = 256
	importOctets = 8 << 20
	importFiles  = 16 // bodies that are files of their own
	// maxEnvelope is more than any route takes; the store has its own bounds.
	maxEnvelope = 8<<30 - 1
	// maxReply is the most that is kept of the last answer to a message.
	maxReply = 64 << 10
)

// Export implements [admin.Queue]. It looks at one message after the other: what is
// delivered or changed meanwhile is in the file as it was found.
func (a *adminQueue) Export(ctx context.Context, f admin.Filter, o admin.ExportOptions, w io.Writer) (done admin.Exported, err error) {
	filter := map[string]string{}
	for name, v := range map[string]string{"state": f.State, "operation": f.Operation, "text": f.Text} {
		if v != "" {
			filter[name] = v
		}
	}
	if !f.Since.IsZero() {
		filter["since"] = f.Since.UTC().Format(time.RFC3339Nano)
	}
	b, err := bundle.NewWriter(w, bundle.Head{Created: time.Now().UTC(), Gateway: o.Version, Store: a.store.Info().ID, Route: f.Route, Filter: filter})
	if err != nil {
		return done, err
	}
	sel := a.filter(f)
	sel.After, sel.Limit = "", exportPage
	hide := masksOf(a.cfg())
	for {
		page, next, err := a.Queue.List(sel)
		if err != nil {
			return done, adminError(err)
		}
		for i := range page {
			if err := ctx.Err(); err != nil {
				return done, context.Cause(ctx)
			}
			switch d, err := a.Queue.Get(page[i].ID); {
			case errors.Is(err, queue.ErrNotFound): // delivered, or dropped
			case errors.Is(err, queue.ErrCorrupt):
				b.LeaveOut(page[i].ID, err.Error())
				done.LeftOut++
			case err != nil:
				return done, adminError(err)
			default:
				m := packed(d)
				if o.Whole {
					err = readable(d.Message.Blob)
				} else {
					err = hide.of(d.Route).pack(m, d.Message)
				}
				if errors.Is(err, queue.ErrCorrupt) {
					b.LeaveOut(page[i].ID, err.Error())
					done.LeftOut++
					continue
				} else if err != nil {
					return done, adminError(err)
				}
				if err := b.Write(m); err != nil {
					return done, err
				}
				done.Count++
				if m.Masked {
					done.Masked++
				}
			}
		}
		if sel.After = next; next == "" {
			return done, b.Close()
		}
	}
}

// readable says why a body that is not in memory cannot be read. An entry of a file
// that has begun cannot be taken back.
func readable(b queue.Blob) error {
	if b == nil {
		return nil
	}
	r, err := b.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// afterWords are the fates that a file has of the message that another follows from.
var afterWords = map[queue.Fate]string{queue.FateWaiting: "", queue.FateDelivered: "delivered", queue.FateDead: "dead"}

// packed is a message as a file has it.
func packed(d *queue.Detail) *bundle.Message {
	m := d.Message
	out := &bundle.Message{
		ID: m.ID, Route: bundle.Text(m.Route), Backend: bundle.Text(d.Destination), State: string(d.State),
		OrderKey: bundle.Text(m.Lane), Operation: bundle.Text(m.Operation), Accepted: m.Accepted.UTC(),
		Reply: d.Reply, ReplyType: bundle.Text(d.ReplyType),
	}
	if m.Blob != nil {
		out.Body = m.Blob
	} else {
		out.Envelope = m.Body
	}
	out.Forwards, out.After = m.Forwards, afterWords[m.After]
	if json.Valid(m.Meta) {
		out.Meta = m.Meta
	} else {
		out.MetaOctets = m.Meta
	}
	if i := m.Identity; !i.IsZero() {
		out.Identity = &bundle.Identity{Key: i.Key[:], Sum: i.Sum[:], Until: i.Until.UTC()}
	}
	for _, r := range d.History {
		out.Attempts = append(out.Attempts, bundle.Attempt{
			N: r.N, At: r.At.UTC(), Status: r.Status, Reason: bundle.Text(r.Reason), Maybe: r.Maybe || r.Open, NotBefore: r.NotBefore.UTC(),
		})
	}
	if d.State == queue.StateDead {
		out.Dead = &bundle.Dead{Died: d.Died.UTC(), Reason: bundle.Text(d.Reason), Text: bundle.Text(d.Text), Stops: d.Stops}
	}
	return out
}

// Import implements [admin.Queue].
func (a *adminQueue) Import(ctx context.Context, r io.Reader, to string) (sum admin.Imported, err error) {
	b, err := bundle.NewReader(r, bundle.Options{MaxEnvelope: maxEnvelope, MaxReply: maxReply, Spool: func(size int64) (bundle.Spool, error) {
		return a.store.NewBlob(size)
	}})
	if err != nil {
		return sum, badFile(err)
	}
	defer b.Close()
	var batch []queue.Incoming
	var files []bundle.Spool // of the bodies in batch: they stay only where the store has taken them
	drop := func() {
		for _, f := range files {
			_ = f.Close()
		}
		files = nil
	}
	defer drop()
	octets, n := 0, 0
	take := func() error {
		part, err := a.Queue.Import(ctx, batch)
		drop()
		sum.Count += part.Count
		sum.Known += part.Known
		batch, octets = nil, 0
		if errors.Is(err, queue.ErrInvalid) || errors.Is(err, queue.ErrTooLarge) {
			return fmt.Errorf("%w: up to message %d of the file: %w", admin.ErrInvalid, n, err)
		}
		return adminError(err)
	}
	for {
		m, err := b.Next()
		if err == io.EOF {
			return sum, take()
		}
		if err != nil {
			// What was read before it is whole, and is taken.
			if e := take(); e != nil {
				return sum, e
			}
			return sum, badFile(err)
		}
		n++
		if m.Spooled != nil {
			files = append(files, m.Spooled)
		}
		if m.Masked { // it is not what was accepted
			sum.Masked++
			continue
		}
		in, err := unpacked(m, to)
		if err != nil {
			if e := take(); e != nil {
				return sum, e
			}
			return sum, fmt.Errorf("%w: message %d of the file, %.100q: %w", admin.ErrInvalid, n, m.ID, err)
		}
		if route := in.Route; !a.Takes(route) {
			if e := take(); e != nil {
				return sum, e
			}
			return sum, fmt.Errorf("%w: message %d of the file is of route %.100q", admin.ErrTarget, n, route)
		}
		batch = append(batch, in)
		if octets += len(m.Envelope); len(batch) >= importCount || len(files) >= importFiles || octets >= importOctets {
			if err := take(); err != nil {
				return sum, err
			}
		}
	}
}

// badFile tells a bad file from a connection that broke.
func badFile(err error) error {
	if e := adminError(err); e != err {
		return e // a body found no room
	}
	if _, ok := errors.AsType[*bundle.Error](err); ok {
		return fmt.Errorf("%w: %w", admin.ErrInvalid, err)
	}
	return err
}

// unpacked is a message of a file for the queue.
func unpacked(m *bundle.Message, to string) (queue.Incoming, error) {
	meta := []byte(m.Meta)
	if m.Meta == nil {
		meta = m.MetaOctets
	}
	if err := proxy.CheckStored(meta); err != nil {
		return queue.Incoming{}, err
	}
	route := string(m.Route)
	if to != "" {
		route = to
	}
	in := queue.Incoming{Waits: m.Dead == nil, DeadLetter: queue.DeadLetter{
		Message: &queue.Message{
			ID: m.ID, Route: route, Lane: string(m.OrderKey), Operation: string(m.Operation),
			Accepted: m.Accepted, Meta: meta, Body: m.Envelope, Forwards: m.Forwards,
		},
		Reply: m.Reply, ReplyType: string(m.ReplyType),
	}}
	if w, ok := m.Spooled.(queue.BlobWriter); ok {
		var err error
		if in.Blob, err = w.Blob(); err != nil {
			return in, err
		}
	}
	if i := m.Identity; i != nil {
		if len(i.Key) != 16 || len(i.Sum) != 16 {
			return in, errors.New("its identity is not valid")
		}
		in.Identity.Until = i.Until
		copy(in.Identity.Key[:], i.Key)
		copy(in.Identity.Sum[:], i.Sum)
	}
	if d := m.Dead; d != nil {
		in.Died, in.Reason, in.Text, in.Stops = d.Died, string(d.Reason), string(d.Text), d.Stops
	}
	if (m.State == string(queue.StateDead)) != (m.Dead != nil) || !queue.State(m.State).Valid() {
		return in, fmt.Errorf("its state is not valid: %.40q", m.State)
	}
	known := false
	for fate, word := range afterWords {
		if word == m.After {
			in.After, known = fate, true
		}
	}
	if !known {
		return in, fmt.Errorf("what it follows from is not valid: %.40q", m.After)
	}
	for _, r := range m.Attempts {
		in.Attempts = append(in.Attempts, queue.AttemptRecord{
			N: r.N, At: r.At, Status: r.Status, Reason: string(r.Reason), Maybe: r.Maybe, NotBefore: r.NotBefore,
		})
	}
	return in, nil
}
