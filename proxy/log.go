package proxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// log writes the one record of a failed exchange. It never has octets of a body
// or values of fields; an error's text quotes and cuts what came from outside.
func (c *call) log(route string, status int, took time.Duration) {
	level := slog.LevelInfo
	switch c.outcome {
	case OutcomeFailed, OutcomeBusy, OutcomeUnknown:
		level = slog.LevelWarn
	case OutcomeInternal:
		level = slog.LevelError
	}
	ctx := context.WithoutCancel(c.ctx)
	if !c.h.opt.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("id", c.ex.ID),
		slog.String("listener", c.ex.Listener),
		slog.String("route", route),
		slog.String("outcome", string(c.outcome)),
		slog.Int("status", status),
		slog.String("code", string(c.code)),
		slog.Int("attempts", c.attempts),
		slog.Duration("took", took),
		slog.String("error", cut(c.logged.Error(), 1024)),
	}
	if op := c.operation(); op != "" {
		attrs = append(attrs, slog.String("operation", op))
	}
	if c.node != "" {
		attrs = append(attrs, slog.String("node", c.node))
	}
	if c.ex.Client.IsValid() {
		attrs = append(attrs, slog.String("client", c.ex.Client.String()))
	}
	if !c.ex.Framed {
		path, _, _ := strings.Cut(c.ex.Target, "?") // a query may hold secrets
		attrs = append(attrs, slog.String("method", cut(c.ex.Method, 32)), slog.String("path", cut(path, 256)))
	}
	var p *panicError
	if errors.As(c.logged, &p) {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	c.h.opt.Log.LogAttrs(ctx, level, "exchange failed", attrs...)
}
