package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/internal/field"
	"soapway/proxy"
	"soapway/soapcodec"
)

func accessEvent() proxy.ExchangeEvent {
	return proxy.ExchangeEvent{
		ID: "0190e000-0000-7000-8000-000000000001", Listener: "http", Route: "orders", Operation: "placeOrder",
		Exchange: &proxy.Exchange{
			Client: netip.MustParseAddrPort("10.0.0.1:1234"), Method: "POST", Target: "/orders/a?token=hunter2",
			Header: field.List{{Name: "Authorization", Value: "Basic hunter2"}},
		},
		Node: "http://10.0.0.5:9000", Version: soapcodec.V11, Status: 200, Outcome: proxy.OutcomeAnswered, Attempts: 1,
		Duration: 1234567 * time.Nanosecond, RequestOctets: 123, ReplyOctets: 456,
	}
}

var accessAt = time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600))

// TestAccessLine: the fields are stable, see docs/operations.md. Nothing in a line
// can end it, or be taken for a field.
func TestAccessLine(t *testing.T) {
	plain, hostile, refused, partly := accessEvent(), accessEvent(), accessEvent(), accessEvent()
	hostile.Exchange.Target = "/a b\"\\=\n\x1b[2J\xff\u202e" + strings.Repeat("x", 300)
	hostile.Exchange.Method = "PO\r\nST"
	refused = proxy.ExchangeEvent{
		ID: "i", Listener: "framed", Exchange: &proxy.Exchange{Framed: true, Client: netip.MustParseAddrPort("[2001:db8::1]:1")},
		Status: 404, Outcome: proxy.OutcomeRejected, Code: soapcodec.CodeNoRoute,
	}
	partly.ReplyOctets, partly.RequestOctets, partly.Outcome = -1, -1, proxy.OutcomeCancelled
	for _, c := range []struct {
		name       string
		e          *proxy.ExchangeEvent
		json, text string
	}{
		{
			"plain", &plain,
			`{"time":"2026-01-02T02:04:05.006Z","id":"0190e000-0000-7000-8000-000000000001","listener":"http","client":"10.0.0.1","method":"POST","path":"/orders/a","route":"orders","operation":"placeOrder","soap":"1.1","status":200,"outcome":"answered","attempts":1,"node":"http://10.0.0.5:9000","in":123,"out":456,"ms":1.234}`,
			`time=2026-01-02T02:04:05.006Z id=0190e000-0000-7000-8000-000000000001 listener=http client=10.0.0.1 method=POST path=/orders/a route=orders operation=placeOrder soap=1.1 status=200 outcome=answered attempts=1 node=http://10.0.0.5:9000 in=123 out=456 ms=1.234`,
		},
		{
			"hostile", &hostile,
			`"method":"PO\u000d\u000aST","path":"/a b\"\\=\u000a\u001b[2J` + "\ufffd\u202e" + strings.Repeat("x", 256-len("/a b\"\\=\n\x1b[2J\xff\u202e")) + `…","route"`,
			` method="PO\u000d\u000aST" path="/a b\"\\=\u000a\u001b[2J`,
		},
		{
			"refused", &refused,
			`"listener":"framed","client":"2001:db8::1","route":"","operation":"","status":404,"outcome":"rejected","code":"NoRoute","attempts":0,"in":0,"out":0,"ms":0.000}`,
			` client=2001:db8::1 route="" operation="" status=404 outcome=rejected code=NoRoute attempts=0 in=0 out=0 ms=0.000`,
		},
		{"partly", &partly, `"outcome":"cancelled","attempts":1,"node":"http://10.0.0.5:9000","ms":1.234}`, `attempts=1 node=http://10.0.0.5:9000 ms=1.234`},
	} {
		asJSON, text := string(appendAccess(nil, true, accessAt, c.e)), string(appendAccess(nil, false, accessAt, c.e))
		if !strings.Contains(asJSON, c.json) || !json.Valid([]byte(asJSON)) {
			t.Errorf("%s: got %s, want %s", c.name, asJSON, c.json)
		}
		if !strings.Contains(text, c.text) {
			t.Errorf("%s: got %s, want %s", c.name, text, c.text)
		}
		for _, line := range []string{asJSON, text} {
			if strings.Count(line, "\n") != 1 || strings.Contains(line, "hunter2") || len(line) > maxAccessLine {
				t.Errorf("%s: %q", c.name, line)
			}
		}
	}
}

// TestAccessLineLongest: no exchange makes a line that is longer than is reckoned with.
func TestAccessLineLongest(t *testing.T) {
	bad := strings.Repeat("\x01", 100_000)
	e := proxy.ExchangeEvent{
		ID: bad, Listener: bad, Route: bad, Operation: bad, Node: bad, Outcome: proxy.Outcome(bad), Code: soapcodec.Code(bad), Version: soapcodec.V12,
		Exchange: &proxy.Exchange{Method: bad, Target: bad, Client: netip.MustParseAddrPort("[2001:db8:1111:1111:1111:1111:1111:1111%eth0]:1")},
		Status:   -1 << 62, Attempts: -1 << 62, RequestOctets: 1 << 62, ReplyOctets: 1 << 62, Duration: 1 << 62,
	}
	if n := len(appendAccess(nil, true, accessAt, &e)); n > maxAccessLine {
		t.Errorf("a line has %d octets, at most %d are reckoned with", n, maxAccessLine)
	}
}

// access runs an access log until the returned function is called.
func runAccess(t *testing.T, stdout io.Writer, log io.Writer) (*Access, *Metrics, func()) {
	t.Helper()
	m := NewMetrics()
	a := NewAccess(stdout, slog.New(slog.NewTextHandler(log, nil)), m)
	stop, end := context.WithCancel(t.Context())
	cut, abandon := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(stop, cut) }()
	return a, m, func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		abandon()
	}
}

func TestAccessFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	a, _, end := runAccess(t, io.Discard, io.Discard)
	e := accessEvent()
	a.Exchange(&e) // off
	if err := a.Set(AccessTarget{Path: path, Format: FormatText}); err != nil {
		t.Fatal(err)
	}
	e.ID = "first"
	a.Exchange(&e)
	waitFor(t, func() bool { return strings.Contains(content(path), "id=first ") })
	if strings.Count(content(path), "\n") != 1 {
		t.Errorf("an exchange was noted while the log was off: %s", content(path))
	}

	// Renamed: found by itself, and at once when told.
	old := filepath.Join(dir, "old.log")
	for _, told := range []bool{false, true} {
		if err := os.Rename(path, old); err != nil {
			t.Fatal(err)
		}
		if told {
			a.Reopen()
		}
		waitFor(t, func() bool { _, err := os.Stat(path); return err == nil })
		e.ID = fmt.Sprintf("moved-%t", told)
		a.Exchange(&e)
		waitFor(t, func() bool { return strings.Contains(content(path), e.ID) })
		if strings.Contains(content(old), e.ID) {
			t.Errorf("told %t: the moved file has %s", told, content(old))
		}
	}

	// A bad target changes nothing; another format goes on in the same file.
	if err := a.Set(AccessTarget{Path: filepath.Join(dir, "no", "such")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Set: %v", err)
	}
	if err := a.Set(AccessTarget{Path: path}); err != nil {
		t.Fatal(err)
	}
	e.ID = "last"
	a.Exchange(&e)
	end()
	if got := content(path); !strings.Contains(got, `"id":"last"`) || !strings.Contains(got, "id=moved-true ") {
		t.Errorf("at the end the file has %s", got)
	}
}

func content(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// waitFor waits for what another goroutine does to the disk.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatal("not within 20 s")
		case <-tick.C:
		}
	}
}

// stuckWriter writes nothing until it is let go, and fails as often as it is told.
type stuckWriter struct {
	gate chan struct{}

	mu    sync.Mutex
	b     bytes.Buffer
	fails []func(p []byte) (int, error)
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	<-w.gate
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.fails) > 0 {
		fail := w.fails[0]
		w.fails = w.fails[1:]
		n, err := fail(p)
		w.b.Write(p[:n])
		return n, err
	}
	return w.b.Write(p)
}

// TestAccessStuck: a disk that does not write holds up no exchange. Lines that find
// no room are left out and counted; the others are all there in the end.
func TestAccessStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, log := &stuckWriter{gate: make(chan struct{})}, &bytes.Buffer{}
		a, m, end := runAccess(t, out, log)
		if err := a.Set(AccessTarget{Stdout: true, Format: FormatJSON}); err != nil {
			t.Fatal(err)
		}
		e := accessEvent()
		line := len(appendAccess(nil, true, accessAt, &e))
		n := 3 * accessRoom / line
		for range n {
			a.Exchange(&e)
		}
		synctest.Wait()
		close(out.gate)
		time.Sleep(2 * accessLook)
		end()
		written := bytes.Count(out.b.Bytes(), []byte("\n"))
		lost := -1
		for l := range strings.Lines(scrape(t, m)) {
			if v, found := strings.CutPrefix(l, "gateway_access_log_dropped_total "); found {
				f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				if err != nil {
					t.Fatal(err)
				}
				lost = int(f)
			}
		}
		if written+lost != n || lost < n/3 || written < accessRoom/line/2 {
			t.Errorf("%d lines, of which %d were written and %d left out", n, written, lost)
		}
		if !strings.Contains(log.String(), "left out") {
			t.Errorf("the log does not tell: %s", log)
		}
	})
}

// TestAccessFails: after a write that failed in the middle of a line the next one
// begins on a line of its own.
func TestAccessFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		out, log := &stuckWriter{gate: make(chan struct{})}, &bytes.Buffer{}
		close(out.gate)
		out.fails = []func([]byte) (int, error){
			func([]byte) (int, error) { return 10, full },
			func([]byte) (int, error) { return 0, full },
		}
		a, _, end := runAccess(t, out, log)
		if err := a.Set(AccessTarget{Stdout: true, Format: FormatText}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"one", "two", "three"} {
			e := accessEvent()
			e.ID = id
			a.Exchange(&e)
			synctest.Wait()
		}
		end()
		lines := strings.Split(strings.TrimSpace(out.b.String()), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "time=") || len(lines[0]) != 10 || !strings.Contains(lines[1], "id=three ") {
			t.Errorf("got %q", lines)
		}
		if !strings.Contains(log.String(), "no space left") {
			t.Errorf("the log does not tell: %s", log)
		}
	})
}

func TestAccessAllocs(t *testing.T) {
	a := NewAccess(io.Discard, slog.New(slog.DiscardHandler), NewMetrics())
	if err := a.Set(AccessTarget{Stdout: true}); err != nil {
		t.Fatal(err)
	}
	a.lines = make([]byte, 0, accessRoom)
	e := accessEvent()
	if n := testing.AllocsPerRun(100, func() { a.Exchange(&e) }); n > 0 {
		t.Errorf("a line allocates %g times", n)
	}
}

func BenchmarkAccess(b *testing.B) {
	for _, format := range []string{FormatJSON, FormatText, "off"} {
		b.Run(format, func(b *testing.B) {
			a := NewAccess(io.Discard, slog.New(slog.DiscardHandler), NewMetrics())
			if err := a.Set(AccessTarget{Stdout: format != "off", Format: format}); err != nil {
				b.Fatal(err)
			}
			e := accessEvent()
			b.ReportAllocs()
			for b.Loop() {
				a.Exchange(&e)
				if len(a.lines) > accessRoom/2 {
					a.lines = a.lines[:0]
				}
			}
		})
	}
}

// TestAccessStops: a stop writes what was noted; one that is cut off does not wait for
// a write that does not end.
func TestAccessStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, log := &stuckWriter{gate: make(chan struct{})}, &bytes.Buffer{}
		a := NewAccess(out, slog.New(slog.NewTextHandler(log, nil)), NewMetrics())
		stop, end := context.WithCancel(t.Context())
		cut, abandon := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(stop, cut) }()
		if err := a.Set(AccessTarget{Stdout: true}); err != nil {
			t.Fatal(err)
		}
		e := accessEvent()
		a.Exchange(&e)
		abandon() // of others: this one goes on until it is its turn
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("ended before its stop")
		default:
		}
		began := time.Now()
		end()
		if err := <-done; err != nil || time.Since(began) != accessLast || !strings.Contains(log.String(), "stuck") {
			t.Errorf("ended with %v after %v; the log has %s", err, time.Since(began), log)
		}
		close(out.gate) // so that the bubble ends
	})
}
