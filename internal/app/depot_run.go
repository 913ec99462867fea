package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"soapway/queue"
)

// run is the part that delivers, until it is stopped or the store fails for
// good. It closes the store. One that has failed for lack of room is opened
// again, as after a kill: what may have been sent is marked.
func (p *depot) run(stop, cut context.Context) error {
	defer context.AfterFunc(cut, func() { p.abandon(context.Cause(cut)) })()
	var s *stock
	select {
	case s = <-p.opened:
	case <-stop.Done():
		select {
		case s = <-p.opened:
		default:
			return nil
		}
	}
	for {
		if s == nil {
			if s = p.reopen(stop); s == nil {
				return nil
			}
		}
		failed := p.deliver(stop, s)
		if failed != nil && errors.Is(failed, queue.ErrNoRoom) {
			closed := s.store.Close()
			if errors.Is(closed, queue.ErrNoRoom) {
				s = nil
				continue
			}
			failed = closed // more is wrong than that
		}
		if failed != nil && !p.exit.Load() {
			s.close(failed)
			p.log.Error("queue routes are closed; the others go on", "err", failed)
			<-stop.Done()
			failed = nil
		}
		broken := s.store.Err() != nil // then it was told, and closing tells it again
		closed := s.store.Close()
		if failed == nil && closed != nil && !broken {
			return fmt.Errorf("close: %w", closed)
		}
		return failed
	}
}

// close lets no message in any more.
func (s *stock) close(err error) { s.broken.Store(&err) }

// deliver runs the queue until stop is done or the store has failed.
func (p *depot) deliver(stop context.Context, s *stock) error {
	ctx, end := context.WithCancel(stop)
	defer end()
	done := make(chan error, 1)
	go func() { done <- s.queue.Run(ctx) }()
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		if s.loaded(ctx) {
			p.adopt()
		}
	}()
	defer func() { <-loaded }()
	defer end()

	select {
	case err := <-done:
		if err == nil {
			return nil
		}
		if e := s.store.Err(); e != nil { // what the queue met is a consequence
			return e
		}
		return err
	case <-s.store.Failed():
		err := s.store.Err()
		if errors.Is(err, queue.ErrNoRoom) {
			s.close(err)
			p.log.Error("the disk is full: queue routes are closed until there is room; the others go on", "err", err)
		}
		end()
		<-done
		return err
	}
}

const (
	reopenFirst = 500 * time.Millisecond
	reopenLast  = 5 * time.Second
)

// reopen opens the store again as soon as the disk has room. It returns nil if
// stop is done before, or if the store cannot be opened for another reason.
func (p *depot) reopen(stop context.Context) *stock {
	wait := reopenFirst
	for {
		select {
		case <-stop.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, reopenLast)
		s, err := p.acquire(p.cfg.Load())
		switch {
		case err == nil:
			p.show(s)
			p.log.Info("the store is open again", "dir", s.store.Info().Dir, "waiting", s.waiting)
			return s
		case errors.Is(err, queue.ErrNoRoom):
			p.log.Debug("there is still no room to open the store", "err", err)
		default:
			// Another gateway may have it, or a key may be missing: whatever it
			// is, it may be mended.
			p.log.Error("the store cannot be opened again", "err", err)
		}
	}
}

// degraded says why queue routes take no messages, if they do not.
func (p *depot) degraded() []string {
	s := p.present.Load()
	if s == nil && p.starved.Load() {
		return []string{"the disk has no room to open the store; queue routes are closed"}
	}
	if s != nil {
		if err := s.broken.Load(); err != nil {
			return []string{(*err).Error() + "; queue routes are closed"}
		}
	}
	return nil
}
