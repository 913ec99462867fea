package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"soapway/config"
	"soapway/internal/app"
)

// Every file of the tutorial is one that the gateway takes.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "front-a-service.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	if len(blocks) != 4 {
		t.Errorf("%d files, want 4", len(blocks))
	}
	for i, b := range blocks {
		text, _, _ := strings.Cut(b, "```")
		file := filepath.Join(t.TempDir(), "front.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, config.Options{})
		if err == nil {
			err = app.Check(cfg)
		}
		if err != nil {
			t.Errorf("file %d: %v\n%s", i+1, err, text)
		}
	}
}
