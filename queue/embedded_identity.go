package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"soapway/internal/durable"
)

// identityName holds what a store is, beside its streams.
const identityName = "store.json"

// identity is the content of store.json.
type identity struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Epoch   uint64    `json:"epoch"`
	Clean   bool      `json:"clean"`             // the last stop was orderly
	Streams bool      `json:"streams"`           // they were made once, so they must be there
	Replies bool      `json:"replies,omitempty"` // so was the stream of replies, which older stores lack
	Opened  time.Time `json:"opened"`
	// Counts are the records of each stream at the last orderly stop.
	Counts map[string]uint64 `json:"counts,omitempty"`
	// Keys names every key that something in the store may be sealed with, and
	// by noKey says that something may not be. Empty: nothing was ever sealed.
	Keys []string `json:"keys,omitempty"`

	// Doubt says that records are missing that may have claimed bodies, and that those
	// without a record were not set aside since.
	Doubt bool `json:"doubt,omitempty"`

	lost bool // there was none: it is new, or the one beside the streams is gone
}

// readIdentity reads store.json. A missing one makes a new identity; what can
// not be understood is an error and is left as it is.
func readIdentity(dir string) (identity, error) {
	name := filepath.Join(dir, identityName)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		id, err := uuid.NewV7()
		return identity{Format: Format, ID: id.String(), Clean: true, lost: true}, err
	}
	if err != nil {
		return identity{}, err
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return identity{}, fmt.Errorf("queue: %s can not be read and was left as it is: %w", name, err)
	}
	if id.Format > formatSealed {
		return identity{}, fmt.Errorf("queue: %s: the store has format %d, this program knows %d (use a newer one)", name, id.Format, formatSealed)
	}
	if id.Format < 1 || id.ID == "" {
		return identity{}, fmt.Errorf("queue: %s is incomplete and was left as it is", name)
	}
	return id, nil
}

// write replaces store.json so that a power cut leaves the old or the new one.
func (id identity) write(dir string) error {
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, identityName), append(b, '\n'), 0o600)
}

// nearestDir returns dir, or the nearest directory above it that exists.
func nearestDir(dir string) (string, error) {
	for {
		st, err := os.Stat(dir)
		if err == nil {
			if !st.IsDir() {
				return "", fmt.Errorf("queue: %s is not a directory", dir)
			}
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return "", err
		}
		dir = parent
	}
}

// doubtBodies notes that records are missing that may have claimed bodies. The next
// start does not find that out again: what was damaged is mended, what is missing noted.
func (s *Embedded) doubtBodies() {
	s.blobs.doubt.Store(true)
	if s.idNow().Doubt {
		return
	}
	if err := s.identity(func(id *identity) { id.Doubt = true }); err != nil {
		s.opt.Log.Warn("that records are missing could not be noted", "err", err)
	}
}

// bodiesSettled notes that all bodies without a record were looked for.
func (s *Embedded) bodiesSettled() {
	if !s.idNow().Doubt {
		return
	}
	if err := s.identity(func(id *identity) { id.Doubt = false }); err != nil {
		s.opt.Log.Warn("that bodies were set aside could not be noted", "err", err)
	}
}
