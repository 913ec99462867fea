package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"soapway/bench"
	"soapway/internal/app"
	"soapway/internal/frame"
)

// pingFlags are the flags of ping.
type pingFlags struct {
	combos        string
	ladder, nagle bool
	count, conns  string
	faults        bench.Faults
}

// ladderSizes are the sizes of --ladder; the last is the longest that a length of
// two octets can count.
var ladderSizes = []int{bench.PingSize, 1500, 8 << 10, 32 << 10, 65_535}

func (c *cli) benchPing(f *benchFlags) *cobra.Command {
	p := &pingFlags{}
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "SOAP messages a second, one after the other, by sender and binder",
		Long: `Sends a SOAP message of 225 octets, waits for its reply, looks at it, sends the
next: the founding measurement. Sender and binder are processes of their own. The
rows are the five combinations of the founding table and net/http as a
yardstick:

  hh  the gateway's client  - the gateway's HTTP listener
  hr  the gateway's client  - an HTTP listener by hand
  rh  an HTTP client by hand - the gateway's HTTP listener
  rr  an HTTP client by hand - an HTTP listener by hand
  ff  framed TCP            - the gateway's framed listener
  nn  net/http              - net/http

--via gateway puts a gateway between the two; --via both shows each row without
and with it and what it takes (tax).`,
		Args: c.benchArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			j, err := c.pingJob(f, p)
			if err != nil {
				return err
			}
			return c.runBench(cmd, f, j)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&p.combos, "combo", "all", "`combinations`, such as hh,ff")
	fl.BoolVar(&p.ladder, "ladder", false, "sizes of 225 octets, 1.5, 8, 32 and 64 KiB less one octet")
	fl.StringVar(&p.count, "count", "1000", "`messages` of a run, several as 10,100,1000")
	fl.StringVar(&p.conns, "conns", "1", "`connections` at once, several as 1,32; --count is for all together")
	fl.BoolVar(&p.nagle, "nagle", false, "head and body in two writes without TCP_NODELAY: what the stall detector must find")
	faultFlags(fl, &p.faults)
	hideFaultFlags(fl)
	return cmd
}

// pingJob makes sense of the flags of ping.
func (c *cli) pingJob(f *benchFlags, p *pingFlags) (benchJob, error) {
	j := benchJob{name: "ping", uses: choosable, limits: bench.LimitSet{Floor: true}}
	if err := f.parseMessage(); err != nil {
		return j, err
	}
	remote, err := f.remote(&p.combos)
	if err != nil {
		return j, err
	}
	combos, err := chooseCombos(p.combos)
	if err != nil {
		return j, err
	}
	counts, err := parseCounts("--count", p.count)
	if err != nil {
		return j, err
	}
	conns, err := parseCounts("--conns", cmp.Or(p.conns, "1"))
	if err != nil {
		return j, err
	}
	sizes := []int{f.size}
	if p.ladder {
		sizes = ladderSizes
	}
	for _, size := range sizes {
		if err := f.fits(size, combos, remote); err != nil {
			return j, err
		}
	}
	j.build = func(_ context.Context, e *benchEnv) (rows []bench.Scenario, err error) {
		for _, combo := range combos {
			for _, size := range sizes {
				for _, count := range counts {
					for _, n := range conns {
						o := bench.PingOptions{
							EchoOptions: bench.EchoOptions{
								Lab: e.lab, Product: dialProduct, Combo: combo, Version: f.version, Size: size,
								Nagle: p.nagle, Faults: p.faults, Remote: remote, RemoteName: f.target,
							},
							Count: count, Duration: f.duration, Warmup: f.warmup, Callers: n, Fresh: f.conn == "fresh", Limits: e.limits,
							Suffix: suffix(len(sizes) > 1, "/", size) + suffix(len(counts) > 1, "/", count) + suffix(len(conns) > 1, "/c", n),
						}
						if p.nagle {
							o.Count = min(o.Count, 50) // of 40 ms each
						}
						rows = append(rows, pingRows(o, f.vias())...)
					}
				}
			}
		}
		return rows, nil
	}
	return j, nil
}

// pingRows are the rows without and with a gateway in between.
func pingRows(o bench.PingOptions, vias []bool) (rows []bench.Scenario) {
	for _, via := range vias {
		row := o
		if row.Via = via; via {
			row.Suffix += "+gw"
		}
		rows = append(rows, bench.NewPings(row))
	}
	return rows
}

// fits refuses a message that cannot be made, or not sent by one of combos.
func (f *benchFlags) fits(size int, combos []bench.Combo, remote *bench.Target) error {
	if _, err := bench.NewPing(f.version, size); err != nil {
		return &usageError{err.Error(), ""}
	}
	if most := int(frame.MaxPayload(2)); size > most && hasFramed(combos) && (remote == nil || remote.Width == 2) {
		return &usageError{fmt.Sprintf("bench: a framed message has at most %d octets, not %d", most, size), "leave ff out with --combo"}
	}
	return nil
}

func hasFramed(combos []bench.Combo) bool {
	return slices.ContainsFunc(combos, func(c bench.Combo) bool { return c.Code == "ff" })
}

// suffix tells rows of one combination apart, where there are several.
func suffix(several bool, mark string, n int) string {
	if !several {
		return ""
	}
	return mark + strconv.Itoa(n)
}

func chooseCombos(list string) ([]bench.Combo, error) {
	var codes []string
	if list != "all" {
		codes = strings.Split(list, ",")
	}
	combos, err := bench.Combos(codes...)
	if err != nil {
		return nil, &usageError{err.Error(), "they are hh, hr, rh, rr, ff, nn, or all"}
	}
	return combos, nil
}

// parseCounts reads 10,100,1000.
func parseCounts(flag, list string) (counts []int, err error) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1_000_000_000 {
			return nil, &usageError{fmt.Sprintf("bench: %s %.40q is no number above 0", flag, list), "such as 1000 or 10,100,1000"}
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// productCaller is the gateway's own client as the bench calls it.
type productCaller struct{ *app.Sender }

func dialProduct(_ context.Context, t bench.Target) (bench.Caller, error) {
	s, err := app.NewSender(t.URL(), t.ContentType, t.Wait())
	if err != nil {
		return nil, err
	}
	return productCaller{s}, nil
}

func (p productCaller) Call(ctx context.Context, message []byte) ([]byte, error) {
	return p.Send(ctx, message)
}

func (p productCaller) Close() error {
	p.Sender.Close()
	return nil
}
