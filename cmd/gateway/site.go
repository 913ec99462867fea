package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/durable"
	"soapway/internal/enrol"
)

func (c *cli) siteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "site invite|join|ls|revoke",
		Short: "links between sites",
		Long: "A site with sites.ca_dir, the hub, invites another; that one joins with the\n" +
			"token and has a link to the hub from then on. What a site may send to is in\n" +
			"sites.accept of the hub.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Sprintf("site: unknown command %.40q", args[0]), c.suggestCommand(cmd, args[0])}
			}
			return &usageError{"site: no command given", "one of invite, join, ls, revoke"}
		},
	}
	cmd.AddCommand(c.siteInviteCommand(), c.siteJoinCommand(), c.siteLsCommand(), c.siteRevokeCommand())
	return cmd
}

// A siteFile is a configuration whose sites a command reads or changes.
type siteFile struct {
	path string
	data []byte
	cfg  *config.Config // of its sites only, see config.LoadSites; Sites may be nil
}

// siteFile reads the configuration for a command on sites. Its error is
// fs.ErrNotExist, in a problem, if there is none.
func (c *cli) siteFile(file string) (*siteFile, error) {
	path, err := config.Find(file)
	if err != nil {
		return nil, &problem{err, "name one with -c FILE"}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &problem{err, ""}
	}
	cfg, err := config.LoadSites(path, data, config.Options{Env: c.env})
	if err != nil {
		return nil, complainAbout(c, err)
	}
	return &siteFile{path, data, cfg}, nil
}

// hub is siteFile of a site that must have an authority.
func (c *cli) hub(file string) (*siteFile, error) {
	f, err := c.siteFile(file)
	if err != nil {
		return nil, err
	}
	if f.cfg.Sites == nil || f.cfg.Sites.CADir == "" {
		return nil, &problem{
			fmt.Errorf("%s: this site has no authority that could sign certificates", f.path),
			"set sites.name and sites.ca_dir, a folder for it",
		}
	}
	return f, nil
}

// add writes an item into a list of sites, if the configuration is as good with it.
func (f *siteFile) add(c *cli, list string, item, missing []string) error {
	data, err := config.AddItem(f.data, "sites", list, item, missing)
	if errors.Is(err, config.ErrByHand) {
		return &problem{
			fmt.Errorf("%s: sites.%s is written in a way that this command does not change", f.path, list),
			"add by hand to sites." + list + ": - " + strings.Join(item, ", "),
		}
	}
	if err != nil {
		return &problem{err, ""}
	}
	cfg, err := config.LoadSites(f.path, data, config.Options{Env: c.env})
	if err != nil {
		return complainAbout(c, err)
	}
	if err := replaceFile(f.path, data); err != nil {
		return &problem{err, ""}
	}
	f.data, f.cfg = data, cfg
	return nil
}

// note writes what a command has done into the audit file of the configuration, if
// there is one. That it cannot keeps nothing from being done, as in a gateway.
func (f *siteFile) note(c *cli, action string, what map[string]any) {
	if f.cfg.Admin.Audit == "" {
		return
	}
	audit, err := admin.OpenAudit(string(f.cfg.Admin.Audit), slog.New(slog.NewTextHandler(c.stderr, nil)))
	if err != nil {
		c.say("the audit file cannot be written: %v", err)
		return
	}
	audit.Note(admin.Note{Action: action, Result: "done", Client: "local", What: what})
	if err := audit.Close(); err != nil {
		c.say("the audit file cannot be written: %v", err)
	}
}

// replaceFile gives a file other content and keeps its mode, and the link that leads
// to it.
func replaceFile(name string, data []byte) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	mode := fs.FileMode(0o644)
	if st, err := os.Stat(name); err == nil {
		mode = st.Mode().Perm()
	}
	return durable.WriteFile(name, data, mode)
}

// A siteInvite is what invite was asked for.
type siteInvite struct {
	file   string
	life   time.Duration
	hosts  []string
	routes []string
}

// madeInvite is the result of invite for machines.
type madeInvite struct {
	Site    string    `json:"site"`
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
	URLs    []string  `json:"urls"` // of the listeners that take it
}

func (c *cli) siteInviteCommand() *cobra.Command {
	var in siteInvite
	cmd := &cobra.Command{
		Use:   "invite NAME [--route NAME…] [--host HOST…] [--for 24h] [-c FILE]",
		Short: "print a one-time token with which a site can join",
		Long: "Prints a token with which the site NAME can join this one, once, within a day.\n" +
			"The first invitation makes the authority in sites.ca_dir, and beside it\n" +
			"server.pem, a certificate for the listener that sites connect to.\n\n" +
			"With --route the site may send to these routes: sites.accept of the file gets\n" +
			"an entry. --host names this machine as others reach it.",
		Args: oneArg("the name of the site"),
		RunE: func(_ *cobra.Command, args []string) error { return c.runSiteInvite(args[0], &in) },
	}
	configFlag(cmd, &in.file)
	cmd.Flags().DurationVar(&in.life, "for", enrol.InviteLife, "how long the token can be used")
	cmd.Flags().StringSliceVar(&in.hosts, "host", nil, "name or address of this machine, for its certificate")
	cmd.Flags().StringSliceVar(&in.routes, "route", nil, "route that the site may send to")
	return cmd
}

// oneArg is the Args of a command that takes one argument.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &usageError{fmt.Sprintf("%s needs one argument, %s", cmd.Name(), what), "see " + cmd.CommandPath() + " --help"}
	}
}

func (c *cli) runSiteInvite(name string, in *siteInvite) error {
	if !config.IsName(name) {
		return &usageError{fmt.Sprintf("%.60q is no name of a site", name), "lower-case letters, digits and hyphens, a letter first"}
	}
	if in.life <= 0 {
		return &usageError{"--for must be more than 0", "such as --for 1h"}
	}
	f, err := c.hub(in.file)
	if err != nil {
		return err
	}
	if name == f.cfg.Sites.Name {
		return &usageError{"this site has that name itself", "invite another one"}
	}
	accepted := slices.IndexFunc(f.cfg.Sites.Accept, func(a config.SiteAccept) bool { return a.Name == name })
	switch {
	case len(in.routes) > 0 && accepted >= 0:
		return &problem{fmt.Errorf("%s: sites.accept has an entry for %s", f.path, name), "change its routes there, and leave --route out"}
	case len(in.routes) > 0:
		item := []string{"name: " + name, `subjects: ["urn:soapway:site:` + name + `"]`, "routes: [" + strings.Join(in.routes, ", ") + "]"}
		if err := f.add(c, "accept", item, nil); err != nil {
			return err
		}
		c.say("%s: sites.accept lets %s send to %s", f.path, name, strings.Join(in.routes, ", "))
	}
	a, err := enrol.Create(string(f.cfg.Sites.CADir), f.cfg.Sites.Name)
	if err != nil {
		return &problem{err, ""}
	}
	urls, hosts := hubAddresses(f.cfg, in.hosts)
	if made, err := a.Server(hosts); err != nil {
		return &problem{err, ""}
	} else if made {
		c.say("%s has a certificate for %s", filepath.Join(string(f.cfg.Sites.CADir), enrol.ServerFile), strings.Join(hosts, ", "))
	}
	t, err := a.Invite(name, in.life)
	if err != nil {
		return &problem{err, ""}
	}
	until := time.Now().Add(in.life).Truncate(time.Second)
	f.note(c, "site-invite", map[string]any{"site": name, "token": t.Mark(), "until": until.UTC(), "routes": in.routes})
	if c.json {
		return c.printJSON(&madeInvite{name, t.Reveal(), until.UTC(), urls})
	}
	if _, err := fmt.Fprintln(c.stdout, t.Reveal()); err != nil {
		return err
	}
	if accepted < 0 && len(in.routes) == 0 {
		c.say("%s may send to no route yet: sites.accept has no entry for it (--route NAME writes one)", name)
	}
	if len(urls) == 0 {
		c.say("no listener has tls with client_ca, which sites need: see docs/sites.md")
		return nil
	}
	c.say("on the other machine, until %s: gateway site join %s TOKEN", until.Format(time.DateTime), urls[0])
	return nil
}

// hubAddresses are the addresses at which other sites reach this one, as far as the
// configuration tells, and the hosts for its certificate.
func hubAddresses(cfg *config.Config, given []string) (urls, hosts []string) {
	hosts = slices.Clone(given)
	add := func(h string) {
		if h != "" && !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	own, _ := os.Hostname() // without one there are the others
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		if l.TLS == nil || l.TLS.ClientCA == "" || l.Protocol != config.ProtocolHTTP {
			continue
		}
		host, port, err := net.SplitHostPort(l.Address)
		if err != nil {
			continue
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = own
		}
		if len(given) > 0 {
			host = given[0]
		}
		add(host)
		urls = append(urls, "https://"+net.JoinHostPort(host, port))
	}
	if len(urls) > 0 {
		add(own)
		add("localhost")
		add("127.0.0.1")
	}
	return urls, hosts
}

func (c *cli) siteRevokeCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "revoke NAME [-c FILE]",
		Short: "end the certificates and invitations of a site",
		Long: "Ends every certificate that was given to the site NAME, and its open\n" +
			"invitations. A running gateway refuses it from the next request on.",
		Args: oneArg("the name of the site"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := c.hub(file)
			if err != nil {
				return err
			}
			a, err := enrol.Open(string(f.cfg.Sites.CADir))
			if err != nil {
				return &problem{err, "nobody was invited yet"}
			}
			certificates, invites, err := a.Revoke(args[0])
			if err != nil {
				return &problem{err, "some may be revoked already: run it again"}
			}
			if certificates+invites == 0 {
				return &problem{fmt.Errorf("%.60q has no certificate and no invitation that counts", args[0]), "see gateway site ls"}
			}
			f.note(c, "site-revoke", map[string]any{"site": args[0], "certificates": certificates, "invitations": invites})
			if c.json {
				return c.printJSON(map[string]int{"certificates": certificates, "invitations": invites})
			}
			_, err = fmt.Fprintf(c.stdout, "%s: %s and %s revoked\n", args[0], count(certificates, "certificate"), count(invites, "invitation"))
			return err
		},
	}
	configFlag(cmd, &file)
	return cmd
}
