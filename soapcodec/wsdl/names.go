package wsdl

// The namespaces that descriptions are made of.
const (
	nsWSDL     = "http://schemas.xmlsoap.org/wsdl/"
	nsSOAP11   = "http://schemas.xmlsoap.org/wsdl/soap/"
	nsSOAP12   = "http://schemas.xmlsoap.org/wsdl/soap12/"
	nsHTTP     = "http://schemas.xmlsoap.org/wsdl/http/"
	nsWSDL20   = "http://www.w3.org/ns/wsdl"
	nsWSOAP    = "http://www.w3.org/ns/wsdl/soap"
	nsSchema   = "http://www.w3.org/2001/XMLSchema"
	nsWSA      = "http://www.w3.org/2005/08/addressing"
	nsWSA2004  = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
	nsWSAM     = "http://www.w3.org/2007/05/addressing/metadata"
	nsWSAW     = "http://www.w3.org/2006/05/addressing/wsdl"
	nsPolicy12 = "http://schemas.xmlsoap.org/ws/2004/09/policy"
	nsPolicy15 = "http://www.w3.org/ns/ws-policy"
)

// A Use says what a reference is for.
type Use uint8

// The uses of a reference.
const (
	Address Use = iota // of a port, an endpoint or an endpoint reference
	Import             // of a description
	Schema             // of a schema: import, include, redefine, override
	Policy             // of a policy
)

func (u Use) String() string { return [...]string{"address", "import", "schema", "policy"}[u] }

// place is an attribute of an element that is a reference.
type place struct{ space, local, attr string }

// places has every attribute that refers to something by a URI.
var places = map[place]Use{
	{nsSOAP11, "address", "location"}:        Address,
	{nsSOAP12, "address", "location"}:        Address,
	{nsHTTP, "address", "location"}:          Address,
	{nsWSDL20, "endpoint", "address"}:        Address,
	{nsWSDL, "import", "location"}:           Import,
	{nsWSDL20, "import", "location"}:         Import,
	{nsWSDL20, "include", "location"}:        Import,
	{nsSchema, "import", "schemaLocation"}:   Schema,
	{nsSchema, "include", "schemaLocation"}:  Schema,
	{nsSchema, "redefine", "schemaLocation"}: Schema,
	{nsSchema, "override", "schemaLocation"}: Schema,
	{nsPolicy12, "PolicyReference", "URI"}:   Policy,
	{nsPolicy15, "PolicyReference", "URI"}:   Policy,
}

// refers reports whether an element of this local name may be one of places, or part
// of an endpoint reference: few are.
func refers(local []byte) bool {
	switch string(local) {
	case "address", "endpoint", "import", "include", "redefine", "override", "PolicyReference",
		"EndpointReference", "Address":
		return true
	}
	return false
}
