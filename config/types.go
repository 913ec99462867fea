package config

import (
	"net/netip"
	"slices"
)

// Config is one complete configuration. The struct tags are the table of keys:
// yaml is the name, default the value of an absent key, rules what is special
// about it (see rules in schema.go).
type Config struct {
	// Listeners are the addresses that take messages; at least one.
	Listeners []Listener `yaml:"listeners" rules:"restart,required"`
	// TrustedProxies are the peers whose forwarding headers are believed.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// PublicURL is the base for rewriting WSDL and Location; empty means what
	// the client used.
	PublicURL string `yaml:"public_url" rules:"url"`
	// Namespaces maps the prefixes of QNames in this file to URIs. [QName]
	// values are resolved already.
	Namespaces map[string]string `yaml:"namespaces"`
	// Backends are the services behind the gateway, by name. Case is kept.
	Backends map[string]*Backend `yaml:"backends"`
	// Routes are tried in this order; the first that matches wins.
	Routes []Route `yaml:"routes"`
	// Limits hold for every route that does not set its own.
	Limits Limits `yaml:"limits"`
	// Store is where queued messages live.
	Store Store `yaml:"store"`
	// Sites joins this gateway with others; nil is none.
	Sites *Sites `yaml:"sites"`
	// Admin is the listener for operators.
	Admin Admin `yaml:"admin" rules:"restart"`
	// Telemetry says where traces go.
	Telemetry Telemetry `yaml:"telemetry"`
	// Log is the program's own log.
	Log Log `yaml:"log"`
	// AccessLog gets a line for each exchange.
	AccessLog Output `yaml:"access_log" default:"off"`
	// Alerts says who is told of trouble.
	Alerts Alerts `yaml:"alerts"`
	// Drain is the budget of a stop.
	Drain Duration `yaml:"drain" default:"30s"`

	meta *meta
}

// Listener is one address that takes messages.
type Listener struct {
	// Name is unique; when absent it is the protocol and the listener's place
	// in the list, such as http-1.
	Name string `yaml:"name" rules:"name"`
	// Address is host:port. An empty host is every interface, port 0 any free one.
	Address string `yaml:"address" rules:"required,address"`
	// Protocol is http or framed.
	Protocol Protocol `yaml:"protocol" default:"http"`
	// TLS is nil for plain text.
	TLS *ServerTLS `yaml:"tls"`
	// H2C takes HTTP/2 by prior knowledge. http without TLS only.
	H2C bool `yaml:"h2c" default:"false"`
	// Engine reads and writes HTTP/1.1: the gateway's own or net/http. http
	// only.
	Engine Engine `yaml:"engine" default:"fast"`
	// Length is the size of the length prefix in bytes, 2 or 4. framed only.
	Length int `yaml:"length" default:"2" rules:"oneof=2|4"`
	// Route is the fixed route of every message; empty means by conditions.
	// framed only.
	Route string `yaml:"route"`
	// Timeouts guard against peers that stop.
	Timeouts ListenerTimeouts `yaml:"timeouts"`
	// MaxConnections is how many connections are open at once.
	MaxConnections Count `yaml:"max_connections" default:"10000" rules:"none"`
	// ProxyProtocol expects PROXY v2 from TrustedProxies.
	ProxyProtocol bool `yaml:"proxy_protocol" default:"false"`
}

// ListenerTimeouts are the patience of a listener with its peers.
type ListenerTimeouts struct {
	// Header is the time for a complete request head, http only, and for what
	// comes before: the PROXY header and the handshake of TLS.
	Header Duration `yaml:"header" default:"10s"`
	// BodyIdle is the longest pause inside a body, or inside a frame.
	BodyIdle Duration `yaml:"body_idle" default:"30s" rules:"none"`
	// Idle is the longest pause between requests, or between frames.
	Idle Duration `yaml:"idle" default:"60s" rules:"none"`
}

// ServerTLS is TLS towards clients.
type ServerTLS struct {
	// Certificate and Key are PEM files.
	Certificate File `yaml:"certificate"`
	Key         File `yaml:"key"`
	// ClientCA is the PEM file of the authorities whose clients are believed.
	ClientCA File `yaml:"client_ca"`
	// ClientAuth says whether a client must show a certificate; empty without
	// ClientCA, else require.
	ClientAuth ClientAuth `yaml:"client_auth"`
	// ACME gets the certificate from an authority; nil is off.
	ACME *ACME `yaml:"acme"`
}

// ACME is automatic certificate management.
type ACME struct {
	// Email is the account's contact.
	Email string `yaml:"email"`
	// Domains are the names of the certificate.
	Domains []string `yaml:"domains" rules:"required"`
	// CA is the directory URL; empty is the library's public default.
	CA URL `yaml:"ca" rules:"schemes=https|http"`
	// RootCA is the PEM file that CA's own certificate is checked against.
	RootCA File `yaml:"root_ca"`
	// Challenge is tls-alpn or http.
	Challenge Challenge `yaml:"challenge" default:"tls-alpn"`
	// HTTPPort is where the http challenge is answered.
	HTTPPort int `yaml:"http_port" default:"80" rules:"port"`
	// Dir keeps account and certificates; empty is a folder of the store.
	Dir File `yaml:"dir" rules:"dir"`
}

// Limits bound a message. Names and sizes are per element where XML has
// elements, see each field; none is negative.
type Limits struct {
	// MaxMessage is the decoded size of a message.
	MaxMessage Size `yaml:"max_message" default:"64MiB" rules:"none"`
	// Buffer is the size up to which a body stays in memory.
	Buffer Size `yaml:"buffer" default:"1MiB"`
	// Depth is how deep elements nest.
	Depth Count `yaml:"depth" default:"256" rules:"none"`
	// Elements is the number of elements of a document.
	Elements Count `yaml:"elements" default:"4194304" rules:"none"`
	// Attributes is the number of attributes of one element.
	Attributes Count `yaml:"attributes" default:"256" rules:"none"`
	// Namespaces is the number of namespace declarations of one element.
	Namespaces Count `yaml:"namespaces" default:"256" rules:"none"`
	// Name is the length of a name.
	Name Size `yaml:"name" default:"1KiB" rules:"none"`
	// AttributeValue is the length of an attribute's value.
	AttributeValue Size `yaml:"attribute_value" default:"64KiB" rules:"none"`
	// Text is the length of a run of text.
	Text Size `yaml:"text" default:"64MiB" rules:"none"`
	// HeaderBytes is the size of an HTTP head.
	HeaderBytes Size `yaml:"header_bytes" default:"64KiB"`
	// DecodeRatio is how many times larger a decoded body may be than the
	// octets it came in.
	DecodeRatio Count `yaml:"decode_ratio" default:"200" rules:"none"`
}

// Store is where queued messages live.
type Store struct {
	// Dir is the folder of the embedded store.
	Dir File `yaml:"dir" default:"./data" rules:"restart,dir"`
	// URL are the NATS servers of a cluster; empty is the embedded store.
	URL []URL `yaml:"url" rules:"restart,scalar,schemes=nats|tls|ws|wss"`
	// Replicas is how many servers of the cluster keep a message.
	Replicas int `yaml:"replicas" default:"3" rules:"range=1-5"`
	// Credentials is a NATS credentials file.
	Credentials File `yaml:"credentials"`
	// TLS is TLS towards the cluster.
	TLS *ClientTLS `yaml:"tls"`
	// Monitor is the monitoring endpoint by which servers prove that they sync.
	Monitor URL `yaml:"monitor" rules:"schemes=http|https"`
	// AssumeSynced takes the operator's word for it.
	AssumeSynced bool `yaml:"assume_synced" default:"false"`
	// Durability is strict or relaxed.
	Durability Durability `yaml:"durability" default:"strict" rules:"restart"`
	// MaxBytes is how much may wait.
	MaxBytes Size `yaml:"max_bytes" default:"10GiB" rules:"none"`
	// MinFree is the room left on the disk for others.
	MinFree Size `yaml:"min_free" default:"1GiB" rules:"zero"`
	// OnFailure is what a store error does: degrade or exit.
	OnFailure OnFailure `yaml:"on_failure" default:"degrade"`
	// EncryptionKey encrypts streams and blobs.
	EncryptionKey Secret `yaml:"encryption_key"`
	// KeepDelivered is how long the bodies of delivered messages stay.
	KeepDelivered Duration `yaml:"keep_delivered" default:"0s" rules:"zero,none"`
}

// Sites joins this gateway with others.
type Sites struct {
	// Name is this site's own.
	Name string `yaml:"name" rules:"name,required"`
	// Links lead to other sites.
	Links []Link `yaml:"links"`
	// Accept lists who may link to this site.
	Accept []SiteAccept `yaml:"accept"`
	// CADir keeps the authority that signs invitations.
	CADir File `yaml:"ca_dir" rules:"dir"`
}

// opens reports whether another site may send to a route.
func (s *Sites) opens(route string) bool {
	return s != nil && slices.ContainsFunc(s.Accept, func(a SiteAccept) bool { return slices.Contains(a.Routes, route) })
}

// Link is one way to another site.
type Link struct {
	// Name is the other site's.
	Name string `yaml:"name" rules:"name,required"`
	// URL is where it listens.
	URL URL `yaml:"url" rules:"required,schemes=https|http"`
	// Certificate, Key and CA are PEM files.
	Certificate File `yaml:"certificate"`
	Key         File `yaml:"key"`
	CA          File `yaml:"ca"`
	// Bandwidth is bytes per second.
	Bandwidth Size `yaml:"bandwidth" default:"none" rules:"none"`
	// Priority orders links; the higher goes first.
	Priority int `yaml:"priority" default:"0" rules:"range=0-255"`
	// Pull fetches instead of waiting for the other side, for one-way networks.
	Pull bool `yaml:"pull" default:"false"`
}

// SiteAccept lets one site in.
type SiteAccept struct {
	// Name is the other site's.
	Name string `yaml:"name" rules:"name,required"`
	// Subjects are those of the certificates it may show.
	Subjects []string `yaml:"subjects"`
	// Routes are those it may send to.
	Routes []string `yaml:"routes"`
}

// Admin is the listener for operators.
type Admin struct {
	// Address is host:port.
	Address string `yaml:"address" default:"127.0.0.1:8081" rules:"address"`
	// Token is required off loopback.
	Token Secret `yaml:"token"`
	// TLS is nil for plain text.
	TLS *ServerTLS `yaml:"tls"`
	// Audit is the file that gets a line for each change.
	Audit File `yaml:"audit" rules:"out"`
}

// Telemetry says where traces go.
type Telemetry struct {
	// OTLP is the collector, spoken to in protobuf over HTTP; empty is none.
	OTLP URL `yaml:"otlp" rules:"schemes=http|https"`
	// Sample is the share of exchanges that are traced, 0 to 1, of those whose
	// callers have not decided.
	Sample float64 `yaml:"sample" default:"0.01" rules:"range=0-1"`
}

// Log is the program's own log.
type Log struct {
	// Level is debug, info, warn or error.
	Level Level `yaml:"level" default:"info"`
	// Format is auto, text or json.
	Format Format `yaml:"format" default:"auto"`
}

// Alerts says who is told of trouble.
type Alerts struct {
	// Webhook gets a POST for each alarm.
	Webhook URL `yaml:"webhook" rules:"schemes=http|https"`
}
