package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/enrol"
)

// siteEntry is one site of ls.
type siteEntry struct {
	Site        string     `json:"site"`
	Link        string     `json:"link,omitempty"` // URL of the link to it
	Pull        bool       `json:"pull,omitempty"`
	Routes      []string   `json:"routes,omitempty"` // that it may send to
	Certificate *time.Time `json:"certificate,omitempty"`
	Revoked     bool       `json:"revoked,omitempty"`
	Invited     *time.Time `json:"invited,omitempty"` // until

	// Status is what the running gateway says of the link, as in its API; nil if
	// none answers.
	Status *admin.Link `json:"status,omitempty"`
}

func (c *cli) siteLsCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "ls [-c FILE]",
		Short: "list links, sites that are accepted, certificates and invitations",
		Long: "Lists what the configuration and the authority of this site know of others. Of a\n" +
			"gateway that runs with this configuration, and answers at its admin address, it\n" +
			"also tells how each link is, and what waits for it.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runSiteLs(cmd.Context(), file) },
	}
	configFlag(cmd, &file)
	return cmd
}

func (c *cli) runSiteLs(ctx context.Context, file string) error {
	f, err := c.siteFile(file)
	if err != nil {
		return err
	}
	entries, err := sitesOf(f.cfg)
	if err != nil {
		return &problem{err, ""}
	}
	live := c.addStatus(ctx, f.cfg, entries)
	if c.json {
		return c.printJSON(entries)
	}
	if len(entries) == 0 {
		c.say("%s: no links and no sites", f.path)
		return nil
	}
	w := table(c.stdout)
	heads := []string{"SITE", "LINK", "PULL", "MAY SEND TO", "CERTIFICATE UNTIL", "INVITED UNTIL"}
	if live {
		heads = append(heads, "STATE", "WAITING", "OLDEST", "WHY")
	}
	row(w, heads...)
	for _, e := range entries {
		until := day(e.Certificate)
		if e.Revoked {
			until = "revoked"
		}
		pull := ""
		if e.Link != "" {
			pull = strconv.FormatBool(e.Pull)
		}
		cells := []string{e.Site, e.Link, pull, strings.Join(e.Routes, " "), until, day(e.Invited)}
		if live {
			cells = append(cells, statusCells(e.Status)...)
		}
		row(w, cells...)
	}
	return w.Flush()
}

// statusTimeout is how long ls waits for the running gateway, of which it can do
// without.
const statusTimeout = 3 * time.Second

// addStatus asks the gateway at the admin address of the configuration how its links
// are, and reports whether it has answered.
func (c *cli) addStatus(ctx context.Context, cfg *config.Config, entries []*siteEntry) bool {
	base := adminBase(cfg.Admin.Address, cfg.Admin.TLS != nil)
	if base == "" || len(entries) == 0 {
		return false
	}
	var f queueFlags
	t, err := f.adminTLS(cfg)
	if err != nil {
		return false
	}
	token, err := c.token(&f)
	if err != nil || token == "" {
		token = cfg.Admin.Token.Reveal()
	}
	q := newQueueClient(base, token, t)
	defer q.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var links admin.Links
	switch err := q.get(ctx, "/links", nil, &links); {
	case nobodyListens(err):
		return false
	case err != nil:
		c.say("how the links are is not known: %v", err)
		return false
	}
	for i := range links.Links {
		l := &links.Links[i]
		at := slices.IndexFunc(entries, func(e *siteEntry) bool { return e.Site == l.Name })
		if at < 0 || l.Peer != entries[at].Link {
			c.say("what runs at %s has a link to %s that is not in this configuration", base, clean(l.Name, 80))
			continue
		}
		entries[at].Status = l
	}
	return true
}

// statusCells are the cells of ls on the state of a link.
func statusCells(l *admin.Link) []string {
	if l == nil {
		return []string{"", "", "", ""}
	}
	oldest := ""
	if l.LagMessages > 0 {
		oldest = age(time.Duration(l.LagSeconds * float64(time.Second)))
	}
	return []string{l.State, strconv.Itoa(l.LagMessages), oldest, l.Reason}
}

func day(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// sitesOf are the sites that a configuration and its authority know, by name.
func sitesOf(cfg *config.Config) ([]*siteEntry, error) {
	entries := []*siteEntry{}
	if cfg.Sites == nil {
		return entries, nil
	}
	of := func(name string) *siteEntry {
		for _, e := range entries {
			if e.Site == name {
				return e
			}
		}
		e := &siteEntry{Site: name}
		entries = append(entries, e)
		return e
	}
	for i := range cfg.Sites.Links {
		l := &cfg.Sites.Links[i]
		e := of(l.Name)
		e.Link, e.Pull = l.URL.String(), l.Pull
		if expires, _, err := enrol.Due(string(l.Certificate)); err == nil {
			e.Certificate = &expires
		}
	}
	for i := range cfg.Sites.Accept {
		e := of(cfg.Sites.Accept[i].Name)
		e.Routes = cfg.Sites.Accept[i].Routes
	}
	if err := certificatesOf(cfg, of); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b *siteEntry) int { return strings.Compare(a.Site, b.Site) })
	return entries, nil
}

// certificatesOf takes up what the authority has given.
func certificatesOf(cfg *config.Config, of func(string) *siteEntry) error {
	if cfg.Sites.CADir == "" {
		return nil
	}
	a, err := enrol.Open(string(cfg.Sites.CADir))
	if errors.Is(err, enrol.ErrNoAuthority) {
		return nil
	}
	if err != nil {
		return err
	}
	issued, err := a.Issued()
	if err != nil {
		return err
	}
	for _, is := range issued { // the latest one comes last
		e := of(is.Site)
		e.Certificate, e.Revoked = &is.Expires, !is.Revoked.IsZero()
	}
	open, err := a.Invites()
	if err != nil {
		return err
	}
	for _, inv := range open {
		of(inv.Site).Invited = &inv.Expires
	}
	return nil
}
