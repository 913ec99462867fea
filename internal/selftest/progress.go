package selftest

import (
	"bytes"
	"strings"
	"sync"
)

const (
	// keptLines of what a self-test says are shown, each of at most lineLength octets.
	keptLines  = 60
	lineLength = 300
)

// A progress keeps the last lines of what is written to it.
type progress struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	rest  []byte   // of a line without its end; guarded by mu
}

// Write takes up what a process says.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for rest := b; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if room := lineLength - len(p.rest); room > 0 {
			p.rest = append(p.rest, line[:min(room, len(line))]...)
		}
		if !whole {
			break
		}
		rest = after
		if text := plain(p.rest); text != "" {
			if len(p.lines) == keptLines {
				p.lines = append(p.lines[:0], p.lines[1:]...)
			}
			p.lines = append(p.lines, text)
		}
		p.rest = p.rest[:0]
	}
	return len(b), nil
}

// last are the lines, the latest last.
func (p *progress) last() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.lines...)
}

// plain is a line without what a terminal would take for a command.
func plain(line []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(line), "\ufffd")))
}
