package soapcodec

import (
	"bytes"

	"soapway/xmlstream"
)

// Bounds of what is kept of a received fault.
const (
	maxFaultCode = 4 << 10
	maxFaultText = 1 << 10
	maxSubcodes  = 16
)

// Depths inside a Fault.
const (
	faultDepth = childDepth
	partDepth  = faultDepth + 1 // faultcode; Code, Reason
)

// faultReader is the state of reading a Fault in the Body. It holds no text:
// that is the collector's.
type faultReader struct {
	open    bool
	chain   int // depth of the innermost open Code or Subcode; 0 outside Code
	reason  bool
	hasText bool
}

// faultToken handles a token inside the Fault (SOAP 1.1 §4.4, SOAP 1.2 Part 1
// §5.4). A fault with other children or without a code is still a fault: its
// sender has failed, and the receiver will judge it.
func (d *Decoder) faultToken(kind xmlstream.Kind) error {
	switch kind {
	case xmlstream.Start:
		if d.facts.Version == V12 {
			d.faultStart12()
		} else if d.sc.Depth() == partDepth {
			d.faultStart11()
		}
	case xmlstream.Text, xmlstream.CDATA:
		return d.collect()
	case xmlstream.End:
		return d.faultEnd()
	}
	return nil
}

// faultStart11 takes the unqualified children that SOAP 1.1 asks for, and also
// the qualified ones that some servers write.
func (d *Decoder) faultStart11() {
	name := d.sc.Name()
	if len(name.Space) > 0 && string(name.Space) != NS11 {
		return
	}
	switch string(name.Local) {
	case "faultcode":
		d.text.begin(fieldFaultCode, partDepth, maxFaultCode)
	case "faultstring":
		d.text.begin(fieldReason, partDepth, maxFaultText)
	case "faultactor":
		d.text.begin(fieldRole, partDepth, maxFaultText)
	}
}

func (d *Decoder) faultStart12() {
	name := d.sc.Name()
	if string(name.Space) != NS12 {
		return
	}
	f := &d.fault
	depth := d.sc.Depth()
	switch local := string(name.Local); {
	case depth == partDepth && local == "Code":
		f.chain = depth
	case depth == partDepth && local == "Reason":
		f.reason = true
	case depth == partDepth && local == "Node":
		d.text.begin(fieldNode, depth, maxFaultText)
	case depth == partDepth && local == "Role":
		d.text.begin(fieldRole, depth, maxFaultText)
	case f.chain > 0 && depth == f.chain+1 && local == "Subcode":
		f.chain = depth
	case f.chain > 0 && depth == f.chain+1 && local == "Value":
		if f.chain == partDepth {
			d.text.begin(fieldFaultCode, depth, maxFaultCode)
		} else {
			d.text.begin(fieldSubcode, depth, maxFaultCode)
		}
	case f.reason && !f.hasText && depth == partDepth+1 && local == "Text":
		f.hasText = true
		d.text.begin(fieldReason, depth, maxFaultText)
	}
}

func (d *Decoder) faultEnd() error {
	if err := d.collectEnd(); err != nil {
		return err
	}
	f := &d.fault
	switch depth := d.sc.Depth(); {
	case depth == faultDepth:
		*f = faultReader{}
		d.watch = d.watches() || d.opt.References
	case depth == f.chain && depth == partDepth:
		f.chain = 0
	case depth == f.chain:
		f.chain--
	case depth == partDepth:
		f.reason = false
	}
	return nil
}

// faultValue takes a collected value while its element is still open, so that
// the namespaces in scope are those of the QName.
func (d *Decoder) faultValue(f field, value []byte) {
	facts := &d.faultRoom
	switch f {
	case fieldFaultCode:
		if facts.Code.IsZero() {
			facts.Code = d.resolve(value)
			facts.bare = bytes.IndexByte(value, ':') < 0
		}
	case fieldSubcode:
		if len(facts.Subcodes) < maxSubcodes {
			facts.Subcodes = append(facts.Subcodes, d.resolve(value))
		}
	case fieldReason:
		if facts.Reason == "" {
			facts.Reason = string(value)
		}
	case fieldNode:
		facts.Node = d.names.get(value)
	case fieldRole:
		facts.Role = d.names.get(value)
	}
}

// resolve expands a QName in content (XML Schema Part 2 §3.2.18): without a
// prefix it is in the default namespace.
func (d *Decoder) resolve(value []byte) QName {
	var prefix []byte
	local := value
	for i, c := range value {
		if c == ':' {
			prefix, local = value[:i], value[i+1:]
			break
		}
	}
	uri, _ := d.sc.Lookup(prefix)
	return QName{Space: d.names.get(uri), Local: d.names.get(local)}
}
