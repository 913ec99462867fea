package config

import "net/netip"

// Backend is a service: one or more nodes that give the same answers.
type Backend struct {
	// Nodes are the addresses; at least one.
	Nodes []Node `yaml:"nodes" rules:"required"`
	// Balance chooses the node of a message.
	Balance Balance `yaml:"balance" default:"least-requests"`
	// HashBy is what balance: hash looks at.
	HashBy HashBy `yaml:"hash_by"`
	// Health checks the nodes actively; nil is off.
	Health *Health `yaml:"health" rules:"word=off"`
	// Outlier takes failing nodes out for a while.
	Outlier Outlier `yaml:"outlier"`
	// Probe is the clock on which a down backend is tried for stored messages.
	Probe Probe `yaml:"probe"`
	// ConnectTimeout bounds a connection's set-up.
	ConnectTimeout Duration `yaml:"connect_timeout" default:"5s"`
	// Timeout runs from the last octet of the request to the first of the
	// answer, then between octets.
	Timeout Duration `yaml:"timeout" default:"30s" rules:"none"`
	// IdleTimeout closes pooled connections that are not used.
	IdleTimeout Duration `yaml:"idle_timeout" default:"4s" rules:"none"`
	// MaxConnections is per backend.
	MaxConnections Count `yaml:"max_connections" default:"512" rules:"none"`
	// MaxConcurrency is how many exchanges run at once.
	MaxConcurrency Count `yaml:"max_concurrency" default:"none" rules:"none"`
	// QueueWait is how long an exchange waits for a free place.
	QueueWait Duration `yaml:"queue_wait" default:"100ms"`
	// TLS is for https and framed+tls nodes; nil is the system's authorities
	// and no certificate of our own.
	TLS *ClientTLS `yaml:"tls"`
	// Headers are added to every request. Values are credentials often enough
	// to be treated as such.
	Headers map[string]Secret `yaml:"headers"`
	// Host says which Host the nodes get: that of their URL, or the client's.
	Host HostMode `yaml:"host" default:"node"`
	// Proxy is an HTTP proxy on the way to the nodes.
	Proxy URL `yaml:"proxy" rules:"schemes=http|https"`
	// Resolve is how often names are looked up again.
	Resolve Duration `yaml:"resolve" default:"30s"`
	// Redirects are passed on or followed.
	Redirects Redirects `yaml:"redirects" default:"pass"`
	// Compress is the coding of requests towards the nodes.
	Compress Compress `yaml:"compress" default:"off"`
}

// Node is one address of a backend, written as its URL or as a map.
type Node struct {
	// URL is the address.
	URL NodeURL `yaml:"url" rules:"required"`
	// Weight is the node's share.
	Weight int `yaml:"weight" default:"1" rules:"range=1-1000"`
}

// Health checks nodes actively, by exactly one of Path, SOAP and TCP.
type Health struct {
	// Path is asked for by GET.
	Path string `yaml:"path"`
	// SOAP is the file of an envelope that is sent.
	SOAP File `yaml:"soap"`
	// TCP only connects.
	TCP bool `yaml:"tcp" default:"false"`
	// Interval is the time between checks of one node.
	Interval Duration `yaml:"interval" default:"10s"`
	// Timeout bounds one check.
	Timeout Duration `yaml:"timeout" default:"2s"`
	// UnhealthyAfter failures in a row take the node out.
	UnhealthyAfter Count `yaml:"unhealthy_after" default:"2"`
	// HealthyAfter successes in a row bring it back.
	HealthyAfter Count `yaml:"healthy_after" default:"1"`
}

// Outlier takes a node out after failures; faults never count.
type Outlier struct {
	// Failures in a row take the node out, if all of them came Within this time.
	Failures Count    `yaml:"failures" default:"5"`
	Within   Duration `yaml:"within" default:"30s"`
	// Eject is how long it then gets no messages.
	Eject Duration `yaml:"eject" default:"30s"`
}

// Probe is the growing time between tries of a backend that is down.
type Probe struct {
	// Initial is the time to the first try.
	Initial Duration `yaml:"initial" default:"5s"`
	// Max is the longest time between two.
	Max Duration `yaml:"max" default:"30s"`
}

// ClientTLS is TLS towards a server.
type ClientTLS struct {
	// CA is the PEM file of the authorities believed; empty is the system's.
	CA File `yaml:"ca"`
	// Certificate and Key are what we show; PEM files, both or none.
	Certificate File `yaml:"certificate"`
	Key         File `yaml:"key"`
	// ServerName is expected in the certificate; empty is the URL's host.
	ServerName string `yaml:"server_name"`
	// Insecure believes every certificate.
	Insecure bool `yaml:"insecure" default:"false"`
}

// Route says which messages go where, and how.
type Route struct {
	// Name is unique; metrics and logs carry it.
	Name string `yaml:"name" rules:"name,required"`
	// Match is what a message must look like; its zero value takes everything.
	Match Match `yaml:"match"`
	// Backend is a key of [Config.Backends]. Exactly one of Backend and To is set.
	Backend string `yaml:"backend"`
	// To are the nodes of a backend that is this route's own. See [Config.BackendOf].
	To []Node `yaml:"to" rules:"scalar"`
	// Timeout is that of the route's own nodes, see [Backend.Timeout]; a route
	// with a backend has the backend's, and this is 0.
	Timeout Duration `yaml:"timeout" rules:"none"`
	// Delivery is sync, queue or sync-then-queue.
	Delivery Delivery `yaml:"delivery" default:"sync"`
	// Hold is how long sync-then-queue tries before it stores.
	Hold Duration `yaml:"hold" default:"20s"`
	// Assurance is at-least-once or at-most-once; the default depends on
	// Delivery and is filled in.
	Assurance Assurance `yaml:"assurance"`
	// Retry is for stored messages.
	Retry Retry `yaml:"retry"`
	// OrderBy is the key whose messages stay in order.
	OrderBy OrderBy `yaml:"order_by" default:"none"`
	// OnDead says what a dead head does to its key.
	OnDead OnDead `yaml:"on_dead" default:"continue"`
	// Dedup stores a repeated message once; nil is off.
	Dedup *Dedup `yaml:"dedup" rules:"word=off"`
	// Reply is what becomes of the answer to a queued message.
	Reply ReplyMode `yaml:"reply" default:"discard"`
	// ReplyKeep is how long a stored reply is kept.
	ReplyKeep Duration `yaml:"reply_keep" default:"24h" rules:"none"`
	// ReplyHosts are the hosts that wsa:ReplyTo may name: host for the usual
	// ports, or host:port. See [Route.ReplyNodes].
	ReplyHosts []string `yaml:"reply_hosts"`
	// OneWay says whether an empty answer is right.
	OneWay OneWay `yaml:"oneway" default:"auto"`
	// EmptyPost is what a POST without a body does: refuse or pass.
	EmptyPost EmptyPost `yaml:"empty_post" default:"refuse"`
	// Methods are the methods that are taken. POST carries SOAP and is always
	// among them, the others are passed through unchecked.
	Methods []string `yaml:"methods" default:"POST"`
	// SOAP is what happens to the envelope.
	SOAP SOAP `yaml:"soap"`
	// WSDL says what is served as the description of the service: that of the
	// backend, a file, or a URL, with its addresses mapped; off passes such
	// requests through.
	WSDL WSDL `yaml:"wsdl" default:"auto"`
	// WSDLHosts are further hosts, with or without a port, that may be asked for
	// what a WSDL refers to.
	WSDLHosts []string `yaml:"wsdl_hosts"`
	// WSDLCheck refuses messages that the WSDL does not know.
	WSDLCheck WSDLCheck `yaml:"wsdl_check" default:"none"`
	// Limits are those of [Config.Limits] where the route sets no others.
	Limits RouteLimits `yaml:"limits"`
	// Auth says who may send; nil is anyone.
	Auth *Auth `yaml:"auth" rules:"word=none"`
	// Allow are the networks that may send; empty is any.
	Allow []netip.Prefix `yaml:"allow" rules:"word=any"`
	// StoreCredentials keeps Authorization with a stored message.
	StoreCredentials bool `yaml:"store_credentials" default:"false"`
	// Shadow copies messages to a second backend; nil is none.
	Shadow *Shadow `yaml:"shadow" rules:"word=none"`
	// Redact are the elements masked in logs, dashboard and exports.
	Redact []QName `yaml:"redact"`
	// Quota is how much may wait; nil is none.
	Quota *Quota `yaml:"quota" rules:"word=none"`
}

// Match is what a message must look like for a route: all conditions that are
// set must hold. The zero value takes everything.
type Match struct {
	// None (match: none) takes nothing: the route is reached only through a
	// listener's route key.
	None bool `yaml:"-"`
	// Host is the host that the client named, without port, lower case.
	Host string `yaml:"host"`
	// Path is compared with the raw request target: exact, or a prefix written
	// /prefix/*.
	Path PathPattern `yaml:"path"`
	// Action is the SOAP action, octet for octet; nil is any. Never empty.
	Action *string `yaml:"action"`
	// Operation is the first element in the Body; zero is any.
	Operation QName `yaml:"operation"`
	// Headers are request header fields and the exact values they must have.
	Headers map[string]string `yaml:"headers"`
}

// Retry is the policy for stored messages.
type Retry struct {
	// Initial is the wait after the first attempt.
	Initial Duration `yaml:"initial" default:"1s"`
	// Factor is by how much each wait is longer than the one before.
	Factor float64 `yaml:"factor" default:"2" rules:"range=1-100"`
	// Max is the longest wait.
	Max Duration `yaml:"max" default:"10m"`
	// Jitter 0.2 spreads a wait by ±20 %.
	Jitter float64 `yaml:"jitter" default:"0.2" rules:"range=0-1"`
	// Expire counts from acceptance: after it a message is a dead letter.
	Expire Duration `yaml:"expire" default:"120h" rules:"none"`
	// Attempts is after how many a message is a dead letter.
	Attempts Count `yaml:"attempts" default:"none" rules:"none"`
}

// Dedup says which messages are the same.
type Dedup struct {
	// By is what two messages have in common that are the same.
	By DedupBy `yaml:"by" default:"message-id"`
	// Window is how long a repeat is noticed, from the acceptance of the first.
	Window Duration `yaml:"window" default:"24h"`
}

// SOAP is what happens to the envelopes of a route.
type SOAP struct {
	// Accept are the versions taken.
	Accept []SOAPVersion `yaml:"accept" default:"1.1,1.2"`
	// Translate changes the version towards the backend.
	Translate Translate `yaml:"translate" default:"none"`
	// Strict refuses what WS-I BP 1.1 and BP 2.0 forbid.
	Strict bool `yaml:"strict" default:"false"`
	// Normalize is keep, envelope or canonical.
	Normalize Normalize `yaml:"normalize" default:"keep"`
	// Node makes the gateway a SOAP node that understands header blocks.
	Node bool `yaml:"node" default:"false"`
	// WSATo keeps wsa:To or makes it the node's address.
	WSATo WSATo `yaml:"wsa_to" default:"keep"`
	// Add is the file of one header block that is put first.
	Add File `yaml:"add"`
	// Mark says where id and duplicate mark go: HTTP header or header block.
	Mark Mark `yaml:"mark" default:"header"`
}

// RouteLimits are the limits of one route.
type RouteLimits struct {
	Limits
	// Rate is for the whole route, RatePerClient for each client.
	Rate          Rate `yaml:"rate" default:"none"`
	RatePerClient Rate `yaml:"rate_per_client" default:"none"`
	// Concurrency is how many exchanges run at once.
	Concurrency Count `yaml:"concurrency" default:"none" rules:"none"`
}

// Auth lists the ways in which a caller may prove who it is.
type Auth struct {
	// Basic is an htpasswd file with bcrypt hashes.
	Basic File `yaml:"basic"`
	// Bearer is a file of tokens.
	Bearer File `yaml:"bearer"`
	// APIKey is a key in a header field.
	APIKey *APIKey `yaml:"api_key"`
	// MTLS is a client certificate.
	MTLS *MTLS `yaml:"mtls"`
	// WSSUsername is a file of WS-Security user names.
	WSSUsername File `yaml:"wss_username"`
}

// APIKey is a key in a header field.
type APIKey struct {
	// Header is the name of the field that has the key.
	Header string `yaml:"header" rules:"required"`
	// Keys are those that are let in.
	Keys []Secret `yaml:"keys" rules:"required"`
}

// MTLS names the client certificates that are let in.
type MTLS struct {
	// Subjects are distinguished names, as in "CN=plant,O=Example".
	Subjects []string `yaml:"subjects" rules:"required"`
}

// Shadow copies a share of a route's messages.
type Shadow struct {
	// Backend gets the copies; its answers are discarded.
	Backend string `yaml:"backend" rules:"required"`
	// Percent is the share of the messages that are copied.
	Percent float64 `yaml:"percent" default:"100" rules:"range=0-100"`
}

// Quota bounds what waits on one route.
type Quota struct {
	// Messages and Bytes are how many may wait; callers get 503 beyond.
	Messages Count `yaml:"messages" default:"none" rules:"none"`
	Bytes    Size  `yaml:"bytes" default:"none" rules:"none"`
}
