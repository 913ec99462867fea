package durable

import (
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile makes data the content of a file with these permissions. It is written
// aside, synced and renamed, and the rename is synced too. After an error the file is
// as it was, unless the sync of its folder is what failed.
func WriteFile(name string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	for _, step := range []func() error{func() error { return f.Chmod(mode) }, f.Sync} {
		if err == nil {
			err = step()
		}
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return SyncDir(filepath.Dir(name))
}
