package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// audited opens an audit file and returns the way to its lines.
func audited(t *testing.T, before string) (a *Audit, lines func(name string) []map[string]any) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if before != "" {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := OpenAudit(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a, func(suffix string) (out []map[string]any) {
		t.Helper()
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			m := map[string]any{}
			if err := json.Unmarshal(line, &m); err != nil {
				continue // what was there before
			}
			out = append(out, m)
		}
		return out
	}
}

// TestAudit: who, what, when, before and after, whether it was done or not.
func TestAudit(t *testing.T) {
	a, lines := audited(t, "half a line")
	q := &scripted{get: &Detail{Entry: Entry{ID: "0190", Route: "orders", State: "dead"}}}
	opt := Options{Queue: always(q), Token: "s3cret", Audit: a}
	do := func(method, path, body string) {
		ask(opt, method, "/api/v1"+path, body, "Authorization", "Bearer s3cret", "Content-Type", jsonType, "User-Agent", "curl/8\n\x00"+strings.Repeat("x", 300))
	}
	do("GET", "/queues", "")
	do("POST", "/queues/orders/pause", "")
	do("DELETE", "/messages/0190", "")
	q.err = ErrBusy
	do("POST", "/messages/0190/replay", "")
	do("POST", "/queues/orders/drop", `{"text":"x\ny"}`)
	got := lines("")
	if len(got) != 4 {
		t.Fatalf("%d lines, want 4: %v", len(got), got)
	}
	for i, want := range []string{
		`map[action:pause after:map[bytes:0 dead:0 destination:erp in_flight:0 oldest:2026-01-02T03:04:05Z orphaned:0 pending:3 retrying:0 route:orders] before:map[bytes:0 dead:0 destination:erp in_flight:0 oldest:2026-01-02T03:04:05Z orphaned:0 pending:3 retrying:0 route:orders] client:192.0.2.1:1234 result:done token:true what:map[route:orders]]`,
		`map[action:drop after:map[accepted:0001-01-01T00:00:00Z attempts:0 id:0190 route:orders size:0 state:dead] before:map[accepted:0001-01-01T00:00:00Z attempts:0 id:0190 route:orders size:0 state:dead] client:192.0.2.1:1234 result:done token:true what:map[message:0190]]`,
		`map[action:replay after:map[accepted:0001-01-01T00:00:00Z attempts:0 id:0190 route:orders size:0 state:dead] before:map[accepted:0001-01-01T00:00:00Z attempts:0 id:0190 route:orders size:0 state:dead] client:192.0.2.1:1234 error:the message is being delivered at this moment result:failed token:true what:map[message:0190]]`,
		`map[action:drop after:map[bytes:0 dead:0 destination:erp in_flight:0 oldest:2026-01-02T03:04:05Z orphaned:0 pending:3 retrying:0 route:orders] before:map[bytes:0 dead:0 destination:erp in_flight:0 oldest:2026-01-02T03:04:05Z orphaned:0 pending:3 retrying:0 route:orders] client:192.0.2.1:1234 error:the message is being delivered at this moment result:failed token:true what:map[count:2 route:orders text:x
y]]`,
	} {
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got[i]["time"]))
		if err != nil || time.Since(at) > time.Hour {
			t.Errorf("line %d has the time %v", i, got[i]["time"])
		}
		if s, _ := got[i]["agent"].(string); !strings.HasPrefix(s, "curl/8") || len(s) > 100 {
			t.Errorf("line %d has the agent %q", i, s)
		}
		delete(got[i], "time")
		delete(got[i], "agent")
		if s := fmt.Sprint(got[i]); s != want {
			t.Errorf("line %d:\n got %s\nwant %s", i, s, want)
		}
	}
}

// TestAuditRotation: who moves the file away finds all that follows in a new one,
// with a signal or without; what is written before that stays where it is.
func TestAuditRotation(t *testing.T) {
	a, lines := audited(t, "")
	write := func(action string) { a.write(&auditLine{Action: action, Result: "done"}) }
	move := func(to string) {
		if err := os.Rename(a.path, a.path+to); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	move(".1")
	write("two") // finds out by itself
	move(".2")
	if err := a.Reopen(); err != nil { // SIGHUP
		t.Fatal(err)
	}
	write("three")
	for suffix, want := range map[string]string{".1": "one", ".2": "two", "": "three"} {
		if got := lines(suffix); len(got) != 1 || got[0]["action"] != want {
			t.Errorf("audit.log%s: got %v, want %s alone", suffix, got, want)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	write("late")
	if got := lines(""); len(got) != 1 {
		t.Errorf("a closed file was written: %v", got)
	}
	var none *Audit
	none.write(&auditLine{})
	if none.Reopen() != nil || none.Close() != nil {
		t.Error("no audit file: got an error")
	}
}

// TestAuditFileIsNone: what cannot be written is told at the start, and later in
// the log.
func TestAuditFileIsNone(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "audit.log"), os.DevNull} {
		if a, err := OpenAudit(path, slog.Default()); err == nil {
			_ = a.Close()
			t.Errorf("OpenAudit(%s): got no error", path)
		}
	}
	var log bytes.Buffer
	a, err := OpenAudit(filepath.Join(dir, "audit.log"), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_ = a.file.Close()
	q := &scripted{}
	w := ask(Options{Queue: always(q), Audit: a}, "POST", "/api/v1/queues/orders/pause", "")
	if w.Code != 204 || !strings.Contains(log.String(), "the audit file cannot be written") {
		t.Errorf("got %d and the log %q; want the change, and a line of the log", w.Code, log.String())
	}
}

// An attack is a request as somebody sends it who may not, or who means harm.
type attack struct {
	name   string
	token  string // of the gateway
	header []string
	body   string
	change func(path string) string
	status []int
	inPath bool // only where a path names something
	apiToo bool // only the API refuses it: elsewhere it changes nothing
}

const attackedToken = "correct-horse"

// parameter is a part of a path that names something.
var parameter = regexp.MustCompile(`\{[a-z]+\}`)

func naming(part string) func(string) string {
	return func(path string) string { return parameter.ReplaceAllLiteralString(path, part) }
}

func attacks() []attack {
	const token = attackedToken
	bearer := []string{"Authorization", "Bearer " + token}
	huge := strings.Repeat("x", 2*maxBody)
	return []attack{
		{name: "no token", token: token, status: []int{401}},
		{name: "wrong token", token: token, header: []string{"Authorization", "Bearer correct-hors"}, status: []int{401}},
		{name: "token as a password", token: token, header: []string{"Authorization", "Basic " + token}, status: []int{401}},
		{name: "token in the query", token: token, change: func(p string) string { return p + "?token=" + token }, status: []int{401}},
		{name: "another origin", header: []string{"Origin", "https://evil.example"}, status: []int{403}},
		{name: "another origin with the token", token: token, header: append([]string{"Origin", "https://evil.example"}, bearer...), status: []int{403}},
		{name: "another site", header: []string{"Sec-Fetch-Site", "cross-site"}, status: []int{403}},
		{name: "another port", header: []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:8080"}, status: []int{403}},
		{name: "rebound name", header: []string{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}, status: []int{421}},
		{name: "huge body", token: token, header: append([]string{"Content-Type", jsonType}, bearer...), body: huge, status: []int{413, 415}, apiToo: true},
		{name: "huge body without the token", token: token, body: huge, status: []int{401}},
		{name: "traversal", token: token, header: bearer, change: naming("..%2f..%2fgateway.yaml"), status: []int{400, 404}, inPath: true},
		{name: "dots", token: token, header: bearer, change: func(p string) string { return p + "/../../../../gateway.yaml" }, status: []int{404}},
		{name: "wildcards", token: token, header: bearer, change: naming("%2a%2f%3e"), status: []int{400, 404}, inPath: true},
		{name: "a long name", token: token, header: bearer, change: naming(strings.Repeat("a", 4000)), status: []int{400, 404}, inPath: true},
		{name: "a NUL", token: token, header: bearer, change: naming("a%00b"), status: []int{400, 404}, inPath: true},
	}
}

// TestHostile is every path of the OpenAPI document, and all else that the listener
// serves behind the token, as somebody asks for it who may not, or who means harm:
// refused, noted with who and what, nothing done and nothing told.
func TestHostile(t *testing.T) {
	targets := operations(t)
	for i := range targets {
		targets[i].path = "/api/v1" + targets[i].path
	}
	for _, path := range []string{"/metrics", "/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/trace", "/debug/pprof/symbol", "/debug/pprof/cmdline", "/api/v1", "/elsewhere"} {
		targets = append(targets, operation{"GET", path})
	}
	for _, k := range attacks() {
		for _, o := range targets {
			switch {
			case k.inPath && !strings.Contains(o.path, "{"),
				k.apiToo && (!strings.HasPrefix(o.path, "/api/v1/") || o.path == "/api/v1/queues/import"): // a file is read as it comes, see api_export.go
			default:
				k.strike(t, o)
			}
		}
	}
}

// strike makes one attack on one path.
func (k *attack) strike(t *testing.T, o operation) {
	t.Helper()
	a, lines := audited(t, "")
	q := &scripted{get: &Detail{Entry: Entry{ID: "0190"}, Envelope: []byte("<secret/>")}}
	tests := &scriptedTests{}
	path := o.path
	if k.change != nil {
		path = k.change(path)
	}
	path = strings.ReplaceAll(path, "{route}", "orders")
	path = parameter.ReplaceAllLiteralString(path, "0190")
	w := ask(Options{Queue: always(q), SelfTest: tests, Metrics: http.HandlerFunc(metrics), Token: k.token, Audit: a}, o.method, path, k.body, k.header...)
	what := k.name + ": " + o.method + " " + short(path)
	if !slices.Contains(k.status, w.Code) {
		t.Errorf("%s: got %d %.200s, want one of %v", what, w.Code, w.Body, k.status)
		return
	}
	told := w.Body.String()
	if p := asProblem(t, w); p.Status != w.Code {
		t.Errorf("%s: the problem has status %d", what, p.Status)
	}
	if len(q.did) > 0 || len(tests.did) > 0 {
		t.Errorf("%s: the queue was asked %q, the self-test %q", what, q.did, tests.did)
	}
	got := lines("")
	if len(got) != 1 || got[0]["result"] != "refused" || got[0]["client"] != "192.0.2.1:1234" || got[0]["error"] == "" {
		t.Errorf("%s: audited as %v", what, got)
	}
	told += fmt.Sprint(got)
	if strings.Contains(strings.ReplaceAll(told, "token="+attackedToken, ""), attackedToken) || strings.Contains(told, "<secret") {
		t.Errorf("%s: a secret is told: %s", what, told)
	}
}
