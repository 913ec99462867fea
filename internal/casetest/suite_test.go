package casetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
)

// An object is a JSON object of a case file.
type object = map[string]any

// A testCase is one folder of CASES.
type testCase struct {
	ID, Title, Kind, Transport string
	dir                        string
	doc                        object
}

// casesDir is the folder of the cases, or "" if there is none.
func casesDir() string {
	dir := os.Getenv("CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// loadCases reads every case, in the order of their ids.
var loadCases = sync.OnceValues(func() ([]*testCase, error) {
	paths, err := filepath.Glob(filepath.Join(casesDir(), "*", "case.json"))
	if err != nil || len(paths) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no case.json below %q", casesDir()))
	}
	var cases []*testCase
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		c := &testCase{dir: filepath.Dir(p)}
		if err := errors.Join(json.Unmarshal(b, &c.doc), json.Unmarshal(b, c)); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
})

func needCases(t *testing.T) []*testCase {
	t.Helper()
	if casesDir() == "" {
		t.Skip("no folder of acceptance cases: set CASES")
	}
	cases, err := loadCases()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// file reads a file of the case.
func (c *testCase) file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c *testCase) expect() object { o, _ := c.doc["expect"].(object); return o }

// A variant is a change of the base request or response; the base itself has
// no name.
type variant struct {
	Name string
	doc  object
}

func (c *testCase) variants() (out []variant) {
	list, _ := c.doc["variants"].([]any)
	for _, v := range list {
		o := v.(object)
		out = append(out, variant{o["name"].(string), o})
	}
	return out
}

// informal keys explain; they expect nothing.
var informal = []string{"note", "when", "meaning", "level", "name", "why"}

// flatten lists the leaves of an expectation with their paths. Texts in a list
// are part of the path, so that a check names what it asserts.
func flatten(path string, v any, leaf func(path string)) {
	switch v := v.(type) {
	case object:
		for k, x := range v {
			if !slices.Contains(informal, k) {
				flatten(join(path, k), x, leaf)
			}
		}
	case []any:
		for i, x := range v {
			if s, ok := x.(string); ok {
				leaf(join(path, s))
			} else {
				flatten(join(path, fmt.Sprint(i)), x, leaf)
			}
		}
	default:
		leaf(path)
	}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "/" + b
}

// claims is the account of what was asserted: a case whose account is not
// complete fails, so that nothing passes by not being looked at.
type claims struct{ open map[string]bool }

func newClaims(c *testCase) *claims {
	cl := &claims{map[string]bool{}}
	add := func(p string) { cl.open[p] = true }
	flatten("", c.expect(), add)
	for _, v := range c.variants() {
		flatten("variant "+v.Name, v.doc["expect"], add)
	}
	delete(cl.open, "")
	for p := range cl.open { // a variant without an expectation has an empty leaf
		if !strings.Contains(p, "/") && strings.HasPrefix(p, "variant ") {
			if s, ok := c.variantExpect(strings.TrimPrefix(p, "variant ")).(string); !ok || s == "" {
				delete(cl.open, p)
			}
		}
	}
	return cl
}

func (c *testCase) variantExpect(name string) any {
	for _, v := range c.variants() {
		if v.Name == name {
			return v.doc["expect"]
		}
	}
	return nil
}

// claim marks a leaf and all below it as asserted.
func (cl *claims) claim(path string) {
	for p := range cl.open {
		if p == path || strings.HasPrefix(p, path+"/") {
			cl.open[p] = false
		}
	}
}

func (cl *claims) has(path string) bool {
	for p := range cl.open {
		if p == path || strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return false
}

func (cl *claims) unasserted() (left []string) {
	for p, open := range cl.open {
		if open {
			left = append(left, p)
		}
	}
	sort.Strings(left)
	return left
}

// A run is one case under test: what was sent and what came of it.
type run struct {
	*testCase
	f    *fixture
	by   map[string]*outcome // by variant name, "" = base
	cl   *claims
	list []*outcome

	follow *gateway // see following
	logged int      // octets of the gateway's log when the case began
}

// An outcome is one exchange of a case.
type outcome struct {
	name   string
	target string
	fields fields
	body   []byte // content as the case gives it
	doc    []byte // the same without its content coding
	a      *answer
	calls  []*call
	reply  []byte // what the backend answered, if scripted; head and body
}

// sole is the one complete request that the backend must have got.
func (o *outcome) sole(t testing.TB) *call {
	t.Helper()
	if len(o.calls) != 1 || o.calls[0].Err != nil {
		t.Fatalf("%s: the backend got %d requests, want one complete; the client got %s", o.label(), len(o.calls), o.a)
	}
	return o.calls[0]
}

func (o *outcome) label() string {
	if o.name == "" {
		return "base"
	}
	return o.name
}

// A driver makes the exchanges of a case that needs more than one plain POST
// per variant.
type driver func(t *testing.T, r *run)

// A check asserts what one leaf of the expectations says in prose.
type check func(t *testing.T, r *run)

func TestCases(t *testing.T) {
	cases := needCases(t)
	known := map[string]bool{}
	for _, c := range cases {
		known[c.ID] = true
	}
	for id := range notYet {
		if !known[id] {
			t.Errorf("notYet names %q, which is no case", id)
		}
	}
	for _, c := range cases {
		t.Run(filepath.Base(c.dir), func(t *testing.T) {
			if why, ok := notYet[c.ID]; ok {
				t.Skipf("not yet: %s", why)
			}
			runCase(t, c)
		})
	}
}

func runCase(t *testing.T, c *testCase) {
	table, ok := caseChecks[c.ID]
	if !ok {
		t.Fatalf("case %s is neither asserted (caseChecks) nor listed in notYet", c.ID)
	}
	r := &run{testCase: c, f: shared(t), by: map[string]*outcome{}, cl: newClaims(c)}
	r.logged = len(r.f.g.log.String())
	drive := drivers[c.ID]
	if drive == nil {
		drive = drivePlain
	}
	if !t.Run("exchange", func(t *testing.T) { drive(t, r) }) {
		return
	}
	for _, o := range r.list {
		t.Run("answer "+o.label(), func(t *testing.T) { evaluate(t, r, o) })
	}
	for _, path := range slices.Sorted(maps.Keys(table)) {
		if !r.cl.has(path) {
			t.Errorf("the check %q is about nothing in case.json", path)
			continue
		}
		r.cl.claim(path)
		t.Run(path, func(t *testing.T) { table[path](t, r) })
	}
	for _, left := range r.cl.unasserted() {
		t.Errorf("expectation %q is asserted by no check", left)
	}
	if err := r.f.g.logProblems(); err != nil {
		t.Error(err)
	}
}

// add records an outcome.
func (r *run) add(o *outcome) *outcome {
	r.by[o.name] = o
	r.list = append(r.list, o)
	return o
}

// drivePlain posts the base and every variant by itself.
func drivePlain(t *testing.T, r *run) {
	r.postVariant(t, "/depot", variant{"", object{}})
	for _, v := range r.variants() {
		r.postVariant(t, "/depot", v)
	}
}

// postVariant posts one message below the given route prefix.
func (r *run) postVariant(t testing.TB, prefix string, v variant) *outcome {
	t.Helper()
	o := r.message(t, prefix, v)
	r.f.http.reset()
	if res := r.reply(t, v); res != nil {
		o.reply = res
		r.f.http.answerWith(res)
	}
	o.a = post(t, r.f.g.addr["http"], o.target, o.fields, o.body)
	o.calls = r.f.http.got()
	return r.add(o)
}

// message builds the request of a variant.
func (r *run) message(t testing.TB, prefix string, v variant) *outcome {
	t.Helper()
	req := r.doc["request"].(object)
	name := fmt.Sprint(req["body_file"])
	if b, ok := v.doc["body"].(string); ok {
		name = b
	}
	o := &outcome{name: v.Name, target: prefix + strings.TrimPrefix(fmt.Sprint(req["path"]), "/depot"), body: r.file(t, name)}
	o.doc = o.body
	base, _ := req["headers"].(object)
	for _, k := range slices.Sorted(maps.Keys(base)) {
		o.fields = append(o.fields, field{k, fmt.Sprint(base[k])})
	}
	over, _ := v.doc["headers"].(object)
	for _, k := range slices.Sorted(maps.Keys(over)) {
		o.fields = o.fields.without(k)
		if over[k] != nil {
			o.fields = append(o.fields, field{k, fmt.Sprint(over[k])})
		}
	}
	return o
}

// reply is the scripted answer of the backend, nil for the default one.
func (r *run) reply(t testing.TB, v variant) []byte {
	t.Helper()
	res, ok := v.doc["response"].(object)
	if !ok {
		if res, ok = r.doc["response"].(object); !ok {
			return nil
		}
	}
	var f fields
	hdr, _ := res["headers"].(object)
	for _, k := range slices.Sorted(maps.Keys(hdr)) {
		f = append(f, field{k, fmt.Sprint(hdr[k])})
	}
	status := int(res["status"].(float64))
	var body []byte
	switch name, _ := res["body_file"].(string); {
	case name != "":
		body = r.file(t, name)
	case v.Name == "503-html" || v.Name == "200-html": // case 35 says it in the base only
		body = r.file(t, "response.bin")
	}
	line := fmt.Sprintf("HTTP/1.1 %d Scripted", status)
	switch {
	case f.has("Transfer-Encoding"):
		return append(appendHead(nil, line, f), chunked(body)...)
	case status == 204 || f.has("Content-Length"):
		return append(appendHead(nil, line, f), body...)
	}
	return response(status, f, body)
}
