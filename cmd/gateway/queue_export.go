package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"soapway/internal/admin"
	"soapway/internal/bundle"
)

// fileType is the media type of files of exported messages.
const fileType = "application/x-tar"

// transferTimeout bounds the way of a file. While it moves it may take long.
const transferTimeout = 24 * time.Hour

func (c *cli) queueExport(f *queueFlags) *cobra.Command {
	var (
		s     selection
		name  string
		whole bool
	)
	cmd := &cobra.Command{
		Use:   "export ROUTE [-o FILE]",
		Short: "write messages into a file, a tar archive",
		Long: `Writes the messages of a route that the filters select, waiting and dead, into a
file. They stay where they are. The file is a tar archive: for each message a
folder with its envelope as it would be sent, the last answer to it, and a JSON
document with all else.

What redact of the route names is masked in the file, as are passwords of
WS-Security and secret header fields. A message that is masked can be read and not
imported. With --whole nothing is masked: keep such a file as safe as the store.

Without -o it goes to stdout. A file that was cut off is not whole, which gateway
queue import notices; with -o it is not even there.`,
		Args: exactly(1, "one route"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.route = args[0]
			filters, err := s.filters("queue export", time.Now())
			if err != nil {
				return err
			}
			if name != "" {
				if _, err := os.Lstat(name); err == nil {
					return &problem{fmt.Errorf("%s is there already", name), "name another file"}
				}
			}
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error {
				if whole {
					filters["whole"] = "true"
				}
				return c.exportTo(cmd.Context(), q, s.route, filters, name)
			})
		},
	}
	s.flags(cmd, true)
	cmd.Flags().StringVarP(&name, "output", "o", "", "write into this `file`, which must not be there yet")
	cmd.Flags().BoolVar(&whole, "whole", false, "mask nothing")
	return cmd
}

// exported is the result of an export for machines.
type exported struct {
	Route   string `json:"route"`
	File    string `json:"file"`
	Count   int    `json:"count"`
	LeftOut int    `json:"left_out"`
	Masked  int    `json:"masked"`
}

// exportTo writes what the filters select to stdout, or to a file that gets its
// name once it is whole.
func (c *cli) exportTo(ctx context.Context, q *queueClient, route string, filters map[string]string, name string) error {
	if name == "" {
		end, err := q.export(ctx, route, filters, c.stdout)
		if err != nil {
			return err
		}
		c.say("%s of %s exported", count(end.Messages, "message"), route)
		return c.tellLeftOut(end)
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return &problem{err, ""}
	}
	defer os.Remove(tmp.Name())
	end, err := q.export(ctx, route, filters, tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		// Unlike a renaming it replaces nothing.
		if err = os.Link(tmp.Name(), name); err != nil && !errors.Is(err, os.ErrExist) {
			err = os.Rename(tmp.Name(), name)
		}
	}
	if err != nil {
		return complainAbout(c, err)
	}
	if c.json {
		err = c.printJSON(exported{route, name, end.Messages, end.Missing, end.Masked})
	} else {
		_, err = fmt.Fprintf(c.stdout, "%s of %s: exported to %s\n", count(end.Messages, "message"), route, name)
	}
	if err != nil {
		return err
	}
	return c.tellLeftOut(end)
}

func (c *cli) tellLeftOut(end *bundle.End) error {
	if end.Masked > 0 {
		c.say("%s masked, which cannot be imported; --whole masks nothing", countIs(end.Masked))
	}
	if end.Missing == 0 {
		return nil
	}
	for _, l := range end.LeftOut {
		c.complain(fmt.Sprintf("%s is left out: %s", clean(l.ID, 100), clean(l.Reason, 500)), "")
	}
	c.complain(count(end.Missing, "message")+" left out, which cannot be read", "")
	return errReported
}

// export copies the file that the gateway makes to w, and looks whether it is whole.
func (q *queueClient) export(ctx context.Context, route string, filters map[string]string, w io.Writer) (*bundle.End, error) {
	defer q.atWork("export")()
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	query := url.Values{}
	for name, v := range filters {
		query.Set(name, v)
	}
	resp, err := q.ask(ctx, http.MethodGet, "/queues/"+url.PathEscape(route)+"/export", query, nil, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != fileType {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return nil, &problem{fmt.Errorf("the answer of the gateway at %s broke off: %w", q.base, err), ""}
		}
		return nil, q.read(resp, b, nil)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	end, err := wholeFile(io.TeeReader(resp.Body, out))
	if e := out.Flush(); e != nil {
		return nil, &problem{e, ""}
	}
	if err != nil {
		return nil, &problem{fmt.Errorf("the file from the gateway at %s is not whole: %w", q.base, err), "export again"}
	}
	return end, nil
}

// nowhere is where the envelopes of a file go that is only looked at.
type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

// wholeFile reads a file of exported messages to its end and tells what that says.
func wholeFile(r io.Reader) (*bundle.End, error) {
	b, err := bundle.NewReader(r, bundle.Options{MaxEnvelope: math.MaxInt64, Spool: func(int64) (bundle.Spool, error) { return nowhere{io.Discard}, nil }})
	if err != nil {
		return nil, err
	}
	for {
		switch _, err := b.Next(); {
		case err == io.EOF:
			return &b.End, nil
		case err != nil:
			return nil, err
		}
	}
}

func (c *cli) queueImport(f *queueFlags) *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "take up the messages of an exported file",
		Long: `Takes up the messages of a file that gateway queue export has written. Those that
waited wait, marked as possible duplicates since nobody knows what has become of
them elsewhere, and dead letters stay dead. Each goes to the route of its name, or
all to that of --to; one that has waited longer than retry.expire of the route
allows has its time start anew.

A file that is cut off or damaged is refused as a whole, before anything is taken.
A message that is masked in the file is not taken: see gateway queue export --whole.
A message that is here, or was imported within a week, is passed over: a file can be
imported again after an error.`,
		Args: exactly(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return &problem{err, ""}
			}
			defer file.Close()
			// Before the gateway is asked for: a bad file is told as that.
			end, err := wholeFile(bufio.NewReaderSize(file, 64<<10))
			if err != nil {
				return &problem{fmt.Errorf("%s: %w", args[0], err), "nothing was imported"}
			}
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error {
				return c.importFrom(cmd.Context(), q, file, to, end)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "put all messages on this `route`")
	return cmd
}

// imported is the result of an import for machines.
type imported struct {
	File string `json:"file"`
	admin.Imported
}

// countIs is the subject of a sentence.
func countIs(n int) string {
	if n == 1 {
		return "1 message is"
	}
	return fmt.Sprintf("%d messages are", n)
}

func (c *cli) importFrom(ctx context.Context, q *queueClient, file *os.File, to string, end *bundle.End) (err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return &problem{err, ""}
	}
	query := url.Values{}
	if to != "" {
		query.Set("to", to)
	}
	done, err := q.importFile(ctx, file, query)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil && done.Masked > 0 {
			err = &problem{fmt.Errorf("%s masked in %s and not imported", countIs(done.Masked), file.Name()), "export them again with --whole"}
		}
	}()
	if c.json {
		return c.printJSON(imported{file.Name(), *done})
	}
	known := ""
	if done.Known > 0 {
		known = fmt.Sprintf(", %d were here already", done.Known)
	}
	_, err = fmt.Fprintf(c.stdout, "%s of %s: imported%s\n", count(done.Count, "message"), file.Name(), known)
	if seen := done.Count + done.Known + done.Masked; err == nil && seen != end.Messages {
		err = &problem{fmt.Errorf("the gateway has seen %d messages, the file has %d", seen, end.Messages), "was it changed meanwhile?"}
	}
	return err
}

func (q *queueClient) importFile(ctx context.Context, r io.Reader, query url.Values) (*admin.Imported, error) {
	defer q.atWork("import")()
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	resp, err := q.ask(ctx, http.MethodPost, "/queues/import", query, io.NopCloser(r), fileType)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &problem{fmt.Errorf("the answer of the gateway at %s broke off: %w", q.base, err), ""}
	}
	var done admin.Imported
	return &done, q.read(resp, b, &done)
}
