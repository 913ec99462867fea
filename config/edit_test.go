package config

import (
	"errors"
	"strings"
	"testing"
)

// TestAddItem: what is added, and that all else stays octet for octet.
func TestAddItem(t *testing.T) {
	item := []string{"name: plant", "routes: [orders]"}
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "sites:\n  name: hq\n  accept:\n    - name: plant\n      routes: [orders]\n"},
		{"no section", "a: 1 # x\n", "a: 1 # x\n\nsites:\n  name: hq\n  accept:\n    - name: plant\n      routes: [orders]\n"},
		{"no end of line", "a: 1", "a: 1\n\nsites:\n  name: hq\n  accept:\n    - name: plant\n      routes: [orders]\n"},
		{
			"no list", "sites:\n    # us\n    name: hq\nroutes: []\n",
			"sites:\n    # us\n    name: hq\n    accept:\n      - name: plant\n        routes: [orders]\nroutes: []\n",
		},
		{
			"a section that begins with a list", "sites:\n  links:\n  - name: a\n  name: hq\n",
			"sites:\n  accept:\n    - name: plant\n      routes: [orders]\n  links:\n  - name: a\n  name: hq\n",
		},
		{
			"a list", "sites:\n  name: hq\n  accept: # who\n  # first\n  - {name: a}\n  - name: b\nroutes: []\n",
			"sites:\n  name: hq\n  accept: # who\n  # first\n  - name: plant\n    routes: [orders]\n  - {name: a}\n  - name: b\nroutes: []\n",
		},
		{
			"indented", "sites:\n  accept:\n      - name: a\n        routes: [x]\n",
			"sites:\n  accept:\n      - name: plant\n        routes: [orders]\n      - name: a\n        routes: [x]\n",
		},
		{"carriage returns stay", "a: 1\r\nsites:\r\n  accept:\r\n  - name: a\r\n", "a: 1\r\nsites:\r\n  accept:\r\n  - name: plant\n    routes: [orders]\n  - name: a\r\n"},
	} {
		got, err := AddItem([]byte(c.in), "sites", "accept", item, []string{"name: hq"})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", c.name, err, got, c.want)
		}
	}
	for _, in := range []string{
		"{a: 1}\n", "- a\n", "sites: {name: hq}\n", "sites:\n  accept: []\n", "sites:\n  accept: [{name: a}]\n", "sites:\n", "sites: x\n", "sites:\n  accept:\n", "a: 1\n---\nb: 2\n",
		"sites: &s\n  name: hq\nx: *s\n",
	} {
		got, err := AddItem([]byte(in), "sites", "accept", item, nil)
		if !errors.Is(err, ErrByHand) {
			t.Errorf("%q: got %q, %v, want ErrByHand", in, got, err)
		}
	}
	if _, err := AddItem([]byte("a: [\n"), "sites", "accept", item, nil); err == nil || errors.Is(err, ErrByHand) {
		t.Errorf("no YAML: got %v", err)
	}
}

// TestLoadSites: problems elsewhere do not matter.
func TestLoadSites(t *testing.T) {
	cfg, err := LoadSites("gateway.yaml", []byte("listeners: [{address: 'x', tls: {certificate: nowhere.pem, key: nowhere.pem}}]\nsites: {name: hq, ca_dir: sites}\n"), Options{})
	if err != nil || cfg.Sites == nil || cfg.Sites.Name != "hq" || !strings.HasSuffix(string(cfg.Sites.CADir), "sites") {
		t.Errorf("got %v, %v", cfg, err)
	}
	for _, text := range []string{"sites: {nam: hq}\n", "a: [\n"} {
		if _, err := LoadSites("gateway.yaml", []byte(text), Options{}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
