package soapcodec

import "soapway/xmlstream"

// Normalize is the mode of normalization (SPEC.md §3.6).
type Normalize uint8

const (
	// Keep passes every octet on.
	Keep Normalize = iota
	// Envelope makes white space and quotes inside the Envelope, Header and
	// Body tags canonical and removes white space, comments and processing
	// instructions between them. Prefixes, attributes, namespace declarations,
	// header blocks and the content of Body stay octet for octet.
	Envelope
	// Canonical is inclusive Canonical XML 1.0 with comments, which the caller
	// makes of the whole message ([xmlstream.Canonicalizer]) unless
	// [Facts].NormalizeSkipped tells not to. The decoder makes no edits for it.
	Canonical
)

// Options of a [Decoder]. The zero value decodes any SOAP 1.1 or 1.2 envelope
// with default limits.
type Options struct {
	Limits xmlstream.Limits
	// References collects the xop:Include references, see [Facts.References].
	References bool
	// Accept11 and Accept12 select the versions; both false means both.
	Accept11, Accept12 bool
	Normalize          Normalize
	// Node makes the gateway act in role/actor next: a mandatory block aimed at
	// it is a MustUnderstand fault, since the gateway understands none; others
	// aimed at it are removed, unless SOAP 1.2 relay says otherwise.
	Node bool
	// Translate is the version that the message gets by the decoder's edits, if
	// it is in the other one; V0 leaves it as it is. A signed message that would
	// have to change is refused with [CodeSigned].
	Translate Version
	// Add is one or more header blocks that declare their own namespaces; they
	// are put first in Header, which is made if it is missing.
	Add []byte
	// Late says what [Late] will write into the message for each try, so that a
	// message that must not be changed is refused before it is sent or stored.
	LateTo, LateMark bool
	// Late is written into the message; nil is nothing.
	Late *Late
	// Strict refuses what the rules of [StrictRules] forbid in an envelope.
	Strict bool
	// Keys are values to be looked for on the way, see [Facts.Keys].
	Keys []Key
}

// edits reports whether a decoder may change octets.
func (o *Options) edits() bool { return o.Normalize != Keep || o.Node || o.inserts() }

// extras reports whether tokens are looked at once more, see [Decoder.extra].
func (o *Options) extras() bool { return o.Strict || o.inserts() }

// inserts reports whether one of the options that need that may change octets.
func (o *Options) inserts() bool {
	return o.Translate != V0 || len(o.Add) > 0 || o.LateTo || o.LateMark || o.Late != nil
}

func (o *Options) accepts(v Version) bool {
	if o.Accept11 == o.Accept12 {
		return true
	}
	return o.Accept11 == (v == V11)
}

// accepted lists what VersionMismatch offers, the preferred version first.
func (o *Options) accepted() []Version {
	all := [...]Version{V12, V11}
	switch {
	case o.Accept11 == o.Accept12:
		return all[:]
	case o.Accept12:
		return all[:1]
	}
	return all[1:]
}
