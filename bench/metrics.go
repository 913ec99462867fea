package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// get asks the admin listener of a gateway.
func (c *Child) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Ready.Admin+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	if err != nil {
		return "", fmt.Errorf("bench: %s: %w", path, err)
	}
	return string(b), nil
}

// metrics returns metrics without labels that a gateway tells, in the order of
// their names.
func (c *Child) metrics(ctx context.Context, names ...string) ([]float64, error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(names))
	for i, name := range names {
		v, ok := metricIn(text, name)
		if !ok {
			return nil, fmt.Errorf("bench: the gateway's metrics lack %s", name)
		}
		values[i] = v
	}
	return values, nil
}

// metricIn finds a metric without labels in the text format of Prometheus.
func metricIn(text, name string) (float64, bool) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			return f, err == nil
		}
	}
	return 0, false
}

// A storeWatch follows what the store of a gateway does with the disk, over the
// runs of a row. Its zero value is ready.
type storeWatch struct {
	before storeUse
	sum    storeUse
	wall   float64
}

// storeUse is what a store has done since its gateway began.
type storeUse struct {
	syncing  float64 // seconds in which the disk was syncing
	syncs    float64 // that made messages durable
	messages float64 // that they made durable
}

func readStore(ctx context.Context, g *Child) (u storeUse, err error) {
	v, err := g.metrics(ctx, "gateway_store_sync_seconds_sum", "gateway_store_group_messages_count", "gateway_store_group_messages_sum")
	if err != nil {
		return u, err
	}
	return storeUse{v[0], v[1], v[2]}, nil
}

// begin is called before a run begins.
func (w *storeWatch) begin(ctx context.Context, g *Child) (err error) {
	w.before, err = readStore(ctx, g)
	return err
}

// end is called when the timed part is over, and tells the run what it has seen.
func (w *storeWatch) end(ctx context.Context, g *Child, m *Meter) error {
	after, err := readStore(ctx, g)
	if err != nil {
		return err
	}
	w.add(after, time.Since(m.began), m)
	return nil
}

// add counts what was done since begin, within so much time.
func (w *storeWatch) add(after storeUse, wall time.Duration, m *Meter) {
	u := storeUse{after.syncing - w.before.syncing, after.syncs - w.before.syncs, after.messages - w.before.messages}
	w.sum.syncing += u.syncing
	w.sum.syncs += u.syncs
	w.sum.messages += u.messages
	w.wall += wall.Seconds()
	if u.syncs > 0 {
		m.Measure("group", u.messages/u.syncs, "")
		m.Measure("disk_busy", u.syncing/max(wall.Seconds(), 1e-9), "")
	}
}

// group is how many messages a sync has made durable on average; 0: none did.
func (w *storeWatch) group() float64 { return w.sum.messages / max(w.sum.syncs, 1) }

// limiter is "disk" where that was syncing nearly all the time, else "".
func (w *storeWatch) limiter() string {
	if w.wall > 0 && w.sum.syncing >= diskFull*w.wall {
		return limiterDisk
	}
	return ""
}
