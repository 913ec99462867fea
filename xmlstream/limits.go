package xmlstream

import "math"

// Limits bounds what a [Scanner] accepts. In every field zero means the
// default and a negative value means no limit.
type Limits struct {
	// Depth is the most elements that may be open at once. Default 256.
	Depth int
	// Attributes is the most attributes of one element, namespace
	// declarations not counted. Default 256.
	Attributes int
	// Namespaces is the most namespace declarations of one element. Default 256.
	// All that are in force at once have at most 1 MiB of names, and at most
	// four longest values where that is more: they must be kept until their
	// elements end, however large the document.
	Namespaces int
	// Name is the longest name in octets, prefix included; it also bounds one
	// reference, since leading zeros make &#x0…041; as long as one likes.
	// Default 1 KiB.
	Name int
	// AttributeValue is the longest attribute value in octets as written; it
	// also bounds the white space inside one tag. Default 64 KiB.
	AttributeValue int
	// Elements is the most elements of a document. Default 4194304.
	Elements int64
	// Text is the longest run of character data, and the longest CDATA
	// section, comment or processing instruction, in octets as written.
	// Default 64 MiB.
	Text int64
}

// The names of the limits are the configuration's keys.
const (
	limitDepth          = "depth"
	limitAttributes     = "attributes"
	limitNamespaces     = "namespaces"
	limitName           = "name"
	limitAttributeValue = "attribute_value"
	limitElements       = "elements"
	limitText           = "text"

	limitScope = "octets of namespaces in force" // follows from the others
)

// leastScope is what the namespaces in force may have however low the limit on
// values.
const leastScope = 1 << 20

// scope returns the most octets of prefixes and namespaces in force at once.
func (l Limits) scope() int {
	if l.AttributeValue > math.MaxInt/4 {
		return math.MaxInt
	}
	return max(leastScope, 4*l.AttributeValue)
}

// leastName is what references and the values of the XML declaration may have
// however low the limit on names.
const leastName = 32

// withDefaults returns l with every field a plain upper bound, so that the
// scanner compares and never asks whether a limit is there.
func (l Limits) withDefaults() Limits {
	l.Depth = bound(l.Depth, 256)
	l.Attributes = bound(l.Attributes, 256)
	l.Namespaces = bound(l.Namespaces, 256)
	l.Name = bound(l.Name, 1<<10)
	l.AttributeValue = bound(l.AttributeValue, 64<<10)
	l.Elements = bound(l.Elements, 4<<20)
	l.Text = bound(l.Text, 64<<20)
	return l
}

func bound[T int | int64](v, def T) T {
	switch {
	case v == 0:
		return def
	case v < 0:
		return math.MaxInt
	}
	return v
}
