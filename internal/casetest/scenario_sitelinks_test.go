package casetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// linkShown is a link as the admin API tells of it, or gateway site ls.
type linkShown struct {
	Name, Peer, Mode, State, Reason string
	Seen, Certificate               time.Time
	Routes                          []string
	LagMessages                     int     `json:"lag_messages"`
	LagSeconds                      float64 `json:"lag_seconds"`
	Sent, Received                  uint64
}

// linkOf is the only link of a gateway.
func linkOf(t testing.TB, g *gateway) linkShown {
	t.Helper()
	text, err := g.get("/api/v1/links")
	var answer struct{ Links []linkShown }
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	if err != nil || len(answer.Links) != 1 {
		t.Fatalf("links: %s (%v), want one", text, err)
	}
	return answer.Links[0]
}

// TestSiteLinksShown: both ends say how their link is, what waits for it and until when
// its certificate lasts, and gateway site ls says the same.
func TestSiteLinksShown(t *testing.T) {
	p := newSitePair(t)
	if l := linkOf(t, p.hq); l.Name != "plant" || l.Mode != "accept" || l.State != "idle" || l.Peer != "" || len(l.Routes) != 0 {
		t.Errorf("hq, before anything came: %+v", l)
	}
	for i := range 5 {
		p.order(t, "k", i)
	}
	if !p.settled(t) {
		t.Fatal("messages wait")
	}
	l := linkOf(t, p.plant)
	if l.Name != "hq" || l.Mode != "push" || l.State != "up" || l.Peer != "https://"+p.cable.addr() || strings.Join(l.Routes, " ") != "orders" || l.Sent != 5 || l.LagMessages != 0 || l.LagSeconds != 0 || l.Seen.IsZero() {
		t.Errorf("plant, after 5 messages: %+v", l)
	}
	if left := time.Until(l.Certificate); left < 50*time.Minute || left > time.Hour {
		t.Errorf("the certificate of the link lasts %v, want an hour", left)
	}
	if l := linkOf(t, p.hq); l.State != "up" || l.Received != 5 || l.Seen.IsZero() {
		t.Errorf("hq, after 5 messages: %+v", l)
	}

	p.cable.set(true)
	p.order(t, "k", 5)
	p.order(t, "k", 6)
	if !eventually(patience, func() bool { l = linkOf(t, p.plant); return l.State == "down" && l.LagSeconds > 0.5 }) {
		t.Fatalf("the cable is cut, and the link is %+v", l)
	}
	if l.LagMessages != 2 || l.Reason == "" {
		t.Errorf("the cable is cut: %+v", l)
	}
	var listed []struct {
		Site        string
		Certificate time.Time
		Status      linkShown
	}
	text := siteLs(t, p.plant, "--json")
	if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("site ls: %s (%v)", text, err)
	}
	s := listed[0].Status
	if s.Name != l.Name || s.Peer != l.Peer || s.Mode != l.Mode || s.State != "down" || s.LagMessages != 2 || !s.Certificate.Equal(l.Certificate) || !listed[0].Certificate.Equal(l.Certificate) {
		t.Errorf("site ls says %+v, the API %+v", listed[0], l)
	}
	if text := siteLs(t, p.plant); !strings.Contains(text, "WAITING") || !strings.Contains(text, "down") {
		t.Errorf("site ls:\n%s", text)
	}

	p.cable.set(false)
	if !p.settled(t) || !eventually(patience, func() bool { l = linkOf(t, p.plant); return l.State == "up" && l.LagMessages == 0 }) {
		t.Errorf("the cable is whole again, and the link is %+v", l)
	}
	p.arrivals(t, 7, false)
}

// siteLs runs gateway site ls beside a running gateway.
func siteLs(t testing.TB, g *gateway, more ...string) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"site", "ls", "-c", g.file}, more...)...)
	cmd.Env = append(os.Environ(), "GATEWAY_ADMIN_ADDRESS="+g.admin)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("site ls: %v\n%s", err, out)
	}
	return string(out)
}
