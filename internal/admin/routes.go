package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// maxProfile bounds the seconds that a caller may ask a profile to last.
const maxProfile = 5 * time.Minute

// routes is the table of paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", serveUI)
	mux.HandleFunc("GET /ui/", serveUI)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.opt.Metrics != nil {
		mux.Handle("GET /metrics", s.opt.Metrics)
	}
	mux.HandleFunc("GET /debug/pprof/", lasting(0, pprof.Index)) // with ?seconds= a profile of the difference
	mux.HandleFunc("GET /debug/pprof/heap", lasting(0, freeing(pprof.Index)))
	mux.HandleFunc("GET /debug/pprof/cmdline", notHere) // arguments may hold secrets
	mux.HandleFunc("GET /debug/pprof/profile", lasting(30*time.Second, pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/trace", lasting(time.Second, pprof.Trace))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/debug/pprof/", http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.refused(r, &refusal{kind: kindPath})
		notHere(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refused(r, &refusal{kind: kindMethod})
		w.Header().Set("Allow", "GET, HEAD")
		problem(w, http.StatusMethodNotAllowed, "only GET and HEAD are served here")
	})
	api := newAPI(s.opt)
	api.refuse = s.refused
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isAPI(r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
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

// freeing gives a profile after garbage was collected and what is free was given
// back to the system, when ?free= asks for that: what is resident is then in use.
func freeing(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if free, _ := strconv.ParseBool(r.FormValue("free")); free {
			debug.FreeOSMemory()
		}
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
