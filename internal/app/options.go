package app

import (
	"io"

	"soapway/config"
	"soapway/internal/telemetry"
	"soapway/queue"
)

// Options configures an [App]. The zero value works.
type Options struct {
	// Log is the log of the process; level and format follow the
	// configuration. Default: discard.
	Log *telemetry.Log

	// Stdout is where the access log goes with access_log: stdout. Default: discard.
	Stdout io.Writer

	// Version stands on the admin page. Default: left out.
	Version string

	// Command starts this program, for self-tests, and Env is its environment. Default:
	// no self-test can be started.
	Command, Env []string

	// Load reads the configuration again for a reload. Default: there is no
	// reload, and files are not watched.
	Load func() (*config.Config, error)

	// Ready is called once, when the gateway takes messages. Default: nothing.
	Ready func()

	// openStore lets a test stand in for the disk.
	openStore func(queue.StoreOptions) (queue.Store, error)
}

// withDefaults returns o with zero fields filled in.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = telemetry.NewLog(io.Discard)
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Ready == nil {
		o.Ready = func() {}
	}
	if o.openStore == nil {
		o.openStore = func(s queue.StoreOptions) (queue.Store, error) { return queue.OpenEmbedded(s) }
	}
	return o
}
