//go:build !linux

package faultlab

import (
	"os"
	"testing"
)

// A disk whose power can be cut is there on Linux only.
type disk struct{ mount string }

func mountDisk(t testing.TB, _ int64) *disk {
	t.Skip("a disk of its own needs Linux")
	return nil
}

func mountMemory(t testing.TB, _ int64) *disk {
	t.Skip("a tmpfs needs Linux")
	return nil
}

func (*disk) on() error  { return nil }
func (*disk) off() error { return nil }
func (*disk) cut() error { return nil }

func (*disk) reserve(*os.File, int64) {}

func (*disk) free() int64 { return 0 }

func noDisk() string { return "a disk of its own needs Linux" }

func unsafeFilesystem(string) string { return "" }

func claim(string) (func(), error) { return func() {}, nil }

func sweep(string) {}
