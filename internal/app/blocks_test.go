package app

import (
	"path/filepath"
	"strings"
	"testing"

	"soapway/config"
)

// TestBlocks: what is wrong with the file of a header block is told at its key,
// with the place in the file.
func TestBlocks(t *testing.T) {
	dir := t.TempDir()
	tests := []struct{ content, want string }{
		{"<a xmlns='urn:a'/>", ""},
		{"<a/>", "block.xml:1:1: the element has no namespace"},
		{"<a xmlns='urn:a'>\n <b></a>", "block.xml:2:5: "},
		{"<a xmlns='urn:a'/><b xmlns='urn:b'/>", "block.xml:1:19: "},
		{"<p:a/>", "block.xml:1:2: "},
		{"<!DOCTYPE a>", "block.xml:1:1: "},
		{"<a xmlns='urn:a'>" + strings.Repeat("x", maxBlockFile) + "</a>", "a header block may have 65536"},
	}
	file := filepath.Join(dir, "block.xml")
	for _, tt := range tests {
		write(t, file, tt.content)
		cfg, err := config.LoadBytes("gateway.yaml", []byte(head+`
routes:
  - {name: fixed, match: {path: /a}, to: ["builtin:echo"], soap: {add: "`+file+`"}}
`), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = Check(cfg)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("Check with %q: got %v, want nil", tt.content, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "routes.fixed.soap.add")):
			t.Errorf("Check with %q: got %v, want %q at its key", tt.content, err, tt.want)
		}
	}
}
