package relay

import (
	"errors"
	"net/http"
	"time"
)

// Answers of a site that cannot reach this one are fetched, also over a link that
// fetches nothing else: as long as some are awaited, so that a link over which nobody
// asks for any costs nothing.

// fetches reports whether there is something to fetch: the results of a batch that has
// been fetched are told in any case.
func (l *line) fetches(last *pullBody) bool {
	if l.cfg.Pull || last.Token != "" || l.hub.opt.Home.Awaits(l.cfg.Name) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.expects)
}

// expect notes that the far side has taken items whose answers are wanted. It may know
// of that before the queue does. mu is held.
func (l *line) expect(items []*Item, results []Result) {
	for i, it := range items {
		if it.WantsReply && results[i].Outcome.taken() {
			l.expects = time.Now().Add(l.hub.opt.Wait)
			select {
			case l.asked <- struct{}{}:
			default:
			}
			return
		}
	}
}

// rest waits, until somebody asks for answers at most.
func (l *line) rest(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.asked:
	case <-l.ctx.Done():
	}
}

// needless reports whether the far side has a link of its own to this one, over which
// its answers come.
func (l *line) needless(err error) bool {
	var status *statusError
	return !l.cfg.Pull && errors.As(err, &status) && status.code == http.StatusConflict
}
