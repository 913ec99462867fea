package bench

import (
	"os"
	"testing"
	"time"
)

// TestSampler: what this process does is seen: a system call that writes, and the
// time of a processor, in all threads.
func TestSampler(t *testing.T) {
	s, err := NewSampler()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	before, err := s.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	machine, err := s.Machine()
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
		if _, err := null.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	used := after.minus(before)
	if used.CPU <= 0 || used.CPU > time.Minute || used.Writes < 100 || used.Reads < 0 || used.Switches < 0 {
		t.Errorf("got %+v", used)
	}
	later, err := s.Machine()
	if err != nil || later.CPUs < 1 || later.Busy < machine.Busy || later.Busy == 0 {
		t.Errorf("machine: got %+v after %+v, %v", later, machine, err)
	}
	if _, err := s.Process(1 << 30); err == nil {
		t.Error("a process that is not there")
	}
	m, err := ReadMemory(os.Getpid())
	if err != nil || m.RSS < 1<<20 || m.Peak < m.RSS || m.VSZ < m.RSS || m.Files < 3 {
		t.Errorf("memory: got %+v, %v", m, err)
	}
}
