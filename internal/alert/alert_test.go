package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hook is a webhook in memory.
type hook struct {
	mu      sync.Mutex
	refuse  int // of the next notices, by a status; -1 = the connection breaks
	tries   []time.Time
	ids     []string
	notices []Notice
	auth    string
}

func (h *hook) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = append(h.tries, time.Now())
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	h.ids = append(h.ids, r.Header.Get("Idempotency-Key"))
	h.auth = r.Header.Get("Authorization")
	if h.refuse < 0 {
		return nil, errors.New("connection refused")
	}
	answer := &http.Response{StatusCode: 204, Body: io.NopCloser(&bytes.Buffer{})}
	if h.refuse > 0 {
		answer.StatusCode = h.refuse
		return answer, nil
	}
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, err
	}
	if n.Version != 1 || n.ID != r.Header.Get("Idempotency-Key") || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("a bad notice: %s", body)
	}
	h.notices = append(h.notices, n)
	return answer, nil
}

// told is what came in, a line for each alarm.
func (h *hook) told() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	for _, n := range h.notices {
		for _, a := range n.Alerts {
			fmt.Fprintf(&b, "%s %s %s\n", a.Kind, a.Subject, a.State)
		}
	}
	return b.String()
}

func (h *hook) set(refuse int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = refuse
}

// world is what a source tells.
type world struct {
	mu     sync.Mutex
	list   []Condition
	unsure bool
}

func (w *world) source() ([]Condition, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list, !w.unsure
}

func (w *world) set(unsure bool, list ...Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list, w.unsure = list, unsure
}

// watch runs a watcher in a bubble; the returned function stops it.
func watch(t *testing.T, w *world, h *hook, path string, log io.Writer) func() {
	a := New(Options{Source: w.source, Transport: h, About: map[string]string{"store": "s"}, Log: slog.New(slog.NewTextHandler(log, nil))})
	a.Set("http://me:secret@hook.example/x?token=secret", path)
	stop, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(stop, t.Context()) }()
	return func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

var dead = Condition{Kind: "dead-letters", Subject: "orders", Text: "2 dead letters", Value: 2}

// TestOnce: an alarm is told once when it opens and once when it closes, however
// often its figures change, and one that comes and goes is one.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h, log := &world{}, &hook{}, &bytes.Buffer{}
		end := watch(t, w, h, "", log)
		time.Sleep(time.Minute)
		for i := range 50 {
			c := dead
			c.Value = float64(i)
			if w.set(false, c); i%7 == 0 {
				w.set(false) // gone for a moment
			}
			time.Sleep(3 * time.Second)
		}
		w.set(false)
		time.Sleep(20 * time.Second)
		if got := h.told(); got != "dead-letters orders open\n" {
			t.Errorf("told %s", got)
		}
		time.Sleep(time.Minute)
		end()
		if got := h.told(); got != "dead-letters orders open\ndead-letters orders closed\n" {
			t.Errorf("told %s", got)
		}
		if last := h.notices[1].Alerts[0]; last.Ended.Sub(last.Since) < 2*time.Minute || last.Text != "2 dead letters" {
			t.Errorf("the end is %+v", last)
		}
		if h.auth != "Basic bWU6c2VjcmV0" {
			t.Errorf("Authorization is %q", h.auth)
		}
		if strings.Count(log.String(), "msg=alarm ") != 1 || strings.Contains(log.String(), "secret") {
			t.Errorf("the log has %s", log)
		}
	})
}

// TestUnsure: of what the source is not sure nothing closes.
func TestUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := &world{}, &hook{}
		end := watch(t, w, h, "", io.Discard)
		w.set(false, dead)
		time.Sleep(time.Minute)
		w.set(true)
		time.Sleep(time.Hour)
		if got := h.told(); got != "dead-letters orders open\n" {
			t.Errorf("told %s", got)
		}
		w.set(false)
		time.Sleep(time.Minute)
		end()
		if got := h.told(); !strings.HasSuffix(got, "closed\n") {
			t.Errorf("told %s", got)
		}
	})
}

// TestRetry: a notice that is not taken comes again with the same id, ever more
// seldom; what opens and closes meanwhile is not told.
func TestRetry(t *testing.T) {
	for name, refuse := range map[string]int{"status": 500, "redirect": 302, "broken": -1} {
		synctest.Test(t, func(t *testing.T) {
			w, h, log := &world{}, &hook{refuse: refuse}, &bytes.Buffer{}
			end := watch(t, w, h, "", log)
			w.set(false, dead)
			time.Sleep(time.Hour)
			h.mu.Lock()
			tries, ids := slices.Clone(h.tries), slices.Clone(h.ids)
			h.mu.Unlock()
			if n := len(tries); n < 8 || n > 30 {
				t.Errorf("%s: %d tries in an hour", name, n)
			}
			if first, last := tries[1].Sub(tries[0]), tries[len(tries)-1].Sub(tries[len(tries)-2]); first < 5*time.Second || last < 5*time.Minute {
				t.Errorf("%s: first %v and last %v between tries", name, first, last)
			}
			for _, id := range ids {
				if id != ids[0] || id == "" {
					t.Errorf("%s: ids differ: %q", name, ids)
					break
				}
			}
			w.set(false, dead, Condition{Kind: "circuit-open", Subject: "erp"})
			time.Sleep(2 * time.Minute)
			w.set(false, dead)
			time.Sleep(2 * time.Minute)
			h.set(0)
			time.Sleep(10 * time.Minute)
			end()
			if got := h.told(); got != "dead-letters orders open\n" {
				t.Errorf("%s: told %s", name, got)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("%s: the log has %s", name, log)
			}
		})
	}
}

// TestRestart: a restart repeats nothing, and tells the end of what was over when it
// came back. A file that is damaged costs a repeated notice, no more.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "alerts.json")
		w, h := &world{}, &hook{}
		gone := Condition{Kind: "circuit-open", Subject: "erp", Text: "down"}
		w.set(false, dead, gone)
		end := watch(t, w, h, path, io.Discard)
		time.Sleep(time.Minute)
		end()
		w.set(false, dead)
		end = watch(t, w, h, path, io.Discard)
		time.Sleep(2 * time.Minute)
		end()
		want := "circuit-open erp open\ndead-letters orders open\ncircuit-open erp closed\n"
		if got := h.told(); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		for _, bad := range []string{"", "{", `{"version":2}`, "[]"} {
			if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			before := len(h.notices)
			end = watch(t, w, h, path, io.Discard)
			time.Sleep(time.Minute)
			end()
			if len(h.notices) != before+1 {
				t.Errorf("file %q: %d notices, want one", bad, len(h.notices)-before)
			}
		}
	})
}

// TestBounds: floods of conditions stay within bounds, in number and in size.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h, log := &world{}, &hook{}, &bytes.Buffer{}
		var list []Condition
		for i := range 3 * maxAlarms {
			list = append(list, Condition{Kind: "circuit-open", Subject: fmt.Sprintf("%d%s", i, strings.Repeat("\xff", 500)), Text: strings.Repeat("x", 1000)})
		}
		w.set(false, list...)
		end := watch(t, w, h, "", log)
		time.Sleep(time.Minute)
		end()
		n := 0
		for _, notice := range h.notices {
			n += len(notice.Alerts)
			if len(notice.Alerts) > maxNotice {
				t.Errorf("%d alarms in a notice", len(notice.Alerts))
			}
		}
		if n != maxAlarms || strings.Count(log.String(), "too many alarms") != 1 {
			t.Errorf("%d alarms were told", n)
		}
	})
}

// TestOff: without a webhook nothing is looked at, and a later one is told what holds.
func TestOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := &world{}, &hook{}
		w.set(false, dead)
		a := New(Options{Source: w.source, Transport: h})
		stop, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(stop, t.Context()) }()
		time.Sleep(time.Minute)
		if h.told() != "" {
			t.Error("a notice went nowhere")
		}
		a.Set("http://hook.example/", "")
		synctest.Wait()
		if got := h.told(); got != "dead-letters orders open\n" {
			t.Errorf("told %s", got)
		}
		end()
		<-done
	})
}
