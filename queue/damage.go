package queue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"soapway/internal/durable"
)

// Damage is a part of a store that is not as it was written.
type Damage struct {
	// Stream says what was kept there: messages, dead letters, replies or
	// states; empty for a file beside them.
	Stream string `json:"stream,omitempty"`
	// File is relative to the store's directory, Offset and Length are the
	// damaged octets in it; Length 0 means all, or that the place is not known.
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Length int64  `json:"length,omitempty"`
	// Seq is the number in the log of a message that is not there any more.
	Seq uint64 `json:"seq,omitempty"`
	// ID and Route are the message's, as far as that can be told.
	ID    string `json:"id,omitempty"`
	Route string `json:"route,omitempty"`
	// Reason says what is wrong.
	Reason string `json:"reason"`
}

// Error makes a Damage what an observer is told.
func (d *Damage) Error() string {
	var b strings.Builder
	b.WriteString(d.Reason)
	if d.ID != "" {
		fmt.Fprintf(&b, ": message %s", d.ID)
		if d.Route != "" {
			fmt.Fprintf(&b, " of route %s", d.Route)
		}
	}
	if d.Seq != 0 {
		fmt.Fprintf(&b, ", number %d", d.Seq)
	}
	if d.Stream != "" {
		fmt.Fprintf(&b, ", of the %s", d.Stream)
	}
	if d.File != "" {
		fmt.Fprintf(&b, ", in %s", d.File)
		if d.Length > 0 {
			fmt.Fprintf(&b, " at %d (%d octets)", d.Offset, d.Length)
		}
	}
	return b.String()
}

// streamNames are the streams of a store, in the order in which they are looked
// at, and what is kept in them.
var streamNames = []struct{ stream, holds string }{
	{streamLog, "messages"},
	{streamDead, "dead letters"},
	{streamReply, "replies"},
	{streamDone, "delivered messages"},
	{streamState, "states"},
}

func holds(stream string) string {
	for _, n := range streamNames {
		if n.stream == stream {
			return n.holds
		}
	}
	return stream
}

// damagedPrefix begins the names of the directories, in that of the store, that
// keep damaged files as they were found.
const damagedPrefix = "damaged-"

// An aside is a directory for damaged files. It is made with the first of them.
type aside struct {
	store string // directory of the store
	dir   string // "" until it is made
}

// path returns where a file of the store is kept, and makes the directories
// that lead there.
func (a *aside) path(name string) (string, error) {
	if a.dir == "" {
		dir := filepath.Join(a.store, damagedPrefix+time.Now().UTC().Format("20060102T150405.000000Z"))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", err
		}
		if err := durable.SyncDir(a.store); err != nil {
			return "", err
		}
		a.dir = dir
	}
	rel, err := filepath.Rel(a.store, name)
	if err != nil {
		return "", err
	}
	to := filepath.Join(a.dir, rel)
	return to, os.MkdirAll(filepath.Dir(to), 0o700)
}

// copy keeps a copy of a file; it is on the disk when it returns. A file that is
// not there needs none.
func (a *aside) copy(name string) error {
	from, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := a.path(name)
	if err != nil {
		return err
	}
	return writeSynced(to, from)
}

// keep writes octets of a damaged file under its name and a suffix.
func (a *aside) keep(name, suffix string, b []byte) error {
	to, err := a.path(name + suffix)
	if err != nil {
		return err
	}
	return writeSynced(to, strings.NewReader(string(b)))
}

// move keeps a file and takes it out of the store.
func (a *aside) move(name string) error {
	if err := a.copy(name); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return durable.SyncDir(filepath.Dir(name))
}

// writeSynced makes a file that is on the disk when it returns.
func writeSynced(name string, from io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(name))
}
