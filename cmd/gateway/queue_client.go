package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/app"
	"soapway/internal/telemetry"
	"soapway/queue"
)

const (
	// askTimeout bounds one question, bulkTimeout a change of many messages.
	askTimeout  = 30 * time.Second
	bulkTimeout = time.Hour
	// maxAnswer bounds what is read of an answer: a message of the largest
	// size, twice, in base64.
	maxAnswer = 64 << 20
)

// A queueClient speaks the admin API, over a connection to a running gateway
// or with the API over a stopped store in this process.
type queueClient struct {
	http    *http.Client
	base    string // without a slash at the end
	token   string
	say     func(format string, args ...any)
	stopped *app.StoppedStore
}

// withQueue finds what the flags name, calls do with it and lets go of it.
func (c *cli) withQueue(ctx context.Context, f *queueFlags, do func(*queueClient) error) error {
	q, err := c.openQueue(ctx, f)
	if err != nil {
		return complainAbout(c, err)
	}
	q.say = c.say
	err = do(q)
	if e := q.close(); err == nil && e != nil {
		err = &problem{e, ""}
	}
	return err
}

// openQueue finds the gateway: the one at --admin, the one at the admin address
// of the configuration, or the store that the configuration names.
func (c *cli) openQueue(ctx context.Context, f *queueFlags) (*queueClient, error) {
	token, err := c.token(f)
	if err != nil {
		return nil, err
	}
	if f.admin != "" {
		base, err := adminURL(f.admin)
		if err != nil {
			return nil, err
		}
		if token == "" {
			if token, err = c.tokenOfConfig(f.config); err != nil {
				return nil, err
			}
		}
		var cfg *config.Config // its certificate is believed where it was asked for by name
		if f.config != "" {
			if cfg, err = c.load(f.config); err != nil {
				return nil, err
			}
		}
		t, err := f.adminTLS(cfg)
		if err != nil {
			return nil, err
		}
		return newQueueClient(base, token, t), nil
	}
	cfg, err := c.load(f.config)
	if err != nil {
		return nil, err
	}
	base := adminBase(cfg.Admin.Address, cfg.Admin.TLS != nil)
	if base != "" {
		t, err := f.adminTLS(cfg)
		if err != nil {
			return nil, err
		}
		q := newQueueClient(base, cmp.Or(token, cfg.Admin.Token.Reveal()), t)
		err = q.get(ctx, "/status", nil, &admin.Status{})
		if !nobodyListens(err) {
			return q, err
		}
		q.http.CloseIdleConnections()
	}
	return c.openStopped(ctx, cfg, base)
}

// openStopped opens the store of a gateway that does not run.
func (c *cli) openStopped(ctx context.Context, cfg *config.Config, base string) (*queueClient, error) {
	nobody := "no gateway listens at " + base
	if base == "" {
		nobody = "the admin address " + cfg.Admin.Address + " of the configuration has no fixed port"
	}
	if err := notOurs(string(cfg.Store.Dir)); err != nil {
		return nil, err
	}
	log := telemetry.NewLog(c.stderr)
	if err := log.Set("warn", "text"); err != nil {
		return nil, err
	}
	s, err := app.OpenStopped(ctx, cfg, log.Logger())
	switch {
	case errors.Is(err, queue.ErrLocked):
		return nil, &problem{err, nobody + "; name the admin address of the gateway that has the store open with --admin URL"}
	case errors.Is(err, queue.ErrNoStore):
		return nil, &problem{fmt.Errorf("%s, and %w", nobody, err), "a gateway makes it when it first starts with a route that stores"}
	case err != nil:
		return nil, &problem{err, ""}
	}
	c.say("%s: this is its stopped store %s", nobody, s.Dir())
	return &queueClient{http: &http.Client{Transport: &inProcess{h: s.API()}}, base: "http://localhost", stopped: s}, nil
}

func newQueueClient(base, token string, t *tls.Config) *queueClient {
	return &queueClient{
		base: base, token: token,
		http: &http.Client{
			Transport: &http.Transport{TLSClientConfig: t, ExpectContinueTimeout: 5 * time.Second, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}, // no proxy
			// A redirect would carry the token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// close lets go of the connection or the store.
func (q *queueClient) close() error {
	q.http.CloseIdleConnections()
	if p, ok := q.http.Transport.(*inProcess); ok {
		p.calls.Wait()
	}
	if q.stopped != nil {
		return q.stopped.Close()
	}
	return nil
}

// token is the one of the command line or the environment.
func (c *cli) token(f *queueFlags) (string, error) {
	from, token := "--token", f.token
	if token == "" {
		for _, v := range c.env {
			if value, ok := strings.CutPrefix(v, "GATEWAY_ADMIN_TOKEN="); ok {
				from, token = "GATEWAY_ADMIN_TOKEN", value
			}
		}
	}
	if path, ok := strings.CutPrefix(token, "file:"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", &problem{fmt.Errorf("%s: %w", from, err), ""}
		}
		token = strings.TrimSpace(string(b))
	}
	return token, nil
}

// tokenOfConfig is the admin token of the configuration. One that was not asked
// for by name need not be there, nor be good.
func (c *cli) tokenOfConfig(file string) (string, error) {
	cfg, err := c.load(file)
	if err != nil {
		if file == "" {
			err = nil
		}
		return "", err
	}
	return cfg.Admin.Token.Reveal(), nil
}

// adminURL reads --admin: a URL, or an address alone.
func adminURL(s string) (string, error) {
	text := s
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return "", &usageError{fmt.Sprintf("queue: --admin %.80q is no address of an admin listener", s), "as in --admin http://127.0.0.1:8081"}
	}
	return u.Scheme + "://" + u.Host, nil
}

// adminBase is where to reach a listener at this address from here; "" if its
// port is chosen at its start.
func adminBase(address string, secure bool) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return ""
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if err == nil && ip.Is6() {
			host = "::1"
		}
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port)
}

// nobodyListens reports whether no connection could be made because the
// address answers to nobody, in contrast to one that does not answer in time.
func nobodyListens(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && !op.Timeout() && !errors.Is(err, context.Canceled)
}

// get asks for JSON.
func (q *queueClient) get(ctx context.Context, path string, query url.Values, out any) error {
	return q.do(ctx, http.MethodGet, path, query, nil, out)
}

// all replays or drops what the filters select.
func (q *queueClient) all(ctx context.Context, action, route string, filters map[string]string) (int, error) {
	defer q.atWork(action)()
	var n admin.Count
	err := q.do(ctx, http.MethodPost, "/queues/"+url.PathEscape(route)+"/"+action, nil, filters, &n)
	return n.Count, err
}

// atWork says every five seconds that a change of many messages goes on, until
// what it returns is called.
func (q *queueClient) atWork(action string) (end func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(gone)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				q.say("%s: at work for %s", action, age(time.Since(began)))
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-gone }
}

// count says how many messages the filters select.
func (q *queueClient) count(ctx context.Context, route string, filters map[string]string) (n int, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageLimit)}}
	for name, v := range filters {
		query.Set(name, v)
	}
	for {
		var p admin.Page
		if err := q.get(ctx, "/queues/"+url.PathEscape(route)+"/messages", query, &p); err != nil {
			return 0, err
		}
		n += len(p.Messages)
		if p.Next == "" {
			return n, nil
		}
		query.Set("after", p.Next)
	}
}

// do makes one request. what becomes the body unless it is nil, out is filled in
// from the answer unless it is. Its errors are problems.
func (q *queueClient) do(ctx context.Context, method, path string, query url.Values, what, out any) error {
	timeout := askTimeout
	var body io.Reader
	if what != nil {
		timeout = bulkTimeout
		b, err := json.Marshal(what)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	kind := ""
	if body != nil {
		kind = "application/json"
	}
	resp, err := q.ask(ctx, method, path, query, body, kind)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &unanswered{&problem{fmt.Errorf("the answer of the gateway at %s broke off: %w", q.base, err), ""}}
	}
	return q.read(resp, b, out)
}

// ask makes one request and returns the answer, whatever it is. A body of files
// is asked for before it is sent.
func (q *queueClient) ask(ctx context.Context, method, path string, query url.Values, body io.Reader, kind string) (*http.Response, error) {
	target := q.base + "/api/v1" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if kind == fileType {
		req.Header.Set("Expect", "100-continue")
	}
	if q.token != "" {
		req.Header.Set("Authorization", "Bearer "+q.token)
	}
	resp, err := q.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the query
		}
		return nil, &unanswered{&problem{fmt.Errorf("no answer from the gateway at %s: %w", q.base, err), ""}}
	}
	return resp, nil
}

// unanswered is a request without an answer.
type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

// fatal tells errors after which the next request would not fare better.
func fatal(err error) bool {
	if _, ok := errors.AsType[*unanswered](err); ok {
		return true
	}
	p, ok := errors.AsType[*admin.Problem](err)
	return err != nil && (!ok || p.Status == http.StatusUnauthorized || p.Status == http.StatusMisdirectedRequest)
}

// read makes a result or an error of an answer.
func (q *queueClient) read(resp *http.Response, body []byte, out any) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= 400 && kind == "application/problem+json":
		p := &admin.Problem{}
		if err := json.Unmarshal(body, p); err == nil && p.Status == resp.StatusCode {
			return q.explain(p)
		}
	case resp.StatusCode == http.StatusNoContent && out == nil:
		return nil
	case resp.StatusCode == http.StatusOK && kind == "application/json" && out != nil:
		if err := json.Unmarshal(body, out); err == nil {
			return nil
		}
	}
	return &problem{fmt.Errorf("what answers at %s is no gateway that this program knows (status %s)", q.base, resp.Status), "name the gateway's admin address with --admin URL"}
}

// explain words a problem for people.
func (q *queueClient) explain(p *admin.Problem) error {
	switch {
	case p.Status == http.StatusUnauthorized && q.token == "":
		return &problem{fmt.Errorf("the gateway at %s asks for a token%w", q.base, silent{p}), "give it with --token, GATEWAY_ADMIN_TOKEN or admin.token of the configuration (-c FILE)"}
	case p.Status == http.StatusUnauthorized:
		return &problem{fmt.Errorf("the gateway at %s does not accept this token%w", q.base, silent{p}), "it is the admin.token that the gateway was started with"}
	case errors.Is(p, admin.ErrTarget):
		return &problem{p, "name a route with delivery: queue or sync-then-queue"}
	case errors.Is(p, admin.ErrNoRoute):
		return &problem{p, "gateway queue ls shows the routes"}
	case errors.Is(p, admin.ErrStopped):
		return &problem{p, "start the gateway; the stored times of the next attempts stay as they are until then"}
	case p.Count > 0:
		return &problem{fmt.Errorf("%w (%s done before)", p, count(p.Count, "message")), ""}
	}
	return &problem{p, ""}
}

// silent wraps an error that the text before tells already.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }
