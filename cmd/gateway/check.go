package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"soapway/config"
	"soapway/internal/app"
)

// checked is the result of check for machines.
type checked struct {
	File     string           `json:"file"`
	OK       bool             `json:"ok"`
	Problems []checkedProblem `json:"problems"`
}

type checkedProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Source  string `json:"source,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (c *cli) checkCommand() *cobra.Command {
	var file string
	var descriptions bool
	cmd := &cobra.Command{
		Use:   "check [-c FILE] [--wsdl]",
		Short: "check the configuration and print every problem",
		Long: "Reads the configuration as serve would and prints every problem as\n" +
			"FILE:LINE:COL: key: what is wrong (hint). Opens no socket.\n\n" +
			"With --wsdl it asks the backends for their WSDLs and prints services, ports,\n" +
			"operations and versions, and what could not be resolved.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if descriptions {
				return c.runCheckWSDL(cmd.Context(), file)
			}
			return c.runCheck(file)
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&descriptions, "wsdl", false, "ask for the descriptions of all routes and print them")
	return cmd
}

// configFlag declares -c.
func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "configuration `file` (default ./gateway.yaml, else /etc/gateway/gateway.yaml)")
}

func (c *cli) runCheck(file string) error {
	cfg, err := c.load(file)
	if err == nil {
		err = app.Check(cfg)
	}
	problems, wrong := errors.AsType[config.Problems](err)
	if err != nil && !wrong {
		if e, ok := errors.AsType[*problem](err); ok && c.json {
			problems = config.Problems{{File: file, Message: e.Error(), Hint: e.hint}}
			return c.checkJSON(nil, file, problems)
		}
		return err
	}
	if c.json {
		return c.checkJSON(cfg, file, problems)
	}
	if len(problems) > 0 {
		for _, p := range problems {
			if _, err := fmt.Fprintln(c.stdout, p); err != nil {
				return err
			}
		}
		return errReported
	}
	_, err = fmt.Fprintf(c.stdout, "%s: ok\n%s, %s, %s\n", cfg.Path(),
		count(len(cfg.Listeners), "listener"), count(len(cfg.Routes), "route"), count(len(cfg.Backends), "named backend"))
	return err
}

func (c *cli) checkJSON(cfg *config.Config, file string, problems config.Problems) error {
	r := checked{File: file, OK: len(problems) == 0, Problems: []checkedProblem{}}
	if cfg != nil {
		r.File = cfg.Path()
	} else if len(problems) > 0 && problems[0].File != "" {
		r.File = problems[0].File
	}
	for _, p := range problems {
		r.Problems = append(r.Problems, checkedProblem{p.File, p.Line, p.Column, p.Source, p.Key, p.Message, p.Hint})
	}
	if err := c.printJSON(r); err != nil {
		return err
	}
	if !r.OK {
		return errReported
	}
	return nil
}

// load finds and reads the configuration. Its error is a *problem when there
// is nothing to read, and config.Problems when there is.
func (c *cli) load(file string) (*config.Config, error) {
	path, err := config.Find(file)
	if err != nil {
		hint := ""
		if file == "" && errors.Is(err, fs.ErrNotExist) {
			hint = "name one with -c FILE"
		}
		return nil, &problem{err, hint}
	}
	cfg, err := config.Load(path, config.Options{Env: c.env})
	if err != nil {
		if _, ok := errors.AsType[config.Problems](err); !ok {
			return nil, &problem{err, ""}
		}
		return nil, err
	}
	return cfg, nil
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
