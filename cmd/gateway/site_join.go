package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"soapway/config"
	"soapway/internal/enrol"
)

// siteJoined is the result of join for machines.
type siteJoined struct {
	Site   string   `json:"site"` // this one
	Hub    string   `json:"hub"`
	File   string   `json:"file"` // the configuration
	Routes []string `json:"routes"`
}

func (c *cli) siteJoinCommand() *cobra.Command {
	var file, dir string
	cmd := &cobra.Command{
		Use:   "join URL TOKEN [--dir sites] [-c FILE]",
		Short: "join the site at URL with the token of its invitation",
		Long: "Exchanges the token of gateway site invite for a certificate of the hub at URL\n" +
			"(https://HOST:PORT) and writes the link into the configuration. Certificate and\n" +
			"key are kept in --dir. Where there is no configuration it writes a small one.\n" +
			"TOKEN may be - to read it from standard input.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return &usageError{"join needs two arguments, the address of the hub and the token", "see " + cmd.CommandPath() + " --help"}
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runSiteJoin(cmd.Context(), args[0], args[1], file, dir)
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().StringVar(&dir, "dir", "sites", "`folder` for the certificate, relative to the configuration")
	return cmd
}

func (c *cli) runSiteJoin(ctx context.Context, url, text, file, dir string) error {
	if text == "-" {
		var err error
		if text, err = c.readLine(); err != nil {
			return &problem{err, ""}
		}
	}
	token, err := enrol.ParseToken(text)
	if err != nil {
		return &usageError{err.Error(), "copy the whole line that gateway site invite printed"}
	}
	f, fresh, err := c.joiningFile(file)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(f.path), dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &problem{err, ""}
	}
	key, keyFile, err := joiningKey(dir, token)
	if err != nil {
		return &problem{err, ""}
	}
	j, err := enrol.Join(ctx, url, token, key)
	if err != nil {
		return &problem{err, joinHint(err)}
	}
	if err := c.writeLink(f, fresh, url, dir, j); err != nil {
		return err
	}
	if err := os.Remove(keyFile); err != nil { // it is in the pair
		return &problem{err, ""}
	}
	if c.json {
		return c.printJSON(&siteJoined{j.Site, j.Hub, f.path, j.Routes})
	}
	_, err = fmt.Fprintf(c.stdout, "this site is %s and has a link to %s\n", j.Site, j.Hub)
	if len(j.Routes) > 0 {
		c.say(`it may send to %s: a route with to: ["site:%s/%s"] and delivery: queue does`, strings.Join(j.Routes, ", "), j.Hub, j.Routes[0])
	} else {
		c.say("it may send to no route of %s yet: sites.accept there says to which", j.Hub)
	}
	return err
}

// readLine reads the first line of standard input.
func (c *cli) readLine() (string, error) {
	b := make([]byte, 4096)
	n, err := c.stdin.Read(b)
	if n == 0 && err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	return line, nil
}

// joiningFile is the configuration that a link is written to; fresh says that there
// is none yet.
func (c *cli) joiningFile(file string) (f *siteFile, fresh bool, err error) {
	f, err = c.siteFile(file)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, false, err
	}
	path := file
	if path == "" {
		path = "gateway.yaml"
	}
	return &siteFile{path: path, cfg: &config.Config{}}, true, nil
}

// joiningKey makes the key of this site. It is kept in a file of the token's own until
// the certificate is there: if the answer is lost, the same key gets it again.
func joiningKey(dir string, t enrol.Token) (key []byte, name string, err error) {
	name = filepath.Join(dir, "joining-"+t.Mark()+".key")
	key, err = os.ReadFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, name, err
	}
	if key, err = enrol.NewKey(); err != nil {
		return nil, "", err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", err
	}
	_, err = f.Write(key)
	return key, name, errors.Join(err, f.Sync(), f.Close())
}

func joinHint(err error) string {
	if refused, ok := errors.AsType[*enrol.RefusedError](err); ok {
		switch refused.Status {
		case 403:
			return "ask for another one: gateway site invite, on the hub"
		case 404:
			return "the hub needs sites.ca_dir, and the address is that of a listener of its gateway"
		}
		return ""
	}
	return "is the address right, does the gateway of the hub run, and is the token that of this hub?"
}

// writeLink keeps what the hub has given and writes the link.
func (c *cli) writeLink(f *siteFile, fresh bool, url, dir string, j *enrol.Joined) error {
	if !config.IsName(j.Hub) || !config.IsName(j.Site) || slices.ContainsFunc(j.Routes, func(r string) bool { return !config.IsName(r) }) {
		return &problem{errors.New("the hub answered with names that are none"), ""}
	}
	if s := f.cfg.Sites; s != nil {
		if s.Name != j.Site {
			return &problem{
				fmt.Errorf("%s: this site is %s, and the invitation is for %s", f.path, s.Name, j.Site),
				"ask for an invitation of the right name, or change sites.name",
			}
		}
		if slices.ContainsFunc(s.Links, func(l config.Link) bool { return l.Name == j.Hub }) {
			return c.replaceLink(dir, j, f)
		}
	}
	if err := enrol.WritePair(filepath.Join(dir, j.Hub+".pem"), j.Pair); err != nil {
		return &problem{err, ""}
	}
	item := []string{"name: " + j.Hub, "url: " + strings.TrimSuffix(url, "/")}
	for _, key := range []string{"certificate", "key"} {
		item = append(item, key+": "+yamlText(relative(f.path, filepath.Join(dir, j.Hub+".pem"))))
	}
	if !j.Public {
		ca := filepath.Join(dir, j.Hub+"-ca.crt")
		if err := enrol.WritePair(ca, j.Authority); err != nil {
			return &problem{err, ""}
		}
		item = append(item, "ca: "+yamlText(relative(f.path, ca)))
	}
	if fresh {
		f.data = starter(j)
	}
	return f.addTo(c, fresh, item, j.Site)
}

// replaceLink keeps another certificate for a link that is there.
func (c *cli) replaceLink(dir string, j *enrol.Joined, f *siteFile) error {
	i := slices.IndexFunc(f.cfg.Sites.Links, func(l config.Link) bool { return l.Name == j.Hub })
	l := &f.cfg.Sites.Links[i]
	if l.Certificate != l.Key || l.Certificate == "" {
		return &problem{
			fmt.Errorf("%s: the link to %s has a certificate of its own, in two files", f.path, j.Hub),
			"remove the link from the file first",
		}
	}
	if err := enrol.WritePair(string(l.Certificate), j.Pair); err != nil {
		return &problem{err, ""}
	}
	if l.CA != "" && !j.Public {
		if err := enrol.WritePair(string(l.CA), j.Authority); err != nil {
			return &problem{err, ""}
		}
	}
	c.say("%s: the link to %s stays, with another certificate", f.path, j.Hub)
	return nil
}

// addTo writes the link into the file, which is made if it is fresh.
func (f *siteFile) addTo(c *cli, fresh bool, item []string, site string) error {
	if fresh {
		if _, err := os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
			return &problem{fmt.Errorf("%s is there now", f.path), "run the command again"}
		}
		c.say("%s is new", f.path)
	}
	return f.add(c, "links", item, []string{"name: " + site})
}

// starter is the configuration of a site that has none: a route to each that it may
// send to.
func starter(j *enrol.Joined) []byte {
	var b strings.Builder
	b.WriteString("listeners:\n  - address: \"127.0.0.1:8080\"\n")
	if len(j.Routes) > 0 {
		b.WriteString("\nroutes:\n")
	}
	for _, r := range j.Routes {
		fmt.Fprintf(&b, "  - name: %s\n    match: {path: /%s}\n    to: [\"site:%s/%s\"]\n    delivery: queue\n", r, r, j.Hub, r)
	}
	return []byte(b.String())
}

// relative is a path as the configuration at file names it.
func relative(file, path string) string {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return path
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(dir, full); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return full
}

// yamlText is a text as a value of YAML.
func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
