package config

// An enum is a string of a fixed set; values lists them in the order in which
// a hint names them.
type enum interface{ values() []string }

// Protocol is how a listener speaks.
type Protocol string

// The values of Protocol.
const (
	ProtocolHTTP   Protocol = "http"
	ProtocolFramed Protocol = "framed"
)

func (Protocol) values() []string { return []string{"http", "framed"} }

// Engine is the HTTP engine of a listener.
type Engine string

// The values of Engine.
const (
	EngineFast Engine = "fast"
	EngineStd  Engine = "std"
)

func (Engine) values() []string { return []string{"fast", "std"} }

// ClientAuth says whether a client must show a certificate.
type ClientAuth string

// The values of ClientAuth.
const (
	ClientAuthRequire ClientAuth = "require"
	ClientAuthRequest ClientAuth = "request"
)

func (ClientAuth) values() []string { return []string{"require", "request"} }

// Challenge is the ACME challenge.
type Challenge string

// The values of Challenge.
const (
	ChallengeTLSALPN Challenge = "tls-alpn"
	ChallengeHTTP    Challenge = "http"
)

func (Challenge) values() []string { return []string{"tls-alpn", "http"} }

// Durability says when an accepted message is durable.
type Durability string

// The values of Durability.
const (
	DurabilityStrict  Durability = "strict"
	DurabilityRelaxed Durability = "relaxed"
)

func (Durability) values() []string { return []string{"strict", "relaxed"} }

// OnFailure is what a store error does.
type OnFailure string

// The values of OnFailure.
const (
	OnFailureDegrade OnFailure = "degrade"
	OnFailureExit    OnFailure = "exit"
)

func (OnFailure) values() []string { return []string{"degrade", "exit"} }

// Level is the least severe record that is logged.
type Level string

// The values of Level.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

func (Level) values() []string { return []string{"debug", "info", "warn", "error"} }

// Format is the form of the log; auto is text on a terminal, else json.
type Format string

// The values of Format.
const (
	FormatAuto Format = "auto"
	FormatText Format = "text"
	FormatJSON Format = "json"
)

func (Format) values() []string { return []string{"auto", "text", "json"} }

// Balance is the policy that picks a node.
type Balance string

// The values of Balance.
const (
	BalanceRoundRobin    Balance = "round-robin"
	BalanceLeastRequests Balance = "least-requests"
	BalanceRandom        Balance = "random"
	BalanceHash          Balance = "hash"
)

func (Balance) values() []string { return []string{"round-robin", "least-requests", "random", "hash"} }

// HostMode says which Host the nodes get.
type HostMode string

// The values of HostMode.
const (
	HostNode   HostMode = "node"
	HostClient HostMode = "client"
)

func (HostMode) values() []string { return []string{"node", "client"} }

// Redirects says what becomes of a 3xx answer.
type Redirects string

// The values of Redirects.
const (
	RedirectsPass   Redirects = "pass"
	RedirectsFollow Redirects = "follow"
)

func (Redirects) values() []string { return []string{"pass", "follow"} }

// Compress is the coding of requests towards nodes.
type Compress string

// The values of Compress.
const (
	CompressOff  Compress = "off"
	CompressGzip Compress = "gzip"
	CompressZstd Compress = "zstd"
)

func (Compress) values() []string { return []string{"off", "gzip", "zstd"} }

// Delivery is how a message goes on.
type Delivery string

// The values of Delivery.
const (
	DeliverySync          Delivery = "sync"
	DeliveryQueue         Delivery = "queue"
	DeliverySyncThenQueue Delivery = "sync-then-queue"
)

func (Delivery) values() []string { return []string{"sync", "queue", "sync-then-queue"} }

// Assurance says what happens to a message that was maybe processed.
type Assurance string

// The values of Assurance.
const (
	AtLeastOnce Assurance = "at-least-once"
	AtMostOnce  Assurance = "at-most-once"
)

func (Assurance) values() []string { return []string{"at-least-once", "at-most-once"} }

// OnDead says what a dead head does to its key.
type OnDead string

// The values of OnDead.
const (
	OnDeadContinue OnDead = "continue"
	OnDeadStop     OnDead = "stop"
)

func (OnDead) values() []string { return []string{"continue", "stop"} }

// ReplyMode is what becomes of the answer to a queued message.
type ReplyMode string

// The values of ReplyMode.
const (
	ReplyDiscard ReplyMode = "discard"
	ReplyStore   ReplyMode = "store"
	ReplyTo      ReplyMode = "reply-to"
)

func (ReplyMode) values() []string { return []string{"discard", "store", "reply-to"} }

// OneWay says whether an empty answer is right.
type OneWay string

// The values of OneWay.
const (
	OneWayAuto OneWay = "auto"
	OneWayYes  OneWay = "yes"
	OneWayNo   OneWay = "no"
)

func (OneWay) values() []string { return []string{"auto", "yes", "no"} }

// EmptyPost is what a POST without a body does.
type EmptyPost string

// The values of EmptyPost.
const (
	EmptyPostRefuse EmptyPost = "refuse"
	EmptyPostPass   EmptyPost = "pass"
)

func (EmptyPost) values() []string { return []string{"refuse", "pass"} }

// SOAPVersion is a version of the envelope.
type SOAPVersion string

// The values of SOAPVersion.
const (
	SOAP11 SOAPVersion = "1.1"
	SOAP12 SOAPVersion = "1.2"
)

func (SOAPVersion) values() []string { return []string{"1.1", "1.2"} }

// Translate is the version that a message is translated to.
type Translate string

// The values of Translate.
const (
	TranslateNone Translate = "none"
	Translate11   Translate = "1.1"
	Translate12   Translate = "1.2"
)

func (Translate) values() []string { return []string{"none", "1.1", "1.2"} }

// Normalize is the form in which an envelope goes on.
type Normalize string

// The values of Normalize.
const (
	NormalizeKeep      Normalize = "keep"
	NormalizeEnvelope  Normalize = "envelope"
	NormalizeCanonical Normalize = "canonical"
)

func (Normalize) values() []string { return []string{"keep", "envelope", "canonical"} }

// WSATo says what becomes of wsa:To.
type WSATo string

// The values of WSATo.
const (
	WSAToKeep WSATo = "keep"
	WSAToNode WSATo = "node"
)

func (WSATo) values() []string { return []string{"keep", "node"} }

// Mark says where the id and the duplicate mark go.
type Mark string

// The values of Mark.
const (
	MarkHeader Mark = "header"
	MarkBlock  Mark = "block"
)

func (Mark) values() []string { return []string{"header", "block"} }

// WSDLCheck says which messages the WSDL refuses.
type WSDLCheck string

// The values of WSDLCheck.
const (
	WSDLCheckNone      WSDLCheck = "none"
	WSDLCheckOperation WSDLCheck = "operation"
)

func (WSDLCheck) values() []string { return []string{"none", "operation"} }
