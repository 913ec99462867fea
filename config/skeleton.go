package config

import (
	"context"
	"log/slog"
)

// CONTRACT SKELETON, replaced by load.go, redact.go, reload.go, watch.go, find.go.

// Options of a load; the zero value reads the file alone.
type Options struct {
	// Env is the environment as os.Environ gives it.
	Env []string
	// Set are overrides by key, from command line flags: "admin.address": "127.0.0.1:9000".
	Set map[string]string
}

// Load reads, checks and completes the file. The error is [Problems], or that of reading the file.
func Load(path string, opt Options) (*Config, error) { panic("skeleton") }

// LoadBytes is Load with the file's content given; name is where it would be.
func LoadBytes(name string, data []byte, opt Options) (*Config, error) { panic("skeleton") }

// Find returns the path of the configuration: explicit if not empty, else gateway.yaml in the
// working folder, else /etc/gateway/gateway.yaml; an error (fs.ErrNotExist) when there is none.
func Find(explicit string) (string, error) { panic("skeleton") }

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
