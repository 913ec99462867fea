package app

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"soapway/config"
)

// TestDirect: routes and handler answer inside the process as they do behind a
// listener, and what they refuse is an error.
func TestDirect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	err := os.WriteFile(file, []byte(`
listeners: [{address: "127.0.0.1:0"}]
routes:
  - {name: echo, match: {host: one.example, path: /echo, action: "urn:x"}, to: ["builtin:echo"]}
  - {name: plain, match: {path: /plain}, to: ["builtin:echo"]}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDirect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := d.Resolve("one.example", "/echo", "urn:x"); got != "echo" {
		t.Errorf("Resolve: got %q, want echo", got)
	}
	message := []byte(`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><a/></s:Body></s:Envelope>`)
	for _, tt := range []struct{ route, target string }{{"echo", "/echo"}, {"", "/plain"}} {
		reply, err := d.Call(t.Context(), tt.route, tt.target, message)
		if err != nil || !bytes.Equal(reply, message) {
			t.Errorf("Call(%q, %q): %q, %v", tt.route, tt.target, reply, err)
		}
	}
	for name, bad := range map[string][]byte{"no envelope": []byte("<a/>"), "nothing": nil} {
		if _, err := d.Call(t.Context(), "plain", "/plain", bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := d.Call(t.Context(), "", "/nowhere", message); err == nil {
		t.Error("a target of no route: no error")
	}
}
