package proxy

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Ids are UUIDv7, each once, whoever asks at the same time.
func TestNewID(t *testing.T) {
	const callers, each = 4, 2000 // more than the octets that are fetched at once
	ids := make([][]string, callers)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			for range each {
				ids[i] = append(ids[i], newID(time.Now()))
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	tails := map[string]bool{}
	for _, list := range ids {
		for k, s := range list {
			id, err := uuid.Parse(s)
			if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
				t.Fatalf("%q: version %d, variant %v, err %v", s, id.Version(), id.Variant(), err)
			}
			if k > 0 && s <= list[k-1] {
				t.Fatalf("%s comes after %s", s, list[k-1])
			}
			if seen[s] || tails[s[19:]] {
				t.Fatalf("%s: the same octets twice", s)
			}
			seen[s], tails[s[19:]] = true, true
		}
	}
}

func TestNewIDAllocs(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { newID(time.Now()) }); n > 1 {
		t.Errorf("an id allocates %v times, want 1", n)
	}
}

// The parts of an id are where RFC 9562 §5.7 has them, and a clock that steps back
// changes nothing about their order.
func TestIDSource(t *testing.T) {
	var s idSource
	now := time.UnixMilli(0x0123456789ab).Add(999999)
	first := s.next(now)
	if want := "01234567-89ab-7f42-"; first[:19] != want {
		t.Errorf("got %s, want it to begin with %s", first, want)
	}
	back := s.next(now.Add(-time.Hour))
	if want := "01234567-89ab-7f43-"; back[:19] != want {
		t.Errorf("an hour earlier: got %s, want it to begin with %s", back, want)
	}
}
