package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"soapway/internal/golden"
)

// caseFiles are the sections of a case that are put on disk beside its
// configuration.
var caseFiles = []string{"token", "empty", "notpem", "two", "cert.pem", "key.pem", "other.pem", "ca.pem"}

// putCaseFiles puts them into a folder.
func putCaseFiles(t *testing.T, c *golden.Case, dir string) {
	t.Helper()
	for _, name := range caseFiles {
		if c.Has(name) {
			if err := os.WriteFile(filepath.Join(dir, name), c.File(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// loadCase loads a case from a folder of its own, whose path comes out of the
// texts again by the returned function.
func loadCase(t *testing.T, c *golden.Case) (*Config, func(string) string, error) {
	t.Helper()
	dir := t.TempDir()
	putCaseFiles(t, c, dir)
	path := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(path, c.File("gateway.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := strings.Split(string(c.File("env")), "\n")
	cfg, err := Load(path, Options{Env: env})
	tidy := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, dir+string(filepath.Separator), ""), dir, "$DIR")
	}
	return cfg, tidy, err
}

func TestGood(t *testing.T) {
	golden.Run(t, "testdata/good-*.txtar", func(t *testing.T, c *golden.Case) {
		cfg, tidy, err := loadCase(t, c)
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		c.Check(t, "want", tidy(string(cfg.Redacted())))
		noZero(t, reflect.ValueOf(cfg).Elem(), "")
	})
}

// noZero fails where an enum, a time or a size was left at its zero value
// although it has a default: nothing behind Load needs to know defaults.
func noZero(t *testing.T, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		if isLeaf(v.Type()) {
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			fv := v.FieldByIndex(f.index)
			mayBeZero := f.rules.zero || f.rules.ranged && f.rules.lo == 0 || f.typ.Kind() == reflect.Bool || f.typ == reflect.TypeFor[Rate]()
			if f.def != "" && fv.IsZero() && !mayBeZero {
				t.Errorf("%s.%s: got the zero value, want %s", path, f.key, f.def)
			}
			noZero(t, fv, joined(path, f.key))
		}
	case reflect.Slice:
		for i := range v.Len() {
			noZero(t, v.Index(i), indexed(path, i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			noZero(t, v.MapIndex(k), joined(path, k.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			noZero(t, v.Elem(), path)
		}
	}
}

func TestBad(t *testing.T) {
	golden.Run(t, "testdata/bad-*.txtar", func(t *testing.T, c *golden.Case) {
		cfg, tidy, err := loadCase(t, c)
		problems, ok := errors.AsType[Problems](err)
		if !ok || cfg != nil {
			t.Fatalf("Load: got %v, %v, want problems and nothing else", cfg, err)
		}
		c.Check(t, "want", tidy(err.Error())+"\n")
		for _, p := range problems {
			if p.Message == "" || strings.HasSuffix(p.Message, ".") || strings.HasSuffix(p.Hint, ".") {
				t.Errorf("problem %v: want a text without a full stop", p)
			}
			if strings.Contains(p.String(), "hunter2") {
				t.Errorf("problem %v repeats a password", p)
			}
			if p.Source == "" && p.Line == 0 {
				t.Errorf("problem %v has no place", p)
			}
		}
	})
}

// Line ends do not move places, nor does a byte order mark.
func TestLineEnds(t *testing.T) {
	const text = "# a\n\nlisteners:\n  - address: x\n\n\ndrian: 1s\n"
	_, err := LoadBytes("f", []byte(text), Options{})
	if err == nil {
		t.Fatal("no error")
	}
	for name, data := range map[string]string{
		"CR LF": strings.ReplaceAll(text, "\n", "\r\n"),
		"CR":    strings.ReplaceAll(text, "\n", "\r"),
		"BOM":   "\uFEFF" + text,
	} {
		if _, got := LoadBytes("f", []byte(data), Options{}); got == nil || got.Error() != err.Error() {
			t.Errorf("%s: got\n%v\nwant\n%v", name, got, err)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(missing, Options{}); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), missing) != 1 {
		t.Errorf("Load of a missing file: got %v, want the path once and fs.ErrNotExist", err)
	}
	if _, err := Load(t.TempDir(), Options{}); err == nil {
		t.Errorf("Load of a folder: got no error")
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	if _, err := find("", first, second); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), first+" and "+second) {
		t.Errorf("find without files: got %v, want both places and fs.ErrNotExist", err)
	}
	for _, path := range []string{second, first} { // the later file hides the earlier
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := find("", first, second); err != nil || got != path {
			t.Errorf("find: got %q, %v, want %q", got, err, path)
		}
	}
	if got, err := find("explicit", first, second); err != nil || got != "explicit" {
		t.Errorf("find(explicit): got %q, %v", got, err)
	}
}

// The shipped file loads without environment, and says what the README says.
func TestShipped(t *testing.T) {
	cfg, err := Load("../gateway.yaml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Listeners) != 2 || cfg.Listeners[0].Address != "127.0.0.1:8080" || cfg.Listeners[0].Protocol != ProtocolHTTP ||
		cfg.Listeners[1].Address != "127.0.0.1:7000" || cfg.Listeners[1].Protocol != ProtocolFramed || cfg.Listeners[1].Route != "echo" {
		t.Errorf("listeners: got %+v", cfg.Listeners)
	}
	if cfg.Admin.Address != "127.0.0.1:8081" {
		t.Errorf("admin: got %s", cfg.Admin.Address)
	}
	r := cfg.Routes[0]
	name, b := cfg.BackendOf(&r)
	if r.Match.Path.String() != "/echo" || r.Delivery != DeliverySync || len(r.SOAP.Accept) != 2 ||
		name != "echo" || len(b.Nodes) != 1 || b.Nodes[0].URL.String() != "builtin:echo" {
		t.Errorf("route: got %+v to %s %+v", r, name, b)
	}
	orders := cfg.Routes[1]
	if orders.Match.Path.String() != "/orders" || orders.Delivery != DeliveryQueue || cfg.Store.Durability != DurabilityStrict ||
		filepath.Base(string(cfg.Store.Dir)) != "data" {
		t.Errorf("queue route: got %+v, store %+v", orders, cfg.Store)
	}
	if got, want := cfg.Files(), cfg.Path(); len(got) != 1 || filepath.Base(got[0]) != filepath.Base(want) {
		t.Errorf("Files: got %v, want only the file itself", got)
	}
}

// What the file shows as an example works when it is uncommented.
func TestShippedExample(t *testing.T) {
	data, err := os.ReadFile("../gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, line := range []string{"- name: quotes", "  match: {path: /quotes}", `  to: ["http://10.0.0.5:9000/quotes", "http://10.0.0.6:9000/quotes"]`} {
		if !strings.Contains(text, "  # "+line+"\n") {
			t.Fatalf("the example has no line %q", line)
		}
		text = strings.Replace(text, "  # "+line, "  "+line, 1)
	}
	cfg, err := LoadBytes("gateway.yaml", []byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Routes) != 3 || len(cfg.Routes[2].To) != 2 {
		t.Errorf("routes: got %+v", cfg.Routes)
	}
}
