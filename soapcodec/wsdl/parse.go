package wsdl

import (
	"fmt"
	"strings"
	"sync"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// A Kind says what a document is.
type Kind uint8

// The kinds of documents.
const (
	Other Kind = iota // none of the following
	WSDL11
	WSDL20
	XMLSchema
)

func (k Kind) String() string { return [...]string{"other", "WSDL 1.1", "WSDL 2.0", "XML Schema"}[k] }

// A Document is what one description says. Names are as they are used in it;
// [Merge] resolves them. It may be used by many goroutines.
type Document struct {
	Kind Kind
	Refs []Ref // in their order

	doc    []byte
	places []placed // of Refs

	// What it describes is read when it is first asked for: most documents are
	// only handed on.
	once       sync.Once
	target     string // namespace
	services   []*service
	bindings   map[soapcodec.QName]*binding
	interfaces map[soapcodec.QName]*iface // portTypes of 1.1
	messages   map[soapcodec.QName]*message
}

type service struct {
	name  soapcodec.QName
	ports []*port
}

type port struct {
	name    string
	binding soapcodec.QName
	address string
}

type binding struct {
	of      soapcodec.QName   // portType or interface
	version soapcodec.Version // V0: not SOAP
	rpc     bool
	ops     map[string]*boundOp
	order   []string
}

type boundOp struct {
	action string
	rpc    bool // style="rpc"
	style  bool // the style was given
	space  string
	parts  []string // parts="…" of the input's body
	bound  bool     // parts was given
}

type iface struct {
	extends []soapcodec.QName
	ops     map[string]*abstractOp
	order   []string
}

type abstractOp struct {
	in    soapcodec.QName // message of 1.1, element of 2.0
	hasIn bool
	anyIn bool // 2.0: #any, #other
	out   bool
	v20   bool

	space  string // target namespace
	action string // wsa:Action of the input, if it is given
	input  string // name of the input, if it is given
}

type message struct {
	parts []part
}

type part struct {
	name    string
	element soapcodec.QName
	typed   bool
}

// Parse reads a document, which is UTF-8 and must not change any more.
// Errors: *xmlstream.SyntaxError, *xmlstream.LimitError.
func Parse(doc []byte) (*Document, error) {
	r := newReading()
	r.w.s.ResetBytes(doc)
	if err := r.Run(); err != nil {
		return nil, err
	}
	return r.Document(doc), nil
}

// read finds out what the document describes. It is well-formed: Parse has seen
// all of it.
func (d *Document) read() {
	d.bindings, d.interfaces, d.messages = map[soapcodec.QName]*binding{}, map[soapcodec.QName]*iface{}, map[soapcodec.QName]*message{}
	p := parser{s: xmlstream.NewScanner(xmlstream.Limits{}), d: d}
	p.s.ResetBytes(d.doc)
	for {
		kind, err := p.s.Next()
		switch {
		case err != nil:
			return
		case kind == xmlstream.Start:
			p.start()
		case kind == xmlstream.End:
			p.end()
		}
	}
}

// KindOf tells what a document is by its root element; its error is that of a
// document whose root can not be read.
func KindOf(doc []byte) (Kind, error) {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err != nil {
			return Other, fmt.Errorf("wsdl: kind: %w", err)
		}
		if kind == xmlstream.Start {
			return kindOf(s), nil
		}
	}
}

func kindOf(s *xmlstream.Scanner) Kind {
	switch [2]string{string(s.Space()), string(s.Local())} {
	case [2]string{nsWSDL, "definitions"}:
		return WSDL11
	case [2]string{nsWSDL20, "description"}:
		return WSDL20
	case [2]string{nsSchema, "schema"}:
		return XMLSchema
	}
	return Other
}

// A parser keeps the open elements that matter.
type parser struct {
	s     *xmlstream.Scanner
	d     *Document
	value []byte // of an attribute

	// The names of the open elements of a description, by depth; others are "".
	open []string

	message *message
	iface   *iface
	abs     *abstractOp
	binding *binding
	op      *boundOp
	service *service
	port    *port
}

// in reports whether the element that begins stands in the named ones, the
// innermost last.
func (p *parser) in(names ...string) bool {
	n := len(p.open) - 1 // the last is the element itself
	if n < len(names) {
		return false
	}
	for i, name := range names {
		if p.open[n-len(names)+i] != name {
			return false
		}
	}
	return true
}

// attr is the value of an attribute without a namespace.
func (p *parser) attr(local string) string {
	v, _ := p.find(local)
	return v
}

func (p *parser) find(local string) (string, bool) {
	return p.findIn("", local)
}

func (p *parser) findIn(space, local string) (string, bool) {
	attrs := p.s.Attrs()
	for i := range attrs {
		if a := &attrs[i]; a.Name.Is(space, local) {
			p.value = a.AppendValue(p.value[:0])
			return trimmed(p.value), true
		}
	}
	return "", false
}

// qname resolves a name in an attribute's value by the declarations in force.
func (p *parser) qname(value string) soapcodec.QName {
	prefix, local, ok := strings.Cut(value, ":")
	if !ok {
		prefix, local = "", value
	}
	space, _ := p.s.Lookup([]byte(prefix))
	return soapcodec.QName{Space: string(space), Local: local}
}

func (p *parser) own(name string) soapcodec.QName {
	return soapcodec.QName{Space: p.d.target, Local: name}
}

func (p *parser) start() {
	if p.s.Depth() == 1 {
		p.d.target = p.attr("targetNamespace")
	}
	if string(p.s.Space()) == nsSchema { // most of a description
		p.open = append(p.open, "")
		return
	}
	space, local := string(p.s.Space()), string(p.s.Local())
	name := ""
	switch space {
	case nsWSDL, nsWSDL20:
		name = local
	}
	p.open = append(p.open, name)
	switch {
	case p.d.Kind == WSDL11 && space == nsWSDL:
		p.start11(local)
	case p.d.Kind == WSDL11:
		p.extension(space, local)
	case p.d.Kind == WSDL20 && space == nsWSDL20:
		p.start20(local)
	}
}

func (p *parser) end() {
	depth := p.s.Depth()
	p.open = p.open[:depth-1]
	switch depth {
	case 2:
		p.message, p.iface, p.binding, p.service = nil, nil, nil, nil
	case 3:
		p.abs, p.op, p.port = nil, nil, nil
	}
}

// start11 takes an element of WSDL 1.1.
func (p *parser) start11(local string) {
	switch {
	case local == "message" && p.in("definitions"):
		p.message = &message{}
		p.d.messages[p.own(p.attr("name"))] = p.message
	case local == "part" && p.message != nil:
		pt := part{name: p.attr("name")}
		if e, ok := p.find("element"); ok {
			pt.element = p.qname(e)
		} else {
			pt.typed = true
		}
		p.message.parts = append(p.message.parts, pt)
	case local == "portType" && p.in("definitions"):
		p.iface = &iface{ops: map[string]*abstractOp{}}
		p.d.interfaces[p.own(p.attr("name"))] = p.iface
	case local == "operation" && p.in("portType"):
		p.abs = p.iface.add(p.attr("name"), p.d.target)
	case local == "input" && p.in("portType", "operation"):
		p.abs.in, p.abs.hasIn = p.qname(p.attr("message")), true
		p.abs.input, p.abs.action = p.attr("name"), p.inputAction()
	case local == "output" && p.in("portType", "operation"):
		p.abs.out = true
	case local == "binding" && p.in("definitions"):
		p.binding = &binding{of: p.qname(p.attr("type")), ops: map[string]*boundOp{}}
		p.d.bindings[p.own(p.attr("name"))] = p.binding
	case local == "operation" && p.in("binding"):
		p.op = p.binding.add(p.attr("name"))
	case local == "service" && p.in("definitions"):
		p.service = &service{name: p.own(p.attr("name"))}
		p.d.services = append(p.d.services, p.service)
	case local == "port" && p.in("service"):
		p.port = &port{name: p.attr("name"), binding: p.qname(p.attr("binding"))}
		p.service.ports = append(p.service.ports, p.port)
	}
}

// extension takes an element of a binding to SOAP or HTTP.
func (p *parser) extension(space, local string) {
	if space != nsSOAP11 && space != nsSOAP12 && space != nsHTTP {
		return
	}
	version := map[string]soapcodec.Version{nsSOAP11: soapcodec.V11, nsSOAP12: soapcodec.V12}[space]
	switch {
	case local == "binding" && p.binding != nil && p.in("binding"):
		p.binding.version, p.binding.rpc = version, p.attr("style") == "rpc"
	case local == "operation" && p.op != nil && p.in("binding", "operation"):
		p.op.action = p.attr("soapAction")
		if style, ok := p.find("style"); ok {
			p.op.style, p.op.rpc = true, style == "rpc"
		}
	case local == "body" && p.op != nil && p.inInput():
		p.op.space = p.attr("namespace")
		if parts, ok := p.find("parts"); ok {
			p.op.bound, p.op.parts = true, strings.Fields(parts)
		}
	case local == "address" && p.port != nil && p.in("port"):
		p.port.address = p.attr("location")
	}
}

// inInput reports whether the element stands anywhere in the input of a binding's
// operation: for messages with attachments it is deep in a mime part.
func (p *parser) inInput() bool {
	return len(p.open) > 3 && p.open[1] == "binding" && p.open[2] == "operation" && p.open[3] == "input"
}

// start20 takes an element of WSDL 2.0.
func (p *parser) start20(local string) {
	switch {
	case local == "interface" && p.in("description"):
		p.iface = &iface{ops: map[string]*abstractOp{}}
		for f := range strings.FieldsSeq(p.attr("extends")) {
			p.iface.extends = append(p.iface.extends, p.qname(f))
		}
		p.d.interfaces[p.own(p.attr("name"))] = p.iface
	case local == "operation" && p.in("interface"):
		p.abs = p.iface.add(p.attr("name"), p.d.target)
		p.abs.v20 = true
	case local == "input" && p.in("interface", "operation"):
		p.abs.hasIn, p.abs.action = true, p.inputAction()
		switch e := p.attr("element"); {
		case e == "#any" || e == "#other":
			p.abs.anyIn = true
		case e != "" && e != "#none":
			p.abs.in = p.qname(e)
		}
	case local == "output" && p.in("interface", "operation"):
		p.abs.out = true
	case local == "binding" && p.in("description"):
		p.binding = &binding{ops: map[string]*boundOp{}}
		if i, ok := p.find("interface"); ok {
			p.binding.of = p.qname(i)
		}
		if p.attr("type") == nsWSOAP {
			p.binding.version = soapcodec.V12
			if v, ok := p.findIn(nsWSOAP, "version"); ok && v == "1.1" {
				p.binding.version = soapcodec.V11
			}
		}
		p.d.bindings[p.own(p.attr("name"))] = p.binding
	case local == "operation" && p.in("binding"):
		p.op = p.binding.add(p.qname(p.attr("ref")).Local)
		p.op.action, _ = p.findIn(nsWSOAP, "action")
	case local == "service" && p.in("description"):
		p.service = &service{name: p.own(p.attr("name"))}
		p.d.services = append(p.d.services, p.service)
	case local == "endpoint" && p.in("service"):
		p.service.ports = append(p.service.ports, &port{
			name: p.attr("name"), binding: p.qname(p.attr("binding")), address: p.attr("address"),
		})
	}
}

// inputAction is the wsa:Action that an input has, by any of the namespaces that
// have had this attribute.
func (p *parser) inputAction() string {
	for _, space := range [...]string{nsWSAM, nsWSAW, nsWSA2004} {
		if v, ok := p.findIn(space, "Action"); ok {
			return v
		}
	}
	return ""
}

func (i *iface) add(name, space string) *abstractOp {
	op := &abstractOp{space: space}
	if _, ok := i.ops[name]; !ok {
		i.order = append(i.order, name)
	}
	i.ops[name] = op
	return op
}

func (b *binding) add(name string) *boundOp {
	op := &boundOp{}
	if _, ok := b.ops[name]; !ok {
		b.order = append(b.order, name)
	}
	b.ops[name] = op
	return op
}
