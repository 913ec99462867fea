package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"soapway/config"
	"soapway/internal/telemetry"
)

// accessTarget is where cfg wants the lines of the access log.
func accessTarget(cfg *config.Config) telemetry.AccessTarget {
	t := telemetry.AccessTarget{Format: string(cfg.Log.Format)}
	switch o := cfg.AccessLog; o.Mode {
	case config.OutputStdout:
		t.Stdout = true
	case config.OutputFile:
		t.Path = string(o.File)
	}
	return t
}

// setAccess points the access log to where cfg wants it.
func (a *App) setAccess(cfg *config.Config) config.Problems {
	if err := a.access.Set(accessTarget(cfg)); err != nil {
		return config.Problems{accessProblem(cfg, err)}
	}
	return nil
}

// checkAccess reports what would keep the access log from being opened, without
// making the file.
func checkAccess(cfg *config.Config) config.Problems {
	path := accessTarget(cfg).Path
	if path == "" {
		return nil
	}
	at := path
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		at = filepath.Dir(path)
		if fi, err = os.Stat(at); err == nil && !fi.IsDir() {
			err = errors.New(at + " is no folder")
		}
	} else if err == nil && fi.IsDir() {
		err = errors.New(path + " is a folder")
	}
	if err != nil {
		return config.Problems{accessProblem(cfg, err)}
	}
	return nil
}

func accessProblem(cfg *config.Config, err error) config.Problem {
	return cfg.Problem("access_log", "cannot be opened: "+err.Error(), "name a file in a folder that the gateway may write to, or write stdout or off")
}
