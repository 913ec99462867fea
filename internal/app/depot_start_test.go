package app

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"soapway/queue"
)

// longLog is a store whose log takes as long to read as a test wants.
type longLog struct {
	*queue.Memory
	begun chan struct{} // closed once it is being read
	read  chan struct{} // to be closed by the test
}

func (s longLog) Scan(ctx context.Context, f func(uint64, *queue.Message, int64) error) error {
	close(s.begun)
	select {
	case <-s.read:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Memory.Scan(ctx, f)
}

// TestReadyBeforeTheLogIsRead: a gateway is ready, and takes messages, while the log
// of a large store is still being read; what it took meanwhile is delivered once,
// with what had waited.
func TestReadyBeforeTheLogIsRead(t *testing.T) {
	b := newTaker(t, nil)
	s := &cellar{disk: queue.NewMemory()}
	post := func(g *gateway) string {
		t.Helper()
		resp, err := http.Post("http://"+g.addr("web")+"/orders", "text/xml", strings.NewReader(envelope))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 202 {
			t.Fatalf("got %d, want 202", resp.StatusCode)
		}
		return resp.Header.Get("Gateway-Message-Id")
	}
	first := startOn(t, s, "http://127.0.0.1:1/", "exit")
	want := []string{post(first), post(first)}
	first.end()

	log := longLog{begun: make(chan struct{}), read: make(chan struct{})}
	s.with = func(m *queue.Memory) queue.Store { log.Memory = m; return log }
	g := startOn(t, s, b.URL, "exit") // returns once it is ready
	<-log.begun
	if status, body := g.admin("/readyz"); status != 200 {
		t.Errorf("/readyz while the log is read: got %d %q, want 200", status, body)
	}
	for range 3 {
		want = append(want, post(g))
	}
	if g.app.Queue().Loaded() {
		t.Error("Loaded while the log is read")
	}
	close(log.read)
	g.eventually("an empty queue", func() bool { return g.app.Queue().Loaded() && g.app.Queue().Waiting() == 0 })
	var got []string
	for _, m := range b.taken() {
		got = append(got, m.header.Get("Gateway-Message-Id"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the backend got %v, want %v", got, want)
	}
	g.end()
}
