package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"soapway/proxy"
)

const (
	// accessRoom is how many octets of lines wait for a slow disk, some 30000
	// lines. What comes while they are all taken is left out.
	accessRoom = 8 << 20
	// accessLook is how often a file is looked for that was renamed or removed.
	accessLook = time.Second
	// accessWarn is how often the log tells of lines that were left out.
	accessWarn = time.Minute
	// accessLast is how long a stop that is cut off waits for the last lines.
	accessLast = time.Second
)

// Access writes a line for each exchange. An exchange only appends its line to
// memory; [Access.Run] writes. So a disk that is slow, full or stuck holds up
// nobody: lines that find no room are left out and counted.
//
// Make it with [NewAccess]; it is off until [Access.Set].
type Access struct {
	log    *slog.Logger
	stdout io.Writer
	on     atomic.Bool
	json   atomic.Bool
	lost   *series

	wake chan struct{} // holds one: there is something to do

	mu      sync.Mutex
	lines   []byte  // whole lines that wait; at most accessRoom
	spare   []byte  // the memory of lines, while those are written
	next    *outlet // to write to from now on; nil = the one in use
	path    string  // of the file in use or to be used, "" = none
	reopen  bool    // the file was moved, perhaps
	dropped uint64  // lines left out since the log told so
}

// outlet is where lines go.
type outlet struct {
	w    io.Writer
	file *os.File // the w that is to be closed; nil for stdout and nowhere
	path string
}

func (o *outlet) close() {
	if o != nil && o.file != nil {
		_ = o.file.Close()
	}
}

// NewAccess returns an access log that is off. stdout is where lines go that are to
// go there; log is told of lines that were left out. Its figures are part of m.
func NewAccess(stdout io.Writer, log *slog.Logger, m *Metrics) *Access {
	a := &Access{
		log: log, stdout: stdout, wake: make(chan struct{}, 1),
		lost: m.registry.counter("gateway_access_log_dropped_total",
			"Lines of the access log that were left out, because its disk did not keep up or failed."),
	}
	return a
}

// AccessTarget says where lines go and how they look.
type AccessTarget struct {
	// Path is of a file that lines are appended to, made with mode 0640 if it is
	// not there. Stdout writes to standard output. Neither: no lines.
	Path   string
	Stdout bool
	Format string // auto, text or json; auto is text on a terminal, else JSON
}

// Set changes where lines go. An error is that of opening the file, and changes
// nothing.
func (a *Access) Set(t AccessTarget) error {
	a.mu.Lock()
	same := t.Path != "" && t.Path == a.path
	a.mu.Unlock()
	var to *outlet
	switch {
	case same: // open already
	case t.Path != "":
		f, err := openAccess(t.Path)
		if err != nil {
			return err
		}
		to = &outlet{w: f, file: f, path: t.Path}
	case t.Stdout:
		to = &outlet{w: a.stdout}
	default:
		to = &outlet{}
	}
	terminal := t.Stdout && IsTerminal(a.stdout)
	a.json.Store(t.Format == FormatJSON || t.Format != FormatText && !terminal)
	a.mu.Lock()
	if to != nil {
		a.next.close() // one that was never used
		a.next, a.path = to, t.Path
	}
	a.mu.Unlock()
	a.on.Store(t.Path != "" || t.Stdout)
	a.poke()
	return nil
}

func openAccess(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
}

// Reopen makes the next line go to the file that has the name now.
func (a *Access) Reopen() {
	a.mu.Lock()
	a.reopen = true
	a.mu.Unlock()
	a.poke()
}

func (a *Access) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// On reports whether exchanges are written.
func (a *Access) On() bool { return a.on.Load() }

// Exchange notes an exchange. Hot path: must not allocate (TestAccessAllocs).
// Measure: go test ./internal/telemetry -run '^$' -bench Access
func (a *Access) Exchange(e *proxy.ExchangeEvent) {
	if !a.On() {
		return
	}
	asJSON := a.json.Load()
	now := time.Now()
	a.mu.Lock()
	if len(a.lines)+maxAccessLine > accessRoom {
		a.dropped++
		a.mu.Unlock()
		a.lost.add(1)
		return
	}
	first := len(a.lines) == 0
	a.lines = appendAccess(a.lines, asJSON, now, e)
	a.mu.Unlock()
	if first {
		a.poke()
	}
}

// Run writes lines until stop is done and all that were noted before are written,
// for which it has a second once cut is done. Its shape is that of a part in package
// lifecycle, but that a write which the system does not end, such as to a pipe that
// nobody reads, is left behind.
func (a *Access) Run(stop, cut context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.write(stop)
	}()
	<-stop.Done()
	select {
	case <-done:
		return nil
	case <-cut.Done():
	}
	select {
	case <-done:
	case <-time.After(accessLast):
		a.log.Warn("the access log is stuck: its last lines are lost")
	}
	return nil
}

// write is the one that writes.
func (a *Access) write(stop context.Context) {
	w := accessWriter{log: a.log, lost: a.lost}
	defer func() { w.out.close() }()
	look := time.NewTicker(accessLook)
	defer look.Stop()
	for {
		ended := false
		select {
		case <-stop.Done():
			ended = true
		case <-look.C:
			w.look()
		case <-a.wake:
		}
		w.take(a)
		if ended {
			return
		}
	}
}

// accessWriter is what only the goroutine that writes knows.
type accessWriter struct {
	log    *slog.Logger
	lost   *series
	out    *outlet
	cut    bool // the last line was written in part
	told   time.Time
	failed error // of the last write; nil once one went well
	lines  uint64
}

// take writes what waits.
func (w *accessWriter) take(a *Access) {
	a.mu.Lock()
	lines := a.lines
	a.lines, a.spare = a.spare[:0], nil
	next, reopen, dropped := a.next, a.reopen, a.dropped
	a.next, a.reopen, a.dropped = nil, false, 0
	a.mu.Unlock()
	w.lines += dropped
	if next != nil {
		w.out.close()
		w.out, w.cut = next, false
	} else if reopen {
		w.renew()
	}
	if len(lines) > 0 {
		w.put(lines)
	}
	w.tell()
	if cap(lines) > accessRoom/8 {
		lines = nil // the memory of a bad minute
	}
	a.mu.Lock()
	a.spare = lines[:0]
	a.mu.Unlock()
}

// put writes lines, or counts those that could not be.
func (w *accessWriter) put(lines []byte) {
	if w.out == nil || w.out.w == nil {
		return // switched off meanwhile
	}
	if w.cut {
		// What follows must not be taken for the rest of a line that was cut.
		if _, err := w.out.w.Write([]byte{'\n'}); err != nil {
			w.miss(lines, err)
			return
		}
		w.cut = false
	}
	n, err := w.out.w.Write(lines)
	if err != nil {
		w.cut = n > 0 && lines[n-1] != '\n'
		w.miss(lines[n:], err)
		return
	}
	w.failed = nil
}

// miss counts lines that were not written.
func (w *accessWriter) miss(lines []byte, err error) {
	n := uint64(0)
	for _, c := range lines {
		if c == '\n' {
			n++
		}
	}
	w.lines += n
	w.lost.add(n)
	w.failed = err
}

// tell logs that lines were left out, once a minute at most.
func (w *accessWriter) tell() {
	if w.lines == 0 || time.Since(w.told) < accessWarn {
		return
	}
	err := w.failed
	if err == nil {
		err = errAccessSlow
	}
	w.log.Warn("lines of the access log were left out", "lines", w.lines, "err", err)
	w.lines, w.told = 0, time.Now()
}

var errAccessSlow = errors.New("telemetry: the access log did not keep up")

// look reopens the file if its name is that of another one now, or of none.
func (w *accessWriter) look() {
	if w.out == nil || w.out.file == nil {
		return
	}
	now, err := os.Stat(w.out.path)
	if err == nil {
		var own os.FileInfo
		if own, err = w.out.file.Stat(); err == nil && os.SameFile(now, own) {
			return
		}
	}
	w.renew()
}

// renew opens the file anew. One that cannot be opened leaves the old one in use:
// its lines are somewhere, and those of a moment later may go where they should.
func (w *accessWriter) renew() {
	if w.out == nil || w.out.file == nil {
		return
	}
	f, err := openAccess(w.out.path)
	if err != nil {
		if w.failed == nil || w.failed.Error() != err.Error() {
			w.log.Warn("the access log cannot be opened again, the file in use stays", "err", err)
		}
		w.failed = fmt.Errorf("telemetry: access log: %w", err)
		return
	}
	w.out.close()
	w.out, w.cut = &outlet{w: f, file: f, path: w.out.path}, false
}
