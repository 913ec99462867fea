package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/bundle"
	"soapway/queue"
)

const goodMeta = `{"v":1,"soap":"1.1","header":[["Content-Type","text/xml"],["X-Octets",{"octets":"\u00ff"}]]}`

func messageID(n int) string { return fmt.Sprintf("0190e000-0000-7000-8000-%012d", n) }

// filled is an adminQueue over a store in memory with these messages on the route
// orders, of which every third is dead.
func filled(t *testing.T, n, size int) *adminQueue {
	t.Helper()
	store := queue.NewMemory()
	now := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	for i := range n {
		m := &queue.Message{
			ID: messageID(i), Route: "orders", Destination: "erp", Lane: "lane\xff" + fmt.Sprint(i%2), Operation: "placeOrder",
			Accepted: now.Add(time.Duration(i) * time.Millisecond), Meta: []byte(goodMeta), Forwards: i%2 == 0, After: queue.Fate(i % 3), Body: append(fmt.Appendf(nil, "<order n='%d'>\x01\xff", i), make([]byte, size)...),
		}
		copy(m.Identity.Key[:], fmt.Sprintf("key%d", i))
		copy(m.Identity.Sum[:], "sum")
		m.Identity.Until = now.Add(48 * time.Hour)
		attempts := []queue.AttemptRecord{{N: 1, At: now, Status: 503, Reason: "busy", Maybe: i%2 == 0, Reply: []byte("busy"), ReplyType: "text/plain"}}
		if i%3 == 2 {
			d := &queue.DeadLetter{
				Message: m, Died: now.Add(time.Minute), Reason: "permanent", Text: "fault Client", Attempts: attempts,
				Reply: []byte("<fault/>"), ReplyType: "text/xml",
			}
			attempts[0].Reply, attempts[0].ReplyType = nil, ""
			if err := store.Bury(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := store.SaveAttempts(m.ID, attempts); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	q, err := queue.New(store, idle{}, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	routes := []queue.Route{{Name: "orders", Destination: "erp"}, {Name: "bills", Destination: "erp"}, {Name: "sync", Destination: "erp", Closed: true}}
	if err := q.Configure(routes, []queue.Destination{{Name: "erp"}}); err != nil {
		t.Fatal(err)
	}
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &adminQueue{Queue: q, store: store, cfg: func() *config.Config { return &config.Config{} }}
}

func details(t *testing.T, a *adminQueue, n int) (out []*queue.Detail) {
	t.Helper()
	for i := range n {
		d, err := a.Queue.Get(messageID(i))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

// TestExportImport: what comes out of one gateway is in the other, with all that is
// known of it; only that it was imported is added.
func TestExportImport(t *testing.T) {
	from, to := filled(t, 12, 0), filled(t, 0, 0)
	var file bytes.Buffer
	if done, err := from.Export(t.Context(), admin.Filter{Route: "orders"}, admin.ExportOptions{Version: "1.2.3", Whole: true}, &file); err != nil || done != (admin.Exported{Count: 12}) {
		t.Fatalf("Export: %+v, %v", done, err)
	}
	if done, err := to.Import(t.Context(), bytes.NewReader(file.Bytes()), ""); err != nil || done != (admin.Imported{Count: 12}) {
		t.Fatalf("Import: %+v, %v", done, err)
	}
	want, got := details(t, from, 12), details(t, to, 12)
	for i, d := range got {
		if d.State != queue.StateDead {
			last := d.History[len(d.History)-1]
			if last.Reason != "imported" || !last.Maybe || last.N != 0 {
				t.Errorf("message %d: last of its history is %+v", i, last)
			}
			d.History, d.Reason = d.History[:len(d.History)-1], want[i].Reason
		}
		for k := range want[i].History {
			want[i].History[k].ReplyType = "" // stands with the reply
		}
		// The clock of a queue is the wall's as of when it was made.
		near := cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < time.Second })
		if diff := cmp.Diff(want[i], d, near); diff != "" {
			t.Errorf("message %d (-want +got):\n%s", i, diff)
		}
	}
	if done, err := to.Import(t.Context(), bytes.NewReader(file.Bytes()), ""); err != nil || done != (admin.Imported{Known: 12}) {
		t.Errorf("Import again: %+v, %v", done, err)
	}
	other := filled(t, 0, 0)
	if done, err := other.Import(t.Context(), bytes.NewReader(file.Bytes()), "bills"); err != nil || done.Count != 12 {
		t.Errorf("Import to another route: %+v, %v", done, err)
	}
	if page, _, err := other.List(admin.Filter{Route: "bills"}); err != nil || len(page) != 12 {
		t.Errorf("bills has %d messages, %v", len(page), err)
	}
}

// TestExportMemory: of an export and an import only some messages are in memory at
// a time.
func TestExportMemory(t *testing.T) {
	for size, n := range map[int]int{512 << 10: 120, 4 << 20: 16} {
		testExportMemory(t, n, size)
	}
}

func testExportMemory(t *testing.T, n, size int) {
	from := filled(t, n, size)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	base, most, octets := heap(), int64(0), int64(0)
	in, out := io.Pipe()
	go func() {
		_, err := from.Export(context.Background(), admin.Filter{Route: "orders"}, admin.ExportOptions{Whole: true}, out)
		_ = out.CloseWithError(err)
	}()
	b, err := bundle.NewReader(in, bundle.Options{Spool: func(int64) (bundle.Spool, error) { return nowhere{io.Discard}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		m, err := b.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		octets += m.Files.Envelope.Size
		if i%4 == 0 {
			most = max(most, heap()-base)
		}
	}
	// One is read while the next is written, and a piece of a third may be there.
	if limit := int64(3*size + 1<<20); octets < int64(n*size) || most > limit {
		t.Errorf("%d octets exported with %d more in memory, want at most %d", octets, most, limit)
	}
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

// TestImportLarge: a body that is a file of its own comes through, and leaves nothing
// behind where it is not taken.
func TestImportLarge(t *testing.T) {
	from, to := filled(t, 4, 3<<20), filled(t, 0, 0)
	var file bytes.Buffer
	if done, err := from.Export(t.Context(), admin.Filter{Route: "orders"}, admin.ExportOptions{Whole: true}, &file); err != nil || done.Count != 4 {
		t.Fatalf("Export: %+v, %v", done, err)
	}
	for _, want := range []admin.Imported{{Count: 4}, {Known: 4}} {
		if done, err := to.Import(t.Context(), bytes.NewReader(file.Bytes()), ""); err != nil || done != want {
			t.Fatalf("Import: %+v, %v, want %+v", done, err, want)
		}
	}
	for i, d := range details(t, to, 4) {
		want := details(t, from, 4)[i]
		var bodies [2][]byte
		for k, m := range []*queue.Message{want.Message, d.Message} {
			if m.Blob == nil {
				bodies[k] = m.Body
				continue
			}
			r, err := m.Blob.Open()
			if err == nil {
				bodies[k], err = io.ReadAll(r)
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Close()
		}
		if !bytes.Equal(bodies[0], bodies[1]) || d.Message.Blob == nil {
			t.Errorf("message %d: other octets, or held in memory", i)
		}
	}
}

// TestExportLeavesOut what cannot be read, and says so.
func TestExportLeavesOut(t *testing.T) {
	a := filled(t, 3, 0)
	a.store.(*queue.Memory).Damage(2)
	var file bytes.Buffer
	if done, err := a.Export(t.Context(), admin.Filter{Route: "orders"}, admin.ExportOptions{Whole: true}, &file); err != nil || done != (admin.Exported{Count: 2, LeftOut: 1}) {
		t.Fatalf("Export: %+v, %v", done, err)
	}
	b, err := bundle.NewReader(&file, bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = b.Next()
	}
	if err != io.EOF || b.End.Missing != 1 || len(b.End.LeftOut) != 1 || b.End.LeftOut[0].ID != messageID(1) {
		t.Errorf("end: %+v, %v", b.End, err)
	}
}

// TestExportBreaks: what ends before its time is no whole answer.
func TestExportBreaks(t *testing.T) {
	a := filled(t, 300, 100_000) // more than lies between two sockets
	s := httptest.NewServer(admin.Local(a, admin.Options{}))
	defer s.Close()
	get := func(ctx context.Context, read func(io.Reader) error) error {
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/queues/orders/export", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.Header.Get("Content-Disposition") != "attachment; filename=orders.tar" {
			t.Errorf("header: %v", resp.Header)
		}
		return read(resp.Body)
	}
	whole := func(r io.Reader) error {
		b, err := bundle.NewReader(r, bundle.Options{})
		for err == nil {
			_, err = b.Next()
		}
		return err
	}
	if err := get(t.Context(), whole); err != io.EOF {
		t.Errorf("whole: %v", err)
	}
	// The store closes in the middle.
	err := get(t.Context(), func(r io.Reader) error {
		if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
			return err
		}
		_ = a.store.Close()
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if err == nil {
		t.Error("an export that broke off ended like a whole one")
	}
}

// TestImportBadFiles: what is bad is told with its place, what came before it is
// taken, and no more.
func TestImportBadFiles(t *testing.T) {
	message := func(i int, change func(*bundle.Message)) *bundle.Message {
		m := &bundle.Message{ID: messageID(i), Route: "orders", State: "pending", Accepted: time.Now().Add(-time.Minute), Meta: []byte(goodMeta), Envelope: []byte("<a/>")}
		if change != nil {
			change(m)
		}
		return m
	}
	pack := func(ms ...*bundle.Message) []byte {
		var b bytes.Buffer
		w, err := bundle.NewWriter(&b, bundle.Head{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if err := w.Write(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := pack(message(1, nil), message(2, nil), message(3, nil))
	tests := []struct {
		name  string
		file  []byte
		count int
		is    error
		want  string
	}{
		{"no file", []byte("hello"), 0, admin.ErrInvalid, "no file of exported messages"},
		{"empty", nil, 0, admin.ErrInvalid, "no file of exported messages"},
		{"cut off", good[:len(good)-4096], 1, admin.ErrInvalid, "cut off"},
		{"other route", pack(message(1, nil), message(2, func(m *bundle.Message) { m.Route = "odrers" })), 1, admin.ErrTarget, `message 2 of the file is of route "odrers"`},
		{"route that stores nothing", pack(message(1, func(m *bundle.Message) { m.Route = "sync" })), 0, admin.ErrTarget, "sync"},
		{"line in a field", pack(message(1, nil), message(2, func(m *bundle.Message) { m.Meta = []byte(`{"v":1,"soap":"1.1","header":[["A","b\r\nC: d"]]}`) })), 1, admin.ErrInvalid, `message 2 of the file, "` + messageID(2) + `": proxy: stored message: "A" is no field`},
		{"no fields", pack(message(1, func(m *bundle.Message) { m.Meta = nil })), 0, admin.ErrInvalid, "no JSON"},
		{"null fields", pack(message(1, func(m *bundle.Message) { m.Meta = []byte("null") })), 0, admin.ErrInvalid, "has form 0"},
		{"id that is none", pack(message(1, func(m *bundle.Message) { m.ID = "../x" })), 0, admin.ErrInvalid, "its id is no UUID"},
		{"dead without a reason", pack(message(1, func(m *bundle.Message) { m.State = "dead" })), 0, admin.ErrInvalid, "its state"},
		{"state that is none", pack(message(1, func(m *bundle.Message) { m.State = "lost" })), 0, admin.ErrInvalid, `"lost"`},
		{"after nothing known", pack(message(1, func(m *bundle.Message) { m.After = "lost" })), 0, admin.ErrInvalid, `"lost"`},
		{"short identity", pack(message(1, func(m *bundle.Message) { m.Identity = &bundle.Identity{Key: []byte("x")} })), 0, admin.ErrInvalid, "identity"},
		{"large lane", pack(message(1, func(m *bundle.Message) { m.OrderKey = bundle.Text(strings.Repeat("x", 1<<20)) })), 0, admin.ErrInvalid, "too large"},
	}
	for _, tt := range tests {
		a := filled(t, 0, 0)
		done, err := a.Import(t.Context(), bytes.NewReader(tt.file), "")
		if done.Count != tt.count || !errors.Is(err, tt.is) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: got %+v, %v; want %d and %q", tt.name, done, err, tt.count, tt.want)
		}
		if page, _, err := a.List(admin.Filter{}); err != nil || len(page) != tt.count {
			t.Errorf("%s: %d messages are there, want %d", tt.name, len(page), tt.count)
		}
	}
	// Over the API, whose client may still be sending.
	a := filled(t, 0, 0)
	s := httptest.NewServer(admin.Local(a, admin.Options{}))
	defer s.Close()
	bad := append(bytes.Clone(good[:512]), make([]byte, 8<<20)...)
	resp, err := http.Post(s.URL+"/api/v1/queues/import", "application/x-tar", bytes.NewReader(bad))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 400 || !strings.Contains(string(b), "bad-file") {
		t.Errorf("bad file over the API: %d %s, %v", resp.StatusCode, b, err)
	}
}
