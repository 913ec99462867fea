package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"soapway/internal/durable"
)

// syncTree makes all files below dir durable, where there is no sync of a filesystem too.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return durable.SyncDir(path)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		err = f.Sync()
		if e := f.Close(); err == nil {
			err = e
		}
		return err
	})
}

// commit puts the store in its place.
func (r *restore) commit() error {
	if err := os.Rename(filepath.Join(r.dir, restoringName), filepath.Join(r.dir, restoredName)); err != nil {
		return err
	}
	if err := durable.SyncDir(r.dir); err != nil {
		return err
	}
	return finishRestore(r.dir, r.opt.Log)
}

// What a restore leaves in the store's directory while it is at work.
const (
	restoringName  = "restoring" // a store that is being made
	restoredName   = "restored"  // one that is whole and has not yet been put in place
	replacesName   = "replaces"  // in it: where what it replaces is to be moved
	replacedPrefix = "replaced-"
)

// storeEntries are what a store consists of.
var storeEntries = []string{"jetstream", "blobs", identityName}

// finishRestore puts a store in place that a restore has made whole. Every step
// may be the last before a kill; the next call goes on from there.
func finishRestore(dir string, log *slog.Logger) error {
	from := filepath.Join(dir, restoredName)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	marker := filepath.Join(from, replacesName)
	name, err := os.ReadFile(marker)
	if err == nil {
		// As long as the marker is there nothing was moved into place, so
		// whatever is there is the old store.
		old := filepath.Join(dir, filepath.Base(string(name)))
		if err := os.Mkdir(old, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := moveStore(dir, old); err != nil {
			return err
		}
		if err := os.Remove(marker); err != nil {
			return err
		}
		if err := durable.SyncDir(from); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := moveStore(from, dir); err != nil {
		return err
	}
	if err := os.Remove(from); err != nil {
		return err
	}
	log.Info("the restored store is in place", "dir", dir)
	return durable.SyncDir(dir)
}

// moveStore moves what a store consists of. Nothing is replaced.
func moveStore(from, to string) error {
	for _, e := range storeEntries {
		src, dst := filepath.Join(from, e), filepath.Join(to, e)
		if _, err := os.Lstat(src); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("queue: restore: %s is in the way of %s", dst, src)
		}
		if err := os.Rename(src, dst); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(from); err != nil {
		return err
	}
	return durable.SyncDir(to)
}
