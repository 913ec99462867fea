package faultlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// keep leaves what is needed to understand a run that failed: history and ledger,
// what the checker found, the store, the logs of all gateways, the configuration.
// It lies in a folder beside those of the runs, which no run removes.
func (l *lab) keep(found []violation) {
	if l.kept {
		return
	}
	l.kept = true
	name := strings.NewReplacer("/", "-", " ", "-").Replace(l.t.Name())
	dir, err := os.MkdirTemp(filepath.Dir(scratch), fmt.Sprintf("failed-%s-%s-", time.Now().Format("0102-150405"), name))
	if err != nil {
		l.t.Log(err)
		return
	}
	l.rec.mu.Lock()
	defer l.rec.mu.Unlock()
	err = errors.Join(
		writeJSON(filepath.Join(dir, "history.json"), &l.rec.h),
		writeJSON(filepath.Join(dir, "violations.json"), found),
		os.WriteFile(filepath.Join(dir, "seed"), fmt.Appendln(nil, l.seed), 0o600),
		copyTree(filepath.Join(dir, "config"), l.dir),
		copyTree(filepath.Join(dir, "store"), l.store),
	)
	l.t.Logf("history, ledger, store and logs of this run are in %s (%v)", dir, err)
}

func writeJSON(name string, v any) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(v), f.Close())
}

// copyTree copies a folder. A file that goes meanwhile is none, and one that can
// not be read is skipped: it may be that of a damaged disk.
func copyTree(to, from string) error {
	var skipped []error
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			skipped = append(skipped, err)
			return nil
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if err := copyFile(filepath.Join(to, rel), path); err != nil {
			skipped = append(skipped, err)
		}
		return nil
	})
	return errors.Join(append(skipped, err)...)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// A journal is a file that keeps the last part of what is written to it.
type journal struct {
	mu   sync.Mutex
	name string
	f    *os.File
	n    int64
}

// journalMost is how long a journal gets before it begins anew; the one before it
// is kept.
const journalMost = 64 << 20

func openJournal(t testing.TB, name string) *journal {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{name: name, f: f}
	t.Cleanup(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.f.Close()
	})
	return j
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.n > journalMost && os.Rename(j.name, j.name+".old") == nil {
		if f, err := os.Create(j.name); err == nil {
			j.f.Close()
			j.f, j.n = f, 0
		}
	}
	n, err := j.f.Write(p)
	j.n += int64(n)
	return n, err
}
