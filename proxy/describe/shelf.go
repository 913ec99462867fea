package describe

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Shelf keeps documents in a folder, each in a file of its own: one line of
// JSON, then the octets. A file that is damaged counts as missing. nil keeps
// nothing.
type Shelf struct {
	dir string

	mu    sync.Mutex
	files int // -1: not counted yet

	list  sync.Once
	roots map[string][]Location // as they were at the first use
}

// maxFiles bounds a shelf: whoever asks for names that nobody has heard of must
// not fill the disk, even where the backend has an answer to each.
const maxFiles = 2000

var errShelfFull = fmt.Errorf("describe: %d documents are kept already", maxFiles)

// unread is for how long a document is kept that nobody asks for.
const unread = 90 * 24 * time.Hour

// NewShelf returns the shelf in a folder, which is made when there is something
// to be kept. What nobody has asked for in 90 days is then forgotten.
func NewShelf(dir string) *Shelf { return &Shelf{dir: dir, files: -1} }

// tidy makes the folder and counts what is in it; mu is held.
func (s *Shelf) tidy() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("describe: folder of descriptions: %w", err)
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("describe: folder of descriptions: %w", err)
	}
	s.files = len(files)
	for _, e := range files {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > unread &&
			os.Remove(filepath.Join(s.dir, e.Name())) == nil {
			s.files--
		}
	}
	return nil
}

// label is the first line of a file.
type label struct {
	Name     string   `json:"name"`
	Location Location `json:"location"`
	Type     string   `json:"type"`
	ETag     string   `json:"etag,omitempty"`
	Modified string   `json:"modified,omitempty"`
	Sum      string   `json:"sha256"`
}

// Roots are the descriptions of services, by the usual query, that are kept under
// a name.
func (s *Shelf) Roots(name string) []Location {
	if s == nil {
		return nil
	}
	s.list.Do(s.index)
	return s.roots[name]
}

// index reads the labels of all files.
func (s *Shelf) index() {
	s.roots = map[string][]Location{}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return // nothing was kept yet
	}
	for _, e := range files {
		f, err := os.Open(filepath.Join(s.dir, e.Name()))
		if err != nil {
			continue
		}
		line, err := bufio.NewReader(io.LimitReader(f, 64<<10)).ReadBytes('\n')
		f.Close()
		var l label
		if err != nil || json.Unmarshal(line, &l) != nil {
			continue
		}
		if _, query, _ := strings.Cut(string(l.Location), "?"); strings.EqualFold(query, "wsdl") {
			s.roots[l.Name] = append(s.roots[l.Name], l.Location)
		}
	}
}

func (s *Shelf) path(name string, at Location) string {
	sum := sha256.Sum256([]byte(name + "\x00" + string(at)))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16]))
}

func (s *Shelf) load(name string, at Location) (*Document, bool) {
	if s == nil {
		return nil, false
	}
	f, err := os.Open(s.path(name, at))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	r := bufio.NewReader(io.LimitReader(f, MaxDocument+64<<10))
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, false
	}
	var l label
	if json.Unmarshal(line, &l) != nil || l.Name != name || l.Location != at {
		return nil, false
	}
	body, err := io.ReadAll(r)
	sum := sha256.Sum256(body)
	if err != nil || hex.EncodeToString(sum[:]) != l.Sum {
		return nil, false
	}
	d, err := newDocument(at, &Copy{Type: l.Type, ETag: l.ETag, Modified: l.Modified}, body, sum)
	if err != nil {
		return nil, false
	}
	return d, true
}

// save writes beside the old file and takes its place, so that none is half
// there.
func (s *Shelf) save(name string, d *Document) error {
	if s == nil {
		return nil
	}
	line, err := json.Marshal(label{name, d.Location, d.Type, d.etag, d.modified, hex.EncodeToString(d.sum[:])})
	if err != nil {
		return err
	}
	path := s.path(name, d.Location)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files < 0 {
		if err := s.tidy(); err != nil {
			return err
		}
	}
	_, err = os.Stat(path)
	isNew := err != nil
	if isNew && s.files >= maxFiles {
		return errShelfFull
	}
	f, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.MultiReader(bytes.NewReader(append(line, '\n')), bytes.NewReader(d.Body)))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	switch {
	case err != nil:
		os.Remove(f.Name())
	case isNew:
		s.files++
	}
	return err
}

// touch notes that a document is still asked for.
func (s *Shelf) touch(name string, at Location) {
	if s != nil {
		now := time.Now()
		os.Chtimes(s.path(name, at), now, now) // or it is forgotten earlier
	}
}
