package soapcodec

import (
	"fmt"

	"soapway/xmlstream"
)

// maxRole bounds a role: nothing longer is compared with anything.
const maxRole = 4 << 10

// nsSecurity are the namespaces of the Security block: WS-Security 1.0 and 1.1,
// then the drafts that old clients still send.
var nsSecurity = [...]string{
	"http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd",
	"http://schemas.xmlsoap.org/ws/2003/06/secext",
	"http://schemas.xmlsoap.org/ws/2002/12/secext",
	"http://schemas.xmlsoap.org/ws/2002/07/secext",
	"http://schemas.xmlsoap.org/ws/2002/04/secext",
}

// blockStart handles the start tag of a header block (SOAP 1.2 Part 1 §5.2,
// SOAP 1.1 §4.2). Only a child of Header is a block, and only an attribute in
// the envelope's own namespace says something about it.
func (d *Decoder) blockStart() error {
	name := d.name()
	if name.Space == "" && d.facts.Version == V12 {
		return d.reject(CodeInvalidEnvelope, errUnqualified)
	}
	if len(d.facts.Headers) == maxHeaderBlocks {
		return d.reject(CodeLimit, fmt.Errorf("%w: more than %d header blocks", xmlstream.ErrLimit, maxHeaderBlocks))
	}
	d.facts.Headers = append(d.facts.Headers, HeaderBlock{Name: name, Start: d.sc.Offset()})
	b := d.block()
	if err := d.blockAttributes(b); err != nil {
		return err
	}
	d.security = isSecurity(name)
	if b.Role == "" {
		d.addressingStart(name)
	}
	d.signature()
	return nil
}

// block is the one that is open.
func (d *Decoder) block() *HeaderBlock { return &d.facts.Headers[len(d.facts.Headers)-1] }

func isSecurity(n QName) bool {
	if n.Local != "Security" {
		return false
	}
	for _, ns := range nsSecurity {
		if n.Space == ns {
			return true
		}
	}
	return false
}

func (d *Decoder) blockAttributes(b *HeaderBlock) error {
	v := d.facts.Version
	attrs := d.sc.Attrs()
	for i := range attrs {
		a := &attrs[i]
		if string(a.Name.Space) != d.ns {
			continue
		}
		var err error
		switch {
		case string(a.Name.Local) == "mustUnderstand":
			b.MustUnderstand, err = d.flag(a)
		case string(a.Name.Local) == "relay" && v == V12:
			b.Relay, err = d.flag(a)
		case string(a.Name.Local) == dialects[v].role:
			d.value = a.AppendValue(d.value[:0])
			role := cutBytes(trim(d.value), maxRole)
			if v != V12 || string(role) != roleUltimate {
				b.Role = d.names.get(role)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flag reads the value of mustUnderstand or relay. SOAP 1.1 knows "0" and "1"
// only; there, whatever is not clearly 0 counts as mandatory.
func (d *Decoder) flag(a *xmlstream.Attr) (bool, error) {
	d.value = a.AppendValue(d.value[:0])
	set, ok := boolean(d.value)
	if !ok && d.facts.Version == V12 {
		return false, d.reject(CodeInvalidEnvelope, fmt.Errorf("%w: %s=%s", errBoolean, a.Name.Local, quoteCut(string(d.value))))
	}
	return set || !ok, nil
}

// boolean reads an xs:boolean (XML Schema Part 2 §3.2.2), white space collapsed.
func boolean(b []byte) (set, ok bool) {
	switch string(trim(b)) {
	case "1", "true":
		return true, true
	case "0", "false":
		return false, true
	}
	return false, false
}

// blockChild handles a start tag inside a header block.
func (d *Decoder) blockChild() error {
	d.signature()
	d.addressingChild()
	if d.opt.References {
		return d.reference()
	}
	return nil
}

// blockEnd handles the end tag of a header block.
func (d *Decoder) blockEnd() error {
	if err := d.collectEnd(); err != nil {
		return err
	}
	d.addr.reply = 0
	d.security = false
	b := d.block()
	b.End = d.sc.InputOffset()
	if d.opt.Node {
		d.actOn(b)
	}
	return nil
}

func (d *Decoder) headerEnd() error {
	if len(d.notUnderstood) > 0 {
		return d.reject(CodeMustUnderstand, errNotUnderstood)
	}
	return nil
}

const blanks = " \t\r\n"

func trim(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(b []byte) bool {
	for _, c := range b {
		if !isSpace(c) {
			return false
		}
	}
	return true
}
