package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A Keeper is a [Queue] with a store that can be backed up and looked through.
type Keeper interface {
	// Backup writes a backup to w. Once something was written an error is told
	// in the backup itself. ErrBackup, ErrClosed.
	Backup(ctx context.Context, w io.Writer) error
	// Scrub reads all of the store. progress is told how many octets of how many
	// are read. ErrClosed.
	Scrub(ctx context.Context, progress func(done, total uint64)) (*Scrubbed, error)
}

// Scrubbed is what a look through a store has read and found.
type Scrubbed struct {
	Records uint64   `json:"records"`
	Files   uint64   `json:"files"`
	Octets  uint64   `json:"octets"`
	Damage  []Damage `json:"damage"`
}

// Damage is a part of a store that is not as it was written. What is not known is
// left out.
type Damage struct {
	Stream string `json:"stream,omitempty"`
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Length int64  `json:"length,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`
	ID     string `json:"id,omitempty"`
	Route  string `json:"route,omitempty"`
	Reason string `json:"reason"`
}

// ScrubEvent is one line of the answer of POST /store/scrub: how far it is, and
// at last its result or the problem that has ended it.
type ScrubEvent struct {
	Done    uint64    `json:"done,omitempty"`
	Total   uint64    `json:"total,omitempty"`
	Result  *Scrubbed `json:"result,omitempty"`
	Problem *Problem  `json:"problem,omitempty"`
}

// scrubPause is the pause between two lines that tell how far a scrub is.
const scrubPause = time.Second

// stream is an answer that is written while it is made. What it returns before it
// has written anything becomes a problem document.
type stream struct {
	media string
	write func(w io.Writer) error
}

func (a *api) keeper() (Keeper, error) {
	if k, ok := a.queue().(Keeper); ok {
		return k, nil
	}
	return nil, refusef(kindClosed, "this gateway has no store: no route stores messages")
}

func (a *api) backup(c *call) (any, error) {
	k, err := a.keeper()
	if err != nil {
		return nil, err
	}
	return stream{"application/octet-stream", func(w io.Writer) error {
		n := &counted{w: w}
		err := k.Backup(c.r.Context(), n)
		a.changed(c, "backup", err, "octets", n.octets)
		return err
	}}, nil
}

// counted counts what is written.
type counted struct {
	w      io.Writer
	octets int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.octets += int64(n)
	return n, err
}

func (a *api) scrub(c *call) (any, error) {
	k, err := a.keeper()
	if err != nil {
		return nil, err
	}
	return stream{"application/x-ndjson", func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		last := time.Now()
		found, err := k.Scrub(c.r.Context(), func(done, total uint64) {
			if time.Since(last) >= scrubPause {
				last = time.Now()
				_ = out.Encode(ScrubEvent{Done: done, Total: total}) // the end will fail, too
			}
		})
		places := 0
		if found != nil {
			places = len(found.Damage)
		}
		a.changed(c, "scrub", err, "damaged", places)
		if err != nil {
			return err
		}
		found.Damage = append([]Damage{}, found.Damage...)
		return out.Encode(ScrubEvent{Result: found})
	}}, nil
}

// sendStream writes an answer while it is made. It may take as long as it likes,
// but not pause for longer than an answer may: then the caller is gone.
func (a *api) sendStream(w http.ResponseWriter, r *http.Request, s stream) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // else the context ends
	out := &rolling{w: w, media: s.media}
	err := s.write(out)
	switch {
	case err == nil:
	case !out.begun:
		asRefusal(err).answer(w, r)
	case s.media == "application/x-ndjson":
		e := asRefusal(err)
		_ = json.NewEncoder(out).Encode(ScrubEvent{Problem: e.problem(r)})
	}
}

// rolling moves the deadline with each write.
type rolling struct {
	w     http.ResponseWriter
	media string
	begun bool
}

func (o *rolling) Write(b []byte) (int, error) {
	c := http.NewResponseController(o.w)
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", o.media)
	}
	_ = c.SetWriteDeadline(time.Now().Add(replyTimeout))
	n, err := o.w.Write(b)
	if err == nil {
		if err = c.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil // nothing is held back
		}
	}
	if err != nil {
		return n, fmt.Errorf("the caller is gone: %w", err)
	}
	return n, nil
}
