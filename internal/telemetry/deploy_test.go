package telemetry

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const deploy = "../../deploy"

func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDeployedMetrics: rules and dashboard ask only for what a scrape has.
func TestDeployedMetrics(t *testing.T) {
	m := busy(1)
	m.WatchCertificates(func() []CertificateSample { return []CertificateSample{{Listener: "web", Until: time.Now()}} })
	m.Synced(time.Millisecond, 1)
	discard := slog.New(slog.DiscardHandler)
	NewAccess(nil, discard, m)
	NewTracer("", discard, m)
	got := scrape(t, m)
	for _, name := range []string{"prometheus/soapway.rules.yaml", "prometheus/soapway.test.yaml", "grafana/soapway.json"} {
		text := deployed(t, name)
		found := regexp.MustCompile(`\b(gateway|process|go)_[a-z_]+\b`).FindAllString(text, -1)
		if len(found) < 20 {
			t.Errorf("%s names %d metrics", name, len(found))
		}
		for _, metric := range found {
			if !strings.Contains(got, "\n"+metric+"{") && !strings.Contains(got, "\n"+metric+" ") {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
		}
	}
	var dashboard struct{ Panels []struct{ Title string } }
	if err := json.Unmarshal([]byte(deployed(t, "grafana/soapway.json")), &dashboard); err != nil || len(dashboard.Panels) < 20 {
		t.Errorf("the dashboard has %d panels, %v", len(dashboard.Panels), err)
	}
}

// TestDeployedRules: every alert has a test in which it fires, one in which it is
// silent, and a place in docs/operations.md; promtool runs them where there is one.
func TestDeployedRules(t *testing.T) {
	rules, tests, doc := deployed(t, "prometheus/soapway.rules.yaml"), deployed(t, "prometheus/soapway.test.yaml"), deployed(t, "../docs/operations.md")
	alerts := regexp.MustCompile(`(?m)^      - alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 15 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, a := range alerts {
		name := regexp.QuoteMeta(a[1])
		if !regexp.MustCompile(`alertname: ` + name + `\n.*\n +exp_alerts:\n +- exp_labels`).MatchString(tests) {
			t.Errorf("%s fires in no test", name)
		}
		if !regexp.MustCompile(`alertname: ` + name + `\n.*\n +exp_alerts: \[\]`).MatchString(tests) {
			t.Errorf("%s is silent in no test", name)
		}
		if !strings.Contains(doc, "`"+a[1]+"`") {
			t.Errorf("docs/operations.md does not tell what to do about %s", a[1])
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool (Debian: prometheus): the rules were not run")
	}
	for _, args := range [][]string{{"check", "rules", "soapway.rules.yaml"}, {"test", "rules", "soapway.test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = filepath.Join(deploy, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
