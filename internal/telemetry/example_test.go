package telemetry_test

import (
	"os"
	"strings"

	"soapway/internal/telemetry"
)

// Level and format follow the configuration, also for loggers handed out
// before it was read again.
func ExampleLog() {
	l := telemetry.NewLog(dropTime{})
	log := l.Logger().With("route", "echo")
	if err := l.Set("debug", telemetry.FormatText); err != nil {
		panic(err)
	}
	log.Debug("answered")
	// Output: level=DEBUG msg=answered route=echo
}

// dropTime writes to stdout without the time, which differs from run to run.
type dropTime struct{}

func (dropTime) Write(p []byte) (int, error) {
	_, rest, _ := strings.Cut(string(p), " ")
	_, err := os.Stdout.WriteString(rest)
	return len(p), err
}
