package queue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestInspectKeepsTheDoubt: a tool on the store of a gateway that was killed
// does not make it look as if the gateway had stopped in order, nor does a tool
// that is killed itself cast doubt on an orderly stop. What comes after the
// tool is a gateway's start, whose messages are marked accordingly.
func TestInspectKeepsTheDoubt(t *testing.T) {
	for _, tt := range []struct {
		name         string
		gateway      bool // stopped in order
		tool         bool // ended in order
		possibleTwin bool // what the next delivery says
	}{
		{"killed gateway", false, true, true},
		{"killed gateway, killed tool", false, false, true},
		{"stopped gateway", true, true, false},
		{"stopped gateway, killed tool", true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := testOptions(t, t.TempDir())
			s := openStore(t, o)
			m := &Message{ID: "0190-doubt", Route: "orders", Destination: "erp", Accepted: time.Now(), Body: []byte("<a/>")}
			if _, err := s.Put(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			dir := o.Dir
			if tt.gateway {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				dir = copyStore(t, o.Dir)
			}

			o = testOptions(t, dir)
			o.Inspect = true
			s = openStore(t, o)
			if got := s.Info().Clean; got != tt.gateway {
				t.Errorf("the tool is told Clean: %v, want %v", got, tt.gateway)
			}
			inspectedEpoch := s.Info().Epoch
			q, err := New(s, &node{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Configure([]Route{{Name: "orders", Destination: "erp"}}, []Destination{{Name: "erp"}}); err != nil {
				t.Fatal(err)
			}
			if err := q.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if page, _, err := q.List(Filter{}); err != nil || len(page) != 1 {
				t.Fatalf("List: got %v, %v, want one message", page, err)
			}
			if err := q.Pause(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			if err := q.Resume(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			if tt.tool {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				dir = copyStore(t, dir)
			}

			s = openStore(t, testOptions(t, dir))
			if i := s.Info(); i.Clean != tt.gateway || i.Epoch != inspectedEpoch+1 {
				t.Errorf("the next start is told Clean %v, epoch %d, want %v, %d", i.Clean, i.Epoch, tt.gateway, inspectedEpoch+1)
			}
			told := make(chan bool, 1)
			n := &node{deliver: func(_ context.Context, d *Delivery) Outcome {
				told <- d.PossibleDuplicate
				return Outcome{}
			}}
			if q, err = New(s, n, Options{}); err != nil {
				t.Fatal(err)
			}
			if err := q.Configure([]Route{{Name: "orders", Destination: "erp"}}, []Destination{{Name: "erp"}}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- q.Run(ctx) }()
			select {
			case got := <-told:
				if got != tt.possibleTwin {
					t.Errorf("PossibleDuplicate: got %v, want %v", got, tt.possibleTwin)
				}
			case <-time.After(20 * time.Second):
				t.Error("the message was not delivered")
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInspectNeedsAStore: a tool makes no store, and leaves nothing behind
// where there is none.
func TestInspectNeedsAStore(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		o := testOptions(t, dir)
		o.Inspect = true
		if _, err := OpenEmbedded(o); !errors.Is(err, ErrNoStore) {
			t.Errorf("OpenEmbedded: got %v, want ErrNoStore", err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s holds %v", dir, left)
		}
	}
}
