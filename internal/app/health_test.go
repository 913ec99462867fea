package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"soapway/config"
)

// TestChecksFollowTheConfiguration: nodes are checked from the start of their
// backend to its end, by a reload or by the stop, and what is known of them
// outlives a reload that does not touch it.
func TestChecksFollowTheConfiguration(t *testing.T) {
	var asked, sick atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			asked.Add(1)
		}
		w.WriteHeader(int(200 + 300*sick.Load()))
	}))
	defer s.Close()
	yaml := func(more string, rest string) string {
		return head + fmt.Sprintf(`
backends: {checked: {nodes: [%q], %s}}
routes: [{name: r, match: {path: /r}, backend: checked}%s]
`, s.URL, more, rest)
	}
	const health = "health: {path: /, interval: 2ms}"
	g := start(t, yaml(health, ""))
	up := fmt.Sprintf(`gateway_backend_up{backend="checked",node=%q} 1`, s.URL+"/")
	down := strings.TrimSuffix(up, "1") + "0"
	g.eventually("checks", func() bool { return asked.Load() > 3 && g.metric(up) })
	sick.Store(1)
	g.eventually("the node to be out", func() bool { return g.metric(down) })

	reload := func(yaml string) {
		t.Helper()
		write(t, g.file, yaml)
		if err := g.app.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload(yaml(health, `, {name: s, match: {path: /s}, backend: checked}`))
	if !g.metric(down) {
		t.Error("a reload that does not touch the backend has forgotten that its node is out")
	}
	reload(yaml("timeout: 7s", ""))
	if !g.metric(up) {
		t.Error("a node that is not checked is out")
	}
	g.eventually("the checks to end", func() bool {
		before := asked.Load()
		for range 20 {
			g.metric(up) // some milliseconds
		}
		return asked.Load() == before
	})
	reload(yaml(health, ""))
	g.eventually("checks by the new settings", func() bool { return g.metric(down) })
	g.end()
	before := asked.Load()
	for range 50 { // many times the interval
		resp, err := http.Post(s.URL, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if after := asked.Load(); after != before {
		t.Errorf("%d checks after the stop", after-before)
	}
}

// TestCheckFile: what keeps the envelope of a check from being one is told at its
// key.
func TestCheckFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"good.xml": `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body/></s:Envelope>`,
		"bad.xml":  `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{
		"good.xml": "",
		"bad.xml":  "gateway.yaml:3:59: backends.b.health.soap: ",
	} {
		text := fmt.Sprintf(`listeners: [{address: "127.0.0.1:0"}]
backends:
  b: {nodes: ["http://h:1"], health: {interval: 1s, soap: %s}}
routes: [{name: r, backend: b}]
`, filepath.Join(dir, file))
		cfg, err := config.LoadBytes("gateway.yaml", []byte(text), config.Options{})
		if err == nil {
			err = Check(cfg)
		}
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %q", file, got, want)
		}
	}
}
