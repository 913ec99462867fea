package soapcodec

// Namespaces.
const (
	NS11    = "http://schemas.xmlsoap.org/soap/envelope/" // SOAP 1.1
	NS12    = "http://www.w3.org/2003/05/soap-envelope"   // SOAP 1.2
	NSFault = "urn:soapway:fault"                         // of the code in the detail of the gateway's faults
)

// Version of an envelope.
type Version uint8

// The versions; V0 means that no envelope was recognised.
const (
	V0 Version = iota
	V11
	V12
)

// A dialect is what differs between the versions by name alone.
type dialect struct {
	name, namespace, mediaType string
	role, next                 string // the attribute that names a role, and its value for the next node
}

var dialects = [...]dialect{
	V0:  {},
	V11: {"1.1", NS11, "text/xml", "actor", "http://schemas.xmlsoap.org/soap/actor/next"},
	V12: {"1.2", NS12, "application/soap+xml", "role", "http://www.w3.org/2003/05/soap-envelope/role/next"},
}

// roleUltimate is the long way to say "no role" (SOAP 1.2 Part 1 §2.2).
const roleUltimate = "http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver"

// String is "1.1", "1.2" or "".
func (v Version) String() string { return dialects[v].name }

// Namespace is that of the Envelope element.
func (v Version) Namespace() string { return dialects[v].namespace }

// MediaType is text/xml or application/soap+xml.
func (v Version) MediaType() string { return dialects[v].mediaType }

// QName is an expanded name.
type QName struct{ Space, Local string }

// String renders {space}local.
func (q QName) String() string { return "{" + q.Space + "}" + q.Local }

// IsZero reports whether there is no name at all.
func (q QName) IsZero() bool { return q == QName{} }
