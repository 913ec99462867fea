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

// freeKeys drops the dead letters for which keys stand still, as an operator does
// who wants the others to go on.
func (l *lab) freeKeys() error {
	for _, r := range l.routes {
		if !l.rec.h.Stops[r] {
			continue
		}
		dead, err := l.gw.dead(r, l.buried)
		if err != nil {
			return err
		}
		for _, d := range dead {
			l.rec.buried(d)
			if err := l.gw.drop(d.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop drops one message.
func (g *gateway) drop(id string) error {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequest(http.MethodDelete, "http://"+g.admin+"/api/v1/messages/"+id, nil)
	if err != nil {
		return err
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return fmt.Errorf("DELETE of %s: %s", id, res.Status)
	}
	return nil
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

// dropHeads lets keys go on that stand still.
func (s *storm) dropHeads() {
	s.t.Helper()
	if err := s.freeKeys(); err != nil {
		s.t.Error(err)
	}
}

// dropDead drops what is dead, for good.
func (s *storm) dropDead() {
	s.t.Helper()
	s.operate("drop", `{"state":"dead"}`, s.routes...)
}
