package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoStore: there is no store in the directory.
var ErrNoStore = errors.New("there is no store")

// hasStore says whether dir holds a store, by its identity or, where that was
// lost, by its streams; or one that a restore has not yet put in place.
func hasStore(dir string) error {
	for _, name := range []string{identityName, restoredName, filepath.Join("jetstream", "$G", "streams", streamLog)} {
		_, err := os.Stat(filepath.Join(dir, name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("%w in %s", ErrNoStore, dir)
}
