package queue

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestFooting: on a disk that a stranger has filled to its last octet the server is
// either not asked to remove anything, or has the room for its notes in the block
// that it writes at. (Asked without that it fails its stream, or waits for itself for ever.)
func TestFooting(t *testing.T) {
	removals := map[string]func(s *Embedded, upTo uint64) error{
		"purge": func(s *Embedded, upTo uint64) error { return s.js.purge(streamLog, upTo) },
		"cut":   func(s *Embedded, upTo uint64) error { return s.js.cut(streamLog, logSubject("http://a/"), upTo) },
		"forget": func(s *Embedded, _ uint64) error {
			return s.js.forget(streamLog, logSubject("http://a/"), 3)
		},
	}
	for name, remove := range removals {
		for _, ready := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/ready=%v", name, ready), func(t *testing.T) {
				dir := smallDisk(t, 64<<20)
				s := openStore(t, smallStore(t, dir))
				s.trim.close() // nobody else removes anything
				var last uint64
				for i := range 200 {
					m := message(i)
					m.Destination, m.Body = "http://a/", make([]byte, 3000)
					last = put(t, s, m)
				}
				if ready {
					if err := s.footing(streamLog); err != nil {
						t.Fatal(err)
					}
				}
				fillDisk(t, dir)
				done := make(chan error, 1)
				go func() { done <- remove(s, last-50) }()
				select {
				case err := <-done:
					if ready && err != nil {
						t.Errorf("got %v, want the removal", err)
					}
					if !ready && !errors.Is(err, ErrNoRoom) {
						t.Errorf("got %v, want ErrNoRoom", err)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("the server waits for itself")
				}
				fillDisk(t, dir) // what the removal freed
			})
		}
	}
}
