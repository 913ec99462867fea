package app

import (
	"fmt"
	"path/filepath"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/selftest"
)

// testRoom is what a self-test may write before its folder is gone.
const testRoom = 1 << 30

// newSelfTest makes what starts self-tests. Their folder is beside the store, so that
// they measure the disk of the store.
func (a *App) newSelfTest(cfg *config.Config) *selftest.Runner {
	return selftest.New(selftest.Options{
		Command: a.opt.Command, Env: a.opt.Env, Dir: filepath.Join(string(cfg.Store.Dir), "selftest"), Room: a.roomForTest, Log: a.log,
		Over: func(r selftest.Report) {
			e := admin.Event{Kind: admin.EventTest, OK: r.Good, Text: fmt.Sprintf("self-test %s is over: %s", r.Test, r.Verdict)}
			if r.Result != selftest.Done {
				e.Text = fmt.Sprintf("self-test %s: %s, %s", r.Test, r.Result, r.Error)
			}
			a.happened.Publish(e)
		},
	})
}

// roomForTest says why a self-test could bring the disk of the store near the point
// where no messages are accepted any more.
func (a *App) roomForTest() error {
	free, known := a.depot.free()
	if need := a.lowDisk() + testRoom; known && free < need {
		return fmt.Errorf("%d MiB are free, and it takes %d MiB to be sure that messages are accepted meanwhile", free>>20, need>>20)
	}
	return nil
}
