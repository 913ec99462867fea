package config

import (
	"strconv"
	"strings"
)

// NodeScheme is the kind of a node.
type NodeScheme string

// The kinds of node.
const (
	NodeHTTP      NodeScheme = "http"
	NodeHTTPS     NodeScheme = "https"
	NodeFramed    NodeScheme = "framed"
	NodeFramedTLS NodeScheme = "framed+tls"
	NodeBuiltin   NodeScheme = "builtin"
	NodeSite      NodeScheme = "site"
)

// NodeURL is the address of a node. It has no credentials: a URL with a user
// is refused.
type NodeURL struct {
	Scheme NodeScheme
	// Host is the authority as written, and what an http or https node gets
	// as Host.
	Host string
	// Address is host:port to connect to, the port filled in. http, https,
	// framed and framed+tls.
	Address string
	// Path is the raw path of an http or https URL, at least "/". Nothing in
	// it is decoded or cleaned.
	Path string
	// Length is the size of the length prefix of framed and framed+tls, 2 or 4.
	Length int
	// Builtin is echo, page or sink.
	Builtin string
	// Site and Route are those of a site node.
	Site, Route string
}

// TLS reports whether the node is spoken to over TLS.
func (n NodeURL) TLS() bool { return n.Scheme == NodeHTTPS || n.Scheme == NodeFramedTLS }

// Framed reports whether the node takes length-prefixed messages.
func (n NodeURL) Framed() bool { return n.Scheme == NodeFramed || n.Scheme == NodeFramedTLS }

// String writes the URL so that it reads back.
func (n NodeURL) String() string {
	switch n.Scheme {
	case NodeHTTP, NodeHTTPS:
		return string(n.Scheme) + "://" + n.Host + n.Path
	case NodeFramed, NodeFramedTLS:
		s := string(n.Scheme) + "://" + n.Address
		if n.Length != 2 {
			s += "?length=" + strconv.Itoa(n.Length)
		}
		return s
	case NodeBuiltin:
		return "builtin:" + n.Builtin
	case NodeSite:
		return "site:" + n.Site + "/" + n.Route
	}
	return ""
}

// PathPattern is a condition on the raw path of a request target: exact, or
// every path under a prefix. The zero value is any path.
type PathPattern struct {
	// Path is the exact path, or the prefix without its trailing "/*" ("" for
	// the pattern "/*").
	Path string
	// Prefix tells the two apart.
	Prefix bool
}

// IsZero reports whether any path matches.
func (p PathPattern) IsZero() bool { return p == PathPattern{} }

// String writes the pattern so that it reads back.
func (p PathPattern) String() string {
	if p.Prefix {
		return p.Path + "/*"
	}
	return p.Path
}

// QName is a qualified name of the configuration: prefix:local with a prefix
// of [Config.Namespaces], {uri}local, {}local for no namespace, or local alone
// for any namespace. The zero value is no name.
type QName struct {
	Space string
	Local string
	// AnySpace means that the namespace does not count; Space is empty then.
	AnySpace bool
}

// IsZero reports whether there is no name.
func (q QName) IsZero() bool { return q.Local == "" }

// String writes the name with its namespace, not its prefix.
func (q QName) String() string {
	if q.AnySpace || q.Local == "" {
		return q.Local
	}
	return "{" + q.Space + "}" + q.Local
}

// OrderKind is where a key comes from.
type OrderKind string

// The sources of a key.
const (
	OrderNone   OrderKind = "none"
	OrderRoute  OrderKind = "route"  // the whole route is one key
	OrderHTTP   OrderKind = "http"   // a request header field
	OrderHeader OrderKind = "header" // a header block
	OrderBody   OrderKind = "body"   // an element under Body
)

// OrderBy says where the key of a message comes from.
type OrderBy struct {
	Kind OrderKind
	// HTTP is the field name of OrderHTTP.
	HTTP string
	// Path is the block of OrderHeader, or the way from Body down of OrderBody.
	Path []QName
}

// String writes the key so that it reads back.
func (o OrderBy) String() string {
	switch o.Kind {
	case OrderHTTP:
		return "http:" + o.HTTP
	case OrderHeader:
		return "header:" + joinQNames(o.Path, "")
	case OrderBody:
		return "body:" + joinQNames(o.Path, "/")
	case "":
		return string(OrderNone)
	}
	return string(o.Kind)
}

func joinQNames(names []QName, before string) string {
	var b strings.Builder
	for _, q := range names {
		b.WriteString(before + q.String())
	}
	return b.String()
}

// DedupBy says what makes two messages the same.
type DedupBy struct {
	// MessageID is wsa:MessageID, else Idempotency-Key.
	MessageID bool
	// Key is used otherwise.
	Key OrderBy
}

// String writes the choice so that it reads back.
func (d DedupBy) String() string {
	if d.MessageID {
		return "message-id"
	}
	return d.Key.String()
}

// HashKind is what a hash balancer looks at.
type HashKind string

// The sources of a hash.
const (
	HashCookie HashKind = "cookie"
	HashHeader HashKind = "header"
	HashClient HashKind = "client"
	HashKey    HashKind = "key" // the order key
)

// HashBy is what a hash balancer looks at; its zero value is nothing.
type HashBy struct {
	Kind HashKind
	// Name is that of the cookie or header field.
	Name string
}

// String writes the choice so that it reads back.
func (h HashBy) String() string {
	if h.Name != "" {
		return string(h.Kind) + ":" + h.Name
	}
	return string(h.Kind)
}

// WSDLMode is what the WSDL front serves.
type WSDLMode string

// The modes of the WSDL front.
const (
	WSDLAuto WSDLMode = "auto" // the backend's, rewritten
	WSDLOff  WSDLMode = "off"  // passed through
	WSDLFile WSDLMode = "file"
	WSDLURL  WSDLMode = "url"
)

// WSDL is what the WSDL front serves.
type WSDL struct {
	Mode WSDLMode
	File File // of WSDLFile
	URL  URL  // of WSDLURL
}

// String writes the choice so that it reads back.
func (w WSDL) String() string {
	switch w.Mode {
	case WSDLFile:
		return string(w.File)
	case WSDLURL:
		return w.URL.String()
	}
	return string(w.Mode)
}

// OutputMode is where lines go.
type OutputMode string

// The places for lines.
const (
	OutputOff    OutputMode = "off"
	OutputStdout OutputMode = "stdout"
	OutputFile   OutputMode = "file"
)

// Output is where lines go.
type Output struct {
	Mode OutputMode
	File File // of OutputFile
}

// String writes the choice so that it reads back.
func (o Output) String() string {
	if o.Mode == OutputFile {
		return string(o.File)
	}
	return string(o.Mode)
}
