package relay

import (
	"fmt"
	"time"

	"soapway/queue"
)

// confirmed has the highest number that the far side has answered for, by stream. What
// it lacks of that when it is met again it has lost: its store was restored from a
// backup, was made anew, or promises less than to sync (durability: relaxed). Only streams of this run of the queue are in it, whose
// numbers are dense.
type confirmed map[queue.Stream]uint64

// note takes up the answer to an item.
func (c *confirmed) note(label *queue.Label, o Outcome) {
	if o != Stored && o != Duplicate || label.Epoch == 0 {
		return
	}
	if *c == nil {
		*c = confirmed{}
	}
	s := queue.Stream{Epoch: label.Epoch, Link: label.Link, Class: label.Class}
	(*c)[s] = max((*c)[s], label.N)
}

// peer is the far side of a link of ours.
func (l *line) peer() Peer { return Peer{Site: l.cfg.Name, Subject: l.cfg.URL} }

// compare looks for what the far side had answered for, before it was asked, and has not
// any more. It is told
// once; what is lost there cannot be sent again from here, where it is gone: an
// operator may have it kept (store.keep_delivered) and replay it.
func (l *line) compare(far *greeting, had confirmed) {
	has := map[queue.Stream]uint64{}
	for _, m := range far.Marks {
		has[queue.Stream{Epoch: m.Epoch, Link: m.Link, Class: m.Class}] = m.N
	}
	lost := uint64(0)
	l.mu.Lock()
	for s, n := range had {
		now := l.confirmed[s]
		if n <= has[s] || now < n { // another greeting has told it
			continue
		}
		lost += n - has[s]
		if now == n {
			l.confirmed[s] = has[s]
		}
	}
	if l.stats.lost += lost; lost > 0 {
		l.stats.lostAt = time.Now()
	}
	l.mu.Unlock()
	if lost == 0 {
		return
	}
	l.hub.opt.Log.Error("the far side lacks messages that it had answered for: was its store restored from a backup?",
		"site", l.cfg.Name, "store", far.Store, "messages", lost)
	l.hub.found(Finding{Kind: FoundLost, Peer: l.peer(), Items: int(lost), Reason: fmt.Sprintf("its store %.60q lacks the last %d messages that it had answered for", far.Store, lost)})
}
