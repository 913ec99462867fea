package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// wait answers after a time, unless the try is given up before.
func wait(d time.Duration) func(context.Context, *Request) (*Response, error) {
	return func(ctx context.Context, _ *Request) (*Response, error) {
		select {
		case <-time.After(d):
			return respond(200, "text/xml; charset=utf-8", reply11), nil
		case <-ctx.Done():
			err := context.Cause(ctx)
			return nil, &SendError{Class: Maybe, Timeout: errors.Is(err, context.DeadlineExceeded), Err: err}
		}
	}
}

func notSent(context.Context, *Request) (*Response, error) {
	return nil, &SendError{Class: NotSent, Err: errors.New("refused")}
}

// TestSyncThenQueue: what the caller gets, and what is stored.
func TestSyncThenQueue(t *testing.T) {
	broken := func(context.Context, *Request) (*Response, error) {
		r := respond(200, "text/xml; charset=utf-8", reply11[:20])
		r.Length = int64(len(reply11))
		r.Body = io.NopCloser(io.MultiReader(r.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
		return r, nil
	}
	type answer = func(context.Context, *Request) (*Response, error)
	for _, tt := range []struct {
		name    string
		maybe   bool // at-least-once
		nodes   []answer
		store   error // of the store
		status  int
		stored  bool
		doubt   bool
		outcome Outcome
	}{
		{"answered", true, []answer{wait(time.Second)}, nil, 200, false, false, OutcomeAnswered},
		{"fault", true, []answer{always(respond(500, "text/xml; charset=utf-8", fault11), nil)}, nil, 500, false, false, OutcomeFault},
		{"not SOAP", true, []answer{always(respond(503, "text/html", "<p>"), nil)}, nil, 500, false, false, OutcomeFailed},
		{"not sent", false, []answer{notSent}, nil, 202, true, false, OutcomeStored},
		{"not sent to any", false, []answer{notSent, notSent}, nil, 202, true, false, OutcomeStored},
		{"not sent to one", false, []answer{notSent, wait(0)}, nil, 200, false, false, OutcomeAnswered},
		{"no answer, at least once", true, []answer{wait(time.Hour)}, nil, 202, true, true, OutcomeStored},
		{"no answer, at most once", false, []answer{wait(time.Hour)}, nil, 500, false, false, OutcomeFailed},
		{"broken answer, at least once", true, []answer{broken}, nil, 202, true, true, OutcomeStored},
		{"broken answer, at most once", false, []answer{broken}, nil, 500, false, false, OutcomeFailed},
		{"store full", true, []answer{notSent}, ErrStoreBusy, 503, false, false, OutcomeBusy},
		{"store unsure", true, []answer{notSent}, ErrStoreUnknown, 503, false, false, OutcomeUnknown},
		{"store unsure after no answer", true, []answer{wait(time.Hour)}, ErrStoreUnknown, 503, false, false, OutcomeUnknown},
		{"store full after no answer", true, []answer{wait(time.Hour)}, ErrStoreBusy, 500, false, false, OutcomeFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var nodes []Node
				for i, a := range tt.nodes {
					n := newNode("http://node" + string(rune('a'+i)) + ".test/svc")
					n.answer = a
					nodes = append(nodes, n)
				}
				s := &shelf{err: tt.store}
				seen := &observed{}
				r := Route{Name: "r", Backend: &Backend{Name: "b", Nodes: nodes, Answer: time.Hour}, Delivery: SyncThenQueue, Hold: 10 * time.Second, StoreMaybe: tt.maybe}
				h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{Enqueuer: s, Observer: seen})
				began := time.Now()
				got := serve(t, h, exchange("text/xml", env11, "X-A", "1"))
				if got.Status != tt.status {
					t.Errorf("got status %d %s, want %d", got.Status, got.body, tt.status)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %v, want at most the time to hold", took)
				}
				if o := seen.exchanges[0].Outcome; o != tt.outcome {
					t.Errorf("got outcome %s, want %s", o, tt.outcome)
				}
				if (len(s.kept) > 0) != tt.stored {
					t.Fatalf("%d messages are stored", len(s.kept))
				}
				if !tt.stored {
					return
				}
				if string(s.kept[0].Body) != env11 {
					t.Errorf("stored %q", s.kept[0].Body)
				}
				meta, err := readMeta(s.kept[0].Meta)
				if err != nil || meta.Doubt != tt.doubt {
					t.Errorf("stored with doubt %v %v, want %v", meta.Doubt, err, tt.doubt)
				}
				// The delivery is marked by what came before it was stored.
				last := nodes[0].(*node)
				last.answer = wait(0)
				if res := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); res.Verdict != VerdictDelivered {
					t.Fatalf("delivery: got %v %s", res.Verdict, res.Reason)
				}
				if marked := last.last(t).Header.Get(duplicateField) != ""; marked != tt.doubt {
					t.Errorf("marked as a possible duplicate: %v, want %v", marked, tt.doubt)
				}
			})
		})
	}
}

// TestHeldCallerLeaves: nothing is stored for a caller that did not wait.
func TestHeldCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("http://node.test/svc")
		n.answer = wait(time.Hour)
		s := &shelf{}
		r := Route{Name: "r", Backend: &Backend{Name: "b", Nodes: []Node{n}, Answer: time.Hour}, Delivery: SyncThenQueue, StoreMaybe: true}
		h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{Enqueuer: s})
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		if got := serveCtx(t, ctx, h, exchange("text/xml", env11)); got.Status != http.StatusInternalServerError {
			t.Errorf("got status %d", got.Status)
		}
		if len(s.kept) != 0 {
			t.Error("the message was stored")
		}
	})
}
