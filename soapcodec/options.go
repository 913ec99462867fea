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
	// Keys are values to be looked for on the way, see [Facts.Keys].
	Keys []Key
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
