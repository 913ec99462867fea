package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"soapway/internal/golden"
)

// caseInputs returns the configurations of all cases.
func caseInputs(tb testing.TB) [][]byte {
	tb.Helper()
	var out [][]byte
	for _, c := range golden.Glob(tb, "testdata/*.txtar") {
		out = append(out, c.File("gateway.yaml"))
	}
	return out
}

// No way of printing a secret shows it.
func TestSecret(t *testing.T) {
	const value = "hunter2"
	s := NewSecret(value)
	type holder struct {
		S Secret
		P *Secret
		M map[string]Secret
		u Secret
	}
	h := holder{S: s, P: &s, M: map[string]Secret{"k": s}, u: s}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "h", h, "p", &s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "p", &s)
	asJSON, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(map[string]any{"s": s, "p": &s})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(asJSON), string(asYAML), s.String(), s.GoString(), s.LogValue().String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%t", "%10s", "%T"} {
		texts = append(texts, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, h.S))
	}
	for _, verb := range []string{"%v", "%+v"} {
		texts = append(texts, fmt.Sprintf(verb, h.M), fmt.Sprintf(verb, []Secret{s}))
	}
	for _, text := range texts {
		if strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
			t.Errorf("shown in %q", text)
		}
	}
	if got := fmt.Sprintf("%s|%v|%q", s, s, s); got != `[redacted]|[redacted]|"[redacted]"` {
		t.Errorf("printed as %s", got)
	}
	if s.Reveal() != value || s.IsZero() || !s.Equal(NewSecret(value)) || s.Equal(NewSecret("x")) {
		t.Errorf("the value is lost")
	}
	var none Secret
	if none.String() != "" || !none.IsZero() {
		t.Errorf("an empty secret prints as %q", none)
	}
}

func TestURLRedaction(t *testing.T) {
	for _, raw := range []string{"nats://user:hunter2@h:4222", "https://hunter2@h/x", "https://h/x?key=hunter2"} {
		u := URL{raw: raw}
		asJSON, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{u.String(), u.GoString(), fmt.Sprintf("%v %s %q %#v", u, u, u, u), string(asJSON), u.LogValue().String()} {
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s is shown in %q", raw, text)
			}
		}
		if u.Reveal() != raw {
			t.Errorf("Reveal: got %s, want %s", u.Reveal(), raw)
		}
	}
	if got := (URL{raw: "https://h:1/x"}).String(); got != "https://h:1/x" {
		t.Errorf("a URL without secrets prints as %s", got)
	}
}

// The printed configuration has no secret, and without secrets it loads again
// to the same values.
func TestRedacted(t *testing.T) {
	file := golden.Glob(t, "testdata/good-full.txtar")[0].File("gateway.yaml")
	const value = "hunter2"
	text := strings.ReplaceAll(string(file), "file:token", value)
	cfg, err := LoadBytes("f", []byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := string(cfg.Redacted())
	if strings.Contains(out, value) || strings.Count(out, "[redacted]") != 3 {
		t.Errorf("Redacted: want three secrets hidden and none shown:\n%s", out)
	}
	if cfg.Admin.Token.Reveal() != value {
		t.Errorf("token: got %q", cfg.Admin.Token.Reveal())
	}
	// [redacted] is a value like any other, so this loads too.
	again, err := LoadBytes("f", []byte(out), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(again.Redacted()); got != out {
		t.Errorf("loaded and printed again it is another:\n%s", got)
	}
}

func TestQuoteYAML(t *testing.T) {
	for _, text := range []string{
		"", " ", "a", "null", "~", "true", "1.10", "0x10", "a: b", "a #b", "#a", "- a", "&a", "*a", "!a", "%a", "@a", "`a", "'", `"`, `\`, "a\nb", "\t", "[a]", "{a}", "a,b",
		"${X}", "$${X}", "é", "\u2028", "\U0001F600", "\x7f", "\x01", "\ufeff", "a:", ":a", "2026-11-30", "<<", "?", "|", ">", "---", "...", "/a/*", "{urn:x}y", "none", strings.Repeat("x ", 500),
	} {
		for _, format := range []string{"namespaces:\n  p: %s\n", "namespaces: {p: %s}\n"} {
			var problems []string
			n := parseTree("f", fmt.Appendf(nil, format, quoteYAML(text)), expander(nil, map[string]bool{}), func(_ place, _, message, _ string) {
				problems = append(problems, message)
			})
			got := n.get("namespaces").get("p")
			if got == nil || got.kind != scalar || got.text != text || len(problems) > 0 {
				t.Errorf("quoteYAML(%q) = %s: reads as %+v, %v", text, quoteYAML(text), got, problems)
			}
		}
	}
}
