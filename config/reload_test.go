package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestRestartNeeded(t *testing.T) {
	const base = `
listeners:
  - {name: web, address: "127.0.0.1:1"}
  - {name: plant, address: "127.0.0.1:2", protocol: framed}
routes: [{name: r, to: [builtin:echo]}]
admin: {token: secret}
limits: {depth: 10}
log: {level: info}
drain: 1s
`
	load := func(text string) *Config {
		t.Helper()
		cfg, err := LoadBytes("f", []byte(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"what is reloaded", "drain: 1s", "drain: 2s", ""},
		{"limits", "depth: 10", "depth: 11", ""},
		{"route", "builtin:echo", "builtin:sink", ""},
		{"route added", "routes: [", "routes: [{name: q, match: {path: /q}, to: [builtin:echo]}, ", ""},
		{"log", "level: info", "level: debug", ""},
		{"address", "127.0.0.1:1", "127.0.0.1:3", "listeners.web.address"},
		{"two keys", `"127.0.0.1:2", protocol: framed`, `"127.0.0.1:3", protocol: framed, length: 4`, "listeners.plant.address listeners.plant.length"},
		{"timeouts", "protocol: framed", "protocol: framed, timeouts: {idle: none}", "listeners.plant.timeouts.idle"},
		{"protocol", ", protocol: framed", "", "listeners.plant.protocol"},
		{"route of a listener", "protocol: framed", "protocol: framed, route: r", "listeners.plant.route"},
		{"name", "name: plant", "name: works", "listeners.plant listeners.works"},
		{"listener gone", `  - {name: web, address: "127.0.0.1:1"}` + "\n", "", "listeners.web"},
		{"order", `  - {name: web, address: "127.0.0.1:1"}
  - {name: plant, address: "127.0.0.1:2", protocol: framed}`, `  - {name: plant, address: "127.0.0.1:2", protocol: framed}
  - {name: web, address: "127.0.0.1:1"}`, ""},
		{"admin", "token: secret", "token: secret, address: \"127.0.0.1:9\"", "admin.address"},
		{"token", "token: secret", "token: other", "admin.token"},
		{"what is a default", "protocol: framed", "protocol: framed, length: 2", ""},
	} {
		text := strings.Replace(base, tt.old, tt.new, 1)
		if tt.old != "" && text == base {
			t.Fatalf("%s: the file has no %q", tt.name, tt.old)
		}
		got := strings.Join(RestartNeeded(load(base), load(text)), " ")
		if got != tt.want {
			t.Errorf("RestartNeeded, %s: got %q, want %q", tt.name, got, tt.want)
		}
		if back := strings.Join(RestartNeeded(load(text), load(base)), " "); back != tt.want {
			t.Errorf("RestartNeeded, %s, backwards: got %q, want %q", tt.name, back, tt.want)
		}
	}
}

// The keys that only a later version can set are compared too.
func TestRestartNeededLater(t *testing.T) {
	a, err := LoadBytes("f", []byte("listeners: [{address: ':0'}]"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := *a
	b.Listeners = append([]Listener(nil), a.Listeners...)
	b.Listeners[0].TLS = &ServerTLS{Certificate: "c.pem"}
	b.Store.Dir = "/elsewhere"
	b.Store.Durability = DurabilityRelaxed
	b.Store.URL = []URL{{raw: "nats://h"}}
	b.Store.MaxBytes = 1
	b.Admin.TLS = &ServerTLS{}
	want := "[admin.tls listeners.http-1.tls store.dir store.durability store.url]"
	if got := fmt.Sprint(RestartNeeded(a, &b)); got != want {
		t.Errorf("RestartNeeded: got %s, want %s", got, want)
	}
	c := b
	c.Listeners = append([]Listener(nil), b.Listeners...)
	c.Listeners[0].TLS = &ServerTLS{Certificate: "d.pem"}
	if got := fmt.Sprint(RestartNeeded(&b, &c)); got != "[listeners.http-1.tls.certificate]" {
		t.Errorf("RestartNeeded below a pointer: got %s", got)
	}
	if got := RestartNeeded(&Config{Admin: Admin{Token: Secret{"v", "/a"}}}, &Config{Admin: Admin{Token: Secret{"v", "/b"}}}); got != nil {
		t.Errorf("RestartNeeded of a secret that moved: got %v", got)
	}
}
