package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"soapway/config"
	"soapway/proxy"
	"soapway/proxy/describe"
	"soapway/soapcodec"
	"soapway/soapcodec/wsdl"
	"soapway/xmlstream"
)

// descriptions is the folder of the store in which descriptions are kept, so
// that they can be had while a backend is down.
const descriptions = "wsdl"

// description says how a route answers for its WSDL; nil passes what the
// backend has.
func description(r *config.Route, shelf *describe.Shelf, log *slog.Logger) *proxy.WSDL {
	w := &proxy.WSDL{Hosts: r.WSDLHosts, Check: r.WSDLCheck == config.WSDLCheckOperation, Shelf: shelf, Log: log}
	switch r.WSDL.Mode {
	case config.WSDLOff:
		return nil
	case config.WSDLFile:
		w.File = string(r.WSDL.File)
	case config.WSDLURL:
		w.URL = r.WSDL.URL.String()
	}
	return w
}

// runDescriptions is the part that gets the descriptions that routes want to know.
func (a *App) runDescriptions(stop, _ context.Context) error {
	return a.handler.Learn(stop, func() func() { return a.door.enter().leave })
}

// checkDescriptions reads the files that routes name as their WSDL.
func checkDescriptions(cfg *config.Config) (problems config.Problems) {
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		if r.WSDL.Mode == config.WSDLFile {
			if err := readDescription(string(r.WSDL.File)); err != nil {
				problems = append(problems, cfg.Problem("routes."+r.Name+".wsdl", err.Error(), "it takes a WSDL file, a URL, auto or off"))
			}
		}
	}
	return problems
}

func readDescription(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	doc, _, err := xmlstream.DecodeBytes(data, "")
	if err == nil {
		var d *wsdl.Document
		if d, err = wsdl.Parse(doc); err == nil && d.Kind != wsdl.WSDL11 && d.Kind != wsdl.WSDL20 {
			return fmt.Errorf("%s is no WSDL", file)
		}
	}
	if se, ok := errors.AsType[*xmlstream.SyntaxError](err); ok {
		return fmt.Errorf("%s:%d:%d: %s", file, se.Line, se.Column, strings.TrimPrefix(se.Err.Error(), "xmlstream: "))
	}
	return err
}

// shelf is where the descriptions of cfg are kept; nil without a folder.
func shelf(cfg *config.Config) *describe.Shelf {
	if cfg.Store.Dir == "" {
		return nil
	}
	return describe.NewShelf(filepath.Join(string(cfg.Store.Dir), descriptions))
}

// DescribedRoute is what the description of a route says.
type DescribedRoute struct {
	Route      string             `json:"route"`
	Root       string             `json:"root"`
	Error      string             `json:"error,omitempty"`
	Documents  int                `json:"documents"`
	Services   []DescribedService `json:"services,omitempty"`
	Unresolved []string           `json:"unresolved,omitempty"`
	// Unmapped are addresses that do not lead to this gateway.
	Unmapped []string `json:"unmapped,omitempty"`
}

// DescribedService is a service of a description.
type DescribedService struct {
	Name  string          `json:"name"`
	Ports []DescribedPort `json:"ports"`
}

// DescribedPort is a port or endpoint; SOAP is empty where it is bound to something else.
type DescribedPort struct {
	Name       string               `json:"name"`
	SOAP       string               `json:"soap,omitempty"`
	Address    string               `json:"address"`
	Operations []DescribedOperation `json:"operations"`
}

// DescribedOperation is an operation; Body is the first child of Body, "any" where it is not known.
type DescribedOperation struct {
	Name   string `json:"name"`
	Body   string `json:"body,omitempty"`
	Action string `json:"action,omitempty"`
	OneWay bool   `json:"one_way,omitempty"`
}

// Wanting reports whether something is missing in the description, or leads past the gateway.
func (d DescribedRoute) Wanting() bool {
	return d.Error != "" || len(d.Unresolved) > 0 || len(d.Unmapped) > 0
}

// CheckWSDL asks for the descriptions of all routes and returns what they say,
// in the order of the routes. Nothing is kept.
func CheckWSDL(ctx context.Context, cfg *config.Config) ([]DescribedRoute, error) {
	unkept := *cfg
	unkept.Store.Dir = "" // the folder may have to belong to somebody else
	pools, _, table, problems := build(&unkept, nil, nil, nil, slog.New(slog.DiscardHandler))
	if problems != nil {
		return nil, problems
	}
	defer func() {
		table.Wait()
		for _, p := range pools {
			p.close()
		}
	}()
	out := []DescribedRoute{}
	for _, d := range table.Describe(ctx) {
		out = append(out, describedRoute(&d))
	}
	return out, nil
}

func describedRoute(d *proxy.Described) DescribedRoute {
	r := DescribedRoute{Route: d.Route, Root: d.Root, Unmapped: d.Unmapped}
	if d.Err != nil {
		r.Error = d.Err.Error()
		return r
	}
	r.Documents = len(d.Service.Documents)
	r.Unresolved = append(append(r.Unresolved, d.Service.Missing...), d.Service.Unresolved...)
	if d.Unnamed {
		r.Unresolved = append(r.Unresolved, "operation of match: no operation and no element in Body has this name")
	}
	for _, s := range d.Service.Services {
		ds := DescribedService{Name: s.Name.String(), Ports: []DescribedPort{}}
		for _, p := range s.Ports {
			ds.Ports = append(ds.Ports, describedPort(&p))
		}
		r.Services = append(r.Services, ds)
	}
	return r
}

func describedPort(p *wsdl.Port) DescribedPort {
	dp := DescribedPort{Name: p.Name, Address: p.Address, Operations: []DescribedOperation{}}
	if p.Version != soapcodec.V0 {
		dp.SOAP = p.Version.String()
	}
	for _, op := range p.Operations {
		do := DescribedOperation{Name: op.Name, Action: op.Action, OneWay: op.OneWay}
		switch {
		case op.AnyInput:
			do.Body = "any"
		case !op.Input.IsZero():
			do.Body = op.Input.String()
		}
		dp.Operations = append(dp.Operations, do)
	}
	return dp
}
