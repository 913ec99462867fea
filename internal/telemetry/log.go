package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
)

// The formats of a log.
const (
	FormatAuto = "auto" // text on a terminal, JSON elsewhere
	FormatText = "text"
	FormatJSON = "json"
)

// A Log is the logger of the process together with the two settings that a
// reload may change. The zero value is not usable; see [NewLog].
type Log struct {
	level    slog.LevelVar
	json     atomic.Bool
	terminal bool
	logger   *slog.Logger
}

// NewLog returns a log that writes to w, at level info and in the format that
// auto means for w.
func NewLog(w io.Writer) *Log {
	l := &Log{terminal: IsTerminal(w)}
	l.json.Store(!l.terminal)
	// Two handlers must not interleave on w; each writes a record with one
	// call, which an *os.File serialises, and any other writer is wrapped.
	if _, file := w.(*os.File); !file {
		w = &lockedWriter{w: w}
	}
	l.logger = slog.New(&eitherHandler{
		json:    slog.NewJSONHandler(w, &slog.HandlerOptions{Level: &l.level, ReplaceAttr: inMilliseconds}),
		text:    slog.NewTextHandler(w, &slog.HandlerOptions{Level: &l.level}),
		useJSON: &l.json,
	})
	return l
}

// inMilliseconds names the unit of a duration in the key, since a bare number
// of nanoseconds is easily taken for something else: took=1.5ms is
// "took_ms":1.5 in JSON.
func inMilliseconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_ms", float64(a.Value.Duration().Microseconds())/1000)
}

// Logger returns the logger; it stays valid over any number of calls of Set.
func (l *Log) Logger() *slog.Logger { return l.logger }

// Set changes the level (debug, info, warn, error) and the format (auto, text,
// json) of every logger derived from this log. An empty value means the
// default. On an error nothing is changed.
func (l *Log) Set(level, format string) error {
	var lv slog.Level
	if level != "" {
		if err := lv.UnmarshalText([]byte(level)); err != nil {
			return fmt.Errorf("telemetry: log level %.20q is not one of debug, info, warn, error", level)
		}
	}
	asJSON := !l.terminal
	switch format {
	case "", FormatAuto:
	case FormatText:
		asJSON = false
	case FormatJSON:
		asJSON = true
	default:
		return fmt.Errorf("telemetry: log format %.20q is not one of auto, text, json", format)
	}
	l.level.Set(lv)
	l.json.Store(asJSON)
	return nil
}

// IsTerminal reports whether w is a terminal: a character device other than
// the null device.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	if err != nil || fi.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(fi, null)
}

// eitherHandler keeps a handler of each format with the same attributes and
// groups, and picks one when a record comes.
type eitherHandler struct {
	json, text slog.Handler
	useJSON    *atomic.Bool
}

var _ slog.Handler = (*eitherHandler)(nil)

func (h *eitherHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.text.Enabled(ctx, l) // both share one level
}

func (h *eitherHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.useJSON.Load() {
		return h.json.Handle(ctx, r)
	}
	return h.text.Handle(ctx, r)
}

func (h *eitherHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return &eitherHandler{h.json.WithAttrs(as), h.text.WithAttrs(as), h.useJSON}
}

func (h *eitherHandler) WithGroup(name string) slog.Handler {
	return &eitherHandler{h.json.WithGroup(name), h.text.WithGroup(name), h.useJSON}
}
