package soapcodec

import (
	"fmt"

	"soapway/xmlstream"
)

// MaxKey is the most octets that the value of a [Key] may have as it is written,
// with the white space around it and with references unresolved. A longer one is a fault of [CodeLimit] and is not cut: two
// messages would get the same key.
const MaxKey = 1 << 10

// A Step names one element on the way of a [Key].
type Step struct {
	Name QName
	// AnySpace means that the namespace does not count; Name.Space is ignored.
	AnySpace bool
}

func (s *Step) takes(n xmlstream.Name) bool {
	return string(n.Local) == s.Name.Local && (s.AnySpace || string(n.Space) == s.Name.Space)
}

// A Key says which value of a message is looked for while it is decoded: the
// text of the first element, in document order, that the path leads to. The
// value is the character data directly inside that element, references and CDATA
// sections resolved, without the white space around it.
type Key struct {
	// Header makes the path one header block, whatever role it is aimed at;
	// otherwise it leads from the children of Body down.
	Header bool
	// Path has at least one step, and exactly one for a header block.
	Path []Step
}

// keySearch is the state of looking for one Key.
type keySearch struct {
	matched int  // elements open now that are the first steps of the path
	reading bool // the innermost of them is the one whose text is the value
	found   bool
	written int // octets of the value so far
	buf     []byte
}

// resetKeys prepares the search of all keys of the options.
func (d *Decoder) resetKeys() {
	n := len(d.opt.Keys)
	for len(d.keys) < n {
		d.keys = append(d.keys, keySearch{})
	}
	d.keys = d.keys[:n]
	for i := range d.keys {
		d.keys[i] = keySearch{buf: d.keys[i].buf[:0]}
	}
	clear(d.facts.Keys) // the last message's strings must not live on in the pool
	d.facts.Keys = d.facts.Keys[:0]
	for range n {
		d.facts.Keys = append(d.facts.Keys, "")
	}
	d.keysLeft = n
}

// keyToken looks for the keys in a token of Header or Body. Once all are found
// it is not called any more.
func (d *Decoder) keyToken(kind xmlstream.Kind, header bool) error {
	level := d.sc.Depth() - childDepth
	if level < 0 {
		return nil
	}
	for i := range d.keys {
		k, path := &d.keys[i], &d.opt.Keys[i]
		if k.found || path.Header != header {
			continue
		}
		switch kind {
		case xmlstream.Start:
			if k.reading || k.matched != level || !path.Path[level].takes(d.sc.Name()) {
				continue
			}
			k.matched++
			k.reading = k.matched == len(path.Path)
		case xmlstream.End:
			if k.matched != level+1 {
				continue
			}
			k.matched--
			if k.reading {
				k.reading, k.found = false, true
				d.keysLeft--
				d.facts.Keys[i] = string(trim(k.buf))
			}
		case xmlstream.Text, xmlstream.CDATA:
			if !k.reading || level != k.matched-1 {
				continue
			}
			if k.written += len(d.sc.Text()); k.written > MaxKey {
				return d.reject(CodeLimit, fmt.Errorf("%w: more than %d octets in the key of a message", xmlstream.ErrLimit, MaxKey))
			}
			k.buf = d.sc.AppendText(k.buf)
		}
	}
	return nil
}
