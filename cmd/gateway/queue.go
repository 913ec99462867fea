package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/internal/admin"
)

// The most messages that ls shows unless it is told otherwise, and the size of
// a page when it shows all.
const (
	defaultLimit = 100
	pageLimit    = 1000
)

var queueStates = []string{"pending", "retrying", "dead", "orphaned", "delivered", "awaiting"}

// queueFlags are those of all queue commands.
type queueFlags struct {
	config string
	admin  string
	token  string
	ca     string
	cert   string
	key    string
}

func (c *cli) queueCommand() *cobra.Command {
	f := &queueFlags{}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "look at stored messages, replay, drop, pause",
		Long: `Looks at the messages that a gateway has stored, and operates them.

It asks the running gateway at the admin address of the configuration, or at
--admin. If nobody listens at the address of the configuration, it opens the
store that the configuration names by itself. Then no message is sent, and the
next start of the gateway takes the store as its last stop has left it. While
another process holds the store it is refused.`,
		Args:                       cobra.ArbitraryArgs,
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Sprintf("unknown command %.40q of queue", args[0]), c.suggestCommand(cmd, args[0])}
			}
			cmd.SetOut(c.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return &usageError{"no command of queue given", ""}
		},
	}
	p := cmd.PersistentFlags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `file` (default ./gateway.yaml, else /etc/gateway/gateway.yaml)")
	p.StringVar(&f.admin, "admin", "", "`URL` of the admin listener (default: that of the configuration)")
	p.StringVar(&f.token, "token", "", "admin `token`, or file:PATH (default: GATEWAY_ADMIN_TOKEN, else that of the configuration)")
	p.StringVar(&f.ca, "ca", "", "PEM `file` of the authorities that may vouch for an admin listener with TLS (default: the system's)")
	p.StringVar(&f.cert, "cert", "", "certificate to show to an admin listener that asks for one, a PEM `file`")
	p.StringVar(&f.key, "key", "", "its key, a PEM `file`")
	cmd.AddCommand(c.queueLs(f), c.queueShow(f), c.queueReplay(f), c.queueDrop(f), c.queueMove(f), c.queueExport(f), c.queueImport(f),
		c.queueBackup(f), c.queueRestore(f), c.queueScrub(f),
		c.queueSwitch(f, "pause", "make no attempts for a route until it is resumed", "paused"),
		c.queueSwitch(f, "resume", "end the pause of a route", "resumed"),
		c.queueSwitch(f, "flush", "make all waiting messages of a route due now; needs a running gateway", "all waiting messages are due now"),
		c.queueSwitch(f, "hold", "send nothing to the backend of a route, from any route, until it is released", "its backend is held"),
		c.queueSwitch(f, "release", "end the hold of the backend of a route", "its backend is released"))
	c.completeQueue(cmd, f)
	return cmd
}

// selection is what messages a command is about.
type selection struct {
	route, state, operation, since, text string
}

// flags declares the filters; a command on dead letters only has no --state.
func (s *selection) flags(cmd *cobra.Command, state bool) {
	if state {
		cmd.Flags().StringVar(&s.state, "state", "", "only messages in this `state`: "+strings.Join(queueStates, ", "))
	}
	cmd.Flags().StringVar(&s.operation, "operation", "", "only messages of this operation, the local `name` of the first element in Body")
	cmd.Flags().StringVar(&s.since, "since", "", "only messages accepted since a `time`, as in 2026-01-31T12:00:00Z, 2026-01-31, 90m or 3d")
	cmd.Flags().StringVar(&s.text, "text", "", "only messages with this `text` in id, order key or reason")
}

// given names the first filter that was set, "" if none was.
func (s *selection) given() string {
	for _, f := range [][2]string{{"state", s.state}, {"operation", s.operation}, {"since", s.since}, {"text", s.text}} {
		if f[1] != "" {
			return f[0]
		}
	}
	return ""
}

// filters returns the filters as the API takes them.
func (s *selection) filters(command string, now time.Time) (map[string]string, error) {
	out := map[string]string{}
	if s.state != "" {
		if !slices.Contains(queueStates, s.state) {
			return nil, &usageError{fmt.Sprintf("%s: there is no state %.40q", command, s.state), "the states are " + strings.Join(queueStates, ", ")}
		}
		out["state"] = s.state
	}
	if s.operation != "" {
		out["operation"] = s.operation
	}
	if s.text != "" {
		out["text"] = s.text
	}
	if s.since != "" {
		t, ok := sinceTime(s.since, now)
		if !ok {
			return nil, &usageError{fmt.Sprintf("%s: --since %.40q is no time", command, s.since), "write 2026-01-31T12:00:00Z, 2026-01-31, or how long ago: 90m, 3d"}
		}
		out["since"] = t.UTC().Format(time.RFC3339Nano)
	}
	return out, nil
}

// sinceTime reads a point in time, or how long ago it was.
func sinceTime(s string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, true
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		return now.AddDate(0, 0, -n), err == nil && n >= 0 && n < 1e6
	}
	d, err := time.ParseDuration(s)
	return now.Add(-d), err == nil && d >= 0
}

func (c *cli) queueLs(f *queueFlags) *cobra.Command {
	var (
		s     selection
		limit int
		all   bool
	)
	cmd := &cobra.Command{
		Use:   "ls [ROUTE]",
		Short: "count the messages of all routes, or list those of one",
		Args:  atMost(1, "one route"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.route = args[0]
			} else if name := s.given(); name != "" || all || cmd.Flags().Changed("limit") {
				return &usageError{"queue ls: filters and limits need a route", "gateway queue ls ROUTE"}
			}
			if limit < 1 {
				return &usageError{fmt.Sprintf("queue ls: --limit must be at least 1, got %d", limit), "--all shows all"}
			}
			if all && cmd.Flags().Changed("limit") {
				return &usageError{"queue ls: --limit and --all exclude each other", ""}
			}
			filters, err := s.filters("queue ls", time.Now())
			if err != nil {
				return err
			}
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error {
				if s.route == "" {
					return c.listRoutes(cmd.Context(), q)
				}
				if all {
					limit = 0
				}
				return c.listMessages(cmd.Context(), q, s.route, filters, limit)
			})
		},
	}
	s.flags(cmd, true)
	cmd.Flags().IntVar(&limit, "limit", defaultLimit, "show at most this many")
	cmd.Flags().BoolVar(&all, "all", false, "show all")
	return cmd
}

func (c *cli) listRoutes(ctx context.Context, q *queueClient) error {
	var r admin.Queues
	if err := q.get(ctx, "/queues", nil, &r); err != nil {
		return err
	}
	if c.json {
		for i := range r.Queues {
			if err := c.printJSON(&r.Queues[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(r.Queues) == 0 {
		c.say("no route stores messages")
		return nil
	}
	if err := printRoutes(c.stdout, r.Queues, time.Now()); err != nil {
		return err
	}
	for i := range r.Queues {
		if name := r.Queues[i].Route; gone(&r.Queues[i]) {
			c.say("route %s is gone; its messages wait until they are moved: gateway queue move --from %[1]s --to ROUTE", clean(name, 200))
		}
	}
	return nil
}

// listMessages shows at most limit messages, all if it is 0, page by page.
func (c *cli) listMessages(ctx context.Context, q *queueClient, route string, filters map[string]string, limit int) error {
	query := url.Values{}
	for name, v := range filters {
		query.Set(name, v)
	}
	shown := 0
	for {
		n := pageLimit
		if limit > 0 {
			n = min(n, limit-shown)
		}
		query.Set("limit", strconv.Itoa(n))
		var p admin.Page
		if err := q.get(ctx, "/queues/"+url.PathEscape(route)+"/messages", query, &p); err != nil {
			return err
		}
		if p.Loading && shown == 0 {
			c.say("the gateway is still reading its store: messages are missing here")
		}
		if err := c.printPage(p.Messages, shown == 0); err != nil {
			return err
		}
		shown += len(p.Messages)
		switch {
		case p.Next == "":
			if shown == 0 {
				c.say("no message of %s is stored that fits", route)
			}
			if filters["state"] == "" {
				return c.sayAwaiting(ctx, q, route)
			}
			return nil
		case limit > 0 && shown >= limit:
			c.say("there are more: use --limit or --all")
			return nil
		}
		query.Set("after", p.Next)
	}
}

// sayAwaiting says how many messages of a route other sites have taken and are to
// answer: they are listed only where they are asked for.
func (c *cli) sayAwaiting(ctx context.Context, q *queueClient, route string) error {
	var r admin.Queues
	if err := q.get(ctx, "/queues", nil, &r); err != nil {
		return err
	}
	for i := range r.Queues {
		if s := &r.Queues[i]; s.Route == route && s.Awaiting > 0 {
			c.say("%s of %s handed over to another site, which has not answered yet: --state awaiting shows them", count(s.Awaiting, "message"), route)
		}
	}
	return nil
}

func (c *cli) printPage(page []admin.Entry, first bool) error {
	if !c.json {
		return printEntries(c.stdout, page, first)
	}
	for i := range page {
		if err := c.printJSON(&page[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) queueShow(f *queueFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "print all that is known of a message",
		Args:  exactly(1, "the id of one message"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error {
				var m admin.Message
				if err := q.get(cmd.Context(), "/messages/"+url.PathEscape(args[0]), nil, &m); err != nil {
					return err
				}
				if c.json {
					return c.printJSON(&m)
				}
				return printMessage(c.stdout, &m)
			})
		},
	}
}

// A bulk is a command on messages by their ids, or on what a filter selects.
type bulk struct {
	selection
	name string // of the command
	done string // what it makes of a message
	yes  bool
}

func (c *cli) queueReplay(f *queueFlags) *cobra.Command {
	b := &bulk{name: "replay", done: "waits again"}
	cmd := &cobra.Command{
		Use:   "replay ID… | --route ROUTE",
		Short: "make dead letters wait again",
		Long: `Makes dead letters wait again: those with the given ids, or with --route all of
a route that the filters select. They keep their ids, no attempt is charged to
them and their time starts anew. A delivered message that store.keep_delivered
keeps can be given by its id, and is delivered once more, marked as a possible
duplicate.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runBulk(cmd.Context(), f, b, args) },
	}
	b.flags(cmd, false)
	cmd.Flags().StringVar(&b.route, "route", "", "replay the dead letters of this `route`")
	cmd.Flags().BoolVar(&b.yes, "yes", false, "do it, with --route")
	return cmd
}

func (c *cli) queueDrop(f *queueFlags) *cobra.Command {
	b := &bulk{name: "drop", done: "dropped"}
	cmd := &cobra.Command{
		Use:   "drop ID… | --route ROUTE",
		Short: "forget messages for good",
		Long: `Forgets messages for good: those with the given ids, or with --route all of a
route that the filters select, waiting and dead, or delivered and kept where
--state asks for these. A message that is being
delivered at that moment is not dropped.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runBulk(cmd.Context(), f, b, args) },
	}
	b.flags(cmd, true)
	cmd.Flags().StringVar(&b.route, "route", "", "drop the messages of this `route`")
	cmd.Flags().BoolVar(&b.yes, "yes", false, "do it")
	return cmd
}

func (c *cli) runBulk(ctx context.Context, f *queueFlags, b *bulk, ids []string) error {
	command := "queue " + b.name
	switch filter := b.given(); {
	case b.route == "" && filter != "":
		return &usageError{command + ": --" + filter + " needs --route", ""}
	case b.route == "" && len(ids) == 0:
		return &usageError{command + ": which messages?", "give ids, or --route ROUTE"}
	case b.route != "" && len(ids) > 0:
		return &usageError{command + ": ids and --route exclude each other", ""}
	case b.name == "drop" && len(ids) > 0 && !b.yes:
		return &usageError{command + ": " + count(len(ids), "message") + " would be dropped for good", "repeat with --yes"}
	}
	filters, err := b.filters(command, time.Now())
	if err != nil {
		return err
	}
	return c.withQueue(ctx, f, func(q *queueClient) error {
		if len(ids) > 0 {
			return c.each(ctx, q, b, ids)
		}
		if !b.yes {
			if b.name == "replay" {
				filters["state"] = "dead"
			}
			n, err := q.count(ctx, b.route, filters)
			if err != nil {
				return err
			}
			what := map[string]string{"replay": "replayed", "drop": "dropped for good"}[b.name]
			return &usageError{fmt.Sprintf("%s: %s of %s would be %s", command, count(n, "message"), b.route, what), "repeat with --yes"}
		}
		n, err := q.all(ctx, b.name, b.route, filters)
		if err != nil {
			return err
		}
		if c.json {
			return c.printJSON(changedRoute{Route: b.route, Count: &n})
		}
		_, err = fmt.Fprintf(c.stdout, "%s of %s: %s\n", count(n, "message"), b.route, b.done)
		return err
	})
}

// changedMessage and changedRoute are results for machines.
type changedMessage struct {
	ID    string `json:"id"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

type changedRoute struct {
	Route string `json:"route"`
	Done  string `json:"done,omitempty"` // pause, resume, flush, hold or release
	Count *int   `json:"count,omitempty"`
}

// each does to every message what b says, and goes on after one that cannot be.
func (c *cli) each(ctx context.Context, q *queueClient, b *bulk, ids []string) error {
	bad := false
	for _, id := range ids {
		method, path := "POST", "/messages/"+url.PathEscape(id)+"/replay"
		if b.name == "drop" {
			method, path = "DELETE", "/messages/"+url.PathEscape(id)
		}
		err := q.do(ctx, method, path, nil, nil, nil)
		if fatal(err) {
			return err
		}
		r := changedMessage{ID: id, OK: err == nil}
		if err != nil {
			bad = true
			r.Error = err.Error()
			c.complain(r.Error, "")
		}
		if c.json {
			if err := c.printJSON(r); err != nil {
				return err
			}
		} else if r.OK {
			if _, err := fmt.Fprintf(c.stdout, "%s: %s\n", id, b.done); err != nil {
				return err
			}
		}
	}
	if bad {
		return errReported
	}
	return nil
}

// queueSwitch is pause, resume, flush, hold or release.
func (c *cli) queueSwitch(f *queueFlags, name, short, done string) *cobra.Command {
	return &cobra.Command{
		Use:   name + " ROUTE",
		Short: short,
		Args:  exactly(1, "one route"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error {
				if err := q.do(cmd.Context(), "POST", "/queues/"+url.PathEscape(args[0])+"/"+name, nil, nil, nil); err != nil {
					return err
				}
				if c.json {
					return c.printJSON(changedRoute{Route: args[0], Done: name})
				}
				_, err := fmt.Fprintf(c.stdout, "%s: %s\n", args[0], done)
				return err
			})
		},
	}
}

// commandOf is what was typed behind the name of the program, such as queue ls.
func commandOf(cmd *cobra.Command) string {
	_, rest, _ := strings.Cut(cmd.CommandPath(), " ")
	return rest
}

// exactly is the Args of a command that takes n, named by what.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return &usageError{fmt.Sprintf("%s takes %s, got %d", commandOf(cmd), what, len(args)), "see " + cmd.CommandPath() + " --help"}
	}
}

// atMost is the Args of a command that takes up to n.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return &usageError{fmt.Sprintf("%s takes at most %s, got %d", commandOf(cmd), what, len(args)), "see " + cmd.CommandPath() + " --help"}
	}
}
