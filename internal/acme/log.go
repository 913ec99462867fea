package acme

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// bridge is a logger for certmagic, which writes to log at level debug: what
// operators need to know [Manager.tell] says.
func bridge(log *slog.Logger) *zap.Logger { return zap.New(&core{log: log}) }

// core is a [zapcore.Core] on a slog.Logger.
type core struct{ log *slog.Logger }

var _ zapcore.Core = (*core)(nil)

// Enabled implements [zapcore.LevelEnabler].
func (c *core) Enabled(zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slog.LevelDebug)
}

// With implements [zapcore.Core].
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{slog.New(c.log.Handler().WithAttrs(attrs(fields)))}
}

// Check implements [zapcore.Core].
func (c *core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write implements [zapcore.Core].
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.log.LogAttrs(context.Background(), slog.LevelDebug, "acme: "+e.Message, attrs(fields)...)
	return nil
}

// Sync implements [zapcore.Core].
func (c *core) Sync() error { return nil }

func attrs(fields []zapcore.Field) []slog.Attr {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(m)
	}
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		if v, ok := m.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}
