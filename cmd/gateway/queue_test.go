package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"soapway/internal/admin"
	"soapway/queue"
)

var storedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// makeStore makes a store with one message of each kind.
func makeStore(dir string) error {
	s, err := openTestStore(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	var errs []error
	put := func(m *queue.Message) {
		_, err := s.Put(ctx, m)
		errs = append(errs, err)
	}
	put(&queue.Message{
		ID: "0190-waiting-1", Route: "orders", Destination: "orders", Lane: "customer 7", Operation: "placeOrder", Accepted: storedAt,
		Body: []byte("<soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\r\n <soap:Body><o:placeOrder xmlns:o=\"urn:o\"/></soap:Body>\r\n</soap:Envelope>"),
	})
	errs = append(errs, s.SaveAttempts("0190-waiting-1", []queue.AttemptRecord{
		{N: 1, At: storedAt.Add(time.Second), Reason: "connection refused"},
		{N: 2, At: storedAt.Add(5 * time.Second), Reason: "no answer in 30s", Maybe: true, NotBefore: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
	}))
	// The caller has written what a terminal would take for commands.
	put(&queue.Message{ID: "0190-waiting-2", Route: "orders", Destination: "orders", Lane: "\x1b[31m", Operation: "cancelOrder", Accepted: storedAt.Add(time.Minute), Body: []byte("<a>\x1b]0;owned\x07\u009b31m</a>")})
	put(&queue.Message{ID: "0190-orphan", Route: "old", Destination: "old", Operation: "placeOrder", Accepted: storedAt.Add(time.Hour), Body: []byte("<b/>")})
	errs = append(errs, s.Bury(ctx, &queue.DeadLetter{
		Message: &queue.Message{ID: "0190-dead-1", Route: "orders", Destination: "orders", Operation: "placeOrder", Accepted: storedAt, Body: []byte("<c/>\n")},
		Died:    storedAt.Add(2 * time.Second), Reason: "permanent", Text: "500 fault Client",
		Attempts: []queue.AttemptRecord{{N: 1, At: storedAt.Add(time.Second), Status: 500, Reason: "fault Client"}},
		Reply:    []byte("<fault/>"), ReplyType: "text/xml",
	}), s.Bury(ctx, &queue.DeadLetter{
		Message: &queue.Message{ID: "0190-dead-2", Route: "orders", Destination: "orders", Operation: "cancelOrder", Accepted: storedAt.Add(time.Hour), Body: []byte("\xff\xfe<\x00")},
		Died:    storedAt.Add(121 * time.Hour), Reason: "expired", Text: "not delivered in time",
	}))
	return errors.Join(append(errs, s.Close())...)
}

func openTestStore(dir string) (*queue.Embedded, error) {
	return queue.OpenEmbedded(queue.StoreOptions{Dir: dir, Durability: queue.Relaxed, MinFree: -1})
}

// scriptMakeStore makes a store; with unclean it is one whose gateway was killed.
func scriptMakeStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 || len(args) == 2 && args[1] != "unclean" {
		ts.Fatalf("usage: make-store DIR [unclean]")
	}
	ts.Check(makeStore(ts.MkAbs(args[0])))
	if len(args) == 2 {
		name := filepath.Join(ts.MkAbs(args[0]), "store.json")
		b, err := os.ReadFile(name)
		ts.Check(err)
		killed := bytes.Replace(b, []byte(`"clean": true`), []byte(`"clean": false`), 1)
		if bytes.Equal(b, killed) {
			ts.Fatalf("store.json does not say that it is clean:\n%s", b)
		}
		ts.Check(os.WriteFile(name, killed, 0o600))
	}
}

// scriptHoldStore keeps a store open in the test's own process until the end of
// the script.
func scriptHoldStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hold-store DIR")
	}
	s, err := openTestStore(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { _ = s.Close() })
}

func scriptCutFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: cut-file FROM TO N")
	}
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	if n > len(b) {
		ts.Fatalf("%s has %d octets", args[0], len(b))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b[:len(b)-n], 0o600))
}

func scriptFirstID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: first-id NAME")
	}
	var m admin.Entry
	ts.Check(json.NewDecoder(strings.NewReader(ts.ReadFile("stdout"))).Decode(&m))
	if m.ID == "" {
		ts.Fatalf("no id in %s", ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m.ID)
}

func TestAdminURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:8081":   "http://127.0.0.1:8081",
		"http://127.0.0.1:8081/":  "http://127.0.0.1:8081",
		"https://gw.example":      "https://gw.example",
		"127.0.0.1:8081":          "http://127.0.0.1:8081",
		"[::1]:8081":              "http://[::1]:8081",
		"":                        "",
		"ftp://gw.example":        "",
		"http://gw.example/admin": "",
		"http://u:p@gw.example":   "",
		"http://gw.example?x":     "",
		"http://":                 "",
		"http://gw example":       "",
	} {
		got, err := adminURL(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("adminURL(%q): got %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestAdminBase(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:8081": "http://127.0.0.1:8081",
		"10.0.0.5:8081":  "http://10.0.0.5:8081",
		"0.0.0.0:8081":   "http://127.0.0.1:8081",
		":8081":          "http://127.0.0.1:8081",
		"[::]:8081":      "http://[::1]:8081",
		"localhost:8081": "http://localhost:8081",
		"127.0.0.1:0":    "",
	} {
		if got := adminBase(in, false); got != want {
			t.Errorf("adminBase(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestSinceTime(t *testing.T) {
	now := storedAt
	for in, want := range map[string]time.Time{
		"2026-01-31T12:00:00+01:00": time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC),
		"2026-01-31":                time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
		"90m":                       now.Add(-90 * time.Minute),
		"3d":                        now.AddDate(0, 0, -3),
		"0s":                        now,
		"":                          {},
		"-1h":                       {},
		"-1d":                       {},
		"yesterday":                 {},
		"d":                         {},
	} {
		got, ok := sinceTime(in, now)
		if ok != !want.IsZero() || ok && !got.Equal(want) {
			t.Errorf("sinceTime(%q): got %v, %v, want %v", in, got, ok, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0: "0s", 1499 * time.Millisecond: "1s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 3661 * time.Second: "1h1m",
		24*time.Hour - time.Millisecond: "1d0h", 100*time.Hour + time.Minute: "4d4h",
	} {
		if got := age(in); got != want {
			t.Errorf("age(%v): got %s, want %s", in, got, want)
		}
	}
	for in, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 5 << 40: "5.0 TiB", 1 << 60: "1048576.0 TiB"} {
		if got := size(in); got != want {
			t.Errorf("size(%d): got %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"a\tb\r\nc": "a b  c", "\x1b[31m": "\ufffd[31m", "\u009b\u202e": "\ufffd\ufffd", "\xff": "\ufffd", "0123456789": "01234567…", "é": "é"} {
		if got := clean(in, 8); got != want {
			t.Errorf("clean(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestPrintRoutes(t *testing.T) {
	var b bytes.Buffer
	now := storedAt
	err := printRoutes(&b, []admin.RouteStats{
		{Route: "billing", Destination: "sap"},
		{Route: "old", Orphaned: 2, Bytes: 2048, Oldest: now.Add(-100 * time.Hour)},
		{Route: "orders", Destination: "erp", Pending: 12, Retrying: 3, Dead: 1, InFlight: 4, Bytes: 3 << 20, Oldest: now.Add(-time.Minute), Paused: true, Down: true, NextProbe: now.Add(5 * time.Second), LastError: "connection\nrefused"},
		{Route: "parts", Destination: "plm", Held: "operator"},
		{Route: "prices", Destination: "crm", Held: "credentials", NextProbe: now.Add(time.Minute)},
		{Route: "stock", Destination: "wms", Down: true, Loading: true, NextProbe: now.Add(-time.Second)},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := `
ROUTE    BACKEND  PENDING  RETRYING  DEAD  ORPHANED  UNDER WAY  SIZE     OLDEST  STATE
billing  sap      0        0         0     0         0          0 B      -       ok
old      -        0        0         0     2         0          2.0 KiB  4d4h    route is gone
orders   erp      12       3         1     0         4          3.0 MiB  1m0s    paused; down, asked again in 5s: connection refused
parts    plm      0        0         0     0         0          0 B      -       backend is held
prices   crm      0        0         0     0         0          0 B      -       backend refuses the gateway's credentials, asked again in 1m0s
stock    wms      0        0         0     0         0          0 B      -       loading; down, asked again in 0s
`
	if diff := cmp.Diff(want[1:], b.String()); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// TestQueueAnswers: what answers at the address may be anything.
func TestQueueAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a web page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "no gateway that this program knows (status 200 OK)"},
		{"nothing at the path", http.NotFound, "no gateway that this program knows (status 404 Not Found)"},
		{"JSON that is none", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{"))
		}, "no gateway that this program knows"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "no gateway that this program knows (status 302 Found)"},
		{"nothing", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no answer from the gateway at "},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}, "broke off"},
		{"a problem", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"type":"urn:soapway:problem:store-full","title":"x","status":503,"detail":"5 octets are free","count":2}`))
		}, "gateway: error: 5 octets are free (2 messages done before)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.answer)
			defer s.Close()
			code, stdout, stderr := run(t, "", "queue", "ls", "--admin", s.URL)
			if code != exitProblem || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("got exit %d, stdout %q, stderr %q, want %q", code, stdout, stderr, tt.want)
			}
		})
	}
}
