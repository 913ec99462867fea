package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// contractPutAll: what is behind another follows it in the log, and is not there without
// it; what is beside it is.
func contractPutAll(t *testing.T, mk storeMaker) {
	s := mk.open(t)
	scanAll(t, s)
	var told []string
	s.OnCommit(func(_ uint64, m *Message) { told = append(told, m.ID) })
	rnd := rand.New(rand.NewPCG(1, 2))
	var want []string // in the log
	runs := map[string][]string{}
	for call := range 5 {
		var ms []*Message
		var errs []error
		for run := range 12 {
			name := fmt.Sprintf("%d.%d", call, run)
			good := true
			for i := range 1 + rnd.IntN(20) {
				m := &Message{ID: fmt.Sprintf("%s.%02d", name, i), Route: "orders", Destination: "hq", Lane: name, Body: []byte("x"), Behind: i > 0}
				switch {
				case !good:
					errs = append(errs, ErrBehind)
				case rnd.IntN(15) == 0:
					m.Meta = make([]byte, maxData)
					errs = append(errs, ErrTooLarge)
					good = false
				default:
					errs = append(errs, nil)
					want = append(want, m.ID)
					runs[name] = append(runs[name], m.ID)
				}
				ms = append(ms, m)
			}
		}
		for i, err := range s.PutAll(t.Context(), ms) {
			if !errors.Is(err, errs[i]) || err != nil && errs[i] == nil {
				t.Errorf("PutAll: %s: got %v, want %v", ms[i].ID, err, errs[i])
			}
		}
	}
	check := func(when string, s Store) {
		t.Helper()
		var ids []string
		got := map[string][]string{}
		err := s.Scan(t.Context(), func(_ uint64, m *Message, _ int64) error {
			ids = append(ids, m.ID)
			got[m.Lane] = append(got[m.Lane], m.ID)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Sort(ids); !slices.Equal(ids, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %d messages are in the log, want %d", when, len(ids), len(want))
		}
		for name, ids := range runs {
			if !slices.Equal(got[name], ids) {
				t.Errorf("%s: run %s is in the log as %v, want %v", when, name, got[name], ids)
			}
		}
	}
	check("at once", s)
	if len(told) != len(want) {
		t.Errorf("OnCommit was called for %d messages, want %d", len(told), len(want))
	}
	again := mk.reopen(t, s, true)
	defer closeStore(t, again)
	check("after a start", again)
}

// TestCommitterFollows: a record that follows another is written once that is
// acknowledged, also in a later group, and not at all where that is refused.
func TestCommitterFollows(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 5))
				r := startGroupRig(t)
				r.log.takes = 10 * time.Millisecond
				written := map[string]time.Time{}
				bad, broken := map[string]bool{}, errors.New("disk")
				before := map[string]string{}
				fatal := seed%3 == 2
				r.log.outcome = func(rec record) (error, bool) {
					written[rec.subject] = time.Now()
					if b := before[rec.subject]; b != "" {
						if at, ok := written[b]; !ok || bad[b] || time.Since(at) < r.log.takes {
							t.Errorf("%s was written before %s was acknowledged", rec.subject, b)
						}
					}
					if fatal && len(written) == 700 {
						return broken, true
					}
					if rnd.IntN(200) == 0 {
						bad[rec.subject] = true
						return ErrFull, true
					}
					return nil, true
				}
				var wg sync.WaitGroup
				var mu sync.Mutex
				kept, unknown := 0, 0
				var all [][]*job
				for run := range 12 {
					var jobs []*job
					for i := range 1 + rnd.IntN(groupCount/2) {
						id := fmt.Sprintf("%d.%d", run, i)
						jobs = append(jobs, &job{rec: record{subject: id}, size: 1, msg: &Message{ID: id}, urgent: true})
						if i > 0 {
							jobs[i-1].next = jobs[i]
							before[id] = jobs[i-1].msg.ID
						}
					}
					all = append(all, jobs)
				}
				for _, jobs := range all {
					wg.Go(func() {
						if err := r.c.submit(jobs[0]); err != nil {
							t.Error(err)
							return
						}
						end := error(nil)
						for _, j := range jobs {
							err := r.c.await(t.Context(), j)
							mu.Lock()
							switch {
							case errors.Is(err, ErrUnknown):
								unknown++
							case err == nil && end == nil:
								kept++
							case err == nil:
								t.Errorf("%s is kept, and what it follows is not: %v", j.msg.ID, end)
							case end != nil && !errors.Is(err, ErrBehind) && !errors.Is(err, ErrClosed) && !bad[j.msg.ID]:
								t.Errorf("%s: got %v behind %v", j.msg.ID, err, end)
							}
							if end == nil {
								end = err
							}
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				if len(bad) == 0 || fatal != (unknown > 0) || !fatal && kept == 0 {
					t.Errorf("%d kept, %d refused, %d unknown: nothing was tested", kept, len(bad), unknown)
				}
				if n := r.c.bytes.Load(); n != 0 {
					t.Errorf("%d octets count as waiting, want none", n)
				}
			})
		})
	}
}

// TestPutAll: what has come before is told so and holds nobody up; what is refused holds
// up what is behind it, and no other.
func TestPutAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		r := newRig(t, s, &node{}, Route{MaxMessages: 30})
		<-r.complete
		if err := r.Pause(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		came := func(n uint64, behind bool) *Message {
			m := labelled(n)
			m.ID, m.Behind = fmt.Sprintf("01a22cd4-0000-7000-8000-%012d", n), behind
			return m
		}
		known := func(n uint64, key byte, behind bool) *Message {
			m := came(n, behind)
			m.ID = fmt.Sprintf("01a22cd4-0000-7000-9000-%012d", n)
			m.Identity = Identity{Key: [16]byte{key}, Until: time.Now().Add(time.Hour)}
			return m
		}
		put := func(ms ...*Message) string {
			var out strings.Builder
			for _, p := range r.PutAll(t.Context(), ms) {
				switch {
				case p.Err == nil && p.Repeat:
					out.WriteString("repeat ")
				case p.Err == nil:
					out.WriteString("kept ")
				case errors.Is(p.Err, ErrSeen):
					out.WriteString("seen ")
				case errors.Is(p.Err, ErrBehind):
					out.WriteString("behind ")
				case errors.Is(p.Err, ErrFull):
					out.WriteString("full ")
				case errors.Is(p.Err, ErrOtherContent):
					out.WriteString("other ")
				default:
					out.WriteString(p.Err.Error())
				}
			}
			return out.String()
		}
		is := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("PutAll: got %q, want %q", got, want)
			}
		}
		is(put(came(1, false), came(2, true), came(3, false)), "kept kept kept ")
		is(put(came(1, false), came(2, true), came(4, true)), "seen seen kept ")
		is(put(came(5, false), came(5, false), came(6, true), came(5, true), came(7, true)), "kept seen kept seen kept ")
		s.SetRoom(1)
		is(put(came(8, false), came(9, true), came(10, true), came(11, false)), "kept full behind full ")
		is(put(came(9, false), came(8, true), came(10, true)), "full behind behind ")
		s.SetRoom(-1)
		is(put(came(9, false), came(8, true), came(10, true)), "kept seen kept ")
		is(put(known(20, 1, false), known(21, 1, true), known(22, 2, true)), "kept repeat kept ")
		stranger := known(23, 2, true)
		stranger.Identity.Sum = [16]byte{9}
		is(put(known(24, 3, false), stranger, known(25, 4, true)), "kept other behind ")
		s.UnknownNext(1)
		got := r.PutAll(t.Context(), []*Message{came(30, false), came(31, true)})
		if !errors.Is(got[0].Err, ErrUnknown) || !errors.Is(got[1].Err, ErrBehind) {
			t.Errorf("PutAll of which nobody knows: got %v, %v", got[0].Err, got[1].Err)
		}
		is(put(came(30, false), came(31, true)), "seen kept ")

		// One that is being committed by another is waited for, and its outcome shared.
		s.SetDelay(time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { is(put(came(40, false), came(41, true)), "kept kept ") })
		synctest.Wait()
		is(put(came(40, false), came(41, true), came(42, true)), "seen seen kept ")
		wg.Wait()
		s.SetDelay(0)

		var many []*Message
		for n := uint64(100); n < 120; n++ {
			many = append(many, came(n, n > 100))
		}
		var want strings.Builder
		left := 30 - r.Waiting()
		for i := range many {
			switch {
			case i < left:
				want.WriteString("kept ")
			case i == left:
				want.WriteString("full ")
			default:
				want.WriteString("behind ")
			}
		}
		is(put(many...), want.String())
		if n := r.Waiting(); n != 30 {
			t.Errorf("%d messages wait, want the quota of 30", n)
		}
		if q := r.Queue.route("orders").coming; q != (quantity{}) {
			t.Errorf("room is reserved for nobody: %+v", q)
		}
	})
}
