package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"soapway/internal/selftest"
)

// A SelfTest starts self-tests beside a running gateway and keeps their reports. Its
// errors wrap those of package selftest.
type SelfTest interface {
	// State tells what can be started, what is under way and what is over.
	State() selftest.State
	// Start starts a self-test by its name.
	Start(name string) (*selftest.Running, error)
	// Cancel ends the one that is under way, and does not wait until it is gone.
	Cancel() error
	// Results are those of a report as JSON, Page is the report as one HTML page.
	Results(id string) ([]byte, error)
	Page(id string) ([]byte, error)
}

var _ SelfTest = (*selftest.Runner)(nil)

// selfTestReasons are the problems that the errors of a SelfTest are.
var selfTestReasons = []struct {
	err  error
	kind kind
}{
	{selftest.ErrRunning, kindTesting},
	{selftest.ErrNotRunning, kindNoTest},
	{selftest.ErrReport, kindReport},
	{selftest.ErrTest, kindBody},
	{selftest.ErrRoom, kindNoRoom},
	{selftest.ErrStopping, kindStopped},
}

// selfTestProblem makes a problem of an error of a SelfTest.
func selfTestProblem(err error) error {
	for _, r := range selfTestReasons {
		if errors.Is(err, r.err) {
			return &refusal{kind: r.kind, detail: err.Error()}
		}
	}
	return err
}

// tester is what starts self-tests, if there is one.
func (a *api) tester() (SelfTest, error) {
	if a.stopped || a.tests == nil {
		return nil, ErrStopped
	}
	return a.tests, nil
}

func (a *api) selfTests(*call) (any, error) {
	t, err := a.tester()
	if err != nil {
		return nil, err
	}
	return t.State(), nil
}

func (a *api) startSelfTest(c *call) (any, error) {
	t, err := a.tester()
	if err != nil {
		return nil, err
	}
	given, _, err := c.object("")
	if err != nil {
		return nil, err
	}
	name, ok := given["test"]
	if !ok || len(given) > 1 {
		return nil, refusef(kindBody, "which self-test: give test, and nothing else")
	}
	n, err := t.Start(name)
	if errors.Is(err, selftest.ErrTest) {
		return nil, refusef(kindBody, "there is no self-test %s", quote(name))
	}
	if err != nil {
		a.changed(c, "selftest", err, "test", name)
		return nil, selfTestProblem(err)
	}
	a.changed(c, "selftest", nil, "test", name, "id", n.ID)
	a.happened.Publish(Event{Kind: EventTest, OK: true, Text: "self-test " + n.Test + " has started: this machine is loaded until it is over"})
	return n, nil
}

func (a *api) cancelSelfTest(c *call) (any, error) {
	t, err := a.tester()
	if err != nil {
		return nil, err
	}
	err = t.Cancel()
	a.changed(c, "selftest-cancel", err)
	return nil, selfTestProblem(err)
}

// rawJSON is an answer that is JSON already.
type rawJSON []byte

func (a *api) selfTestResults(c *call) (any, error) {
	t, err := a.tester()
	if err != nil {
		return nil, err
	}
	b, err := t.Results(c.path("run"))
	return rawJSON(b), selfTestProblem(err)
}

// A page is a document to be kept as a file. A browser does not show it here: it has a
// style of its own, which the policy of this origin forbids.
type page struct {
	name   string
	octets []byte
}

func (a *api) selfTestPage(c *call) (any, error) {
	t, err := a.tester()
	if err != nil {
		return nil, err
	}
	id := c.path("run")
	b, err := t.Page(id)
	return &page{fmt.Sprintf("selftest-%s.html", id), b}, selfTestProblem(err)
}

func (p *page) answer(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Disposition", `attachment; filename="`+p.name+`"`)
	h.Set("Content-Length", strconv.Itoa(len(p.octets)))
	_, _ = w.Write(p.octets) // the connection is gone
}
