package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// An Audit is the file that has a line of JSON for each change that somebody has
// made through the API, or was refused: who, what, when, and what it was like
// before and after; and one for what other sites were refused or given. Secrets and contents of messages are never in it. Each line is
// on the disk before its change is answered. Who moves the file away, to rotate it,
// finds the next line in a new one.
//
// A line that cannot be written is an error of the log and keeps nothing from being
// done: an operator who must make room on a full disk is let do so.
type Audit struct {
	path string
	log  *slog.Logger

	refusals refusals // of [Audit.Note]

	mu   sync.Mutex
	file *os.File // guarded by mu; nil once closed
}

// A Note is a line about what has not come through the API: another site that was
// refused, an invitation that was made.
type Note struct {
	Action string // such as site-invite
	Result string // done, failed or refused
	Client string // an address, or local
	What   map[string]any
	Error  string // why not, one line
}

// Note writes a line. Of those that were refused a hundred are written at once, then
// one each second, and the next has the number of those left out: strangers must not
// fill the disk. a may be nil.
func (a *Audit) Note(n Note) {
	if a == nil {
		return
	}
	l := &auditLine{Action: n.Action, Result: n.Result, Client: n.Client, What: n.What, Error: short(n.Error)}
	if n.Result == resultRefused {
		var ok bool
		if l.Missed, ok = a.refusals.note(); !ok {
			return
		}
	}
	a.write(l)
}

// resultRefused is the result of what somebody was not let do.
const resultRefused = "refused"

// OpenAudit opens a file for lines to be added, or makes it, readable by its owner
// alone.
func OpenAudit(path string, log *slog.Logger) (*Audit, error) {
	a := &Audit{path: path, log: log}
	var err error
	a.file, err = openAudit(path)
	return a, err
}

// openAudit opens the file so that its next octet begins a line.
func openAudit(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no regular file")}
	}
	if err == nil && i.Size() > 0 { // a power cut may have left half a line
		var last [1]byte
		if _, err = f.ReadAt(last[:], i.Size()-1); err == nil && last[0] != '\n' {
			_, err = io.WriteString(f, "\n")
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close lets go of the file. a may be nil, and used after that: nothing is written.
func (a *Audit) Close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	f := a.file
	a.file = nil
	return f.Close()
}

// Reopen goes on in the file that has the name now. a may be nil.
func (a *Audit) Reopen() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reopen()
}

func (a *Audit) reopen() error {
	if a.file == nil {
		return nil
	}
	f, err := openAudit(a.path)
	if err != nil {
		return err // the file of before is better than none
	}
	old := a.file
	a.file = f
	return old.Close()
}

// moved reports whether the file that is written has lost its name.
func (a *Audit) moved() bool {
	named, err := os.Stat(a.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	own, err := a.file.Stat()
	return err == nil && !os.SameFile(named, own)
}

// auditLine is one line. Its form is described in docs/operations.md.
type auditLine struct {
	Time   time.Time      `json:"time"`
	Action string         `json:"action"`
	Result string         `json:"result"` // done, failed, refused
	Client string         `json:"client,omitempty"`
	Token  bool           `json:"token"`           // the caller has shown the token
	Agent  string         `json:"agent,omitempty"` // User-Agent, cut
	What   map[string]any `json:"what,omitempty"`
	Before any            `json:"before,omitempty"`
	After  any            `json:"after,omitempty"`
	Error  string         `json:"error,omitempty"`
	// Missed is how many refusals before this one have no line, because there were
	// too many at once.
	Missed int `json:"missed,omitempty"`
}

// write adds a line. a may be nil.
func (a *Audit) write(l *auditLine) {
	if a == nil {
		return
	}
	l.Time = time.Now().UTC()
	b, err := json.Marshal(l)
	if err != nil {
		a.log.Error("a line of the audit file cannot be made", "action", l.Action, "err", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return
	}
	if a.moved() {
		if err := a.reopen(); err != nil {
			a.log.Error("the audit file was moved and cannot be made anew; the old one is written on", "file", a.path, "err", err)
		}
	}
	_, err = a.file.Write(append(b, '\n'))
	if err == nil {
		err = a.file.Sync()
	}
	if err != nil {
		a.log.Error("the audit file cannot be written", "file", a.path, "action", l.Action, "result", l.Result, "client", l.Client, "err", err)
	}
}

// agent is what a client says of itself.
func agent(r *http.Request) string {
	const most = 100
	s := r.UserAgent()
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// pairs makes a map of names and values as slog takes them.
func pairs(what []any) map[string]any {
	m := make(map[string]any, len(what)/2)
	for i := 0; i+1 < len(what); i += 2 {
		m[fmt.Sprint(what[i])] = what[i+1]
	}
	return m
}
