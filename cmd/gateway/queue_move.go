package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"soapway/internal/admin"
)

func (c *cli) queueMove(f *queueFlags) *cobra.Command {
	var (
		s   selection
		to  string
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "move --to ROUTE ID… | --to ROUTE --from ROUTE",
		Short: "put messages on another route, such as those of a removed one",
		Long: `Puts messages on another route: those with the given ids, or with --from all of
a route that the filters select. The route they are on may have been removed.

Messages that wait go on waiting there, and dead letters stay dead until they are
replayed. Their ids, attempts and order go along: messages of one order key go
behind what waits under that key. One that has waited longer than retry.expire of
the other route allows has its time start anew. A message under way is left, and
so is what stands behind it in its key: pause the route first.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			switch filter := s.given(); {
			case to == "":
				return &usageError{"queue move: to which route?", "give --to ROUTE"}
			case s.route == "" && filter != "":
				return &usageError{"queue move: --" + filter + " needs --from", ""}
			case s.route == "" && len(ids) == 0:
				return &usageError{"queue move: which messages?", "give ids, or --from ROUTE"}
			case s.route != "" && len(ids) > 0:
				return &usageError{"queue move: ids and --from exclude each other", ""}
			case s.route == to:
				return &usageError{"queue move: --from and --to are the same route", ""}
			}
			filters, err := s.filters("queue move", time.Now())
			if err != nil {
				return err
			}
			return c.withQueue(cmd.Context(), f, func(q *queueClient) error {
				if len(ids) > 0 {
					return c.moveIDs(cmd.Context(), q, ids, to)
				}
				return c.moveRoute(cmd.Context(), q, s.route, to, filters, yes)
			})
		},
	}
	s.flags(cmd, true)
	cmd.Flags().StringVar(&s.route, "from", "", "move the messages of this `route`")
	cmd.Flags().StringVar(&to, "to", "", "to this `route`")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, with --from")
	return cmd
}

// moved is the result of a move for machines.
type moved struct {
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	admin.Moved
}

func (c *cli) moveRoute(ctx context.Context, q *queueClient, from, to string, filters map[string]string, yes bool) error {
	if !yes {
		n, err := q.count(ctx, from, filters)
		if err != nil {
			return err
		}
		return &usageError{fmt.Sprintf("queue move: %s of %s would be moved to %s", count(n, "message"), from, to), "repeat with --yes"}
	}
	defer q.atWork("move")()
	filters["from"], filters["to"] = from, to
	var m admin.Moved
	if err := q.do(ctx, "POST", "/queues/move", nil, filters, &m); err != nil {
		return err
	}
	return c.tellMoved(from, to, &m)
}

// idsAtOnce is how many ids one request has: its body has a limit.
const idsAtOnce = 500

func (c *cli) moveIDs(ctx context.Context, q *queueClient, ids []string, to string) error {
	var sum admin.Moved
	for len(ids) > 0 {
		part := ids[:min(len(ids), idsAtOnce)]
		ids = ids[len(part):]
		var m admin.Moved
		if err := q.do(ctx, "POST", "/queues/move", nil, map[string]any{"ids": part, "to": to}, &m); err != nil {
			return err
		}
		sum.Count += m.Count
		sum.Busy += m.Busy
		sum.Damaged += m.Damaged
		sum.Unknown = append(sum.Unknown, m.Unknown...)
	}
	return c.tellMoved("", to, &sum)
}

// tellMoved says what was moved, and complains about what was not.
func (c *cli) tellMoved(from, to string, m *admin.Moved) error {
	if c.json {
		if err := c.printJSON(moved{from, to, *m}); err != nil {
			return err
		}
	} else {
		of := ""
		if from != "" {
			of = " of " + from
		}
		if _, err := fmt.Fprintf(c.stdout, "%s%s: moved to %s\n", count(m.Count, "message"), of, to); err != nil {
			return err
		}
	}
	for _, id := range m.Unknown {
		c.complain(fmt.Sprintf("no such message: %q", clean(id, 100)), "")
	}
	if m.Busy > 0 {
		c.complain(count(m.Busy, "message")+" left: under way, or behind one of the same order key that is", "pause the route and repeat")
	}
	if m.Damaged > 0 {
		c.complain(count(m.Damaged, "message")+" left: the store cannot read them", "the log of the gateway names them; gateway queue drop forgets them")
	}
	if m.Busy+m.Damaged+len(m.Unknown) > 0 {
		return errReported
	}
	return nil
}
