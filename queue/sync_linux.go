package queue

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openSync returns a function that writes everything of dir's filesystem to
// the disk, or nil where the server must sync each message by itself.
//
// The descriptor must be opened before anything is written and be kept open:
// the kernel reports a failed write-back once to each open file description
// that existed when it failed, and to syncfs only since Linux 5.8. An older
// kernel gets no group sync for that reason.
func openSync(dir string) (sync func() error, done func() error, err error) {
	if !syncfsReports() {
		return nil, func() error { return nil }, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		for {
			err := unix.Syncfs(int(f.Fd()))
			if err == unix.EINTR {
				continue // not started; nothing was reported
			}
			if err != nil {
				return fmt.Errorf("syncfs %s: %w", dir, err)
			}
			return nil
		}
	}, f.Close, nil
}

func syncfsReports() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	parts := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(strings.TrimFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' }))
	return err == nil && (major > 5 || major == 5 && minor >= 8)
}

// unsafeFilesystem names the kind of filesystem dir is on if a sync of it
// proves nothing, and is empty otherwise.
func unsafeFilesystem(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	return unsafeMagic(uint32(st.Type))
}

func unsafeMagic(magic uint32) string {
	switch magic {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC:
		return "SMB"
	}
	return ""
}
