package wsdl

import (
	"fmt"
	"slices"
	"strings"

	"soapway/soapcodec"
)

// A Service is a wsdl:service.
type Service struct {
	Name  soapcodec.QName
	Ports []Port
}

// A Port is a port of WSDL 1.1 or an endpoint of WSDL 2.0.
type Port struct {
	Name       string
	Version    soapcodec.Version // V0: no binding to SOAP
	Address    string            // as the document has it
	Operations []Operation
}

// An Operation is what can be asked of a port.
type Operation struct {
	Name   string
	Space  string // target namespace of the port type or interface
	Action string // soapAction
	// InputAction is what wsa:Action is in a request (WS-Addressing 1.0 Metadata
	// §4.4): as the description has it, else made of its names; empty in WSDL 2.0
	// where it is not given.
	InputAction string
	OneWay      bool // no reply is described
	// Input is the first child of Body in a request; empty where Body is empty or
	// where the description does not tell.
	Input soapcodec.QName
	// AnyInput says that Input does not tell what is in Body: a part that is a
	// type, or #any.
	AnyInput bool
}

// A Catalog is what the documents of a service say together.
type Catalog struct {
	Services []Service
	// Unresolved names what is used and not described, one line each.
	Unresolved []string
}

// Merge puts documents together.
func Merge(docs ...*Document) *Catalog {
	m := merger{
		bindings: map[soapcodec.QName]*binding{}, interfaces: map[soapcodec.QName]*iface{}, messages: map[soapcodec.QName]*message{},
	}
	for _, d := range docs {
		d.once.Do(d.read)
		keep(m.bindings, d.bindings)
		keep(m.interfaces, d.interfaces)
		keep(m.messages, d.messages)
	}
	for _, d := range docs {
		for _, s := range d.services {
			m.service(s)
		}
	}
	return &m.out
}

// keep copies what is not there yet.
func keep[T any](dst, src map[soapcodec.QName]T) {
	for k, v := range src {
		if _, ok := dst[k]; !ok {
			dst[k] = v
		}
	}
}

type merger struct {
	bindings   map[soapcodec.QName]*binding
	interfaces map[soapcodec.QName]*iface
	messages   map[soapcodec.QName]*message
	out        Catalog
}

func (m *merger) missing(what string, name soapcodec.QName) {
	line := fmt.Sprintf("%s {%s}%s", what, name.Space, name.Local)
	if !slices.Contains(m.out.Unresolved, line) {
		m.out.Unresolved = append(m.out.Unresolved, line)
	}
}

func (m *merger) service(s *service) {
	i := slices.IndexFunc(m.out.Services, func(o Service) bool { return o.Name == s.name })
	if i < 0 {
		i = len(m.out.Services)
		m.out.Services = append(m.out.Services, Service{Name: s.name})
	}
	for _, p := range s.ports {
		if slices.ContainsFunc(m.out.Services[i].Ports, func(o Port) bool { return o.Name == p.name }) {
			continue // the same document, by another way
		}
		m.out.Services[i].Ports = append(m.out.Services[i].Ports, m.port(p))
	}
}

func (m *merger) port(p *port) Port {
	out := Port{Name: p.name, Address: p.address}
	b := m.bindings[p.binding]
	if b == nil {
		m.missing("binding", p.binding)
		return out
	}
	out.Version = b.version
	i := m.interfaces[b.of]
	if i == nil {
		m.missing("port type", b.of)
		return out
	}
	names := b.order
	if len(names) == 0 { // WSDL 2.0: all of the interface
		names = m.all(i, nil)
	}
	for _, name := range names {
		abs := m.abstract(i, name, 0)
		if abs == nil {
			m.missing("operation", soapcodec.QName{Space: b.of.Space, Local: name})
			continue
		}
		out.Operations = append(out.Operations, m.operation(name, b, abs))
	}
	return out
}

// mostExtends bounds how deep interfaces extend each other.
const mostExtends = 16

// abstract finds an operation in an interface or those that it extends.
func (m *merger) abstract(i *iface, name string, depth int) *abstractOp {
	if op := i.ops[name]; op != nil {
		return op
	}
	for _, e := range i.extends {
		if o := m.interfaces[e]; o != nil && depth < mostExtends {
			if op := m.abstract(o, name, depth+1); op != nil {
				return op
			}
		}
	}
	return nil
}

// all names the operations of an interface and those that it extends.
func (m *merger) all(i *iface, seen []*iface) []string {
	names := slices.Clone(i.order)
	seen = append(seen, i)
	for _, e := range i.extends {
		if o := m.interfaces[e]; o != nil && !slices.Contains(seen, o) {
			names = append(names, m.all(o, seen)...)
		}
	}
	return names
}

func (m *merger) operation(name string, b *binding, abs *abstractOp) Operation {
	op := Operation{Name: name, Space: abs.space, OneWay: abs.hasIn && !abs.out}
	bound := b.ops[name]
	if bound == nil {
		bound = &boundOp{}
	}
	op.Action = bound.action
	op.InputAction = abs.inputAction(name, b.of.Local)
	switch {
	case !abs.hasIn:
		op.AnyInput = true
	case abs.v20:
		op.Input, op.AnyInput = abs.in, abs.anyIn
	case bound.rpc || !bound.style && b.rpc:
		op.Input = soapcodec.QName{Space: bound.space, Local: name}
	default:
		op.Input, op.AnyInput = m.document(abs.in, bound)
	}
	return op
}

// inputAction is the wsa:Action of a request (WS-Addressing 1.0 Metadata §4.4.1
// and §4.4.4, whose pattern is for WSDL 1.1).
func (a *abstractOp) inputAction(name, portType string) string {
	if a.action != "" || !a.hasIn || a.v20 {
		return a.action
	}
	input := a.input
	if input == "" {
		if input = name; a.out {
			input += "Request"
		}
	}
	between := "/"
	if strings.HasPrefix(a.space, "urn:") {
		between = ":"
	}
	return strings.TrimSuffix(a.space, between) + between + portType + between + input
}

// document is the child of Body of a message in document style: the first part
// that the binding puts there.
func (m *merger) document(of soapcodec.QName, bound *boundOp) (element soapcodec.QName, unknown bool) {
	msg := m.messages[of]
	if msg == nil {
		m.missing("message", of)
		return element, true
	}
	for _, p := range msg.parts {
		if bound.bound && !slices.Contains(bound.parts, p.name) {
			continue
		}
		return p.element, p.typed
	}
	return element, false
}

// Operations are those of all ports that are bound to SOAP.
func (c *Catalog) Operations() []Operation {
	var all []Operation
	for _, s := range c.Services {
		for _, p := range s.Ports {
			if p.Version != soapcodec.V0 {
				all = append(all, p.Operations...)
			}
		}
	}
	return all
}
