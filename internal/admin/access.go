package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// guard sets what holds for every answer and refuses who may not ask.
func (s *Server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opt.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replyTimeout))
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		if e := s.judge(r, want); e != nil {
			s.refused(r, e)
			if e.kind == kindToken {
				h.Set("WWW-Authenticate", `Bearer realm="gateway admin"`)
			}
			e.answer(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// judge says why a request may not be answered, nil if it may.
func (s *Server) judge(r *http.Request, want [sha256.Size]byte) *refusal {
	locked := s.opt.Token != ""
	switch {
	case !locked && !literalHost(r.Host):
		return &refusal{kind: kindHost, detail: "name this listener by its IP address or as localhost"}
	case open(r.URL.Path) || isUI(r.URL.Path):
		return nil
	}
	if locked {
		if e := s.presents(r, want); e != nil {
			return e
		}
	}
	if why := foreign(r); why != "" {
		return &refusal{kind: kindOrigin, detail: why}
	}
	if dotted(r.URL.Path) {
		return &refusal{kind: kindPath, detail: "paths with . and .. segments are not served"}
	}
	return nil
}

// open tells the paths that tell nothing but a state.
func open(path string) bool { return path == "/healthz" || path == "/readyz" }

// dotted tells paths that mean another one. Whoever sends them looks for a way
// around a check.
func dotted(path string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// presents says what is wrong with the token of a request, nil if nothing is. It
// compares digests, so that neither the length nor a common prefix of the token
// shows in the time that it takes. Who has guessed too often is not heard at all,
// else one more guess would cost nothing.
func (s *Server) presents(r *http.Request, want [sha256.Size]byte) *refusal {
	if s.guesses.barred(r.RemoteAddr) {
		return &refusal{kind: kindGuesses, detail: "too many wrong tokens came from this address: wait some seconds"}
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return &refusal{kind: kindToken, detail: "a bearer token is required"}
	}
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		s.guesses.wrong(r.RemoteAddr)
		return &refusal{kind: kindToken, detail: "a bearer token is required, and this one is not right"}
	}
	return nil
}

// literalHost reports whether a Host field names an address or localhost, which
// no name service of somebody else can do.
func literalHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	_, err := netip.ParseAddr(name)
	return err == nil || strings.EqualFold(name, "localhost")
}

// foreign says why a request may come from a page of somebody else in the
// operator's browser. Browsers tell where a request comes from by Sec-Fetch-Site,
// which no page can set, and by Origin.
func foreign(r *http.Request) string {
	switch sites := r.Header.Values("Sec-Fetch-Site"); {
	case len(sites) == 1 && sites[0] == "same-origin":
		return "" // also where a proxy in front has changed Host
	case len(sites) > 1 || len(sites) == 1 && sites[0] != "none" && sites[0] != "":
		return "the request comes from a page of another site"
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		u, err := url.Parse(origins[0])
		if err != nil || len(origins) > 1 || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return "the request comes from a page of another origin"
		}
	}
	return ""
}

// refused notes that a request was refused: for the log, the audit file and whoever
// watches.
func (s *Server) refused(r *http.Request, e *refusal) {
	if !worthNoting(r, e) {
		return
	}
	missed, ok := s.refusals.note()
	if !ok {
		return
	}
	s.opt.Log.Warn("admin request refused", "problem", e.kind.name, "method", r.Method, "path", short(r.URL.Path), "client", r.RemoteAddr, "why", e.detail)
	s.opt.Audit.write(&auditLine{
		Action: "request", Result: resultRefused, Client: r.RemoteAddr, Agent: agent(r), Error: e.kind.name, Missed: missed,
		What: map[string]any{"method": r.Method, "path": short(r.URL.Path)},
	})
	s.opt.Events.Publish(Event{Kind: EventRefused, Text: e.kind.name + ": " + r.Method + " " + short(r.URL.Path) + " from " + r.RemoteAddr})
}

// worthNoting reports whether a refusal is more than a question that has no answer,
// such as one about a message that was delivered meanwhile.
func worthNoting(r *http.Request, e *refusal) bool {
	switch e.kind {
	case kindRoute, kindMessage, kindReport:
		return r.Method != http.MethodGet && r.Method != http.MethodHead || !plainRoute(r.PathValue("route")) || !plainID(r.PathValue("id")) || !plainID(r.PathValue("run"))
	case kindLoading, kindStopped, kindClosed, kindReaders, kindUnexpected, kindDamaged:
		return false
	}
	return true
}

// short is a path that a stranger has sent, cut.
func short(path string) string {
	const most = 200
	if len(path) > most {
		path = path[:most] + "…"
	}
	return strings.ToValidUTF8(path, "\ufffd")
}
