package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// doubtState is the name of the state that says up to which sequence number
// messages may have been delivered before the last stop that was not clean. It
// outlives clean stops: a message keeps its doubt until it leaves the log. A
// number can be given out again only by a crash, which doubts everything anew.
const doubtState = "doubt"

// openDoubt returns the sequence number up to which everything in the log may
// have been delivered already. After a crash that is all of it; this is kept
// until [Queue.settleDoubt] knows the number, so that a stop in between loses
// no doubt.
func (q *Queue) openDoubt(ctx context.Context) (uint64, error) {
	if !q.store.Info().Clean {
		if q.delivers() {
			if err := q.saveDoubt(ctx, math.MaxUint64); err != nil {
				return 0, err
			}
		}
		return math.MaxUint64, nil
	}
	v, err := q.store.State(doubtState)
	if err != nil || len(v) == 0 {
		return 0, err
	}
	upTo, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return math.MaxUint64, nil // written by a later version, perhaps
	}
	return upTo, nil
}

// settleDoubt notes what is in doubt once the log was read: of the messages
// that wait, first is the lowest number and last the highest; 0 if none waits.
func (q *Queue) settleDoubt(ctx context.Context, upTo, first, last uint64) error {
	switch {
	case upTo == 0 || !q.delivers():
		return nil
	case first == 0 || first > upTo:
		return q.saveDoubt(ctx, 0)
	case upTo > last:
		return q.saveDoubt(ctx, last)
	}
	return nil
}

func (q *Queue) saveDoubt(ctx context.Context, upTo uint64) error {
	var v []byte
	if upTo > 0 {
		v = strconv.AppendUint(nil, upTo, 10)
	}
	if err := q.store.SaveState(ctx, doubtState, v); err != nil {
		return fmt.Errorf("queue: what is in doubt: %w", err)
	}
	return nil
}

// delivers reports whether Run is at work: a tool that only looks at the store
// of a stopped gateway leaves the doubt as it is.
func (q *Queue) delivers() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.run != nil
}

// ownUp returns the attempts of a message that is about to die, with one that
// tells its doubt if none of them does, so that a replay is marked.
func (it *item) ownUp(now time.Time) []AttemptRecord {
	if !it.maybe {
		return it.history()
	}
	for _, a := range it.history() {
		if a.Maybe {
			return it.history()
		}
	}
	doubt := AttemptRecord{At: now, Reason: "may have been delivered before a stop that was not orderly", Maybe: true}
	return append([]AttemptRecord{doubt}, it.history()...)
}
