package admin

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"soapway/internal/selftest"
)

// scriptedTests is a SelfTest that notes what it is asked to do.
type scriptedTests struct {
	err error
	did []string
}

func (s *scriptedTests) note(format string, args ...any) error {
	s.did = append(s.did, fmt.Sprintf(format, args...))
	return s.err
}

func (s *scriptedTests) State() selftest.State {
	return selftest.State{Tests: []selftest.Test{{Name: "ping", Title: "One caller", Seconds: 5, Limit: 60}}, Reports: []selftest.Report{}}
}

func (s *scriptedTests) Start(name string) (*selftest.Running, error) {
	if err := s.note("start %s", name); err != nil {
		return nil, err
	}
	return &selftest.Running{ID: "20260102-1", Test: name, Started: accepted, Lines: []string{}}, nil
}
func (s *scriptedTests) Cancel() error { return s.note("cancel") }
func (s *scriptedTests) Results(id string) ([]byte, error) {
	return []byte(`{"schema":1}`), s.note("results %s", id)
}

func (s *scriptedTests) Page(id string) ([]byte, error) {
	return []byte("<!doctype html><style>p{}</style>"), s.note("page %s", id)
}

// TestSelfTestEndpoints: what is asked for reaches the self-test, and its errors reach
// the caller as problems.
func TestSelfTestEndpoints(t *testing.T) {
	id := "20260102-030405-000-abcdef"
	for _, tt := range []struct {
		method, path, body string
		err                error
		status             int
		did, want          string
	}{
		{"GET", "", "", nil, 200, "", `{"tests":[{"name":"ping","title":"One caller","about":"","seconds":5,"limit_seconds":60}],"reports":[]}`},
		{"POST", "", `{"test":"ping"}`, nil, 200, "start ping", `{"id":"20260102-1","test":"ping","started":"2026-01-02T03:04:05Z","seconds":0,"lines":[]}`},
		{"POST", "", `{"test":"ping"}`, selftest.ErrRunning, 409, "start ping", "selftest-running"},
		{"POST", "", `{"test":"ping"}`, fmt.Errorf("%w: 3 MiB", selftest.ErrRoom), 409, "start ping", "selftest-no-room"},
		{"POST", "", `{"test":"ping"}`, selftest.ErrStopping, 409, "start ping", "gateway-stopped"},
		{"POST", "", `{"test":"ping"}`, errors.New("disk on fire"), 500, "start ping", "internal"},
		{"POST", "", `{"test":"rm -rf"}`, selftest.ErrTest, 400, "start rm -rf", `no self-test \"rm -rf\"`},
		{"POST", "", `{}`, nil, 400, "", "bad-body"},
		{"POST", "", `{"test":"ping","args":"--dir /"}`, nil, 400, "", "bad-body"},
		{"POST", "", `{"test":["ping"]}`, nil, 400, "", "bad-body"},
		{"POST", "/cancel", "", nil, 204, "cancel", ""},
		{"POST", "/cancel", "", selftest.ErrNotRunning, 409, "cancel", "selftest-not-running"},
		{"GET", "/cancel", "", nil, 405, "", "method-not-allowed"},
		{"GET", "/" + id, "", nil, 200, "results " + id, `{"schema":1}`},
		{"GET", "/" + id, "", selftest.ErrReport, 404, "results " + id, "no-such-report"},
		{"GET", "/" + id + "/report", "", nil, 200, "page " + id, "<!doctype html>"},
		{"GET", "/" + id + "/report", "", selftest.ErrReport, 404, "page " + id, "no-such-report"},
		{"GET", "/a.b/report", "", nil, 400, "", "no id of a self-test"},
	} {
		s := &scriptedTests{err: tt.err}
		header := []string{}
		if tt.body != "" {
			header = []string{"Content-Type", jsonType}
		}
		w := ask(Options{SelfTest: s}, tt.method, "/api/v1/selftest"+tt.path, tt.body, header...)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || strings.Join(s.did, "; ") != tt.did {
			t.Errorf("%s %s %s: got %d %s and %q; want %d with %s and %q", tt.method, tt.path, tt.body, w.Code, w.Body, s.did, tt.status, tt.want, tt.did)
		}
	}
	w := ask(Options{SelfTest: &scriptedTests{}}, "GET", "/api/v1/selftest/"+id+"/report", "")
	if h := w.Header(); h.Get("Content-Disposition") != `attachment; filename="selftest-`+id+`.html"` || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
		t.Errorf("the page could be shown on this origin: %v", h)
	}
	for _, h := range []string{"", "/cancel"} {
		if w := ask(Options{}, "POST", "/api/v1/selftest"+h, `{"test":"ping"}`, "Content-Type", jsonType); w.Code != 409 && w.Code != 400 {
			t.Errorf("without a self-test: got %d", w.Code)
		}
	}
	w = httptest.NewRecorder()
	Local(&scripted{}, Options{SelfTest: &scriptedTests{}}).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/selftest", nil))
	if w.Code != 409 {
		t.Errorf("beside a stopped gateway: got %d, want 409", w.Code)
	}
}

// TestSelfTestAudit: who has started what, and who was refused.
func TestSelfTestAudit(t *testing.T) {
	a, lines := audited(t, "")
	s := &scriptedTests{}
	events := new(Events)
	opt := Options{SelfTest: s, Token: "s3cret", Audit: a, Events: events}
	start := func() {
		ask(opt, "POST", "/api/v1/selftest", `{"test":"ping"}`, "Authorization", "Bearer s3cret", "Content-Type", jsonType)
	}
	start()
	s.err = selftest.ErrRunning
	start()
	s.err = nil
	ask(opt, "POST", "/api/v1/selftest/cancel", "", "Authorization", "Bearer s3cret")
	var told []string
	_, happened, _, _ := events.subscribe("")
	for _, e := range happened {
		told = append(told, e.Kind)
	}
	if got := strings.Join(told, " "); got != "change selftest change change" {
		t.Errorf("events: got %s", got)
	}
	var got []string
	for _, l := range lines("") {
		got = append(got, fmt.Sprint(l["action"], " ", l["result"], " ", l["what"], " ", l["client"]))
	}
	want := "selftest done map[id:20260102-1 test:ping] 192.0.2.1:1234\nselftest failed map[test:ping] 192.0.2.1:1234\nselftest-cancel done <nil> 192.0.2.1:1234"
	if strings.Join(got, "\n") != want {
		t.Errorf("audited as\n%s, want\n%s", strings.Join(got, "\n"), want)
	}
}
