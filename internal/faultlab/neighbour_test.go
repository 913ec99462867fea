package faultlab

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

const (
	// neighbourRate is how much a neighbour writes in a second.
	neighbourRate = 200 << 20
	// neighbourSize bounds its file: it writes the same places again and again.
	neighbourSize = 192 << 20
)

// neighbour lets another program write to the filesystem of the store, buffered,
// as fast as the disk takes it but for its rate. Each sync of the gateway has to
// wait for those octets too.
func (s *storm) neighbour() {
	s.t.Helper()
	ctx, end := context.WithTimeout(context.Background(), s.between(2*time.Second, 4*time.Second))
	defer end()
	began := time.Now()
	n, err := scribble(ctx, filepath.Join(filepath.Dir(s.store), "neighbour"))
	if err != nil {
		s.t.Errorf("neighbour: %v", err)
	}
	s.t.Logf("a neighbour wrote %.0f MiB/s", float64(n)/(1<<20)/time.Since(began).Seconds())
}

// scribble writes a file until ctx ends, and removes it.
func scribble(ctx context.Context, name string) (written int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer os.Remove(name)
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = byte(i * 7)
	}
	for began := time.Now(); ctx.Err() == nil; {
		if _, err := f.WriteAt(chunk, written%neighbourSize); err != nil {
			return written, err
		}
		written += int64(len(chunk))
		due := time.Duration(float64(written) / neighbourRate * float64(time.Second))
		if ahead := due - time.Since(began); ahead > 0 {
			wait(ctx, ahead)
		}
	}
	return written, nil
}
