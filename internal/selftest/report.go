package selftest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"soapway/internal/durable"
)

// The reasons for which nothing is started, cancelled or shown.
var (
	ErrRunning    = errors.New("a self-test is running already")
	ErrNotRunning = errors.New("no self-test is running")
	ErrTest       = errors.New("there is no such self-test")
	ErrReport     = errors.New("there is no such report")
	ErrStopping   = errors.New("the gateway is stopping")
	ErrRoom       = errors.New("there is too little room on the disk for a self-test")
)

// A Test is a self-test that can be chosen.
type Test struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	About string `json:"about"` // what it measures
	// Seconds is how long it usually takes, Limit after how many it is ended.
	Seconds int `json:"seconds"`
	Limit   int `json:"limit_seconds"`

	args []string // of gateway bench
}

// Tests are those that can be chosen, the quick ones, in the order in which they are
// offered.
var Tests = []Test{
	{Name: "ping", Title: "One caller", About: "SOAP messages a second of one caller, by every pair of sender and receiver.", Seconds: 10, Limit: 120, args: []string{"ping"}},
	{Name: "threads", Title: "Many callers", About: "How many callers are served in time, each with a message a second.", Seconds: 45, Limit: 180, args: []string{"threads", "--find-max"}},
	{Name: "queue", Title: "Stored messages", About: "Messages accepted and delivered a second, synced to this disk, and how a backlog drains.", Seconds: 60, Limit: 240, args: []string{"queue", "--senders", "1,64"}},
	{Name: "startup", Title: "Start and stop", About: "How long a gateway takes from its start to the first right reply.", Seconds: 10, Limit: 120, args: []string{"startup"}},
	{Name: "mem", Title: "Memory", About: "What a gateway holds in memory when idle, and for each connection.", Seconds: 5, Limit: 120, args: []string{"mem"}},
	{Name: "limits", Title: "This machine", About: "What the machine allows at most: round trips, loopback, memory, the clock and the disk.", Seconds: 3, Limit: 60, args: []string{"limits"}},
	{Name: "all", Title: "Everything", About: "Every test, one after the other, beside the figures of the founding documents.", Seconds: 150, Limit: 420, args: []string{"all"}},
}

// find is a test by its name, nil if there is none.
func find(name string) *Test {
	for i := range Tests {
		if Tests[i].Name == name {
			return &Tests[i]
		}
	}
	return nil
}

// The results of a self-test.
const (
	Done      = "done"      // there are results; the verdict says how far they can be believed
	Cancelled = "cancelled" // by somebody, or by the stop of the gateway
	Late      = "late"      // it was not done in time, and was ended
	Failed    = "failed"    // there are no results
)

// A Report is a self-test that is over.
type Report struct {
	ID      string    `json:"id"`
	Test    string    `json:"test"` // name of a [Test]
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"` // how long it took
	Result  string    `json:"result"`  // done, cancelled, late, failed
	// Verdict is one line on results, Error why there are none.
	Verdict string `json:"verdict,omitempty"`
	Error   string `json:"error,omitempty"`
	// Good says that every row can be believed and nothing was wrong.
	Good bool `json:"good,omitempty"`
}

const (
	reportName  = "report.json"
	resultsName = "results.json"
	pageName    = "report.html"
	workName    = "work"

	// maxFile bounds what is read of a file of a report.
	maxFile = 32 << 20
)

// reports are those of a folder, the latest first. What cannot be read is left out.
func reports(dir string) []Report {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // there was no self-test yet
	}
	var list []Report
	for _, e := range entries {
		if r, err := readReport(filepath.Join(dir, e.Name())); err == nil && r.ID == e.Name() {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b Report) int { return strings.Compare(b.ID, a.ID) })
	return list
}

func readReport(dir string) (*Report, error) {
	b, err := readBounded(filepath.Join(dir, reportName))
	if err != nil {
		return nil, err
	}
	r := &Report{}
	return r, json.Unmarshal(b, r)
}

func (r *Report) write(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, reportName), append(b, '\n'), 0o600)
}

// conclude reads what a self-test has left in its folder: its verdict.
func (r *Report) conclude(dir string) error {
	b, err := readBounded(filepath.Join(dir, resultsName))
	if err != nil {
		return err
	}
	var results struct {
		Verdict string            `json:"verdict"`
		Tests   []json.RawMessage `json:"tests"`
		Limits  json.RawMessage   `json:"limits"`
	}
	switch err := json.Unmarshal(b, &results); {
	case len(b) == 0:
		return errors.New("it has written no results")
	case err != nil:
		return fmt.Errorf("its results cannot be read: %w", err)
	case len(results.Tests) == 0 && len(results.Limits) == 0:
		return errors.New("its results are empty")
	}
	r.Verdict = results.Verdict
	return nil
}

// readBounded reads a regular file of at most maxFile octets.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid})
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is longer than %d octets", name, maxFile)
	}
	return b, err
}

// isID reports whether a text may be the id of a report, and so the name of a folder.
func isID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return len(id) > 0 && len(id) <= 40
}
