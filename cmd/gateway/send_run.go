package main

import (
	"context"
	"sync"
	"time"
)

// A job is one message to send: the nth of all.
type job struct {
	n       int // from 1
	message *message
	due     time.Time // when it should start; the zero time is as soon as possible
}

// An outcome is a job that is done.
type outcome struct {
	job
	answer *answer // nil if err is not
	err    error
	took   time.Duration // from due, or from the start, to the end of the answer
}

// ok reports whether the outcome is neither a failure nor a fault.
func (o *outcome) ok() bool { return o.err == nil && o.answer.success }

// runSend carries out a plan and reports it. Its error is errReported when the
// plan was carried out and not everything went well.
func (c *cli) runSend(ctx context.Context, p *plan) error {
	r := c.newReport(p)
	began := time.Now()

	jobs := make(chan job)
	done := make(chan *outcome)
	var workers sync.WaitGroup
	for range min(p.conns, p.total()) {
		workers.Go(func() { work(ctx, p, jobs, done) })
	}
	go func() { // ends before done is closed, and this function reads done to its end
		deal(ctx, p, began, jobs)
		close(jobs)
		workers.Wait()
		close(done)
	}()

	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for open := true; open; {
		select {
		case o, more := <-done:
			if open = more; more {
				if err := r.add(o); err != nil {
					return drain(done, err)
				}
			}
		case <-tick.C:
			r.progress()
		}
	}
	return r.finish(time.Since(began), ctx.Err() != nil)
}

// drain lets the workers end after stdout has failed.
func drain(done <-chan *outcome, err error) error {
	for range done {
	}
	return err
}

// deal hands out the jobs, at their time if the plan has a rate.
func deal(ctx context.Context, p *plan, began time.Time, jobs chan<- job) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := range p.total() {
		j := job{n: n + 1, message: p.messages[n%len(p.messages)]}
		if p.interval > 0 {
			// From the start, not from the message before: what comes late does
			// not make the rest later.
			j.due = began.Add(time.Duration(n) * p.interval)
			timer.Reset(time.Until(j.due))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case jobs <- j:
		case <-ctx.Done():
			return
		}
	}
}

// work sends jobs over one connection until there are no more.
func work(ctx context.Context, p *plan, jobs <-chan job, done chan<- *outcome) {
	s := p.target.sender(p.timeout)
	defer s.close()
	for j := range jobs {
		if j.due.IsZero() {
			j.due = time.Now()
		}
		a, err := s.send(ctx, j.message)
		done <- &outcome{job: j, answer: a, err: err, took: time.Since(j.due)}
	}
}
