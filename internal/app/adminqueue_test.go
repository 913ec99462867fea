package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/queue"
)

// shownQueue is the API over a queue in memory that holds, on the route orders,
// dead messages and waiting ones.
func shownQueue(t *testing.T, dead, waiting int) (http.Handler, *queue.Queue) {
	t.Helper()
	store := queue.NewMemory()
	q, err := queue.New(store, idle{}, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Configure([]queue.Route{{Name: "orders", Destination: "erp"}}, []queue.Destination{{Name: "erp"}}); err != nil {
		t.Fatal(err)
	}
	accepted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	message := func(n int) *queue.Message {
		return &queue.Message{
			ID: fmt.Sprintf("m-%03d", n), Route: "orders", Destination: "erp", Lane: "", Operation: "placeOrder",
			Accepted: accepted.Add(time.Duration(n) * time.Second), Meta: []byte(`{"v":1,"soap":"1.1","header":[["Content-Type","text/xml"],["X-Octets",{"octets":"\u00ff"}]]}`), Body: fmt.Appendf(nil, "<order n=%q/>", fmt.Sprint(n)),
		}
	}
	for n := range dead {
		m := message(n)
		err := store.Bury(t.Context(), &queue.DeadLetter{
			Message: m, Died: m.Accepted.Add(time.Minute), Reason: "permanent", Text: "fault Client",
			Attempts: []queue.AttemptRecord{{N: 1, At: m.Accepted, Status: 500, Reason: "fault Client"}},
			Reply:    []byte("<fault/>"), ReplyType: "text/xml",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range waiting {
		if err := q.Put(t.Context(), message(dead+n)); err != nil {
			t.Fatal(err)
		}
	}
	shown := &adminQueue{Queue: q, store: store, cfg: func() *config.Config { return &config.Config{} }}
	return admin.Local(shown, admin.Options{}), q
}

// call asks the API; out is filled in from the answer unless it is nil.
func call(t *testing.T, h http.Handler, method, path, body string, status int, out any) {
	t.Helper()
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != status {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, w.Code, w.Body, status)
	}
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
		}
	}
}

func ids(entries []admin.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, e.ID)
	}
	return out
}

// TestAdminPages: pages follow each other without a gap or a repeat, whatever
// their size, over the border between waiting and dead.
func TestAdminPages(t *testing.T) {
	h, _ := shownQueue(t, 5, 4)
	want := []string{"m-005", "m-006", "m-007", "m-008", "m-000", "m-001", "m-002", "m-003", "m-004"}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		for after := ""; ; {
			var p admin.Page
			call(t, h, "GET", fmt.Sprintf("/queues/orders/messages?limit=%d&after=%s", limit, after), "", 200, &p)
			got = append(got, ids(p.Messages)...)
			if len(p.Messages) > limit {
				t.Fatalf("limit %d: a page of %d", limit, len(p.Messages))
			}
			if after = p.Next; after == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %q, want %q", limit, got, want)
		}
	}
	for query, want := range map[string][]string{
		"state=dead":                            want[4:],
		"state=pending":                         want[:4],
		"state=dead&since=2026-01-02T03:04:08Z": want[7:],
		"text=m-007":                            {"m-007"},
		"text=permanent":                        want[4:],
		"operation=other":                       nil,
		"operation=placeOrder":                  want,
	} {
		var p admin.Page
		call(t, h, "GET", "/queues/orders/messages?"+query, "", 200, &p)
		if got := ids(p.Messages); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	var p admin.Problem
	call(t, h, "GET", "/queues/orders/messages?after=x7", "", 400, &p)
	if !errors.Is(&p, admin.ErrCursor) {
		t.Errorf("foreign cursor: got %+v", p)
	}
}

// TestAdminOperations: what the API answers is what the queue then has.
func TestAdminOperations(t *testing.T) {
	h, q := shownQueue(t, 5, 4)
	stats := func() admin.RouteStats {
		t.Helper()
		var all admin.Queues
		call(t, h, "GET", "/queues", "", 200, &all)
		if len(all.Queues) != 1 {
			t.Fatalf("queues: got %+v", all)
		}
		return all.Queues[0]
	}
	if s := stats(); s.Pending != 4 || s.Dead != 5 || s.Destination != "erp" || s.Oldest.IsZero() || s.Paused {
		t.Errorf("stats: got %+v", s)
	}

	var m admin.Message
	call(t, h, "GET", "/messages/m-000", "", 200, &m)
	if m.Message.State != "dead" || m.Message.Reason != "permanent" || m.Envelope != `<order n="0"/>` || len(m.Attempts) != 1 || m.Attempts[0].Status != 500 ||
		m.Reply == nil || m.Reply.Body != "<fault/>" || len(m.Header) != 2 || m.Header[0] != (admin.HeaderField{Name: "Content-Type", Value: "text/xml"}) || m.Message.Size != int64(len(m.Envelope)) {
		t.Errorf("dead letter: got %+v", m)
	}
	m = admin.Message{}
	call(t, h, "GET", "/messages/m-008", "", 200, &m)
	if m.Message.State != "pending" || m.Reply != nil || m.Envelope != `<order n="8"/>` {
		t.Errorf("waiting message: got %+v", m)
	}

	call(t, h, "POST", "/messages/m-000/replay", "", 204, nil)
	if s := stats(); s.Pending != 5 || s.Dead != 4 {
		t.Errorf("after a replay: got %+v", s)
	}
	call(t, h, "POST", "/messages/m-000/replay", "", 404, nil) // it waits, and is no dead letter
	call(t, h, "POST", "/messages/m-008/replay", "", 404, nil)
	call(t, h, "DELETE", "/messages/m-001", "", 204, nil)
	call(t, h, "DELETE", "/messages/m-001", "", 404, nil)
	call(t, h, "GET", "/messages/m-001", "", 404, nil)

	var n admin.Count
	call(t, h, "POST", "/queues/orders/replay", `{"since":"2026-01-02T03:04:08Z"}`, 200, &n)
	if s := stats(); n.Count != 2 || s.Pending != 7 || s.Dead != 1 {
		t.Errorf("after the replay of %d: got %+v, want 2", n.Count, s)
	}
	call(t, h, "POST", "/queues/orders/drop", `{"state":"dead"}`, 200, &n)
	if s := stats(); n.Count != 1 || s.Pending != 7 || s.Dead != 0 {
		t.Errorf("after the drop of %d dead: got %+v, want 1", n.Count, s)
	}
	call(t, h, "POST", "/queues/orders/pause", "", 204, nil)
	if !stats().Paused {
		t.Error("not paused")
	}
	call(t, h, "POST", "/queues/orders/resume", "", 204, nil)
	if stats().Paused {
		t.Error("still paused")
	}
	call(t, h, "POST", "/queues/orders/flush", "", 204, nil)
	call(t, h, "POST", "/queues/orders/drop", `{}`, 200, &n)
	if got := q.Waiting(); n.Count != 7 || got != 0 {
		t.Errorf("after the drop of all %d: %d wait", n.Count, got)
	}
}

// TestAdminErrors: the errors of a queue are those that the API knows.
func TestAdminErrors(t *testing.T) {
	for ours, want := range map[error]error{
		queue.ErrNoRoute: admin.ErrNoRoute, queue.ErrNotFound: admin.ErrNoMessage, queue.ErrBusy: admin.ErrBusy,
		queue.ErrCorrupt: admin.ErrDamaged, queue.ErrFull: admin.ErrFull, queue.ErrUnknown: admin.ErrUnknown, queue.ErrClosed: admin.ErrClosed,
	} {
		for _, err := range []error{ours, fmt.Errorf("%w: more", ours)} {
			if got := adminError(err); !errors.Is(got, want) || !errors.Is(got, ours) && err != ours {
				t.Errorf("adminError(%v): got %v, want %v", err, got, want)
			}
		}
	}
	if other := errors.New("other"); adminError(other) != other || adminError(nil) != nil {
		t.Error("adminError changes what it does not know")
	}
}

// TestAdminStoreFails: a store that is not trusted any more says so.
func TestAdminStoreFails(t *testing.T) {
	store := queue.NewMemory()
	q, err := queue.New(store, idle{}, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Configure([]queue.Route{{Name: "orders", Destination: "erp"}}, []queue.Destination{{Name: "erp"}}); err != nil {
		t.Fatal(err)
	}
	h := admin.Local(&adminQueue{Queue: q, store: store, cfg: func() *config.Config { return &config.Config{} }, stopped: true}, admin.Options{})
	store.FailNextSync(errors.New("disk on fire"))
	var p admin.Problem
	call(t, h, "POST", "/queues/orders/pause", "", 503, &p)
	if !errors.Is(&p, admin.ErrUnknown) {
		t.Errorf("the call whose sync failed: got %+v", p)
	}
	p = admin.Problem{}
	call(t, h, "POST", "/queues/orders/pause", "", 503, &p)
	if !errors.Is(&p, admin.ErrClosed) {
		t.Errorf("a call after it: got %+v", p)
	}
	var s admin.Status
	call(t, h, "GET", "/status", "", 200, &s)
	if s.Running || s.Store == nil || !strings.Contains(s.Store.Error, "disk on fire") {
		t.Errorf("status: got %+v", s)
	}
	p = admin.Problem{}
	call(t, h, "POST", "/queues/orders/flush", "", 409, &p)
	if !errors.Is(&p, admin.ErrStopped) {
		t.Errorf("flush: got %+v", p)
	}
}
