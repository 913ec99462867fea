package config

import (
	"context"
	"log/slog"
)

// CONTRACT SKELETON, replaced by redact.go, reload.go, watch.go.

// Redacted renders the effective configuration as YAML, secrets hidden.
func (c *Config) Redacted() []byte { panic("skeleton") }

// RestartNeeded lists the keys that differ and are only read at start.
func RestartNeeded(old, new *Config) []string { panic("skeleton") }

// WatchOptions of Watch.
type WatchOptions struct {
	Log *slog.Logger
}

// Watch calls changed, never twice at once, after any of the files (Config.Files) changed and was
// left alone for 100 ms; what changed returns is watched from then on (nil: as before).
// It returns nil when ctx is cancelled.
func Watch(ctx context.Context, files []string, opt WatchOptions, changed func() []string) error {
	panic("skeleton")
}
