package queue

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUnsafeMagic(t *testing.T) {
	for magic, want := range map[uint32]string{
		unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.FUSE_SUPER_MAGIC: "FUSE",
		unix.NFS_SUPER_MAGIC: "NFS", unix.V9FS_MAGIC: "9p", unix.EXT4_SUPER_MAGIC: "", unix.XFS_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "",
	} {
		if got := unsafeMagic(magic); got != want {
			t.Errorf("unsafeMagic(%#x): got %q, want %q", magic, got, want)
		}
	}
}

// TestCheckDirTmpfs uses the machine's shared memory, which is tmpfs nearly everywhere.
func TestCheckDirTmpfs(t *testing.T) {
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if unix.Statfs(shm, &st) != nil || int64(st.Type) != unix.TMPFS_MAGIC {
		t.Skip("no tmpfs at " + shm)
	}
	dir := filepath.Join(shm, "soapway-queue-test", "not", "there")
	err := CheckDir(dir, Strict)
	if err == nil || !strings.Contains(err.Error(), "tmpfs") || !strings.Contains(err.Error(), dir) {
		t.Errorf("CheckDir: got %v, want it to name tmpfs and the directory", err)
	}
	if err := CheckDir(dir, Relaxed); err != nil {
		t.Errorf("CheckDir relaxed: %v", err)
	}
	if _, err := OpenEmbedded(StoreOptions{Dir: dir}); err == nil {
		t.Error("OpenEmbedded: no error")
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(dir))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused store left something behind: %v", err)
	}
}

func TestCheckDirFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckDir(file, Strict); err == nil {
		t.Error("CheckDir of a file: no error")
	}
}
