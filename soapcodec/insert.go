package soapcodec

import (
	"errors"

	"soapway/xmlstream"
)

// NSDelivery is the namespace of the header block that tells a node about the
// delivery of a message, see [Late].
const NSDelivery = "urn:soapway:delivery"

// deliveryBlock is the local name of that block.
const deliveryBlock = "Delivery"

var errSigned = errors.New("a signature may cover what would have to be changed")

// Late is what a message gets for one try, when its node is known.
type Late struct {
	// To becomes the text of every wsa:To block that is aimed at the ultimate
	// receiver, 1.0 and 2004/08; "" leaves them as they are.
	To string
	// Mark is put last in Header, which is made if it is missing; see [DeliveryMark].
	Mark []byte
}

// Delivery is what a [DeliveryMark] tells.
type Delivery struct {
	ID                string
	Attempt           int // from 1; 0 is not told
	PossibleDuplicate bool
}

// DeliveryMark makes the header block {urn:soapway:delivery}Delivery. It is not
// mandatory, is aimed at the ultimate receiver and has the children Id, Attempt
// and PossibleDuplicate.
func DeliveryMark(m Delivery) []byte {
	b := []byte(`<gw:` + deliveryBlock + ` xmlns:gw="` + NSDelivery + `"><gw:Id>`)
	b = xmlstream.AppendEscapedText(b, m.ID)
	b = append(b, `</gw:Id>`...)
	if m.Attempt > 0 {
		b = append(b, `<gw:Attempt>`...)
		b = appendInt(b, m.Attempt)
		b = append(b, `</gw:Attempt>`...)
	}
	if m.PossibleDuplicate {
		b = append(b, `<gw:PossibleDuplicate>true</gw:PossibleDuplicate>`...)
	}
	return append(b, `</gw:`+deliveryBlock+`>`...)
}

// inserter is the state of putting header blocks into a message and of
// rewriting wsa:To.
type inserter struct {
	on       bool
	to, mark bool   // is it asked for, now or for each try
	late     Late   // what to write now
	prefix   string // of Envelope
	header   string // the name of Header as written
	hasID    bool   // a signature may name Envelope or Header
	hasTo    bool
	text     int64 // where the text of the open To begins; 0 outside
}

func (s *inserter) reset(opt *Options) {
	*s = inserter{to: opt.LateTo, mark: opt.LateMark}
	if opt.Late != nil {
		s.late = *opt.Late
		s.to = s.to || s.late.To != ""
		s.mark = s.mark || len(s.late.Mark) > 0
	}
	s.on = s.to || s.mark || len(opt.Add) > 0
}

// blocks reports whether the message gets a header block.
func (s *inserter) blocks(opt *Options) bool { return s.mark || len(opt.Add) > 0 }

// insertToken does what has to be done at the current token.
func (d *Decoder) insertToken(kind xmlstream.Kind) error {
	s := &d.insert
	switch {
	case kind == xmlstream.Start && d.sc.Depth() <= sectionDepth:
		d.insertSection()
	case d.phase == inHeader && d.sc.Depth() == childDepth:
		if kind == xmlstream.Start {
			s.text = 0
			if b := d.block(); s.to && b.Role == "" && b.Name.Local == "To" && addressingVersion(d.names.get(d.sc.Space())) != 0 {
				s.hasTo = true
				if !d.sc.SelfClosing() {
					s.text = d.sc.InputOffset()
				}
			}
		} else if kind == xmlstream.End {
			d.insertBlockEnd()
		}
	case kind == xmlstream.End && d.phase == beforeBody && d.sc.Depth() == sectionDepth:
		return d.insertHeaderEnd()
	}
	return nil
}

// insertSection is at the start tag of Envelope, Header or Body.
func (d *Decoder) insertSection() {
	s := &d.insert
	at, behind := d.sc.Offset(), d.sc.InputOffset()
	switch {
	case d.phase == beforeHeader:
		s.prefix = string(d.sc.Name().Prefix)
		s.hasID = hasID(d.sc.Attrs())
	case d.phase == inHeader:
		s.hasID = s.hasID || hasID(d.sc.Attrs())
		name := d.sc.Name()
		s.header = prefixed(string(name.Prefix), string(name.Local))
		if d.sc.SelfClosing() {
			if s.blocks(&d.opt) {
				d.edits.put(behind-2, behind, d.allBlocks([]byte(">"), "</"+s.header+">"))
			}
		} else if len(d.opt.Add) > 0 {
			d.edits.put(behind, behind, d.opt.Add)
		}
	case d.phase == inBody && !d.facts.HasHeader && s.blocks(&d.opt):
		name := prefixed(s.prefix, "Header")
		d.edits.put(at, at, d.allBlocks([]byte("<"+name+">"), "</"+name+">"))
	}
}

// allBlocks appends the blocks and then end.
func (d *Decoder) allBlocks(dst []byte, end string) []byte {
	dst = append(dst, d.opt.Add...)
	dst = append(dst, d.insert.late.Mark...)
	return append(dst, end...)
}

// insertBlockEnd is at the end of a header block.
func (d *Decoder) insertBlockEnd() {
	s := &d.insert
	b := d.block()
	switch {
	case s.text > 0 && s.late.To != "":
		d.edits.put(s.text, d.sc.Offset(), xmlstream.AppendEscapedText(nil, s.late.To))
	case s.mark && b.Name.Local == deliveryBlock && b.Name.Space == NSDelivery:
		// What a caller says about this delivery is not true: see Gateway-*.
		d.edits.removeBlock(b.Start, b.End)
	}
	s.text = 0
}

// insertHeaderEnd is at the end of Header, when it is known what is signed. A
// new header block leaves references to other elements as they are; it changes
// what is referred to by an Id of Header or Envelope, or as the whole document.
func (d *Decoder) insertHeaderEnd() error {
	s := &d.insert
	if d.facts.Signed && (s.hasTo || s.blocks(&d.opt) && (s.hasID || d.reaches)) {
		return d.reject(CodeSigned, errSigned)
	}
	if len(s.late.Mark) > 0 && len(d.sc.Raw()) > 0 {
		d.edits.put(d.sc.Offset(), d.sc.Offset(), s.late.Mark)
	}
	return nil
}
