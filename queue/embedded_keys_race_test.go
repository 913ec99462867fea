package queue

import (
	"bytes"
	"errors"
	"sync"
	"testing"
)

// TestSetKeysDuringSaveState: keys do not change between the name of a state and
// its seal; the state would not be found once the older key is gone.
func TestSetKeysDuringSaveState(t *testing.T) {
	o := sealedOptions(t, t.TempDir(), testKeyA)
	s := openStore(t, o)
	changed := make(chan error, 1)
	var once sync.Once
	seal := s.commit.seal
	s.commit.seal = func(r record) (record, error) { // between the two
		once.Do(func() {
			go func() { changed <- s.SetKeys(testKeys(t, testKeyB, testKeyA)) }()
			for s.keys.renew.TryRLock() { // until SetKeys waits for the end of this
				s.keys.renew.RUnlock()
				select {
				case err := <-changed:
					changed <- err
					return
				default:
				}
			}
		})
		return seal(r)
	}
	if err := s.SaveState(t.Context(), "paused.orders", []byte("now")); err != nil {
		t.Fatal(err)
	}
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	if err := s.keys.census(); err != nil {
		t.Fatal(err)
	}
	s.js.keys.Store(testKeys(t, testKeyB)) // as at a later start
	if b, err := s.State("paused.orders"); err != nil || string(b) != "now" {
		t.Errorf("State without the older key: %q, %v, want it", b, err)
	}
	s.js.keys.Store(testKeys(t, testKeyB, testKeyA))
}

// TestStateWhileSealedAnew: a state is found at any moment while the keys change.
func TestStateWhileSealedAnew(t *testing.T) {
	s := openStore(t, sealedOptions(t, t.TempDir(), testKeyA))
	if err := s.SaveState(t.Context(), doubtState, []byte("7")); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if b, err := s.State(doubtState); err != nil || !bytes.Equal(b, []byte("7")) {
					t.Errorf("State: %q, %v, want it", b, err)
					return
				}
			}
		})
	}
	for i := range 30 {
		lines := []string{testKeyA, testKeyB}
		if i%2 == 0 {
			lines = []string{testKeyB, testKeyA}
		}
		if err := errors.Join(s.SetKeys(testKeys(t, lines...)), s.keys.census()); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	wg.Wait()
}
