package soapcodec

import (
	"fmt"
	"strings"

	"soapway/xmlstream"
)

// Namespaces of WS-Addressing.
const (
	nsAddressing     = "http://www.w3.org/2005/08/addressing"
	nsAddressing2004 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
)

// maxAddressing bounds an addressing value. A longer one is refused, not cut,
// since a cut MessageID would make two messages equal.
const maxAddressing = 4 << 10

// A field is where collected text goes.
type field uint8

const (
	noField field = iota
	fieldAction
	fieldMessageID
	fieldRelatesTo
	fieldTo
	fieldReplyTo
	fieldFaultCode
	fieldSubcode
	fieldReason
	fieldNode
	fieldRole
	fields
)

// addressing is the state of reading the message addressing headers.
type addressing struct {
	from  [fields]uint8 // namespace that a field came from: 0 none, 1 of 2004, 2 of 1.0
	ids   [3]int        // MessageIDs by namespace
	ns    uint8         // of the block being read
	reply uint8         // inside a ReplyTo block of that namespace
}

func addressingVersion(space string) uint8 {
	switch space {
	case nsAddressing:
		return 2
	case nsAddressing2004:
		return 1
	}
	return 0
}

// addressingStart begins to read a header block that is aimed at the ultimate
// receiver, if it is a message addressing header (WS-Addressing 1.0 SOAP
// Binding §3: headers for other roles are not about this message exchange).
func (d *Decoder) addressingStart(name QName) {
	ns := addressingVersion(name.Space)
	if ns == 0 {
		return
	}
	d.addr.ns = ns
	switch name.Local {
	case "Action":
		d.gather(fieldAction)
	case "MessageID":
		d.addr.ids[ns]++
		d.facts.MessageIDs = d.addr.ids[1]
		if d.addr.ids[2] > 0 {
			d.facts.MessageIDs = d.addr.ids[2]
		}
		d.gather(fieldMessageID)
	case "RelatesTo":
		if d.isReply() {
			d.gather(fieldRelatesTo)
		}
	case "To":
		d.gather(fieldTo)
	case "ReplyTo":
		d.addr.reply = ns
	}
}

// isReply reports whether the current RelatesTo has the relationship of a
// reply, which is the default: a URI in 1.0, a QName in 2004.
func (d *Decoder) isReply() bool {
	attrs := d.sc.Attrs()
	for i := range attrs {
		a := &attrs[i]
		if len(a.Name.Space) == 0 && string(a.Name.Local) == "RelationshipType" {
			d.value = a.AppendValue(d.value[:0])
			v := string(trim(d.value))
			return v == nsAddressing+"/reply" || v == "Reply" || strings.HasSuffix(v, ":Reply")
		}
	}
	return true
}

// addressingChild handles a start tag inside a header block.
func (d *Decoder) addressingChild() {
	if d.addr.reply == 0 || d.sc.Depth() != childDepth+1 {
		return
	}
	if string(d.sc.Local()) == "Address" && addressingVersion(d.names.get(d.sc.Space())) == d.addr.reply {
		d.gather(fieldReplyTo)
	}
}

// gather starts to collect the text of the element just opened, unless the
// field is already filled from a namespace that counts as much.
func (d *Decoder) gather(f field) {
	if d.addr.from[f] < d.addr.ns {
		d.text.begin(f, d.sc.Depth(), maxAddressing)
	}
}

func (d *Decoder) addressingValue(f field, value []byte) error {
	d.addr.from[f] = d.addr.ns
	switch f {
	case fieldAction:
		d.facts.Action = d.names.get(value)
	case fieldMessageID:
		d.facts.MessageID = string(value)
	case fieldRelatesTo:
		d.facts.RelatesTo = string(value)
	case fieldTo:
		d.facts.To = d.names.get(value)
	case fieldReplyTo:
		d.facts.ReplyTo = d.names.get(value)
	}
	return nil
}

// A collector gathers the text directly inside one element.
type collector struct {
	field field
	depth int
	max   int
	over  bool // the text is longer than max
	buf   []byte
}

// maxCollected is the largest scratch buffer that stays for the next message.
const maxCollected = 64 << 10

func (c *collector) reset() {
	c.field, c.over = noField, false
	c.buf = c.buf[:0]
	if cap(c.buf) > maxCollected {
		c.buf = nil
	}
}

func (c *collector) begin(f field, depth, limit int) {
	c.field, c.depth, c.max, c.over = f, depth, limit, false
	c.buf = c.buf[:0]
}

// collect takes the current text token, if it belongs to a value being read.
// The limit counts white space too, so that the verdict does not depend on
// where a reader cuts the text.
func (d *Decoder) collect() error {
	c := &d.text
	if c.field == noField || d.sc.Depth() != c.depth || c.over {
		return nil
	}
	c.buf = d.sc.AppendText(c.buf)
	if len(c.buf) <= c.max {
		return nil
	}
	c.over = true
	c.buf = cutBytes(c.buf, c.max)
	if c.field <= fieldReplyTo {
		return d.reject(CodeLimit, fmt.Errorf("%w: more than %d octets in an addressing value", xmlstream.ErrLimit, c.max))
	}
	return nil
}

// collectEnd delivers the value if the current end tag closes its element.
func (d *Decoder) collectEnd() error {
	c := &d.text
	if c.field == noField || d.sc.Depth() != c.depth {
		return nil
	}
	f := c.field
	c.field = noField
	value := trim(c.buf)
	if f <= fieldReplyTo {
		return d.addressingValue(f, value)
	}
	d.faultValue(f, value)
	return nil
}
