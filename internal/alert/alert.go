package alert

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxAlarms   = 1000
	maxNotice   = 100
	maxText     = 300
	sendTimeout = 10 * time.Second

	// again is how many times its calm a condition may be over and still be one that
	// comes and goes when it is back.
	again = 10
)

// A Condition is something wrong that holds at this moment.
type Condition struct {
	Kind    string  // a stable word
	Subject string  // the route, backend or listener that it is about; "" = the gateway
	Text    string  // one line for a person
	Value   float64 // how much of it, in the unit of the kind; 0 for none
}

// A Source lists the conditions that hold. sure is false while some may be missing.
type Source func() (list []Condition, sure bool)

// Options configures a [Watcher].
type Options struct {
	// Source is asked every Every. Required.
	Source Source
	// Every is the time between two looks. Default 2s.
	Every time.Duration
	// Calm is how long a condition must be gone to be over. It doubles, up to MaxCalm,
	// each time that the condition is back soon after. Defaults 30s and 30m.
	Calm, MaxCalm time.Duration
	// Retry is the wait after a notice that was not taken, which doubles up to
	// MaxRetry. Defaults 5s and 5m.
	Retry, MaxRetry time.Duration
	// About is the member gateway of each notice, as JSON tells it.
	About any
	// Transport sends notices. Default: one without proxies.
	Transport http.RoundTripper
	// Log is told of alarms and of notices that are not taken. Default: discard.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Every = cmp.Or(o.Every, 2*time.Second)
	o.Calm = cmp.Or(o.Calm, 30*time.Second)
	o.MaxCalm = cmp.Or(o.MaxCalm, 30*time.Minute)
	o.Retry = cmp.Or(o.Retry, 5*time.Second)
	o.MaxRetry = cmp.Or(o.MaxRetry, 5*time.Minute)
	if o.Transport == nil {
		o.Transport = &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: sendTimeout}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Watcher keeps the alarms. Make it with [New]; it tells nobody until [Watcher.Set].
type Watcher struct {
	opt    Options
	alarms map[key]*alarm
	past   map[key]past // of those that are over
	full   bool         // the log has been told that there are too many

	mu   sync.Mutex
	url  string // where notices go; guarded by mu
	path string // of the file; guarded by mu
	wake chan struct{}
}

type key struct{ kind, subject string }

// alarm is a condition that holds, or held and somebody knows of it.
type alarm struct {
	Condition
	since time.Time
	seen  time.Time // when it was last listed
	ended time.Time // zero while it is open
	told  bool      // somebody knows that it has opened
	calm  time.Duration
}

// past is what is remembered of an alarm that is over, for a while: one that is back
// soon needs a longer calm.
type past struct {
	ended time.Time
	calm  time.Duration
}

// due reports whether there is something to tell of it.
func (a *alarm) due() bool { return a.told != a.ended.IsZero() }

// New returns a watcher that has not started.
func New(opt Options) *Watcher {
	return &Watcher{opt: opt.withDefaults(), alarms: map[key]*alarm{}, past: map[key]past{}, wake: make(chan struct{}, 1)}
}

// Set says where notices go, "" for nowhere, and which file keeps what was told, ""
// for none. The folder of the file must be there.
func (w *Watcher) Set(url, path string) {
	w.mu.Lock()
	w.url, w.path = url, path
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) settings() (url, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.url, w.path
}

// Run looks and tells until stop is done. A notice that is under way then ends with
// it and is sent again after the next start. Its shape is that of a part in package
// lifecycle.
func (w *Watcher) Run(stop, _ context.Context) error {
	tick := time.NewTicker(w.opt.Every)
	defer tick.Stop()
	var s sender
	var loaded string
	for {
		select {
		case <-stop.Done():
			return nil
		case <-tick.C:
		case <-w.wake:
		}
		url, path := w.settings()
		if url != s.to {
			s = sender{to: url} // whoever is there has refused nothing yet
		}
		if url == "" {
			clear(w.alarms)
			loaded = "" // what was told still is, when there is a webhook again
			continue
		}
		if path != loaded {
			w.load(path)
			loaded = path
		}
		w.look(time.Now())
		if s.try(stop, w) {
			w.save(path)
		}
	}
}

// look brings the alarms up to date.
func (w *Watcher) look(now time.Time) {
	list, sure := w.opt.Source()
	for _, c := range list {
		c.Text, c.Subject = cut(c.Text, maxText), cut(c.Subject, maxText)
		k := key{c.Kind, c.Subject}
		a := w.alarms[k]
		if a == nil {
			if len(w.alarms) >= maxAlarms {
				w.tellFull()
				continue
			}
			a = &alarm{since: now, calm: w.calmOf(k, now)}
			w.alarms[k] = a
			w.opt.Log.Warn("alarm", "kind", c.Kind, "subject", c.Subject, "text", c.Text)
		}
		a.Condition, a.seen, a.ended = c, now, time.Time{} // one whose end was not told yet goes on
	}
	for k, a := range w.alarms {
		if a.ended.IsZero() && sure && now.Sub(a.seen) >= a.calm {
			a.ended = now
			w.opt.Log.Info("alarm is over", "kind", k.kind, "subject", k.subject, "after", now.Sub(a.since).Round(time.Second))
		}
		if !a.ended.IsZero() && !a.told {
			w.over(a)
		}
	}
}

// calmOf is how long a condition that opens now must be gone to be over.
func (w *Watcher) calmOf(k key, now time.Time) time.Duration {
	for k, p := range w.past {
		if now.Sub(p.ended) > again*p.calm {
			delete(w.past, k)
		}
	}
	p, back := w.past[k]
	if !back {
		return w.opt.Calm
	}
	delete(w.past, k)
	return min(2*p.calm, max(w.opt.MaxCalm, w.opt.Calm))
}

// over forgets an alarm of whose end nobody is to be told any more, but for that it
// was there.
func (w *Watcher) over(a *alarm) {
	k := key{a.Kind, a.Subject}
	delete(w.alarms, k)
	if len(w.past) < maxAlarms {
		w.past[k] = past{a.ended, a.calm}
	}
}

func (w *Watcher) tellFull() {
	if !w.full {
		w.full = true
		w.opt.Log.Error("there are too many alarms: others are not told", "alarms", maxAlarms)
	}
}

// due are the alarms of which there is something to tell, the oldest first.
func (w *Watcher) due() (list []*alarm) {
	for _, a := range w.alarms {
		if a.due() {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *alarm) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject))
	})
	return list[:min(len(list), maxNotice)]
}

func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
