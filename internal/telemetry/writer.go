package telemetry

import (
	"io"
	"log/slog"
	"strings"
	"sync"
)

// lockedWriter serialises the writes of several users of one writer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Standard returns a writer for package log, by which net/http tells of faults
// of its peers. It quotes the octets that a peer has sent, which may be of a
// message: they are left out.
func (l *Log) Standard() io.Writer { return standard{l.logger} }

type standard struct{ log *slog.Logger }

func (s standard) Write(p []byte) (int, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(string(p)), " starting with ")
	text, _, _ = strings.Cut(text, "\"")
	s.log.Warn("net/http: " + strings.TrimSpace(text))
	return len(p), nil
}
