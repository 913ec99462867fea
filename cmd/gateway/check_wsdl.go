package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"soapway/internal/app"
)

// runCheckWSDL is check --wsdl. What is missing in a WSDL is a problem found.
func (c *cli) runCheckWSDL(ctx context.Context, file string) error {
	cfg, err := c.load(file)
	if err != nil {
		return c.runCheck(file) // it prints the problems
	}
	all, err := app.CheckWSDL(ctx, cfg)
	if err != nil {
		return c.runCheck(file)
	}
	if c.json {
		err = c.printJSON(all)
	} else {
		err = printDescribed(c.stdout, all)
	}
	if err == nil && slices.ContainsFunc(all, app.DescribedRoute.Wanting) {
		return errReported
	}
	return err
}

// printDescribed writes a tree for people.
func printDescribed(w io.Writer, all []app.DescribedRoute) error {
	p := &printer{w: w}
	for _, r := range all {
		p.line("route %s: %s", r.Route, r.Root)
		if r.Error != "" {
			p.line("  not to be had: %s", r.Error)
			continue
		}
		p.line("  %s, %s", count(r.Documents, "document"), count(len(r.Services), "service"))
		for _, s := range r.Services {
			p.line("  service %s", s.Name)
			for _, port := range s.Ports {
				p.port(&port)
			}
		}
		for _, u := range r.Unresolved {
			p.line("  unresolved: %s", u)
		}
		for _, u := range r.Unmapped {
			p.line("  not mapped: %s leads to no route", u)
		}
	}
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", a...)
	}
}

func (p *printer) port(port *app.DescribedPort) {
	version := "not SOAP"
	if port.SOAP != "" {
		version = "SOAP " + port.SOAP
	}
	p.line("    port %s: %s, %s, %s", port.Name, version, port.Address, count(len(port.Operations), "operation"))
	for _, op := range port.Operations {
		note := ""
		if op.OneWay {
			note = ", one-way"
		}
		p.line("      %s %s%s", op.Name, op.Body, note)
	}
}
