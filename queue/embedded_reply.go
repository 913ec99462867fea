package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Replies have a stream of their own, on gw.rep.HOUR.ID with the hour since 1970 in
// which they expire, so that they go many at a time. Which hours have replies
// stands in gw.rephour.HOUR: a look through all replies at a start would be dear.

// replyGrace is for how many hours after theirs expired replies stay.
const replyGrace = 1

// noHour is the hour of replies that do not expire.
const noHour = math.MaxInt64

// replyHours are the hours that have replies.
type replyHours struct {
	mu   sync.Mutex
	has  map[int64]bool // those of which that is durable
	over time.Time      // when it was last looked at what is over
}

// openReplies learns which hours have replies.
func (s *Embedded) openReplies() error {
	s.replies.has, s.replies.over = map[int64]bool{}, time.Now()
	return s.js.values(context.Background(), subjectReplyHour+"*", func(r scanned) error {
		hour, err := strconv.ParseInt(strings.TrimPrefix(r.subject, subjectReplyHour), 10, 64)
		if err == nil {
			s.replies.has[hour] = true // the subject says it all, whatever the data
		}
		return nil
	})
}

// hourOfReply is the hour in whose end a reply is over.
func hourOfReply(r *Reply) int64 {
	if r.Until.IsZero() {
		return noHour
	}
	return hourOf(r.Until)
}

// KeepReply implements [Store].
func (s *Embedded) KeepReply(ctx context.Context, r *Reply) error {
	if err := s.usable(); err != nil {
		return err
	}
	token, err := subjectToken(r.ID)
	if err != nil {
		return err
	}
	header, data, err := encodeReply(r)
	if err != nil {
		return err
	}
	hour := hourOfReply(r)
	subject := subjectReply + strconv.FormatInt(hour, 10) + "." + token
	rec := record{subject, headerReply, header, data}
	size := s.sizeOf(&rec)
	if err := s.admit(int64(size), s.opt.MaxBytes, s.watermark()/2, 2*int64(size)); err != nil {
		return err
	}
	if err := s.noteHour(ctx, hour); err != nil {
		return err
	}
	if err := s.commit.do(ctx, &job{rec: rec, size: size, urgent: true}); err != nil {
		return err
	}
	s.used.Add(int64(size))
	return nil
}

// noteHour makes durable that there are replies of an hour, once.
func (s *Embedded) noteHour(ctx context.Context, hour int64) error {
	s.replies.mu.Lock()
	known := s.replies.has[hour]
	s.replies.mu.Unlock()
	if known {
		return nil
	}
	text := strconv.FormatInt(hour, 10)
	data := []byte(text)
	j := &job{rec: record{subjectReplyHour + text, headerValue, encodeValue(text, data), data}, size: recordOverhead + len(data), urgent: true}
	if err := s.commit.do(ctx, j); err != nil {
		return err
	}
	s.replies.mu.Lock()
	defer s.replies.mu.Unlock()
	s.replies.has[hour] = true
	return nil
}

// Reply implements [Store].
func (s *Embedded) Reply(id string) (*Reply, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	s.replies.mu.Lock()
	none := len(s.replies.has) == 0
	s.replies.mu.Unlock()
	token, err := subjectToken(id)
	if err != nil || none {
		return nil, ErrNotFound
	}
	m, err := s.js.get(streamReply, 0, subjectReply+"*."+token)
	if err != nil {
		return nil, err
	}
	r, err := decodeReply(m.Header.Get(headerReply), m.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: reply of %s: %w", ErrCorrupt, cut(id, 100), err)
	}
	return r, nil
}

// forgetReplies removes the replies of hours that are over.
func (s *Embedded) forgetReplies() (changed bool, err error) {
	var over []int64
	h := &s.replies
	h.mu.Lock()
	if time.Since(h.over) >= forgetEvery && s.footing(streamReply) == nil {
		h.over = time.Now()
		now := hourOf(s.now())
		for hour := range h.has {
			if hour < now-replyGrace {
				over = append(over, hour)
				delete(h.has, hour)
			}
		}
	}
	h.mu.Unlock()
	for _, hour := range over {
		text := strconv.FormatInt(hour, 10)
		// The note goes last: a crash between the two must not leave replies that nobody knows of.
		err := s.js.forget(streamReply, subjectReply+text+".*", 0)
		if err == nil {
			err = s.js.forget(streamState, subjectReplyHour+text, 0)
		}
		if err != nil {
			return false, err
		}
	}
	return len(over) > 0, nil
}
