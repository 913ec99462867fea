package proxy

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"soapway/internal/field"
	"soapway/proxy/guard"
	"soapway/soapcodec"
)

func keyed(t *testing.T, opt guard.Options, keys ...string) *guard.Guard {
	t.Helper()
	if len(keys) > 0 {
		tokens, err := guard.NewTokens(keys)
		if err != nil {
			t.Fatal(err)
		}
		opt.Keys, opt.KeyHeader = tokens, "X-Key"
	}
	g, err := guard.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// unread is a body that must not be looked at.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, context.Canceled
}

func TestDenied(t *testing.T) {
	prefix := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for _, tt := range []struct {
		name   string
		guard  guard.Options
		keys   []string
		calls  int // that are let in before the one that is looked at
		client string
		fields []string
		want   int
		code   soapcodec.Code
		header string // that the answer has
		value  string
	}{
		{"no key", guard.Options{}, []string{"k"}, 0, "192.0.2.1", nil, 401, soapcodec.CodeNotAuthorised, "Www-Authenticate", `ApiKey realm="gateway", header="X-Key"`},
		{"wrong key", guard.Options{}, []string{"k"}, 0, "192.0.2.1", []string{"X-Key", "x"}, 401, soapcodec.CodeNotAuthorised, "Www-Authenticate", `ApiKey realm="gateway", header="X-Key"`},
		{"network", guard.Options{Allow: prefix}, nil, 0, "198.51.100.1", nil, 403, soapcodec.CodeNotAuthorised, "", ""},
		{"rate", guard.Options{Rate: guard.Rate{Events: 2, Per: time.Hour}}, nil, 2, "192.0.2.1", nil, 429, soapcodec.CodeBusy, "Retry-After", "1800"},
		{"rate of the caller", guard.Options{PerClient: guard.Rate{Events: 1, Per: time.Minute}}, nil, 1, "192.0.2.1", nil, 429, soapcodec.CodeBusy, "Retry-After", "60"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			h := one(t, Route{Guard: keyed(t, tt.guard, tt.keys...)}, n)
			for range tt.calls {
				ex := exchange("text/xml", env11, tt.fields...)
				ex.Client = netip.AddrPortFrom(netip.MustParseAddr(tt.client), 1)
				if r := serve(t, h, ex); r.Status != 200 {
					t.Fatalf("got status %d before", r.Status)
				}
			}
			ex := exchange("text/xml", env11, tt.fields...)
			ex.Client = netip.AddrPortFrom(netip.MustParseAddr(tt.client), 1)
			ex.Body = unread{t}
			r := h.Serve(context.Background(), ex)
			defer r.Close()
			if r.Status != tt.want || r.Code != tt.code || r.Body != nil {
				t.Errorf("got %d %s, body %v; want %d %s without a body", r.Status, r.Code, r.Body, tt.want, tt.code)
			}
			if tt.header != "" && !slices.Equal(r.Header.Values(tt.header), []string{tt.value}) {
				t.Errorf("%s: got %q, want %q", tt.header, r.Header.Values(tt.header), tt.value)
			}
		})
	}
}

// TestGuardOfCandidates: what is decided by the envelope is guarded by the
// route that it chooses; what no candidate lets in is refused unread.
func TestGuardOfCandidates(t *testing.T) {
	n := newNode("http://node.test/svc")
	backend := &Backend{Name: "b", Nodes: []Node{n}}
	routes := []Route{
		{Name: "a", Match: Match{Action: "urn:a"}, Backend: backend, Guard: keyed(t, guard.Options{}, "ka")},
		{Name: "b", Match: Match{Action: "urn:b"}, Backend: backend, Guard: keyed(t, guard.Options{}, "kb")},
	}
	h := NewHandler(mustCompile(t, TableOptions{Routes: routes}), Options{SpoolDir: t.TempDir()})
	for _, tt := range []struct {
		action, key string
		read        bool
		want        int
	}{
		{"urn:a", "ka", true, 200},
		{"urn:b", "kb", true, 200},
		{"urn:a", "kb", true, 401},
		{"urn:b", "ka", true, 401},
		{"urn:a", "kc", false, 401},
	} {
		ex := exchange("text/xml", env11, "SOAPAction", tt.action, "X-Key", tt.key)
		if !tt.read {
			ex.Body = unread{t}
		}
		if r := serve(t, h, ex); r.Status != tt.want {
			t.Errorf("action %s, key %s: got %d, want %d", tt.action, tt.key, r.Status, tt.want)
		}
	}
}

// TestGuessesOfCandidates: guessing is bounded also where the envelope decides.
func TestGuessesOfCandidates(t *testing.T) {
	n := newNode("http://node.test/svc")
	opt := guard.Options{PerClient: guard.Rate{Events: 2, Per: time.Hour}}
	routes := []Route{{Name: "a", Match: Match{Action: "urn:a"}, Backend: &Backend{Name: "b", Nodes: []Node{n}}, Guard: keyed(t, opt, "k")}}
	h := NewHandler(mustCompile(t, TableOptions{Routes: routes}), Options{SpoolDir: t.TempDir()})
	for i, want := range []int{401, 401, 429, 429} {
		ex := exchange("text/xml", env11, "SOAPAction", "urn:a", "X-Key", "guess")
		ex.Body = unread{t}
		if r := serve(t, h, ex); r.Status != want {
			t.Errorf("guess %d: got %d, want %d", i+1, r.Status, want)
		}
	}
	// The right key tells no more than a wrong one once the rate is used up.
	if r := serve(t, h, exchange("text/xml", env11, "SOAPAction", "urn:a", "X-Key", "k")); r.Status != 429 {
		t.Errorf("the right key: got %d, want 429", r.Status)
	}
}

// TestGuardWithoutEnvelope: other methods are guarded too.
func TestGuardWithoutEnvelope(t *testing.T) {
	n := newNode("http://node.test/svc")
	h := one(t, Route{Guard: keyed(t, guard.Options{}, "k"), Methods: []string{"GET"}}, n)
	for key, want := range map[string]int{"k": 200, "x": 401} {
		ex := exchange("", "", "X-Key", key)
		ex.Method = "GET"
		if r := serve(t, h, ex); r.Status != want {
			t.Errorf("key %s: got %d, want %d", key, r.Status, want)
		}
	}
}

// TestConcurrencyIsGivenBack: whatever way an exchange ends.
func TestConcurrencyIsGivenBack(t *testing.T) {
	n := newNode("http://node.test/svc")
	h := one(t, Route{Guard: keyed(t, guard.Options{Concurrency: 1})}, n)
	for i, body := range []string{env11, "<broken", env11, "", env11} {
		if r := serve(t, h, exchange("text/xml", body)); r.Status == http.StatusServiceUnavailable {
			t.Errorf("exchange %d: got 503", i+1)
		}
	}
	first := h.Serve(context.Background(), exchange("text/xml", env11))
	if r := serve(t, h, exchange("text/xml", env11)); r.Status != http.StatusServiceUnavailable {
		t.Errorf("while one is under way: got %d, want 503", r.Status)
	}
	first.Close()
	if r := serve(t, h, exchange("text/xml", env11)); r.Status != 200 {
		t.Errorf("after it: got %d, want 200", r.Status)
	}
}

func TestUsernameToken(t *testing.T) {
	users, err := guard.ReadUsernames(strings.NewReader("ann:secret"))
	if err != nil {
		t.Fatal(err)
	}
	const token = `<w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><w:UsernameToken><w:Username>ann</w:Username><w:Password>PASSWORD</w:Password></w:UsernameToken></w:Security>`
	with := func(env, prefix, password string) string {
		return strings.Replace(env, "<"+prefix+":Body>", "<"+prefix+":Header>"+strings.Replace(token, "PASSWORD", password, 1)+"</"+prefix+":Header><"+prefix+":Body>", 1)
	}
	large := strings.Repeat("x", 2<<20)
	for _, tt := range []struct {
		name, typ, doc string
		want           int
	}{
		{"right", "text/xml", with(env11, "soap", "secret"), 200},
		{"wrong", "text/xml", with(env11, "soap", "Secret"), 500},
		{"none", "text/xml", env11, 500},
		{"wrong, 1.2", "application/soap+xml", with(env12, "env", "Secret"), 400},
		{"right, streamed", "text/xml", strings.Replace(with(env11, "soap", "secret"), ">x<", ">"+large+"<", 1), 200},
		{"wrong, streamed", "text/xml", strings.Replace(with(env11, "soap", "Secret"), ">x<", ">"+large+"<", 1), 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode("http://node.test/svc")
			h := one(t, Route{Guard: keyed(t, guard.Options{Usernames: users, Concurrency: 1})}, n)
			for range 2 { // the place is given back
				r := serve(t, h, exchange(tt.typ, tt.doc))
				if r.Status != tt.want {
					t.Fatalf("got %d %s, want %d", r.Status, r.body, tt.want)
				}
				if tt.want != 200 && (r.Code != soapcodec.CodeFailedAuthentication || len(n.got) > 0 || strings.Contains(r.body, "ecret")) {
					t.Errorf("got %s %s; %d requests at the node", r.Code, r.body, len(n.got))
				}
			}
		})
	}
}

func TestClientBehindProxies(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	table := mustCompile(t, TableOptions{TrustedProxies: trusted})
	for _, tt := range []struct {
		peer string
		xff  []string
		want string
	}{
		{"192.0.2.1", []string{"198.51.100.1"}, "192.0.2.1"}, // not trusted
		{"10.0.0.1", nil, "10.0.0.1"},
		{"10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1", []string{"203.0.113.9, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"10.0.0.1", []string{"203.0.113.9", "198.51.100.1", "10.0.0.2"}, "198.51.100.1"},
		{"10.0.0.1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"10.0.0.1", []string{"[2001:db9::1]:80, 2001:db8::2"}, "2001:db9::1"},
		{"10.0.0.1", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"10.0.0.1", []string{""}, "10.0.0.1"},
		{"10.0.0.1", []string{strings.Repeat(",", 1000)}, "10.0.0.1"},
	} {
		ex := &Exchange{Client: netip.AddrPortFrom(netip.MustParseAddr(tt.peer), 1), Header: field.Of(http.Header{"X-Forwarded-For": tt.xff})}
		f := forwarding{table: table, ex: ex, trusted: table.trusts(ex.Client.Addr())}
		if got := f.client().String(); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.peer, tt.xff, got, tt.want)
		}
	}
}
