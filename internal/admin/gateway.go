package admin

import (
	"time"

	"soapway/internal/telemetry"
)

// A Gateway is what the API shows and does beside the stored messages.
type Gateway interface {
	// Routes are those of the configuration, in its order.
	Routes() []Route
	// Backends are those that routes lead to, by name.
	Backends() []Backend
	// Links are those to other sites, by name.
	Links() []Link
	// Configuration is the one in use and what has become of the last reload.
	Configuration() Configuration
	// Reload reads the configuration again and puts it in place, all of it or
	// nothing. Its error is *BadConfiguration where the file is to blame.
	Reload() error
	// History has the last hour.
	History() *telemetry.History
}

// Route is a route of the configuration.
type Route struct {
	Name     string            `json:"name"`
	Match    map[string]string `json:"match,omitempty"`  // conditions by key; none takes everything
	Direct   bool              `json:"direct,omitempty"` // match: none, reached by a listener alone
	Backend  string            `json:"backend"`
	Delivery string            `json:"delivery"`
	// Assurance, OrderBy, Dedup and Reply are those of routes that store, as the file has them.
	Assurance string `json:"assurance,omitempty"`
	OrderBy   string `json:"order_by,omitempty"`
	OnDead    string `json:"on_dead,omitempty"`
	Dedup     string `json:"dedup,omitempty"`
	Reply     string `json:"reply,omitempty"`
	Hour      Hour   `json:"hour"`
}

// Hour is what the last hour was like. Times are in milliseconds.
type Hour struct {
	telemetry.Counts
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// HourOf makes what the API shows of a sum.
func HourOf(p telemetry.Point) Hour {
	return Hour{p.Counts, milliseconds(p.P50), milliseconds(p.P99)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// Backend is a backend and its state. What it does not know it leaves out.
type Backend struct {
	Name      string    `json:"name"`
	State     string    `json:"state"` // up, degraded, down, held, denied
	Reason    string    `json:"reason,omitempty"`
	NextProbe time.Time `json:"next_probe,omitzero"`
	Routes    []string  `json:"routes"`
	Nodes     []Node    `json:"nodes"`
}

// The states of a backend.
const (
	BackendUp       = "up"
	BackendDegraded = "degraded" // some nodes get no messages
	BackendDown     = "down"     // none does, or stored messages have shown it to be down
	BackendHeld     = "held"     // an operator holds it
	BackendDenied   = "denied"   // it refuses the gateway's own credentials
)

// Node is a node of a backend and whether it gets messages.
type Node struct {
	Name   string    `json:"name"`
	Up     bool      `json:"up"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"` // when it is tried again
}

// Link is a link to another site and its state. What it does not know it leaves out.
type Link struct {
	Name string `json:"name"` // of the other site
	// Peer is its address as the configuration has it; none where it comes to us.
	Peer   string `json:"peer,omitempty"`
	Mode   string `json:"mode"`  // push, push-and-pull, accept
	State  string `json:"state"` // up, down, idle
	Reason string `json:"reason,omitempty"`
	// Since is when the state began, Seen when an exchange has worked last.
	Since  time.Time `json:"since,omitzero"`
	Seen   time.Time `json:"seen,omitzero"`
	RTT    float64   `json:"rtt_ms,omitempty"`
	Routes []string  `json:"routes"` // of this gateway that lead over it
	// LagMessages wait for it, the oldest of them for LagSeconds.
	LagMessages int     `json:"lag_messages"`
	LagSeconds  float64 `json:"lag_seconds"`
	InFlight    int     `json:"in_flight"`
	Rate        float64 `json:"rate"` // messages a second that the other site has stored, over ten seconds
	// Sent, Refused and Received are messages since the start of the gateway.
	Sent     uint64 `json:"sent"`
	Refused  uint64 `json:"refused"`
	Received uint64 `json:"received"`
	// Certificate is until when that of the connecting side lasts: ours, or, with
	// accept, the one that our authority has given to the other site.
	Certificate time.Time `json:"certificate,omitzero"`
}

// How messages go over a link.
const (
	LinkPush        = "push"          // we connect, and send
	LinkPushAndPull = "push-and-pull" // we connect, send, and fetch what waits for us there
	LinkAccept      = "accept"        // the other site connects: it sends, and fetches what waits for it
)

// The states of a link.
const (
	LinkUp   = "up"   // the last exchange has worked, or the other site comes
	LinkDown = "down" // it has not, or the other site does not fetch what waits
	LinkIdle = "idle" // there was no exchange lately, and nothing waits for one
)

// Configuration is the configuration in use.
type Configuration struct {
	Path   string    `json:"path"`
	Loaded time.Time `json:"loaded"`
	Digest string    `json:"digest"` // SHA-256 of Text
	Text   string    `json:"text"`   // YAML, secrets hidden
	Reload *Reload   `json:"reload,omitempty"`
}

// Reload is what has become of the last reload.
type Reload struct {
	Time     time.Time `json:"time"`
	OK       bool      `json:"ok"`
	Problems []string  `json:"problems,omitempty"` // why not
}

// BadConfiguration is why a configuration was not taken, a problem each.
type BadConfiguration struct{ Problems []string }

// Error says how many problems there are, or the only one.
func (e *BadConfiguration) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0]
	}
	return "the configuration has problems and was not taken"
}

// noGateway is that of a store whose gateway is stopped.
type noGateway struct{}

var _ Gateway = noGateway{}

func (noGateway) Routes() []Route              { return nil }
func (noGateway) Backends() []Backend          { return nil }
func (noGateway) Links() []Link                { return nil }
func (noGateway) Configuration() Configuration { return Configuration{} }
func (noGateway) Reload() error                { return ErrStopped }
func (noGateway) History() *telemetry.History  { return telemetry.NewHistory() }
