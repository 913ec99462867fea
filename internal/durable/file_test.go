package durable

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for _, text := range []string{"first", "second, longer", ""} {
		if err := WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	if st, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	// A rename that fails leaves nothing behind.
	full := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(full, []byte("text"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := WriteFile(filepath.Join(dir, "nowhere", "f"), nil, 0o600); err == nil {
		t.Error("a file in no folder was written")
	}
}
