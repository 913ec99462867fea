package faultlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A disk is an ext4 of its own in a file, which can lose its power, or a tmpfs.
type disk struct {
	t     testing.TB
	image string // empty = a tmpfs
	size  int64
	mount string
}

// mountMemory makes a tmpfs of this size, or skips the test where that cannot be
// done.
func mountMemory(t testing.TB, size int64) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a tmpfs of its own needs root")
	}
	d := &disk{t: t, size: size, mount: filepath.Join(scratch, fmt.Sprintf("memory-%d", time.Now().UnixNano()))}
	if err := os.Mkdir(d.mount, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.on(); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := d.off(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(d.mount)
	})
	return d
}

// mountDisk makes a disk, or skips the test where that cannot be done.
func mountDisk(t testing.TB, size int64) *disk {
	t.Helper()
	if why := noDisk(); why != "" {
		t.Skip(why)
	}
	dir, err := os.MkdirTemp(scratch, "disk-")
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{t: t, size: size, image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mnt")}
	if err := os.Mkdir(d.mount, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v %s", err, out)
	}
	if err := d.on(); err != nil {
		t.Skipf("no loop device here: %v", err)
	}
	t.Cleanup(func() {
		if err := d.off(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return d
}

// noDisk says why there can be no disk here; empty = there can.
func noDisk() string {
	if os.Geteuid() != 0 {
		return "a disk of its own needs root"
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		return "a disk of its own needs mkfs.ext4"
	}
	return ""
}

// reserve takes nearly all the room beyond so much, without writing it.
func (d *disk) reserve(f *os.File, leave int64) {
	const rest = 8 << 20 // for what others write meanwhile, and the filesystem itself
	if n := d.free() - leave - rest; n > 0 {
		_ = unix.Fallocate(int(f.Fd()), 0, 0, n) // what it does not get is written
	}
}

// free is how many octets are left.
func (d *disk) free() int64 {
	var st unix.Statfs_t
	if unix.Statfs(d.mount, &st) != nil {
		return 0
	}
	return int64(st.Bfree) * st.Bsize
}

func (d *disk) on() error {
	args := []string{"-o", "loop", d.image, d.mount}
	if d.image == "" {
		args = []string{"-t", "tmpfs", "-o", fmt.Sprintf("size=%d", d.size), "tmpfs", d.mount}
	}
	out, err := exec.Command("mount", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

func (d *disk) off() error { return unmount(d.mount) }

// unmount waits for what is still on its way out of a mount point.
func unmount(mount string) error {
	var err error
	if eventually(5*time.Second, func() bool {
		err = unix.Unmount(mount, 0)
		return err != unix.EBUSY
	}) && (err == nil || err == unix.EINVAL) { // EINVAL: it is none
		return nil
	}
	return errors.Join(fmt.Errorf("unmount %s: %w", mount, err), unix.Unmount(mount, unix.MNT_DETACH))
}

// shutdownRequest is FS_IOC_SHUTDOWN, _IOR('X', 125, __u32); noFlush is the
// flag that drops everything that is not on the disk, the journal included.
const (
	shutdownRequest = 0x8004587d
	noFlush         = 2
)

// cut takes the power away: from this moment nothing reaches the disk.
func (d *disk) cut() error {
	f, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), shutdownRequest, noFlush)
}

// unsafeFilesystem names the kind of filesystem a directory is on if a strict
// store refuses it.
func unsafeFilesystem(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.V9FS_MAGIC:
		return fmt.Sprintf("%#x", uint32(st.Type))
	}
	return ""
}

// lockName is held by a run for as long as it lives.
const lockName = "lock"

// claim marks a folder as that of a living run.
func claim(dir string) (release func(), err error) {
	f, err := os.Create(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// sweep cleans up after runs that were killed: their gateways, which are known
// by the binary of that run, their mounts, their files.
func sweep(root string) {
	runs, err := filepath.Glob(filepath.Join(root, "run-*"))
	if err != nil {
		return
	}
	for _, dir := range runs {
		f, err := os.Open(filepath.Join(dir, lockName))
		if err != nil {
			continue // just being made, or not ours to judge
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			killAll(filepath.Join(dir, "gateway"))
			for _, mount := range mountsBelow(dir) {
				_ = unmount(mount)
			}
			if len(mountsBelow(dir)) == 0 {
				os.RemoveAll(dir)
			}
		}
		f.Close()
	}
}

// killAll ends the processes whose executable is this file.
func killAll(exe string) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == exe {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

func mountsBelow(dir string) (mounts []string) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			mounts = append(mounts, f[1])
		}
	}
	return mounts
}
