package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptFlipFile changes one bit in the middle of a file: of a block, in one of its
// records' headers or data.
func scriptFlipFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: flip-file FILE")
	}
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(name, b, 0o600))
}

// TestStoreProgress: away from a terminal there is a line every few seconds.
func TestStoreProgress(t *testing.T) {
	var stderr bytes.Buffer
	p := (&cli{stderr: &stderr}).progress("backup")
	p.tell(1<<20, 0)
	if stderr.Len() > 0 {
		t.Errorf("at once: %q", stderr.String())
	}
	p.last = time.Now().Add(-6 * time.Second)
	p.tell(1<<20, 0)
	p.tell(2<<20, 0)
	p.last = time.Now().Add(-6 * time.Second)
	p.tell(3<<20, 4<<20)
	p.end()
	want := "gateway: backup: 1.0 MiB\ngateway: backup: 3.0 MiB of 4.0 MiB, 75 %\n"
	if got := stderr.String(); got != want {
		t.Errorf("progress: got %q, want %q", got, want)
	}

	stderr.Reset()
	p.live, p.every = true, 0
	p.tell(1<<20, 2<<20)
	p.end()
	if got := stderr.String(); !strings.HasPrefix(got, "\rbackup: 1.0 MiB of 2.0 MiB, 50 %") || !strings.HasSuffix(got, " \r") {
		t.Errorf("progress on a terminal: got %q", got)
	}
}
