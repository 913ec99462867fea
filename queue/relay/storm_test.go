package relay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/queue"
)

// TestStorm: requests and answers are lost, cut off and brought once more, items are put
// off and refused, the far store has room for some of a batch, and both sides are killed.
// Nothing is lost, nothing arrives twice without a mark, and the order of each key holds.
func TestStorm(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

func storm(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 17))
	plant, hq, w := pair(t)
	t.Cleanup(w.late.Wait)
	w.lossy, w.storm = rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	keys := []int{1, 3, 40}[seed%3]
	const n = 1200
	var mu sync.Mutex
	moods := rand.New(rand.NewPCG(seed, 3))
	dead := map[string]bool{}
	hq.refuse = func(it *Item) *Result {
		mu.Lock()
		defer mu.Unlock()
		switch body := string(it.Body); {
		case dead[body] || strings.HasSuffix(body, "77"):
			dead[body] = true
			return &Result{Outcome: Refused, Reason: "500 Client: no such customer"}
		case moods.IntN(40) == 0:
			return &Result{Outcome: Later, Reason: "busy", RetryAfter: 1}
		}
		return nil
	}
	kills := 0
	for i := range 12 {
		fill(t, plant, i*n/12, n/12, keys)
		hq.store.SetRoom(rnd.IntN(60))
		time.Sleep(time.Duration(rnd.IntN(8000)) * time.Millisecond)
		hq.store.SetRoom(-1)
		time.Sleep(time.Duration(rnd.IntN(8000)) * time.Millisecond)
		switch {
		case seed < 3: // nobody is killed, so nothing may arrive twice
		case i%4 == 1:
			hq.restart(t, Options{}, nil, []string{"plant"})
			kills++
		case i%4 == 3:
			plant.restart(t, over(map[string]*wire{"hq": w}), []Link{{Name: "hq", URL: "https://hq"}}, nil)
			kills++
		}
	}
	time.Sleep(time.Second) // a start knows what waits
	for end := time.Now().Add(4 * time.Hour); plant.queue.Waiting() > 0 && time.Now().Before(end); {
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
	if n := plant.queue.Waiting(); n > 0 {
		t.Errorf("%d messages wait for ever: %+v %+v", n, states(plant.hub, "hq"), plant.queue.Stats())
	}
	verify(t, hq, n-len(dead))
	if got := hq.count(); kills == 0 && got != n-len(dead) {
		t.Errorf("%d deliveries, want %d: none twice", got, n-len(dead))
	}
	letters := 0
	err := plant.store.ScanDead(t.Context(), func(d *queue.DeadLetter, _ int64) error {
		letters++
		return nil
	})
	if err != nil || letters != len(dead) || len(dead) == 0 {
		t.Errorf("%d dead letters (%v), want the %d that were refused", letters, err, len(dead))
	}
	if s := states(plant.hub, "hq"); kills == 0 && s.Duplicates == 0 {
		t.Error("no answer was duplicate, so nothing was tested")
	}
}

// TestManyOfOneKey: messages of one key go together, so that few keys are not bound to
// one message for each round; a refused one holds up those behind it for a round.
func TestManyOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plant, hq, w := pair(t)
		w.set(true)
		fill(t, plant, 0, 2000, 2)
		hq.refuse = func(it *Item) *Result {
			if string(it.Body) == "k0 900" {
				return &Result{Outcome: Refused, Reason: "no"}
			}
			return nil
		}
		time.Sleep(time.Minute)
		before := w.count(pathBatch)
		w.set(false)
		hq.await(t, 1999, 2*time.Minute)
		verify(t, hq, 1999)
		if got := w.count(pathBatch) - before; got > 40 {
			t.Errorf("%d batches for 2000 messages of 2 keys, want no more than 40", got)
		}
	})
}
