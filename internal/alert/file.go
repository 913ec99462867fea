package alert

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is what a restart must know: the alarms that somebody was told of.
type file struct {
	Version int         `json:"version"` // 1
	Told    []fileAlarm `json:"told"`
}

type fileAlarm struct {
	Kind    string    `json:"kind"`
	Subject string    `json:"subject,omitempty"`
	Text    string    `json:"text"`
	Since   time.Time `json:"since"`
}

// maxFile bounds the file: all alarms with the longest texts.
const maxFile = 2 << 20

// load takes up the alarms of the file, as seen at this moment: those that are over
// close in due time. A file that cannot be read costs a repeated notice.
func (w *Watcher) load(path string) {
	if path == "" {
		return
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var f file
	if err == nil && len(b) <= maxFile {
		err = json.Unmarshal(b, &f)
	}
	if err != nil || f.Version != 1 {
		w.opt.Log.Warn("the file of alarms that were told cannot be read: they may be told again", "file", path, "err", err)
		return
	}
	now := time.Now()
	for _, a := range f.Told[:min(len(f.Told), maxAlarms)] {
		k := key{a.Kind, a.Subject}
		if old := w.alarms[k]; old != nil {
			old.told, old.since = true, a.Since
			continue
		}
		w.alarms[k] = &alarm{Condition: Condition{Kind: a.Kind, Subject: a.Subject, Text: a.Text}, since: a.Since, seen: now, told: true, calm: w.opt.Calm}
	}
}

// save writes the file. It is not synced: what a power cut takes is told again.
func (w *Watcher) save(path string) {
	if path == "" {
		return
	}
	f := file{Version: 1, Told: []fileAlarm{}}
	for _, a := range w.alarms {
		if a.told {
			f.Told = append(f.Told, fileAlarm{a.Kind, a.Subject, a.Text, a.since.UTC()})
		}
	}
	if err := write(path, &f); err != nil {
		w.opt.Log.Debug("the file of alarms that were told cannot be written", "file", path, "err", err)
	}
}

func write(path string, f *file) (err error) {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(b)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
