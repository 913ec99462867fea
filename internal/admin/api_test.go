package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"soapway/internal/memnet"
)

var accepted = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scripted is a Queue that knows one route and one message, and notes what it
// is asked to do.
type scripted struct {
	err  error // of every change
	did  []string
	page func(Filter) ([]Entry, string, error)
	get  *Detail
	busy bool // being loaded

	file   []byte // of an export
	breaks error  // after that
}

func (q *scripted) note(format string, args ...any) error {
	q.did = append(q.did, fmt.Sprintf(format, args...))
	return q.err
}

func (q *scripted) Store() (StoreInfo, bool) {
	return StoreInfo{ID: "store", Epoch: 7, Durability: "strict", Opened: accepted}, true
}
func (q *scripted) Loaded() bool { return !q.busy }
func (q *scripted) Waiting() int { return 3 }
func (q *scripted) Stats() []RouteStats {
	return []RouteStats{{Route: "orders", Destination: "erp", Pending: 3, Oldest: accepted}}
}

func (q *scripted) List(f Filter) ([]Entry, string, error) {
	if q.page == nil {
		return nil, "", q.note("list %+v", f)
	}
	return q.page(f)
}

func (q *scripted) Get(id string) (*Detail, error) {
	if q.get == nil || id != q.get.Entry.ID {
		return nil, ErrNoMessage
	}
	return q.get, nil
}
func (q *scripted) Replay(_ context.Context, id string) error { return q.note("replay %s", id) }
func (q *scripted) Drop(_ context.Context, id string) error   { return q.note("drop %s", id) }
func (q *scripted) ReplayAll(_ context.Context, f Filter) (int, error) {
	return 2, q.note("replay all %+v", f)
}

func (q *scripted) DropAll(_ context.Context, f Filter) (int, error) {
	return 2, q.note("drop all %+v", f)
}

func (q *scripted) Move(_ context.Context, ids []string, to string) (Moved, error) {
	return Moved{Count: 1, Unknown: ids[1:]}, q.note("move %q to %s", ids, to)
}

func (q *scripted) MoveAll(_ context.Context, f Filter, to string) (Moved, error) {
	return Moved{Count: 2, Busy: 1}, q.note("move all %+v to %s", f, to)
}

func (q *scripted) Export(_ context.Context, f Filter, o ExportOptions, w io.Writer) (Exported, error) {
	if err := q.note("export %+v of %s, whole %t", f, o.Version, o.Whole); err != nil {
		return Exported{}, err
	}
	_, err := w.Write(q.file)
	if err == nil {
		err = q.breaks
	}
	return Exported{Count: 2, LeftOut: 1}, err
}

func (q *scripted) Import(_ context.Context, r io.Reader, to string) (Imported, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return Imported{}, err
	}
	return Imported{Count: 3, Known: 1}, q.note("import %q to %q", b, to)
}

func (q *scripted) Pause(_ context.Context, r string) error  { return q.note("pause %s", r) }
func (q *scripted) Resume(_ context.Context, r string) error { return q.note("resume %s", r) }
func (q *scripted) Flush(_ context.Context, r string) error  { return q.note("flush %s", r) }
func (q *scripted) Hold(_ context.Context, r string) error   { return q.note("hold %s", r) }

func (q *scripted) Release(_ context.Context, r string) error { return q.note("release %s", r) }

func always(q Queue) func() Queue { return func() Queue { return q } }

// ask sends one request to a server and returns the answer.
func ask(opt Options, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8081"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	New(memnet.Listen(), opt).http.Handler.ServeHTTP(w, r)
	return w
}

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

func TestAPI(t *testing.T) {
	long := `{"text":"` + strings.Repeat("x", maxBody) + `"}`
	tests := []struct {
		name, method, path, body string
		header                   []string
		status                   int
		problem                  string // its type
		did                      string // what the queue was asked
		want                     string // the whole body, unless it is a problem; then part of its detail
	}{
		{name: "routes", method: "GET", path: "/queues", status: 200, want: `{"queues":[{"route":"orders","destination":"erp","pending":3,"retrying":0,"dead":0,"orphaned":0,"in_flight":0,"bytes":0,"oldest":"2026-01-02T03:04:05Z"}]}`},
		{name: "status", method: "GET", path: "/status", status: 200, want: `{"version":"1.2.3","running":true,"ready":true,"store":{"id":"store","epoch":7,"clean":false,"durability":"strict","messages":0,"bytes":0,"opened":"2026-01-02T03:04:05Z"},"waiting":3}`},
		{name: "page", method: "GET", path: "/queues/orders/messages", status: 200, did: `list {Route:orders State: Operation: Since:0001-01-01 00:00:00 +0000 UTC Text: After: Limit:0}`, want: `{"messages":[]}`},
		{
			name: "page with all filters", method: "GET", path: "/queues/orders/messages?state=dead&operation=placeOrder&since=2026-01-02T04:04:05%2B01:00&text=a%26b&after=w7&limit=1000",
			status: 200, did: `list {Route:orders State:dead Operation:placeOrder Since:2026-01-02 04:04:05 +0100 +0100 Text:a&b After:w7 Limit:1000}`, want: `{"messages":[]}`,
		},
		{name: "page of no route", method: "GET", path: "/queues/odrers/messages", status: 404, problem: "no-such-route", want: `"odrers"`},
		{name: "route with a slash", method: "GET", path: "/queues/a%2Fb/messages", status: 404, problem: "no-such-route", want: `"a/b"`},
		{name: "unknown state", method: "GET", path: "/queues/orders/messages?state=lost", status: 400, problem: "bad-parameter", want: `state must be one of pending, retrying, dead, orphaned, delivered, awaiting, got "lost"`},
		{name: "empty state", method: "GET", path: "/queues/orders/messages?state=", status: 400, problem: "bad-parameter", want: "state must be"},
		{name: "unknown parameter", method: "GET", path: "/queues/orders/messages?stat=dead", status: 400, problem: "bad-parameter", want: `"stat"`},
		{name: "parameter twice", method: "GET", path: "/queues/orders/messages?limit=1&limit=2", status: 400, problem: "bad-parameter", want: "more than once"},
		{name: "parameter of another path", method: "GET", path: "/queues?limit=1", status: 400, problem: "bad-parameter", want: `"limit"`},
		{name: "broken query", method: "GET", path: "/queues/orders/messages?text=%zz", status: 400, problem: "bad-parameter", want: "cannot be read"},
		{name: "limit of none", method: "GET", path: "/queues/orders/messages?limit=0", status: 400, problem: "bad-parameter", want: "1 to 1000"},
		{name: "limit too high", method: "GET", path: "/queues/orders/messages?limit=1001", status: 400, problem: "bad-parameter", want: "1 to 1000"},
		{name: "limit of words", method: "GET", path: "/queues/orders/messages?limit=many", status: 400, problem: "bad-parameter", want: `"many"`},
		{name: "empty limit", method: "GET", path: "/queues/orders/messages?limit=", status: 400, problem: "bad-parameter", want: "1 to 1000"},
		{name: "since without a zone", method: "GET", path: "/queues/orders/messages?since=2026-01-02", status: 400, problem: "bad-parameter", want: "2026-01-02"},
		{name: "no message", method: "GET", path: "/messages/0190", status: 404, problem: "no-such-message"},
		{name: "HEAD is GET", method: "HEAD", path: "/queues", status: 200},

		{name: "replay", method: "POST", path: "/messages/0190/replay", status: 204, did: "replay 0190"},
		{name: "drop", method: "DELETE", path: "/messages/0190", status: 204, did: "drop 0190"},
		{name: "pause", method: "POST", path: "/queues/orders/pause", status: 204, did: "pause orders"},
		{name: "resume", method: "POST", path: "/queues/orders/resume", status: 204, did: "resume orders"},
		{name: "flush", method: "POST", path: "/queues/orders/flush", status: 204, did: "flush orders"},
		{name: "hold", method: "POST", path: "/queues/orders/hold", status: 204, did: "hold orders"},
		{name: "release", method: "POST", path: "/queues/orders/release", status: 204, did: "release orders"},
		{name: "pause with a body", method: "POST", path: "/queues/orders/pause", body: "{}", header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body"},
		{name: "pause with a parameter", method: "POST", path: "/queues/orders/pause?for=1h", status: 400, problem: "bad-parameter"},
		{
			name: "replay all", method: "POST", path: "/queues/orders/replay", body: " {} \n", header: []string{"Content-Type", "Application/JSON; charset=utf-8"}, status: 200,
			did: `replay all {Route:orders State: Operation: Since:0001-01-01 00:00:00 +0000 UTC Text: After: Limit:0}`, want: `{"count":2}`,
		},
		{
			name: "drop some", method: "POST", path: "/queues/orders/drop", body: `{"state":"dead","operation":"placeOrder","since":"2026-01-02T03:04:05Z","text":"permanent"}`, header: []string{"Content-Type", jsonType}, status: 200,
			did: `drop all {Route:orders State:dead Operation:placeOrder Since:2026-01-02 03:04:05 +0000 UTC Text:permanent After: Limit:0}`, want: `{"count":2}`,
		},
		{name: "replay what waits", method: "POST", path: "/queues/orders/replay", body: `{"state":"pending"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "only dead letters"},
		{name: "drop of no route", method: "POST", path: "/queues/odrers/drop", body: `{}`, header: []string{"Content-Type", jsonType}, status: 404, problem: "no-such-route"},
		{name: "drop without a filter", method: "POST", path: "/queues/orders/drop", header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "no JSON object"},
		{name: "drop without a type", method: "POST", path: "/queues/orders/drop", body: `{}`, status: 415, problem: "unsupported-media-type"},
		{name: "drop by a list", method: "POST", path: "/queues/orders/drop", body: `[]`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "no JSON object"},
		{name: "misspelt filter", method: "POST", path: "/queues/orders/drop", body: `{"txt":"a"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: `"txt"`},
		{name: "filter in capitals", method: "POST", path: "/queues/orders/drop", body: `{"State":"dead"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: `"State"`},
		{name: "filter twice", method: "POST", path: "/queues/orders/drop", body: `{"state":"dead","state":"pending"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "twice"},
		{name: "filter of null", method: "POST", path: "/queues/orders/drop", body: `{"state":null}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "no string"},
		{name: "filter of an object", method: "POST", path: "/queues/orders/drop", body: `{"state":{"x":1}}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "no string"},
		{name: "empty filter", method: "POST", path: "/queues/orders/drop", body: `{"text":""}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "is empty"},
		{name: "filter of an unknown state", method: "POST", path: "/queues/orders/drop", body: `{"state":"lost"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "state must be"},
		{name: "more behind the filter", method: "POST", path: "/queues/orders/drop", body: `{} {}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "more behind"},
		{name: "cut off filter", method: "POST", path: "/queues/orders/drop", body: `{"state":"dead"`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body"},
		{name: "comma too many", method: "POST", path: "/queues/orders/drop", body: `{"state":"dead",}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body"},
		{name: "no colon", method: "POST", path: "/queues/orders/drop", body: `{"state" "dead"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body"},
		{name: "filter not in UTF-8", method: "POST", path: "/queues/orders/drop", body: "{\"text\":\"\xff\"}", header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "UTF-8"},
		{name: "long filter", method: "POST", path: "/queues/orders/drop", body: long, header: []string{"Content-Type", jsonType}, status: 413, problem: "body-too-large"},

		{
			name: "export", method: "GET", path: "/queues/orders/export?state=dead&text=a", status: 200,
			did: `export {Route:orders State:dead Operation: Since:0001-01-01 00:00:00 +0000 UTC Text:a After: Limit:0} of 1.2.3, whole false`,
		},
		{
			name: "export, whole", method: "GET", path: "/queues/orders/export?whole=true", status: 200,
			did: `export {Route:orders State: Operation: Since:0001-01-01 00:00:00 +0000 UTC Text: After: Limit:0} of 1.2.3, whole true`,
		},
		{name: "export, half", method: "GET", path: "/queues/orders/export?whole=yes", status: 400, problem: "bad-parameter", want: "whole"},
		{name: "export of no route", method: "GET", path: "/queues/odrers/export", status: 404, problem: "no-such-route", want: "odrers"},
		{name: "export of a page", method: "GET", path: "/queues/orders/export?limit=3", status: 400, problem: "bad-parameter", want: "limit"},
		{name: "export by HEAD", method: "HEAD", path: "/queues/orders/export", status: 200},
		{name: "import", method: "POST", path: "/queues/import?to=bills", body: "a tar", header: []string{"Content-Type", "application/x-tar"}, status: 200, did: `import "a tar" to "bills"`, want: `{"count":3,"known":1,"masked":0}`},
		{name: "import of JSON", method: "POST", path: "/queues/import", body: "{}", header: []string{"Content-Type", jsonType}, status: 415, problem: "unsupported-media-type", want: "application/x-tar"},
		{name: "import by a form", method: "POST", path: "/queues/import", body: "x", header: []string{"Content-Type", "multipart/form-data; boundary=x"}, status: 403, problem: "cross-origin"},
		{name: "import to an empty route", method: "POST", path: "/queues/import?to=", body: "x", header: []string{"Content-Type", "application/x-tar"}, status: 400, problem: "bad-parameter", want: "to is empty"},
		{
			name: "move", method: "POST", path: "/queues/move", body: `{"to":"bills","from":"orders","state":"orphaned","text":"x"}`, header: []string{"Content-Type", jsonType}, status: 200,
			did: `move all {Route:orders State:orphaned Operation: Since:0001-01-01 00:00:00 +0000 UTC Text:x After: Limit:0} to bills`, want: `{"count":2,"busy":1,"damaged":0}`,
		},
		{
			name: "move by ids", method: "POST", path: "/queues/move", body: `{"ids":["a","b"],"to":"bills"}`, header: []string{"Content-Type", jsonType}, status: 200,
			did: `move ["a" "b"] to bills`, want: `{"count":1,"busy":0,"damaged":0,"unknown":["b"]}`,
		},
		{name: "move to nowhere", method: "POST", path: "/queues/move", body: `{"from":"orders"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "to which route"},
		{name: "move of what", method: "POST", path: "/queues/move", body: `{"to":"bills"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "from or ids"},
		{name: "move of nothing", method: "POST", path: "/queues/move", body: `{"to":"bills","from":""}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "from or ids"},
		{name: "move of no ids", method: "POST", path: "/queues/move", body: `{"to":"bills","ids":[]}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "from or ids"},
		{name: "move of an empty id", method: "POST", path: "/queues/move", body: `{"to":"bills","ids":["a",null]}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "an id is empty"},
		{name: "move of ids that are none", method: "POST", path: "/queues/move", body: `{"to":"bills","ids":"a"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "no list of strings"},
		{name: "move of both", method: "POST", path: "/queues/move", body: `{"to":"bills","from":"orders","ids":["a"]}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "exclude each other"},
		{name: "move of filtered ids", method: "POST", path: "/queues/move", body: `{"to":"bills","ids":["a"],"state":"dead"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "exclude each other"},
		{name: "move of ids twice", method: "POST", path: "/queues/move", body: `{"to":"bills","ids":["a"],"ids":["b"]}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "twice"},
		{name: "move to itself", method: "POST", path: "/queues/move", body: `{"to":"orders","from":"orders"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: "the same route"},
		{name: "move from no route", method: "POST", path: "/queues/move", body: `{"to":"bills","from":"odrers"}`, header: []string{"Content-Type", jsonType}, status: 404, problem: "no-such-route", want: "odrers"},
		{name: "move by a misspelt filter", method: "POST", path: "/queues/move", body: `{"to":"bills","from":"orders","txt":"a"}`, header: []string{"Content-Type", jsonType}, status: 400, problem: "bad-body", want: `"txt"`},
		{name: "move by GET", method: "GET", path: "/queues/move", status: 405, problem: "method-not-allowed", want: "only POST"},

		{name: "no path", method: "GET", path: "/queue", status: 404, problem: "no-such-path"},
		{name: "root", method: "GET", path: "", status: 404, problem: "no-such-path"},
		{name: "method", method: "PUT", path: "/messages/0190", status: 405, problem: "method-not-allowed", want: "only DELETE, GET, HEAD"},
		{name: "GET of a change", method: "GET", path: "/queues/orders/drop", status: 405, problem: "method-not-allowed", want: "only POST"},
		{name: "preflight", method: "OPTIONS", path: "/queues/orders/drop", header: []string{"Origin", "http://evil.example"}, status: 403, problem: "cross-origin"},

		{name: "page of another origin", method: "POST", path: "/queues/orders/pause", header: []string{"Origin", "http://evil.example"}, status: 403, problem: "cross-origin"},
		{name: "page of another port", method: "POST", path: "/queues/orders/pause", header: []string{"Origin", "http://127.0.0.1:8080"}, status: 403, problem: "cross-origin"},
		{name: "page of no origin", method: "POST", path: "/queues/orders/pause", header: []string{"Origin", "null"}, status: 403, problem: "cross-origin"},
		{name: "two origins", method: "POST", path: "/queues/orders/pause", header: []string{"Origin", "http://127.0.0.1:8081", "Origin", "http://evil.example"}, status: 403, problem: "cross-origin"},
		{name: "page of another site", method: "DELETE", path: "/messages/0190", header: []string{"Sec-Fetch-Site", "cross-site"}, status: 403, problem: "cross-origin"},
		{name: "page of a sibling", method: "DELETE", path: "/messages/0190", header: []string{"Sec-Fetch-Site", "same-site"}, status: 403, problem: "cross-origin"},
		{name: "own page", method: "POST", path: "/queues/orders/pause", header: []string{"Origin", "http://127.0.0.1:8081", "Sec-Fetch-Site", "same-origin"}, status: 204, did: "pause orders"},
		{name: "form", method: "POST", path: "/queues/orders/pause", header: []string{"Content-Type", formType}, status: 403, problem: "cross-origin"},
		{name: "form of files", method: "POST", path: "/queues/orders/drop", body: "{}", header: []string{"Content-Type", "multipart/form-data; boundary=x"}, status: 403, problem: "cross-origin"},
		{name: "form of text", method: "POST", path: "/queues/orders/drop", body: "{}", header: []string{"Content-Type", "Text/Plain;charset=utf-8"}, status: 403, problem: "cross-origin"},
		{name: "no media type at all", method: "POST", path: "/queues/orders/drop", body: "{}", header: []string{"Content-Type", ";;"}, status: 403, problem: "cross-origin"},
		{name: "reading from elsewhere", method: "GET", path: "/queues", header: []string{"Origin", "http://evil.example"}, status: 403, problem: "cross-origin"},
		{name: "own page behind a proxy", method: "POST", path: "/queues/orders/pause", header: []string{"Origin", "https://gw.example", "Sec-Fetch-Site", "same-origin"}, status: 204, did: "pause orders"},
		{name: "id with dots", method: "GET", path: "/messages/..%2F..%2Fstore.json", status: 404, problem: "no-such-path"},
		{name: "id with a slash", method: "DELETE", path: "/messages/a%2Fb", status: 400, problem: "bad-parameter", want: "no message id"},
		{name: "id with a wildcard", method: "POST", path: "/messages/%3E/replay", status: 400, problem: "bad-parameter", want: "no message id"},
		{name: "id with a NUL", method: "GET", path: "/messages/a%00b", status: 400, problem: "bad-parameter", want: "no message id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := &scripted{}
			w := ask(Options{Queue: always(q), Version: "1.2.3"}, tt.method, "/api/v1"+tt.path, tt.body, tt.header...)
			if w.Code != tt.status {
				t.Fatalf("%s %s: got %d %s, want %d", tt.method, tt.path, w.Code, w.Body, tt.status)
			}
			if got := strings.Join(q.did, "; "); got != tt.did {
				t.Errorf("the queue was asked\n\t%s, want\n\t%s", got, tt.did)
			}
			if tt.problem != "" {
				p := asProblem(t, w)
				if p.Type != "urn:soapway:problem:"+tt.problem || p.Status != tt.status || p.Title == "" || !strings.Contains(p.Detail, tt.want) {
					t.Errorf("problem: got %+v, want type %s with %q", p, tt.problem, tt.want)
				}
				if path, _, _ := strings.Cut("/api/v1"+tt.path, "?"); p.Instance != path {
					t.Errorf("instance: got %q, want %q", p.Instance, path)
				}
			} else if got := strings.TrimSuffix(w.Body.String(), "\n"); got != tt.want && tt.method != "HEAD" {
				t.Errorf("body: got %s, want %s", got, tt.want)
			}
			if (w.Code == 405) != (w.Header().Get("Allow") != "") {
				t.Errorf("status %d with Allow %q", w.Code, w.Header().Get("Allow"))
			}
		})
	}
}

func asProblem(t *testing.T, w *httptest.ResponseRecorder) *Problem {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type: got %q", got)
	}
	p := &Problem{}
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		t.Fatalf("not a problem document: %v", err)
	}
	return p
}

// TestAPIToken: with a token it alone decides.
func TestAPIToken(t *testing.T) {
	tests := []struct {
		name   string
		header []string
		status int
	}{
		{"none", nil, 401},
		{"wrong", []string{"Authorization", "Bearer s3cres"}, 401},
		{"right", []string{"Authorization", "Bearer s3cret"}, 204},
		{"right, from another origin", []string{"Authorization", "Bearer s3cret", "Origin", "http://evil.example"}, 403},
		{"right, as a form", []string{"Authorization", "Bearer s3cret", "Content-Type", formType}, 204},
	}
	for _, tt := range tests {
		q := &scripted{}
		w := ask(Options{Queue: always(q), Token: "s3cret"}, "POST", "/api/v1/queues/orders/pause", "", tt.header...)
		if w.Code != tt.status || (len(q.did) > 0) != (tt.status == 204) {
			t.Errorf("%s: got %d, and the queue was asked %q; want %d", tt.name, w.Code, q.did, tt.status)
		}
		if w.Code == 401 {
			if p := asProblem(t, w); p.Type != "urn:soapway:problem:token-required" || p.Instance != "/api/v1/queues/orders/pause" {
				t.Errorf("%s: got %+v", tt.name, p)
			}
		}
	}
}

// TestAPIErrors: every reason of a queue has a stable answer, and a client gets
// the reason back from it.
func TestAPIErrors(t *testing.T) {
	tests := []struct {
		err    error
		status int
		kind   string
	}{
		{ErrNoMessage, 404, "no-such-message"},
		{ErrNoRoute, 404, "no-such-route"},
		{ErrBusy, 409, "message-busy"},
		{ErrStopped, 409, "gateway-stopped"},
		{ErrDamaged, 500, "message-damaged"},
		{ErrFull, 503, "store-full"},
		{ErrClosed, 503, "store-unavailable"},
		{ErrUnknown, 503, "outcome-unknown"},
		{errors.New("disk on fire"), 500, "internal"},
	}
	for _, tt := range tests {
		for _, wrapped := range []error{tt.err, fmt.Errorf("queue: %w: more", tt.err)} {
			w := ask(Options{Queue: always(&scripted{err: wrapped})}, "POST", "/api/v1/queues/orders/drop", "{}", "Content-Type", jsonType)
			if w.Code != tt.status || (w.Code == 503) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%v: got %d with Retry-After %q, want %d", wrapped, w.Code, w.Header().Get("Retry-After"), tt.status)
			}
			p := asProblem(t, w)
			if p.Type != "urn:soapway:problem:"+tt.kind || p.Detail != wrapped.Error() || p.Count != 2 {
				t.Errorf("%v: got %+v, want type %s and count 2", wrapped, p, tt.kind)
			}
			if got := errors.Is(p, tt.err); got != (tt.kind != "internal") {
				t.Errorf("errors.Is(%+v, %v): got %v", p, tt.err, got)
			}
		}
	}
	w := ask(Options{Queue: always(&scripted{err: ErrCursor})}, "GET", "/api/v1/queues/orders/messages?after=zz", "")
	if p := asProblem(t, w); w.Code != 400 || p.Type != "urn:soapway:problem:bad-parameter" {
		t.Errorf("foreign cursor: got %d %+v", w.Code, p)
	}
}

// TestAPIMessage: everything is shown but secrets.
func TestAPIMessage(t *testing.T) {
	d := &Detail{
		Entry:    Entry{ID: "0190", Route: "orders", State: "dead", Accepted: accepted, Died: accepted.Add(time.Minute), Size: 4, Attempts: 1, Reason: "permanent", Text: "fault <Client>"},
		Attempts: []Attempt{{N: 1, At: accepted, Status: 500, Reason: "fault", Maybe: true}},
		Header: []Field{
			{Name: "Content-Type", Value: "text/xml"},
			{Name: "SOAPAction", Value: `"urn:a"`},
			{Name: "authorization", Value: "Basic c2VjcmV0"},
			{Name: "Proxy-Authorization", Value: "Basic c2VjcmV0"},
			{Name: "COOKIE", Value: "sid=secret"},
			{Name: "X-Auth-Token", Value: "secret"},
			{Name: "x_api_key", Value: "secret"},
			{Name: "Ocp-Apim-Subscription", Value: "secret", Secret: true},
			{Name: "X-Password", Value: "secret"},
		},
		Envelope:  []byte("<a/>"),
		Reply:     []byte{'<', 0xff},
		ReplyType: "text/xml",
	}
	w := ask(Options{Queue: always(&scripted{get: d})}, "GET", "/api/v1/messages/0190", "")
	if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "c2VjcmV0") {
		t.Errorf("a secret is shown: %s", w.Body)
	}
	want := `{"message":{"id":"0190","route":"orders","state":"dead","accepted":"2026-01-02T03:04:05Z","died":"2026-01-02T03:05:05Z","size":4,"attempts":1,"reason":"permanent","text":"fault <Client>"},` +
		`"attempts":[{"n":1,"at":"2026-01-02T03:04:05Z","status":500,"reason":"fault","maybe":true}],` +
		`"header":[{"name":"Content-Type","value":"text/xml"},{"name":"SOAPAction","value":"\"urn:a\""},{"name":"authorization","value":"[redacted]"},{"name":"Proxy-Authorization","value":"[redacted]"},{"name":"COOKIE","value":"[redacted]"},{"name":"X-Auth-Token","value":"[redacted]"},{"name":"x_api_key","value":"[redacted]"},{"name":"Ocp-Apim-Subscription","value":"[redacted]"},{"name":"X-Password","value":"[redacted]"}],` +
		`"envelope":"<a/>","reply":{"type":"text/xml","body_base64":"PP8="}}` + "\n"
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// TestAPIChangesAreLogged: what, by whom and whether it was done, and nothing
// for those who only look.
func TestAPIChangesAreLogged(t *testing.T) {
	tests := []struct {
		method, path, body string
		err                error
		want               string
	}{
		{"GET", "/queues", "", nil, ""},
		{"GET", "/queues/orders/messages", "", nil, ""},
		{"POST", "/messages/0190/replay", "", nil, `level=INFO msg="admin change" action=replay message=0190 client=192.0.2.1:1234 token=true`},
		{"DELETE", "/messages/0190", "", ErrBusy, `level=WARN msg="admin change failed" action=drop message=0190 client=192.0.2.1:1234 token=true err="the message is being delivered at this moment"`},
		{"POST", "/queues/orders/pause", "", nil, `level=INFO msg="admin change" action=pause route=orders client=192.0.2.1:1234 token=true`},
		{"POST", "/queues/orders/resume", "", nil, `level=INFO msg="admin change" action=resume route=orders client=192.0.2.1:1234 token=true`},
		{"POST", "/queues/orders/flush", "", nil, `level=INFO msg="admin change" action=flush route=orders client=192.0.2.1:1234 token=true`},
		{"POST", "/queues/orders/hold", "", nil, `level=INFO msg="admin change" action=hold route=orders client=192.0.2.1:1234 token=true`},
		{"POST", "/queues/orders/release", "", nil, `level=INFO msg="admin change" action=release route=orders client=192.0.2.1:1234 token=true`},
		{"POST", "/queues/orders/drop", `{"state":"dead","text":"x y"}`, nil, `level=INFO msg="admin change" action=drop route=orders count=2 state=dead text="x y" client=192.0.2.1:1234 token=true`},
		{"POST", "/queues/orders/replay", `{"since":"2026-01-02T03:04:05Z"}`, nil, `level=INFO msg="admin change" action=replay route=orders count=2 since=2026-01-02T03:04:05.000Z client=192.0.2.1:1234 token=true`},
	}
	for _, tt := range tests {
		var log bytes.Buffer
		opt := Options{Queue: always(&scripted{err: tt.err}), Token: "s3cret", Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime && time.Since(a.Value.Time()) < time.Hour {
					return slog.Attr{}
				}
				return a
			},
		}))}
		ask(opt, tt.method, "/api/v1"+tt.path, tt.body, "Authorization", "Bearer s3cret", "Content-Type", jsonType)
		if got := strings.TrimSuffix(log.String(), "\n"); got != tt.want {
			t.Errorf("%s %s: logged\n\t%s, want\n\t%s", tt.method, tt.path, got, tt.want)
		}
	}
}

// TestAPIWithoutQueue: a gateway that stores nothing answers all the same.
func TestAPIWithoutQueue(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/queues", 200, `{"queues":[]}`},
		{"GET", "/status", 200, `{"running":true,"ready":true,"waiting":0}`},
		{"GET", "/queues/orders/messages", 404, "no-such-route"},
		{"GET", "/messages/0190", 404, "no-such-message"},
		{"POST", "/messages/0190/replay", 404, "no-such-message"},
		{"DELETE", "/messages/0190", 404, "no-such-message"},
		{"POST", "/queues/orders/pause", 404, "no-such-route"},
		{"POST", "/queues/orders/resume", 404, "no-such-route"},
		{"POST", "/queues/orders/flush", 404, "no-such-route"},
		{"POST", "/queues/orders/hold", 404, "no-such-route"},
		{"POST", "/queues/orders/release", 404, "no-such-route"},
	} {
		w := ask(Options{}, tt.method, "/api/v1"+tt.path, "")
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s %s: got %d %s, want %d with %s", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
		}
	}
}

// TestAPIWhileLoading: what is not known yet is not said not to be there, and
// nothing is changed by half.
func TestAPIWhileLoading(t *testing.T) {
	for _, tt := range []struct {
		method, path, body string
		err                error
		status             int
		want               string
	}{
		{"GET", "/queues/orders/messages", "", nil, 200, `{"messages":[],"loading":true}`},
		{"GET", "/messages/0190", "", nil, 503, "urn:soapway:problem:store-loading"},
		{"DELETE", "/messages/0190", "", ErrNoMessage, 503, "urn:soapway:problem:store-loading"},
		{"POST", "/messages/0190/replay", "", ErrBusy, 503, "urn:soapway:problem:store-loading"},
		{"DELETE", "/messages/0190", "", nil, 204, ""},
		{"POST", "/queues/orders/drop", "{}", nil, 503, "urn:soapway:problem:store-loading"},
		{"POST", "/queues/orders/replay", "{}", nil, 503, "urn:soapway:problem:store-loading"},
	} {
		q := &scripted{busy: true, err: tt.err}
		w := ask(Options{Queue: always(q)}, tt.method, "/api/v1"+tt.path, tt.body, "Content-Type", jsonType)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || tt.body != "" && len(q.did) > 0 {
			t.Errorf("%s %s: got %d %s, and the queue was asked %q; want %d with %s", tt.method, tt.path, w.Code, w.Body, q.did, tt.status, tt.want)
		}
	}
}

// TestLocal: the API without a listener trusts its caller and says that
// nothing runs.
func TestLocal(t *testing.T) {
	q := &scripted{}
	h := Local(q, Options{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/status", nil))
	if got := w.Body.String(); !strings.HasPrefix(got, `{"running":false,"ready":false,"store":`) {
		t.Errorf("status: got %s", got)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("DELETE", "/api/v1/messages/0190", nil))
	if w.Code != http.StatusNoContent || !slices.Equal(q.did, []string{"drop 0190"}) {
		t.Errorf("drop: got %d, the queue was asked %q", w.Code, q.did)
	}
}

// TestOpenAPI: the document describes exactly the endpoints with their
// parameters and bodies, names every problem, and refers to nothing that it
// does not have. It is served as it is.
func TestOpenAPI(t *testing.T) {
	doc, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(Options{}, "GET", "/api/v1/openapi.yaml", ""); w.Code != 200 || w.Header().Get("Content-Type") != "application/yaml" || !bytes.Equal(w.Body.Bytes(), doc) {
		t.Errorf("served: %d, %s, %d octets of %d", w.Code, w.Header().Get("Content-Type"), w.Body.Len(), len(doc))
	}

	var described, have []string
	paths, _, _ := strings.Cut(string(doc), "\ncomponents:")
	path, op := "", -1
	for line := range strings.Lines(paths) {
		line = strings.TrimRight(line, "\n")
		switch m := regexp.MustCompile(`^ {2}(/\S*):$|^ {4}([a-z]+):$|^ +- name: (\S+)$|^ {6}(requestBody):|operationId: (\S+)$|parameters/(\w+)"`).FindStringSubmatch(line); {
		case m == nil:
		case m[1] != "":
			path = m[1]
		case m[2] != "" && path != "":
			described = append(described, strings.ToUpper(m[2])+" "+path)
			op++
		case m[3] != "":
			described[op] += " " + m[3]
		case m[4] != "":
			described[op] += " +body"
		case m[6] != "":
			if !strings.Contains(path, "{"+m[6]+"}") {
				t.Errorf("%s has a parameter %s that its path lacks", described[op], m[6])
			}
		}
	}
	for _, e := range endpoints {
		var line strings.Builder
		line.WriteString(e.method + " " + e.path)
		for _, p := range e.params {
			line.WriteString(" " + p)
		}
		if e.path == "/events" {
			line.WriteString(" Last-Event-ID") // a header field
		}
		if e.body != noBody {
			line.WriteString(" +body")
		}
		have = append(have, line.String())
	}
	slices.Sort(described)
	slices.Sort(have)
	if diff := cmp.Diff(have, described); diff != "" {
		t.Errorf("openapi.yaml (-served +described):\n%s", diff)
	}

	for _, k := range kinds {
		if !strings.Contains(string(doc), "`"+k.name+"`") {
			t.Errorf("problem %s is not described", k.name)
		}
	}
	for _, m := range regexp.MustCompile(`#/components/(\w+)/(\w+)`).FindAllStringSubmatch(string(doc), -1) {
		if !regexp.MustCompile(`(?m)^  ` + m[1] + `:\n(?:    .*\n|\n)*?    ` + m[2] + `:`).Match(doc) {
			t.Errorf("%s is referred to and not there", m[0])
		}
	}
}
