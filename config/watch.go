package config

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchOptions configures [Watch]. The zero value works.
type WatchOptions struct {
	// Log gets a warning when the system cannot tell of changes. Default: discard.
	Log *slog.Logger

	// Since is the configuration that is in use: what changed after it was read
	// and before Watch was called is a change too. Default: only what changes
	// from now on.
	Since *Config

	quiet time.Duration // how long files are left alone first; default 100ms
	most  time.Duration // how long a change waits for that; default 1s
	poll  time.Duration // time between looks at what was not told of; default 5s
}

func (o WatchOptions) withDefaults() WatchOptions {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.quiet == 0 {
		o.quiet = 100 * time.Millisecond
	}
	if o.most == 0 {
		o.most = time.Second
	}
	if o.poll == 0 {
		o.poll = 5 * time.Second
	}
	return o
}

// Watch calls changed after any of the files changed and was then left alone
// for 100 ms, or keeps changing for a second. What changed returns is watched
// from then on; nil means the same files as before. changed is called from the
// goroutine of Watch, so never twice at once. Watch returns nil when ctx is
// done, and an error never: where the system cannot tell of changes (no
// inotify instance left, network file systems) a look at the files every 5 s
// finds them.
//
// Folders are watched, not files: editors and configuration managers put a new
// file in the place of the old, and Kubernetes turns a symbolic link.
func Watch(ctx context.Context, files []string, opt WatchOptions, changed func() []string) error {
	w := &watch{opt: opt.withDefaults(), changed: changed}
	var events <-chan fsnotify.Event
	var errs <-chan error
	n, err := fsnotify.NewWatcher()
	if err != nil {
		w.opt.Log.Warn("the system does not tell of changed files, looking every "+w.opt.poll.String(), "err", err)
	} else {
		defer n.Close()
		w.notify, events, errs = n, n.Events, n.Errors
	}
	w.set(files)
	if w.opt.Since != nil {
		w.seen = w.opt.Since.meta.seen
	}
	w.run(ctx, events, errs)
	return nil
}

// A watch is one call of Watch.
type watch struct {
	opt     WatchOptions
	changed func() []string
	notify  *fsnotify.Watcher // nil: only looks

	files []string
	names map[string]bool // directory entries whose change matters
	dirs  map[string]bool // watched by notify
	seen  map[string]fs.FileInfo
}

// set watches files instead of those before.
func (w *watch) set(files []string) {
	w.files = files
	w.names = map[string]bool{}
	w.seen = w.look()
	dirs := map[string]bool{}
	for _, f := range files {
		for _, name := range entriesOf(f) {
			w.names[name] = true
			dirs[filepath.Dir(name)] = true
		}
	}
	if w.notify == nil {
		return
	}
	for d := range w.dirs {
		if !dirs[d] {
			// It may be gone already, which is as good.
			_ = w.notify.Remove(d)
		}
	}
	for d := range dirs {
		w.names[d] = true // told of when the folder itself is moved or removed
		// Also for those watched before: the folder may be another by now.
		if err := w.notify.Add(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.opt.Log.Warn("cannot watch folder, looking every "+w.opt.poll.String(), "folder", d, "err", err)
		}
	}
	w.dirs = dirs
}

// run is the loop: it waits for events, for quiet after them, and looks now
// and then.
func (w *watch) run(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) {
	poll := time.NewTicker(w.opt.poll)
	defer poll.Stop()
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	defer quiet.Stop()
	var first time.Time // of the changes that wait; zero when none does
	touch := func() {
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		quiet.Reset(max(0, min(w.opt.quiet, w.opt.most-now.Sub(first))))
	}
	if w.differs(w.look()) {
		touch() // changed between the load and the first event that we hear
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
			} else if w.names[filepath.Clean(e.Name)] {
				touch()
			}
		case err, ok := <-errs:
			switch {
			case !ok:
				errs = nil
			case errors.Is(err, fsnotify.ErrEventOverflow):
				touch() // what was lost may have been ours
			default:
				w.opt.Log.Warn("watching files", "err", err)
			}
		case <-poll.C:
			if first.IsZero() && w.differs(w.look()) {
				touch()
			}
		case <-quiet.C:
			first = time.Time{}
			// What changes, comes or goes while changed reads must differ from
			// what is remembered.
			old, before := w.files, w.look()
			files := w.changed()
			if files == nil {
				files = old
			}
			w.set(files)
			for _, f := range old {
				if info, ok := before[f]; !ok {
					delete(w.seen, f)
				} else if slices.Contains(files, f) {
					w.seen[f] = info
				}
			}
			if w.differs(w.look()) {
				touch() // in a folder that was not watched yet
			}
		}
	}
}

// look returns the state of the files; one that is not there has none.
func (w *watch) look() map[string]fs.FileInfo { return look(w.files) }

func look(files []string) map[string]fs.FileInfo {
	seen := make(map[string]fs.FileInfo, len(files))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			seen[f] = info
		}
	}
	return seen
}

// differs reports whether the files are not as they were seen last.
func (w *watch) differs(now map[string]fs.FileInfo) bool {
	if len(now) != len(w.seen) {
		return true
	}
	for f, a := range now {
		b, ok := w.seen[f]
		if !ok || !os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime()) {
			return true
		}
	}
	return false
}

// entriesOf returns the directory entries that decide what path means: path
// itself, and every symbolic link on the way.
func entriesOf(path string) []string {
	entries := []string{filepath.Clean(path)}
	volume := filepath.VolumeName(path)
	at := volume + string(filepath.Separator)
	rest := strings.Split(strings.TrimPrefix(filepath.Clean(path), at), string(filepath.Separator))
	for links := 0; len(rest) > 0 && links < 40; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil { // no link
			at = next
			continue
		}
		links++
		entries = append(entries, next)
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
			target = strings.TrimPrefix(target, at)
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	return append(entries, at)
}
