package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"soapway/internal/admin"
	"soapway/internal/app"
	"soapway/internal/telemetry"
	"soapway/queue"
)

func (c *cli) queueBackup(f *queueFlags) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "write all that is stored into one file, also of a running gateway",
		Long: `Writes all that is stored into one file: messages, dead letters, attempts,
identities, replies. A running gateway goes on meanwhile; every message that it
had accepted before is in the backup, unless it was finished. The file is checked
while it is written. What is damaged in the store is listed, and the command ends
with exit 1; the file then has all the rest.

The file is not compressed, and is sealed as far as the store is.`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := backupName(to, time.Now())
			if err != nil {
				return err
			}
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error { return c.backup(cmd.Context(), q, name) })
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", ".", "write to this `file`, or into this directory under a name with the time; - is stdout")
	return cmd
}

// backupName is the file to write, "-" for stdout. Nothing is written over.
func backupName(to string, now time.Time) (string, error) {
	if to == "" {
		return "", &usageError{"queue backup: --output is empty", "name a file, or a directory"}
	}
	if to == "-" {
		return to, nil
	}
	st, err := os.Stat(to)
	if err == nil && st.IsDir() {
		to = filepath.Join(to, "soapway-"+now.UTC().Format("20060102T150405Z")+".backup")
		_, err = os.Stat(to)
	}
	if err == nil {
		return "", &problem{fmt.Errorf("%s is there already", to), "give another name; nothing is written over"}
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", &problem{err, ""}
	}
	return to, nil
}

// madeBackup is the result for machines.
type madeBackup struct {
	File   string             `json:"file"`
	Octets int64              `json:"octets"` // of the file
	Head   queue.BackupHead   `json:"backup"`
	Counts queue.BackupCounts `json:"counts"`
	Damage []queue.Damage     `json:"damage,omitempty"`
}

func (c *cli) backup(ctx context.Context, q *queueClient, name string) error {
	part := name + ".part"
	var file *os.File
	out := c.stdout
	if name != "-" {
		var err error
		if file, err = os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return &problem{err, ""}
		}
		defer os.Remove(part) // gone if all went well
		defer file.Close()
		out = file
	}
	body, err := q.stream(ctx, "/store/backup", "application/octet-stream")
	if err != nil {
		return err
	}
	defer body.Close()
	made := madeBackup{File: name}
	p := c.progress("backup")
	// The estimate stands in the head, which nobody has read yet.
	in := &watched{r: io.TeeReader(body, out), each: func(done int64) { p.tell(done, 0) }}
	made.Head, made.Counts, err = queue.CheckBackup(in, func(d queue.Damage) { made.Damage = append(made.Damage, d) })
	made.Octets = in.done
	p.end()
	if err == nil && file != nil {
		err = file.Sync()
		if e := file.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(part, name)
		}
	}
	if err != nil {
		return &problem{err, ""}
	}
	return c.printBackup(&made)
}

func (c *cli) printBackup(made *madeBackup) error {
	out := c.stdout
	if made.File == "-" {
		out = c.stderr
	}
	k := &made.Counts
	var err error
	switch {
	case c.json && made.File != "-":
		err = c.printJSON(made)
	default:
		_, err = fmt.Fprintf(out, "%s: %s, %s, %s, %s, %s\n", clean(made.File, 1000), count(int(k.Messages), "message"),
			count(int(k.Dead), "dead letter"), countOf(int(k.Replies), "reply", "replies"), count(int(k.Files), "file"), size(made.Octets))
	}
	if err != nil || k.Damaged == 0 {
		return err
	}
	for i := range made.Damage {
		c.complain(clean(made.Damage[i].Error(), 500), "")
	}
	c.complain(fmt.Sprintf("%s of the store could not be read and is not in the backup", count(int(k.Damaged), "place")), "gateway queue scrub tells more")
	return errReported
}

// countOf is count for a word with a plural of its own.
func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (c *cli) queueRestore(f *queueFlags) *cobra.Command {
	var aside bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "make the store of a stopped gateway of a backup",
		Long: `Makes the store that the configuration names of a backup. The gateway must be
stopped, and there must be no store, unless --set-aside is given: then the one
that is there is moved into a directory replaced-TIME in its folder.

The file is read to its end and checked before anything is touched, and the store
is put in place by one step. What is in it may have been delivered since the
backup was made: it is marked as a possible duplicate when it is delivered, and
messages of routes with assurance at-most-once become dead letters.`,
		Args: exactly(1, "one backup file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.admin != "" {
				return &usageError{"queue restore: --admin makes no sense: the gateway must be stopped", "name its configuration with -c"}
			}
			return c.restore(cmd.Context(), f, args[0], aside)
		},
	}
	cmd.Flags().BoolVar(&aside, "set-aside", false, "move a store that is there away, into a directory replaced-TIME")
	return cmd
}

func (c *cli) restore(ctx context.Context, f *queueFlags, file string, aside bool) error {
	cfg, err := c.load(f.config)
	if err != nil {
		return complainAbout(c, err)
	}
	if err := notOurs(string(cfg.Store.Dir)); err != nil {
		return err
	}
	log := telemetry.NewLog(c.stderr)
	if err := log.Set("warn", "text"); err != nil {
		return err
	}
	p := c.progress("restore")
	r, err := app.Restore(ctx, cfg, file, aside, log.Logger(), p.tell)
	p.end()
	switch {
	case errors.Is(err, queue.ErrNotEmpty):
		return &problem{err, "to move it into a directory replaced-TIME beside it, repeat with --set-aside"}
	case errors.Is(err, queue.ErrLocked):
		return &problem{err, "stop the gateway first"}
	case errors.Is(err, queue.ErrKey):
		return &problem{err, "the key must be in the file of store.encryption_key"}
	case errors.Is(err, queue.ErrBackupCut), errors.Is(err, queue.ErrBackupDamaged), errors.Is(err, queue.ErrNoBackup):
		return &problem{fmt.Errorf("%s: %w", file, err), "nothing was touched; use another backup"}
	case err != nil:
		return complainAbout(c, &problem{err, ""})
	}
	if c.json {
		return c.printJSON(r)
	}
	k := &r.Counts
	_, err = fmt.Fprintf(c.stdout, "%s: %s, %s, %s of the backup made %s; epoch %d\n", r.Dir, count(int(k.Messages), "message"),
		count(int(k.Dead), "dead letter"), countOf(int(k.Replies), "reply", "replies"), instant(r.Head.Made), r.Epoch)
	if err == nil && r.Unknown > 0 {
		c.say("%s of at-most-once routes may have been delivered since the backup and became dead letters (outcome-unknown)", count(r.Unknown, "message"))
	}
	if err == nil && k.Damaged > 0 {
		c.say("the backup lacks %s that could not be read when it was made", count(int(k.Damaged), "place"))
	}
	if err == nil && r.Replaced != "" {
		c.say("the store that was there is in %s", r.Replaced)
	}
	return err
}

func (c *cli) queueScrub(f *queueFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "scrub",
		Short: "read all that is stored and compare every checksum",
		Long: `Reads every message, dead letter, reply and file that is stored and compares the
checksums. Damaged places are printed, and the command ends with exit 1. Damaged
files are kept, as they are, in a directory damaged-TIME of the store; what is
whole in them goes on at the next start. The store of a stopped gateway is mended
at once, as its start would do.`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error { return c.scrub(cmd.Context(), q) })
		},
	}
}

func (c *cli) scrub(ctx context.Context, q *queueClient) error {
	body, err := q.stream(ctx, "/store/scrub", "application/x-ndjson")
	if err != nil {
		return err
	}
	defer body.Close()
	p := c.progress("scrub")
	defer p.end()
	in := json.NewDecoder(body)
	for {
		var e admin.ScrubEvent
		if err := in.Decode(&e); err != nil {
			return &problem{fmt.Errorf("the answer of the gateway at %s broke off: %w", q.base, err), ""}
		}
		switch {
		case e.Problem != nil:
			return q.explain(e.Problem)
		case e.Result != nil:
			p.end()
			return c.printScrub(e.Result)
		}
		p.tell(int64(e.Done), int64(e.Total))
	}
}

func (c *cli) printScrub(r *admin.Scrubbed) error {
	if c.json {
		if err := c.printJSON(r); err != nil {
			return err
		}
	} else {
		for i := range r.Damage {
			d := queue.Damage(r.Damage[i])
			if _, err := fmt.Fprintf(c.stdout, "%s\n", clean(d.Error(), 500)); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(c.stdout, "%s in %s, %s: %s\n", count(int(r.Records), "record"), count(int(r.Files), "file"), size(int64(r.Octets)),
			map[bool]string{true: "all whole", false: count(len(r.Damage), "damaged place")}[len(r.Damage) == 0]); err != nil {
			return err
		}
	}
	if len(r.Damage) > 0 {
		c.complain("the store is damaged", "the damaged files are kept in a directory damaged-TIME of the store; see docs/operations.md")
		return errReported
	}
	return nil
}

// stream makes a request whose answer is read while it is made.
func (q *queueClient) stream(ctx context.Context, path, media string) (io.ReadCloser, error) {
	resp, err := q.ask(ctx, http.MethodPost, path, nil, nil, "")
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode == http.StatusOK && kind == media {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &unanswered{&problem{fmt.Errorf("the answer of the gateway at %s broke off: %w", q.base, err), ""}}
	}
	return nil, q.read(resp, b, nil)
}

// watched tells how much was read.
type watched struct {
	r    io.Reader
	done int64
	each func(done int64)
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	w.done += int64(n)
	w.each(w.done)
	return n, err
}

// progress shows how far long work is: a line that changes on a terminal, a line
// every five seconds elsewhere.
type progress struct {
	c     *cli
	what  string
	live  bool
	every time.Duration
	last  time.Time
	drawn bool
}

func (c *cli) progress(what string) *progress {
	p := &progress{c: c, what: what, every: 5 * time.Second, last: time.Now()}
	if telemetry.IsTerminal(c.stderr) {
		p.every, p.live = 200*time.Millisecond, true
	}
	return p
}

// tell says how many octets are done; total 0 means that nobody knows of how many.
func (p *progress) tell(done, total int64) {
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	var line bytes.Buffer
	fmt.Fprintf(&line, "%s: %s", p.what, size(done))
	if total > 0 {
		fmt.Fprintf(&line, " of %s, %d %%", size(total), done*100/total)
	}
	if !p.live {
		p.c.say("%s", line.String())
		return
	}
	p.drawn = true
	fmt.Fprintf(p.c.stderr, "\r%-60s", line.String())
}

// end takes a line that changes off the screen.
func (p *progress) end() {
	if p.drawn {
		p.drawn = false
		fmt.Fprintf(p.c.stderr, "\r%-60s\r", "")
	}
}
