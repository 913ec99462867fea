package soapcodec

import (
	"strconv"

	"soapway/xmlstream"
)

// extras looks at a token once more, for the options that most routes do not
// set, when the decoder has dealt with it: the phase is that behind the token.
func (d *Decoder) extras(kind xmlstream.Kind) error {
	if d.opt.Strict {
		if err := d.strictToken(kind); err != nil {
			return err
		}
	}
	if d.opt.Translate != V0 {
		if err := d.translateToken(kind); err != nil {
			return err
		}
	}
	if d.insert.on {
		return d.insertToken(kind)
	}
	return nil
}

func (d *Decoder) resetExtras() {
	d.extra = d.opt.extras()
	d.tr, d.reaches = nil, false
	if !d.extra {
		d.insert.on = false
		return
	}
	d.insert.reset(&d.opt)
	if d.opt.Translate != V0 {
		if d.room == nil {
			d.room = new(translator)
		}
		d.room.reset()
	}
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// prefixed writes a qualified name.
func prefixed(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}

// afterName is the offset behind the element's name in the current start tag,
// where an attribute can be put in.
func (d *Decoder) afterName() int64 { return d.sc.Offset() + 1 + int64(nameLength(d.sc.Name())) }

func nameLength(n xmlstream.Name) int {
	if len(n.Prefix) == 0 {
		return len(n.Local)
	}
	return len(n.Prefix) + 1 + len(n.Local)
}

// declaredPrefix is the prefix that a namespace declaration binds, "" for the
// default namespace.
func declaredPrefix(a *xmlstream.Attr) []byte {
	if len(a.Name.Prefix) == 0 {
		return nil
	}
	return a.Name.Local
}

// valueSpan finds the octets of an attribute's value in the current tag.
func (d *Decoder) valueSpan(a *xmlstream.Attr) (start, end int64) {
	raw, base := d.sc.Raw(), d.sc.Offset()
	i := int(a.Offset-base) + nameLength(a.Name)
	for raw[i] != a.Quote {
		i++
	}
	return base + int64(i) + 1, base + int64(i) + 1 + int64(len(a.Raw))
}

// replaceValue makes value the value of an attribute.
func (d *Decoder) replaceValue(a *xmlstream.Attr, value string) {
	start, end := d.valueSpan(a)
	d.edits.put(start, end, xmlstream.AppendEscapedAttr(nil, value))
}

// removeAttribute deletes an attribute with the white space before it.
func (d *Decoder) removeAttribute(a *xmlstream.Attr) {
	raw, base := d.sc.Raw(), d.sc.Offset()
	i := int(a.Offset - base)
	for isSpace(raw[i-1]) {
		i--
	}
	_, end := d.valueSpan(a)
	d.edits.put(base+int64(i), end+1, nil)
}
