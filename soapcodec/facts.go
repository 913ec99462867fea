package soapcodec

// HeaderBlock is one child of Header.
type HeaderBlock struct {
	Name QName
	// Role is the block's role (1.2) or actor (1.1). It is "" for the ultimate
	// receiver, also where SOAP 1.2 spells that role out.
	Role           string
	MustUnderstand bool
	Relay          bool  // SOAP 1.2
	Start, End     int64 // stream offsets of the element
}

// Next reports whether the block is aimed at role/actor next.
func (b *HeaderBlock) Next(v Version) bool { return v != V0 && b.Role == dialects[v].next }

// FaultFacts are of a Fault that stands in the Body: a peer's, never our own.
type FaultFacts struct {
	// Code is faultcode or Code/Value, resolved by the namespaces in scope. A
	// dotted faultcode keeps its dots. Space is "" where the prefix is unbound.
	Code       QName
	Subcodes   []QName // SOAP 1.2, outermost first
	Reason     string  // the first text, at most 1 KiB
	Node, Role string  // faultactor is in Role

	bare bool // Code was written without a prefix
}

// Facts is what one pass over an envelope yields.
type Facts struct {
	Version      Version
	Headers      []HeaderBlock
	HasHeader    bool
	Operation    QName // first child of Body; zero if Body is empty
	BodyChildren int
	// BodyStart and BodyEnd are the stream offsets of the content of Body,
	// without its tags; equal where it is empty.
	BodyStart, BodyEnd int64

	// The message addressing headers aimed at the ultimate receiver, white space
	// around them removed; "" where there is none.
	Action     string
	MessageID  string // the first
	MessageIDs int    // how many
	RelatesTo  string // the first whose relationship is that of a reply
	To         string
	ReplyTo    string // its Address

	// Keys are the values of Options.Keys, "" where there is none.
	Keys []string

	Fault  *FaultFacts // nil if the first child of Body is not a Fault
	Signed bool        // a ds:Signature in a wsse:Security block

	// References are the values of href of all xop:Include elements, anywhere in
	// the envelope, in document order, if Options.References asks for them.
	References []string

	// NormalizeSkipped tells that normalization was asked for and withdrawn,
	// because it could break a signature.
	NormalizeSkipped bool
}
