//go:build unix

package main

import (
	"errors"
	"os"
	"testing"
)

func TestNotOurs(t *testing.T) {
	dir := t.TempDir()
	if err := notOurs(dir); err != nil {
		t.Errorf("own store: %v", err)
	}
	if err := notOurs(dir + "/none"); err != nil {
		t.Errorf("no store: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if p, ok := errors.AsType[*problem](notOurs(dir)); !ok || p.hint == "" {
		t.Errorf("root on the store of somebody else: got %v, want a problem with a hint", p)
	}
}
