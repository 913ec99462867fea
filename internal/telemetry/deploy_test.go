package telemetry

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
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

// TestLint: names, units and help texts are as Prometheus wants them.
func TestLint(t *testing.T) {
	m := busy(1)
	m.Shadow("a", "answered")
	m.NormalizeSkipped("a")
	m.WatchCertificates(func() []CertificateSample { return []CertificateSample{{Listener: "web"}} })
	m.WatchLinks(func() []TrafficSample { return []TrafficSample{{Name: "hq", Sent: map[string]uint64{"stored": 1}}} })
	NewAccess(nil, slog.New(slog.DiscardHandler), m)
	NewTracer("", slog.New(slog.DiscardHandler), m)
	problems, err := promlint.New(strings.NewReader(scrape(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// unproved compares rules with their tests, both files of Prometheus, and returns what
// is wrong: a rule that fires in no test, or is silent in none, or has no rule.
func unproved(rules, tests string) (alerts, wrong []string) {
	for _, a := range regexp.MustCompile(`(?m)^\s*(?:- +)?["']?alert["']?\s*:\s*["']?([^"'\s#]+)`).FindAllStringSubmatch(rules, -1) {
		alerts = append(alerts, a[1])
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	found := regexp.MustCompile(`(?m)^ +- alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:(| \[\])\n(?: +- (exp_labels): \{)?`).FindAllStringSubmatch(tests, -1)
	for _, t := range found {
		fires[t[1]] = fires[t[1]] || t[2] == "" && t[3] != ""
		silent[t[1]] = silent[t[1]] || t[2] != ""
		if !slices.Contains(alerts, t[1]) {
			wrong = append(wrong, t[1]+" is tested and is no rule")
		}
	}
	if n := strings.Count(tests, "alertname:"); n != len(found) {
		wrong = append(wrong, fmt.Sprintf("of %d tests %d can be read", n, len(found)))
	}
	for _, a := range alerts {
		if !fires[a] {
			wrong = append(wrong, a+" fires in no test")
		}
		if !silent[a] {
			wrong = append(wrong, a+" is silent in no test")
		}
	}
	return alerts, wrong
}

// TestUnproved: a rule without a test that fires is found, however it is written.
func TestUnproved(t *testing.T) {
	const rules = "groups:\n  - rules:\n      - alert: One\n        expr: up\n      - expr: up\n        alert: \"Two\"\n"
	fires := func(name string) string {
		return "      - alertname: " + name + "\n        eval_time: 5m\n        exp_alerts:\n          - exp_labels: {a: b}\n"
	}
	silent := func(name string) string {
		return "      - alertname: " + name + "\n        eval_time: 5m\n        exp_alerts: []\n"
	}
	for tests, want := range map[string]string{
		fires("One") + silent("One") + fires("Two") + silent("Two"):                                          "",
		fires("One") + silent("One") + silent("Two") + silent("Two"):                                         "Two fires in no test",
		fires("One") + fires("Two") + silent("Two"):                                                          "One is silent in no test",
		silent("One") + strings.Replace(fires("One"), "- exp_labels", "#", 1) + fires("Two") + silent("Two"): "One fires in no test",
		fires("One") + silent("One") + fires("Two") + silent("Two") + fires("Three"):                         "Three is tested and is no rule",
		fires("One") + silent("One") + fires("Two") + silent("Two") + "- alertname: {x}":                     "of 5 tests 4 can be read",
	} {
		alerts, wrong := unproved(rules, tests)
		if got := strings.Join(wrong, "; "); got != want || len(alerts) != 2 {
			t.Errorf("%s: got %q of %q, want %q", tests, got, alerts, want)
		}
	}
}

// TestDeployedRules: every alert has a test in which it fires, one in which it is
// silent, and a place in docs/operations.md; promtool runs them where there is one.
func TestDeployedRules(t *testing.T) {
	rules, tests, doc := deployed(t, "prometheus/soapway.rules.yaml"), deployed(t, "prometheus/soapway.test.yaml"), deployed(t, "../docs/operations.md")
	alerts, wrong := unproved(rules, tests)
	if len(alerts) < 15 || len(alerts) != strings.Count(rules, "alert:") {
		t.Fatalf("%d alerts were found", len(alerts))
	}
	for _, w := range wrong {
		t.Error(w)
	}
	for _, a := range alerts {
		if !strings.Contains(doc, "`"+a+"`") {
			t.Errorf("docs/operations.md does not tell what to do about %s", a)
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
