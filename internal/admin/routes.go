package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// maxProfile bounds the seconds that a caller may ask a profile to last.
const maxProfile = 5 * time.Minute

// routes is the table of paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.front)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.opt.Metrics != nil {
		mux.Handle("GET /metrics", s.opt.Metrics)
	}
	mux.HandleFunc("GET /debug/pprof/", lasting(0, pprof.Index)) // with ?seconds= a profile of the difference
	mux.HandleFunc("GET /debug/pprof/cmdline", notHere)          // arguments may hold secrets
	mux.HandleFunc("GET /debug/pprof/profile", lasting(30*time.Second, pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/trace", lasting(time.Second, pprof.Trace))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/debug/pprof/", http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET /", notHere)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		problem(w, http.StatusMethodNotAllowed, "only GET and HEAD are served here")
	})
	api := newAPI(s.opt)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isAPI(r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// guard sets what holds for every answer and refuses who may not ask.
func (s *Server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opt.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replyTimeout))
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		switch {
		case s.opt.Token == "" && !literalHost(r.Host):
			(&refusal{kind: kindHost, detail: "name this listener by its IP address or as localhost"}).answer(w, r)
			return
		case s.opt.Token != "" && !open(r.URL.Path) && !presents(r, want):
			s.opt.Log.Warn("admin request without a valid token", "path", r.URL.Path, "client", r.RemoteAddr)
			h.Set("WWW-Authenticate", `Bearer realm="gateway admin"`)
			(&refusal{kind: kindToken, detail: "a bearer token is required"}).answer(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// open tells the paths that need no token.
func open(path string) bool { return path == "/healthz" || path == "/readyz" }

// presents compares digests, so that neither the length nor a common prefix of
// the token shows in the time that it takes.
func presents(r *http.Request, want [sha256.Size]byte) bool {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
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

func (s *Server) front(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace("Soapway gateway "+s.opt.Version))
	for _, line := range []string{
		"/healthz       the process answers",
		"/readyz        it takes requests, or why it does not",
		"/metrics       Prometheus metrics",
		"/debug/pprof/  profiles of the Go runtime",
		"/api/v1/       stored messages; described by /api/v1/openapi.yaml",
	} {
		if s.opt.Metrics == nil && strings.HasPrefix(line, "/metrics") {
			continue
		}
		_, _ = io.WriteString(w, line+"\n")
	}
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") }

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if reasons := s.opt.Ready(); len(reasons) > 0 {
		w.Header().Set("Retry-After", "1")
		text(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(reasons, "\nnot ready: "))
		return
	}
	var line strings.Builder
	line.WriteString("ready")
	for _, without := range s.opt.Degraded() {
		line.WriteString("\ndegraded: " + without)
	}
	text(w, http.StatusOK, line.String())
}

// lasting gives a profile that runs for ?seconds= the time to be written.
func lasting(usual time.Duration, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := usual
		if v := r.FormValue("seconds"); v != "" {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil || !(n > 0 && n <= maxProfile.Seconds()) { // NaN is neither
				problem(w, http.StatusBadRequest, fmt.Sprintf("seconds must be a number above 0 and at most %.0f", maxProfile.Seconds()))
				return
			}
			d = time.Duration(n * float64(time.Second))
		}
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(time.Now().Add(d + replyTimeout))
		_ = c.SetWriteDeadline(time.Now().Add(d + replyTimeout))
		h(w, r)
	}
}

func notHere(w http.ResponseWriter, _ *http.Request) {
	problem(w, http.StatusNotFound, "there is nothing at this path")
}

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n")
}

// problem answers with a problem document (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	doc, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(doc, '\n'))
}
