package admin

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	apiPath = "/api/v1"

	// maxBody bounds the bodies of requests.
	maxBody = 64 << 10
	// bulkTimeout is how long a change of many messages may take.
	bulkTimeout = time.Hour
)

//go:embed openapi.yaml
var openAPI []byte

// api serves /api/v1.
type api struct {
	present  func() Queue
	gateway  Gateway
	tests    SelfTest // nil: there is none
	happened *Events
	audit    *Audit
	ready    func() []string
	degraded func() []string
	version  string
	trusted  bool // every caller has shown the token
	stopped  bool // there is no gateway, only its store
	log      *slog.Logger
	mux      *http.ServeMux
	refuse   func(r *http.Request, e *refusal) // notes a refusal
}

// An endpoint is one method of one path. do returns what the answer's JSON
// is, nil for 204.
type endpoint struct {
	method string
	path   string
	params []string // of the query
	body   kindOfBody
	do     func(*api, *call) (any, error)
}

// kindOfBody is what a request of an endpoint brings.
type kindOfBody uint8

const (
	noBody   kindOfBody = iota
	jsonBody            // one object
	fileBody            // exported messages, read while they are taken up
)

// A call is a request that an endpoint can take.
type call struct {
	r     *http.Request
	query url.Values
	body  []byte
	file  io.Reader // of a fileBody

	before, after any  // what is changed, for the audit file
	told          bool // the change has its line
}

func (c *call) path(name string) string { return c.r.PathValue(name) }

var (
	filterParams = []string{"state", "operation", "since", "text"}
	listParams   = append(slices.Clone(filterParams), "after", "limit")
	exportParams = append(slices.Clone(filterParams), "whole")
)

// endpoints are all of the API; openapi.yaml describes exactly these.
var endpoints = []endpoint{
	{"GET", "/openapi.yaml", nil, noBody, (*api).describe},
	{"GET", "/status", nil, noBody, (*api).status},
	{"GET", "/routes", nil, noBody, (*api).routes},
	{"GET", "/backends", nil, noBody, (*api).backends},
	{"GET", "/links", nil, noBody, (*api).links},
	{"GET", "/history", nil, noBody, (*api).history},
	{"GET", "/config", nil, noBody, (*api).configuration},
	{"POST", "/reload", nil, noBody, (*api).reload},
	{"GET", "/events", nil, noBody, (*api).events},
	{"GET", "/queues", nil, noBody, (*api).queues},
	{"GET", "/queues/{route}/messages", listParams, noBody, (*api).list},
	{"POST", "/queues/{route}/pause", nil, noBody, (*api).pause},
	{"POST", "/queues/{route}/resume", nil, noBody, (*api).resume},
	{"POST", "/queues/{route}/flush", nil, noBody, (*api).flush},
	{"POST", "/queues/{route}/hold", nil, noBody, (*api).hold},
	{"POST", "/queues/{route}/release", nil, noBody, (*api).release},
	{"POST", "/queues/{route}/replay", nil, jsonBody, (*api).replayAll},
	{"POST", "/queues/{route}/drop", nil, jsonBody, (*api).dropAll},
	{"GET", "/queues/{route}/export", exportParams, noBody, (*api).export},
	{"POST", "/queues/import", []string{"to"}, fileBody, (*api).importFile},
	{"POST", "/queues/move", nil, jsonBody, (*api).move},
	{"GET", "/messages/{id}", nil, noBody, (*api).show},
	{"POST", "/messages/{id}/replay", nil, noBody, (*api).replay},
	{"DELETE", "/messages/{id}", nil, noBody, (*api).drop},
	{"GET", "/selftest", nil, noBody, (*api).selfTests},
	{"POST", "/selftest", nil, jsonBody, (*api).startSelfTest},
	{"POST", "/selftest/cancel", nil, noBody, (*api).cancelSelfTest},
	{"GET", "/selftest/{run}", nil, noBody, (*api).selfTestResults},
	{"GET", "/selftest/{run}/report", nil, noBody, (*api).selfTestPage},
	{"POST", "/store/backup", nil, noBody, (*api).backup},
	{"POST", "/store/scrub", nil, noBody, (*api).scrub},
}

// newAPI returns the API for o, whose defaults are filled in.
func newAPI(o Options) *api {
	a := &api{
		present: o.Queue, gateway: o.Gateway, tests: o.SelfTest, happened: o.Events, audit: o.Audit, ready: o.Ready, degraded: o.Degraded,
		version: o.Version, trusted: o.Token != "", log: o.Log, mux: http.NewServeMux(), refuse: func(*http.Request, *refusal) {},
	}
	byPath := map[string]map[string]*endpoint{}
	for i := range endpoints {
		e := &endpoints[i]
		if byPath[e.path] == nil {
			byPath[e.path] = map[string]*endpoint{}
		}
		byPath[e.path][e.method] = e
	}
	for path, methods := range byPath {
		a.mux.Handle(apiPath+path, a.methods(methods))
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		e := &refusal{kind: kindPath, detail: "see " + apiPath + "/openapi.yaml"}
		a.refuse(r, e)
		e.answer(w, r)
	})
	return a
}

// Local returns the API over q for this process alone: nothing guards it, and
// what needs a running gateway is refused by q itself. The store of a gateway
// that is stopped is operated through it, by the code that operates a running one.
func Local(q Queue, opt Options) http.Handler {
	opt.Queue = func() Queue { return q }
	a := newAPI(opt.withDefaults())
	a.stopped = true
	a.trusted = true // there is no browser between
	return a
}

// queue is what there is to show at this moment.
func (a *api) queue() Queue {
	if q := a.present(); q != nil {
		return q
	}
	return noQueue{}
}

// isAPI tells the paths of the API, also those that it does not have.
func isAPI(path string) bool { return path == apiPath || strings.HasPrefix(path, apiPath+"/") }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// methods serves one path.
func (a *api) methods(by map[string]*endpoint) http.Handler {
	allow := slices.Collect(maps.Keys(by))
	if by["GET"] != nil {
		allow = append(allow, "HEAD")
	}
	slices.Sort(allow)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		e := by[method]
		if e == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			e := &refusal{kind: kindMethod, detail: "only " + strings.Join(allow, ", ") + " are served here"}
			a.refuse(r, e)
			e.answer(w, r)
			return
		}
		a.serve(w, r, e)
	})
}

// serve answers one request.
func (a *api) serve(w http.ResponseWriter, r *http.Request, e *endpoint) {
	c, err := a.accept(w, r, e)
	var result any
	if err == nil {
		if e.method != http.MethodGet && a.audit != nil {
			c.before = a.look(c)
		}
		result, err = e.do(a, c)
	}
	if err != nil {
		e := asRefusal(err)
		if c == nil || !c.told { // what a handler has tried has its line
			a.refuse(r, e)
		}
		e.answer(w, r)
		return
	}
	switch v := result.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case stream:
		a.sendStream(w, r, v)
	case rawJSON:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(v)
	case *page:
		v.answer(w)
	case yamlText:
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(v)
	case watch:
		a.serveEvents(w, r)
	case *download:
		v.answer(a, w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v) // the connection is gone
	}
}

// accept checks what holds for every endpoint and reads the body.
func (a *api) accept(w http.ResponseWriter, r *http.Request, e *endpoint) (*call, error) {
	c := &call{r: r}
	if e.method != http.MethodGet && !a.trusted {
		if why := formLike(r); why != "" {
			return nil, refusef(kindOrigin, "%s", why)
		}
	}
	if id := r.PathValue("id"); id != "" && !plainID(id) {
		return nil, refusef(kindParameter, "%s is no message id", quote(id))
	}
	if route := r.PathValue("route"); !plainRoute(route) {
		return nil, refusef(kindRoute, "no route %s stores messages or has stored any", quote(route))
	}
	if id := r.PathValue("run"); id != "" && !plainID(id) {
		return nil, refusef(kindParameter, "%s is no id of a self-test", quote(id))
	}
	var err error
	if c.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return nil, refusef(kindParameter, "the query cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.query)) {
		if !slices.Contains(e.params, name) {
			return nil, refusef(kindParameter, "there is no parameter %s here", quote(name))
		}
		if len(c.query[name]) > 1 {
			return nil, refusef(kindParameter, "parameter %s is given more than once", name)
		}
	}
	if e.body == fileBody {
		return c, c.open(w)
	}
	if e.body == jsonBody {
		if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
			return nil, refusef(kindType, "send what is meant as application/json; for a filter {} is all messages of the route")
		}
		// Many messages may be changed, one sync of the disk after the other.
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Now().Add(bulkTimeout))
	}
	if c.body, err = readBody(w, r); err != nil {
		return nil, err
	}
	if e.body == jsonBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bulkTimeout)) // else the context ends
	} else if len(c.body) > 0 {
		return nil, refusef(kindBody, "no body is expected here")
	}
	return c, nil
}

// formLike says why a change without a token may be what a form on any page sends.
// Browsers that tell nothing of where a request comes from send only that from a
// foreign page.
func formLike(r *http.Request) string {
	for _, v := range r.Header.Values("Content-Type") {
		t, _, err := mime.ParseMediaType(v)
		if err != nil || t == "application/x-www-form-urlencoded" || t == "multipart/form-data" || t == "text/plain" {
			return "the media type is one that a form of any page can send: use application/json"
		}
	}
	return ""
}

// readBody reads a body of at most maxBody.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, refusef(kindLarge, "at most %d octets are read", maxBody)
	}
	if err != nil {
		return nil, refusef(kindBody, "the body breaks off")
	}
	return b, nil
}

// plainID reports whether an id is made of what ids of messages are made of.
func plainID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return len(id) <= 128
}

// plainRoute reports whether a name is made of what names of routes are made of, and of
// those under which the gateway itself stores.
func plainRoute(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.@:", c) >= 0:
		default:
			return false
		}
	}
	return len(name) <= 128
}

// changed tells who has changed what, also when it failed: the log, the audit file
// and whoever watches.
func (a *api) changed(c *call, action string, err error, what ...any) {
	c.told = true
	args := append([]any{"action", action}, what...)
	args = append(args, "client", c.r.RemoteAddr, "token", a.trusted && !a.stopped)
	ctx := context.WithoutCancel(c.r.Context())
	line := &auditLine{
		Action: action, Result: "done", Client: cmp.Or(c.r.RemoteAddr, "local"), Token: a.trusted && !a.stopped, Agent: agent(c.r),
		What: pairs(what), Before: c.before, After: c.after,
	}
	if c.after == nil && c.r.Method != http.MethodGet && a.audit != nil {
		line.After = a.look(c)
	}
	e := Event{Kind: EventChange, OK: err == nil, Route: c.r.PathValue("route"), Text: action}
	if id := c.r.PathValue("id"); id != "" {
		e.Text += " " + id
	}
	if err != nil {
		line.Result, line.Error = "failed", err.Error()
		e.Text += ": " + err.Error()
		a.log.WarnContext(ctx, "admin change failed", append(args, "err", err)...)
	} else {
		a.log.InfoContext(ctx, "admin change", args...)
	}
	a.audit.write(line)
	a.happened.Publish(e)
}

// look is what a request is about as it is now: a message or a route. nil for
// neither, or what is not there.
func (a *api) look(c *call) any {
	if id := c.r.PathValue("id"); id != "" {
		if d, err := a.queue().Get(id); err == nil {
			return d.Entry
		}
		return nil
	}
	if route := c.r.PathValue("route"); route != "" {
		for _, s := range a.queue().Stats() {
			if s.Route == route {
				return s
			}
		}
	}
	return nil
}

// number reads a parameter that counts.
func (c *call) number(name string, most int) (int, error) {
	v := c.query.Get(name)
	if v == "" && !c.query.Has(name) {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return 0, refusef(kindParameter, "%s must be a number from 1 to %d, got %s", name, most, quote(v))
	}
	return n, nil
}
