package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (c *cli) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "write the manual pages into a folder",
		Long: `Writes a page of the manual for each command into a folder, which is made if it is
not there: gateway.1, gateway-serve.1 and so on. They say what --help says.`,
		Args: exactly(1, "one folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return &problem{err, ""}
			}
			n, err := writeMan(cmd.Root(), args[0])
			if err != nil {
				return &problem{err, ""}
			}
			_, err = fmt.Fprintf(c.stdout, "%s written to %s\n", count(n, "page"), args[0])
			return err
		},
	}
}

// writeMan writes the page of a command and those below it, and says how many.
func writeMan(cmd *cobra.Command, dir string) (n int, err error) {
	var b strings.Builder
	manPage(&b, cmd)
	if err := os.WriteFile(filepath.Join(dir, manName(cmd)+".1"), []byte(b.String()), 0o644); err != nil {
		return n, err
	}
	n = 1
	for _, sub := range listed(cmd) {
		more, err := writeMan(sub, dir)
		n += more
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// listed are the commands below one that have a page.
func listed(cmd *cobra.Command) (list []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			list = append(list, sub)
		}
	}
	return list
}

// manPage writes a page in the macros of man(7). It has no date, so that the same
// program writes the same page.
func manPage(w io.Writer, cmd *cobra.Command) {
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line(`.TH %s 1 "" "Soapway %s" "Soapway"`, strings.ToUpper(roff(manName(cmd))), roff(buildInfo().Version))
	line(".SH NAME\n%s \\- %s", roff(manName(cmd)), roff(cmd.Short))
	use := cmd.UseLine()
	if len(listed(cmd)) > 0 {
		use = cmd.CommandPath() + " COMMAND"
	}
	line(".SH SYNOPSIS\n.B %s", roff(use))
	about := cmd.Long
	if about == "" {
		about = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	line(".SH DESCRIPTION\n%s", paragraphs(about))
	if cmd.Example != "" {
		line(".SH EXAMPLES\n.nf\n%s\n.fi", roffLines(cmd.Example))
	}
	if subs := listed(cmd); len(subs) > 0 {
		line(".SH COMMANDS")
		for _, sub := range subs {
			line(".TP\n.BR %s (1)\n%s", roff(manName(sub)), roff(sub.Short))
		}
	}
	manFlags(w, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(w, "OPTIONS OF ALL", cmd.InheritedFlags())
	line(".SH EXIT STATUS\n.TP\n.B 0\nAll went well.\n.TP\n.B 1\nA problem was found.\n.TP\n.B 2\nWrong usage.")
	if cmd.HasParent() {
		line(".SH SEE ALSO\n.BR %s (1)", roff(manName(cmd.Parent())))
	}
}

func manFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(w, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		head := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			head = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + head
		}
		if name != "" {
			head += ` \fI` + roff(name) + `\fR`
		}
		switch f.DefValue {
		case "", "false", "0", "[]", "0s":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, ".TP\n%s\n%s\n", head, roff(usage))
	})
}

// paragraphs writes a text whose paragraphs are parted by empty lines; those that
// begin with a blank are kept as they are.
func paragraphs(text string) string {
	var b strings.Builder
	for i, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString("\n.PP\n")
		}
		if strings.HasPrefix(p, " ") || strings.HasPrefix(p, "\t") {
			b.WriteString(".nf\n" + roffLines(p) + "\n.fi")
			continue
		}
		b.WriteString(roffLines(p))
	}
	return b.String()
}

func roffLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = roff(l)
	}
	return strings.Join(lines, "\n")
}

// roff makes a line that is nothing but text (groff(7)): a hyphen stays one, and
// nothing is a request or an escape.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ", "\u2026", `\&...`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
