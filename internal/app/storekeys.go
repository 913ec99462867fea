package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"soapway/config"
	"soapway/queue"
)

const keyOfStore = "store.encryption_key"

// errKeyFile says that the keys of a store can not be read.
var errKeyFile = errors.New("is no key file")

// storeKeys reads the keys of cfg's store, nil if it has none.
func storeKeys(cfg *config.Config) (*queue.Keys, error) {
	secret := cfg.Store.EncryptionKey
	if secret.IsZero() {
		return nil, nil
	}
	keys, err := queue.ParseKeys(secret.Reveal())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKeyFile, err)
	}
	return keys, nil
}

// keyProblems reports keys that cannot be read, and ones that an existing
// store could not be opened with. It changes nothing.
func keyProblems(cfg *config.Config) config.Problems {
	keys, err := storeKeys(cfg)
	if err == nil && len(cfg.Store.URL) == 0 {
		err = queue.CheckKeys(string(cfg.Store.Dir), keys)
	}
	if err != nil {
		return config.Problems{keyProblem(cfg, err)}
	}
	return nil
}

func keyProblem(cfg *config.Config, err error) config.Problem {
	hint := "one key on a line, the one in use first; make one with: openssl rand -hex 32"
	if errors.Is(err, queue.ErrKey) {
		hint = "add the line of that key behind the one in use"
		if cfg.Store.EncryptionKey.IsZero() {
			hint = "set it to file:PATH of the file that has the key"
		}
	}
	return cfg.Problem(keyOfStore, strings.TrimPrefix(err.Error(), "queue: "), hint)
}

// warnOfKeyFile tells the operator of a key file that others can read.
func warnOfKeyFile(cfg *config.Config, log *slog.Logger) {
	name := cfg.Store.EncryptionKey.File()
	if name == "" || runtime.GOOS == "windows" { // where these bits say nothing
		return
	}
	if st, err := os.Stat(name); err == nil && st.Mode().Perm()&0o077 != 0 {
		log.Warn("the key file of the store can be read by others: chmod 600", "file", name, "mode", st.Mode().Perm().String())
	}
}

// sealing is a store whose keys can change while it is open.
type sealing interface{ SetKeys(*queue.Keys) error }

// rekey gives the open store the keys of cfg. Problems mean that it keeps those
// that it has.
func (p *depot) rekey(cfg *config.Config) config.Problems {
	s := p.present.Load()
	if s == nil {
		return nil
	}
	store, ok := s.store.(sealing)
	if !ok {
		return nil
	}
	if s.keys.Equal(cfg.Store.EncryptionKey) {
		return nil
	}
	keys, err := storeKeys(cfg)
	if err == nil {
		err = store.SetKeys(keys)
	}
	if errors.Is(err, queue.ErrClosed) { // it is opened again with them, if at all
		err = queue.CheckKeys(string(cfg.Store.Dir), keys)
	}
	if err != nil {
		return config.Problems{keyProblem(cfg, err)}
	}
	warnOfKeyFile(cfg, p.log)
	s.keys = cfg.Store.EncryptionKey
	return nil
}
