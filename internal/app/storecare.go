package app

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/queue"
)

var _ admin.Keeper = (*adminQueue)(nil)

// scrubRate is how many octets a second a look through the store of a running
// gateway reads: its messages want the disk, too.
const scrubRate = 64 << 20

// Backup implements [admin.Keeper].
func (a *adminQueue) Backup(ctx context.Context, w io.Writer) error {
	_, err := a.Queue.Backup(ctx, w)
	return adminError(err)
}

// Scrub implements [admin.Keeper].
func (a *adminQueue) Scrub(ctx context.Context, progress func(done, total uint64)) (*admin.Scrubbed, error) {
	rate := int64(scrubRate)
	if a.stopped {
		rate = 0
	}
	s, err := a.Queue.Scrub(ctx, rate, progress)
	if err != nil {
		return nil, adminError(err)
	}
	out := &admin.Scrubbed{Records: s.Records, Files: s.Files, Octets: s.Octets}
	for _, d := range s.Damage {
		out.Damage = append(out.Damage, admin.Damage(d))
	}
	return out, nil
}

// Restore makes the store of cfg of the backup in a file. aside says that a store
// that is there is moved away; progress is told how many octets of how many are read.
func Restore(ctx context.Context, cfg *config.Config, file string, aside bool, log *slog.Logger, progress func(done, total int64)) (*queue.Restored, error) {
	if len(cfg.Store.URL) > 0 {
		return nil, errors.New("the store is a cluster: only one on this machine can be restored")
	}
	o, err := storeOptions(cfg, log, nil)
	if err != nil {
		return nil, config.Problems{storeProblem(cfg, err)}
	}
	once := map[string]bool{}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		once[r.Name] = r.Stores() && r.Assurance == config.AtMostOnce
	}
	return queue.Restore(ctx, file, queue.RestoreOptions{
		Dir: o.Dir, Durability: o.Durability, MaxBytes: o.MaxBytes, Keys: o.Keys, SetAside: aside, Log: log, Progress: progress,
		AtMostOnce: func(route string) (bool, bool) {
			v, known := once[route]
			return v, known
		},
	})
}
