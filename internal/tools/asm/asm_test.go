package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What is committed is what the program writes.
func TestGenerated(t *testing.T) {
	out := filepath.Join(t.TempDir(), "stop_amd64.s")
	if b, err := exec.Command("go", "run", ".", "-out", out).CombinedOutput(); err != nil {
		t.Fatalf("go run .: %v\n%s", err, b)
	}
	body := func(file string) []byte {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := bytes.Cut(b, []byte("\n")) // the first line has the command, and so the folder
		return rest
	}
	committed := filepath.Join("..", "..", "..", "xmlstream", "stop_amd64.s")
	if !bytes.Equal(body(out), body(committed)) {
		t.Errorf("%s is not what this program writes: go run . -out %s", committed, committed)
	}
}
