package faultlab

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// post asks the admin API for a change.
func (g *gateway) post(path, body string) (answer string, err error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Post("http://"+g.admin+"/api/v1/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("POST %s: %s: %s", path, res.Status, b)
	}
	return string(b), err
}

// operate asks for a change of each of these routes.
func (l *lab) operate(what, body string, routes ...string) {
	l.t.Helper()
	for _, r := range routes {
		l.rec.breach(r, "operator: "+what)
		var err error
		if !eventually(patience, func() bool {
			_, err = l.gw.post("queues/"+r+"/"+what, body)
			return err == nil || !strings.Contains(err.Error(), "store-loading")
		}) || err != nil {
			l.t.Error(err)
		}
	}
}

// some draws three routes, of those whose backends come and go.
func (s *storm) some() (routes []string) {
	for _, i := range s.rnd.Perm(len(s.nodes))[:3] {
		routes = append(routes, s.nodes[i].route)
	}
	return routes
}

// meddle does something, and then its opposite.
func (s *storm) meddle(what, back string) {
	s.t.Helper()
	routes := s.some()
	s.operate(what, "", routes...)
	pause(s.between(300*time.Millisecond, time.Second))
	s.operate(back, "", routes...)
}

// replayDead gives what is dead another chance, though it will die again: of a
// route that delivers at most once it would be a second delivery that was asked for.
func (s *storm) replayDead() {
	s.t.Helper()
	for _, p := range s.plans {
		if !p.atMost {
			s.operate("replay", "{}", p.name)
		}
	}
}

// dropDead drops what is dead, for good.
func (s *storm) dropDead() {
	s.t.Helper()
	s.operate("drop", `{"state":"dead"}`, s.routes...)
}
