package queue

import (
	"testing"
	"time"
)

// What is known of the attempts of a message must not go before it is noted that
// the message has gone: a kill in between would bring back one of which nobody
// knows that it was tried.
func TestAttemptsOutliveTheirMessage(t *testing.T) {
	for _, known := range []bool{false, true} {
		dir := t.TempDir()
		s := openStore(t, StoreOptions{Dir: dir})
		const id = "01890000-0000-7000-8000-000000000001"
		if err := s.SaveAttempts(id, []AttemptRecord{{N: 1, Open: true}}); err != nil {
			t.Fatal(err)
		}
		if !known { // as in a store that has just been opened
			s.attempts.Clear()
			s.attemptsKnown.Store(false)
		}
		recorded := func() bool {
			t.Helper()
			token, err := subjectToken(id)
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := s.value(subjectAttempt + token)
			if err != nil {
				t.Fatal(err)
			}
			return b != nil
		}
		s.trim.close() // from here on passes are made by the test
		s.trim.mu.Lock()
		s.trim.removedAt = time.Now().Add(time.Hour)
		for k := range uint64(noteMost + 1) { // too much to be noted in each pass
			s.trim.dirty[k] = true
		}
		s.trim.mu.Unlock()
		if err := s.SaveAttempts(id, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.trim.pass(false); err != nil {
			t.Fatal(err)
		}
		if !recorded() {
			t.Errorf("known %t: the attempts are forgotten while the removal of their message is not noted", known)
		}
		s.trim.mu.Lock()
		s.trim.removedAt = time.Time{}
		s.trim.mu.Unlock()
		if err := s.trim.pass(false); err != nil {
			t.Fatal(err)
		}
		if recorded() {
			t.Errorf("known %t: the attempts are still there", known)
		}
	}
}

// TestAttemptsOutliveWhatIsOwed: the removal of a message with an identity is noted
// later than that of others, once what is known of it is durable. Its attempts must
// not go before.
func TestAttemptsOutliveWhatIsOwed(t *testing.T) {
	s := openStore(t, testOptions(t, t.TempDir()))
	s.trim.close() // from here on passes are made by the test
	m := identified(1, time.Hour)
	seq := put(t, s, m)
	if err := s.SaveAttempts(m.ID, []AttemptRecord{{N: 1, Open: true}}); err != nil {
		t.Fatal(err)
	}
	s.trim.mu.Lock()
	s.trim.debts.paidAt = time.Now().Add(time.Hour) // others were paid just now
	s.trim.mu.Unlock()
	if err := s.RemoveKnown(seq, knownOf(m, FateDelivered)); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveAttempts(m.ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.trim.pass(false); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t, copyStore(t, s.dir)) // a kill
	killed := openStore(t, o)
	if _, err := killed.Get(seq); err != nil {
		t.Fatalf("Get after a kill: %v, want the message", err)
	}
	if a, err := killed.Attempts(m.ID); err != nil || len(a) != 1 || !a[0].Open {
		t.Errorf("Attempts after a kill: %+v, %v, want the one that had begun", a, err)
	}
	s.trim.mu.Lock()
	s.trim.debts.paidAt = time.Time{}
	s.trim.mu.Unlock()
	if err := s.trim.pass(false); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Attempts(m.ID); err != nil || a != nil {
		t.Errorf("Attempts once the removal is noted: %+v, %v, want none", a, err)
	}
}
