package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// LimitSet chooses what [MeasureLimits] measures.
type LimitSet struct {
	Floor, Stream, Memory, Clock, Sync bool
	// SyncDir is where records are written for Sync.
	SyncDir string
	// Budget is about how long each figure is measured. Default 500ms.
	Budget time.Duration
}

// MeasureLimits measures what this machine can do at most, with peers of lab as
// the other side. What cannot be measured is named in Limits.Unmeasured; an error
// is returned only when ctx ends.
func MeasureLimits(ctx context.Context, lab *Lab, set LimitSet) (*Limits, error) {
	if set.Budget == 0 {
		set.Budget = 500 * time.Millisecond
	}
	l := &Limits{Cores: runtime.NumCPU(), Files: maxFiles()}
	for _, m := range []struct {
		name string
		on   bool
		f    func(context.Context, *Lab, LimitSet) error
	}{
		{"TCP round trip", set.Floor, l.measureFloor},
		{"loopback stream", set.Stream, l.measureStreams},
		{"memory", set.Memory, l.measureMemory},
		{"clock", set.Clock, l.measureClock},
		{"disk sync", set.Sync, l.measureSync},
	} {
		if !m.on {
			continue
		}
		if err := m.f(ctx, lab, set); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			l.Unmeasured = append(l.Unmeasured, m.name+": "+err.Error())
		}
	}
	return l, nil
}

// measureFloor times round trips of one octet: what no protocol can undercut.
func (l *Limits) measureFloor(ctx context.Context, lab *Lab, set LimitSet) error {
	peer, err := lab.Peer(ctx, "echo")
	if err != nil {
		return err
	}
	defer peer.Kill()
	c, err := dial(ctx, peer.Ready.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	h := histogram()
	one := []byte{0}
	began := time.Now()
	for warm := set.Budget / 5; ; {
		t := time.Now()
		if t.Sub(began) > warm+set.Budget {
			break
		}
		if _, err := c.Write(one); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, one); err != nil {
			return err
		}
		if now := time.Now(); now.Sub(began) > warm {
			record(h, now.Sub(t))
		}
	}
	l.FloorUS, l.FloorMeanUS = float64(h.ValueAtPercentile(50))/1e3, h.Mean()/1e3
	return nil
}

// measureStreams times one connection that sends as fast as it can.
func (l *Limits) measureStreams(ctx context.Context, lab *Lab, set LimitSet) error {
	peer, err := lab.Peer(ctx, "sink")
	if err != nil {
		return err
	}
	defer peer.Kill()
	for _, s := range []struct {
		size int
		mbit *float64
	}{{1500, &l.Stream1500}, {64 << 10, &l.Stream64K}} {
		if *s.mbit, err = stream(ctx, peer.Ready.Address, s.size, set.Budget); err != nil {
			return err
		}
	}
	return nil
}

// stream returns the rate in Mbit/s, counted until the other side has all.
func stream(ctx context.Context, address string, size int, budget time.Duration) (float64, error) {
	c, err := dial(ctx, address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	buf := make([]byte, size)
	octets := 0
	began := time.Now()
	for time.Since(began) < budget {
		n, err := c.Write(buf)
		if err != nil {
			return 0, err
		}
		octets += n
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, buf[:1]); err != nil {
		return 0, err
	}
	return float64(octets) * 8 / 1e6 / time.Since(began).Seconds(), nil
}

// measureMemory copies a block that no cache holds.
func (l *Limits) measureMemory(_ context.Context, _ *Lab, set LimitSet) error {
	const block = 64 << 20
	from, to := make([]byte, block), make([]byte, block)
	copy(to, from) // both are in memory now
	copied := 0
	began := time.Now()
	for time.Since(began) < set.Budget {
		copied += copy(to, from)
	}
	l.MemcpyGBs = float64(copied) / 1e9 / time.Since(began).Seconds()
	return nil
}

// measureClock times what every small figure contains: a system call, a look at
// the clock, and how late a sleep ends.
func (l *Limits) measureClock(ctx context.Context, _ *Lab, set LimitSet) error {
	each := func(n int, f func()) float64 {
		began := time.Now()
		for range n {
			f()
		}
		return float64(time.Since(began).Nanoseconds()) / float64(n)
	}
	l.SyscallNS = each(100_000, func() { os.Getppid() })
	l.NowNS = each(100_000, func() { _ = time.Now() })
	const nap = 50 * time.Microsecond
	n, slept := 0, time.Duration(0)
	for began := time.Now(); time.Since(began) < set.Budget/2 && ctx.Err() == nil; n++ {
		t := time.Now()
		time.Sleep(nap)
		slept += time.Since(t)
	}
	if n > 0 {
		l.SleepOverUS = float64(slept/time.Duration(n)-nap) / 1e3
	}
	return ctx.Err()
}

// measureSync writes and syncs records of 1.5 KB, one by one, into a file beside
// the stores of the queue.
func (l *Limits) measureSync(ctx context.Context, lab *Lab, set LimitSet) (err error) {
	dir := set.SyncDir
	if dir == "" {
		dir = lab.Dir()
	}
	f, err := os.Create(filepath.Join(dir, "sync-probe"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	record := make([]byte, 1500)
	var took []float64
	for began := time.Now(); (time.Since(began) < 2*set.Budget || len(took) < 20) && ctx.Err() == nil; {
		t := time.Now()
		if _, err := f.Write(record); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		took = append(took, float64(time.Since(t).Nanoseconds())/1e3)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s := summarizeValues(took)
	slices.Sort(took)
	l.Sync = &SyncLimit{Dir: dir, Mean: s.Mean, P50: s.Median, P99: took[len(took)*99/100]}
	return nil
}

// dial connects; the runtime sets TCP_NODELAY. The connection is cut off when
// ctx is done.
func dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}
