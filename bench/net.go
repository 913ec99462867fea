package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a test over the network may be asked for.
const (
	NetRaw    = "raw"    // buffers streamed over TCP, one octet back after the last
	NetHTTP   = "http"   // one POST for each buffer on one kept connection
	NetRPC    = "rpc"    // one NATS request for each buffer; the founding text calls it rmi
	NetSOAP   = "soap"   // one POST of a SOAP 1.1 envelope for each buffer, checked by its receiver
	NetFramed = "framed" // one length-prefixed envelope for each buffer, checked by its receiver

	NetOneWay    = "oneway"    // the answer is empty
	NetRoundTrip = "roundtrip" // the answer is as long as the buffer

	NetUp   = "up"   // from client to server
	NetDown = "down" // from server to client
)

// NetPort is the port of the control connection where none is given.
const NetPort = 8001

const (
	netFirstBuffers = 100                    // of a test that finds their number by itself
	netLongEnough   = 100 * time.Millisecond // a pass that lasts so long can be measured
	netMaxSize      = 8 << 20                // of a buffer
	netMaxWindow    = 1024
)

// NetOptions is a test over the network as its client asks for it. The zero
// value, but for Server, streams buffers of 1500 octets.
type NetOptions struct {
	Server   string // HOST:PORT of the control connection
	Token    string // that of the server; may be empty
	Protocol string // NetRaw and so on; default raw
	Mode     string // NetOneWay or NetRoundTrip; default oneway
	Dir      string // NetUp or NetDown; default up
	Size     int    // octets of a buffer; default 1500
	Buffers  int64  // in a pass; 0 finds a number that takes long enough
	Passes   int    // default 10
	Window   int    // of rpc and framed: buffers under way at once; default 1

	// Mark is told of each pass as it ends: '+' for one that was too short, so
	// that the next has ten times the buffers, '.' for one that counts. It may
	// be nil.
	Mark func(byte)
	// Host says who this end is; its measurements are filled in.
	Host NetHost
}

func (o NetOptions) withDefaults() NetOptions {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Protocol, NetRaw)
	set(&o.Mode, NetOneWay)
	set(&o.Dir, NetUp)
	if o.Protocol == "rmi" {
		o.Protocol = NetRPC
	}
	if o.Size == 0 {
		o.Size = 1500
	}
	if o.Passes == 0 {
		o.Passes = 10
	}
	if o.Window == 0 {
		o.Window = 1
	}
	return o
}

func (o NetOptions) params() netParams {
	return netParams{Protocol: o.Protocol, Mode: o.Mode, Dir: o.Dir, Size: o.Size, Window: o.Window}
}

// Validate reports every option that makes no sense.
func (o NetOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Buffers < 0 || o.Buffers > 1e9 {
		errs = append(errs, fmt.Errorf("buffers: got %d, want 1 to 1000000000, or auto", o.Buffers))
	}
	if o.Passes < 1 || o.Passes > 1000 {
		errs = append(errs, fmt.Errorf("passes: got %d, want 1 to 1000", o.Passes))
	}
	return errors.Join(append(errs, o.params().validate()...)...)
}

// validate is also what a server does with what a client asks for.
func (p netParams) validate() (errs []error) {
	oneOf := func(what, got string, want ...string) {
		if !slices.Contains(want, got) {
			errs = append(errs, fmt.Errorf("%s: got %.20q, want %s", what, printable(got), strings.Join(want, " or ")))
		}
	}
	oneOf("protocol", p.Protocol, NetHTTP, NetRPC, NetRaw, NetSOAP, NetFramed)
	oneOf("mode", p.Mode, NetOneWay, NetRoundTrip)
	oneOf("dir", p.Dir, NetUp, NetDown)
	least := 1
	if p.Protocol == NetSOAP || p.Protocol == NetFramed {
		least = netEnvelopeLeast // an envelope with its number
	}
	if p.Size < least || p.Size > netMaxSize {
		errs = append(errs, fmt.Errorf("size: got %d, want %d to %d for %s", p.Size, least, netMaxSize, p.Protocol))
	}
	if p.Window < 1 || p.Window > netMaxWindow {
		errs = append(errs, fmt.Errorf("window: got %d, want 1 to %d", p.Window, netMaxWindow))
	} else if p.Window > 1 && p.Protocol != NetRPC && p.Protocol != NetFramed {
		errs = append(errs, fmt.Errorf("window: %s has one buffer under way at a time, want rpc or framed for more", p.Protocol))
	}
	if p.Mode == NetRoundTrip && p.Dir == NetDown {
		errs = append(errs, errors.New("dir: a roundtrip goes both ways, want up"))
	}
	return errs
}

// clientReceives tells whose clock and count give the rate: those of the end
// that receives the payload; of a roundtrip, the end that sees it come back.
func (p netParams) clientReceives() bool { return p.Dir == NetDown || p.Mode == NetRoundTrip }

// requestSize and replySize are the payload of one exchange. That of the
// direction that is not measured is empty, or the shortest that the protocol has.
func (p netParams) requestSize() int {
	if p.Dir == NetDown {
		return 0
	}
	return p.Size
}

func (p netParams) replySize() int {
	if p.Dir == NetDown || p.Mode == NetRoundTrip {
		return p.Size
	}
	return 0
}

// NetHost is one end of a test.
type NetHost struct {
	Name    string `json:"name"`    // of the machine
	Gateway string `json:"gateway"` // version
	System  string `json:"system"`  // linux/amd64
	Cores   int    `json:"cores"`
	// CPU is the processor time in seconds that the process took in the passes
	// that count, user and system together.
	CPU float64 `json:"cpu_s"`
}

// NetPass is one pass.
type NetPass struct {
	Buffers   int64   `json:"buffers"`
	Bytes     int64   `json:"bytes"`   // of payload, as the receiving end has counted
	Seconds   float64 `json:"seconds"` // by the clock of the receiving end
	Mbit      float64 `json:"mbit_per_s"`
	ClientCPU float64 `json:"client_cpu_s"`
	ServerCPU float64 `json:"server_cpu_s"`
}

// NetResult is what a test over the network has found. Both ends have the same.
type NetResult struct {
	Protocol string `json:"protocol"`
	Mode     string `json:"mode"`
	Dir      string `json:"dir"`
	Size     int    `json:"size"`
	Window   int    `json:"window"`
	Buffers  int64  `json:"buffers"` // of each pass that counts

	// Passes are those that count, Cold is the very first of all. It counts only
	// where there was no other.
	Passes []NetPass `json:"passes"`
	Cold   NetPass   `json:"cold"`

	// Avg, Min and Max are payload in Mbit/s, 10^6 bit, over the passes.
	Avg float64 `json:"avg_mbit_per_s"`
	Min float64 `json:"min_mbit_per_s"`
	Max float64 `json:"max_mbit_per_s"`

	// Exchange is the mean time of one exchange in µs; 0 for a raw stream.
	Exchange float64 `json:"exchange_us,omitempty"`
	// RTT is what the system of the client says of the control connection, in
	// µs, and Line what its network card could carry of payload, in Mbit/s.
	// 0: not known, or the loopback.
	RTT  float64 `json:"rtt_us,omitempty"`
	Line float64 `json:"line_mbit_per_s,omitempty"`

	Client  NetHost `json:"client"`
	Server  NetHost `json:"server"`
	Seconds float64 `json:"seconds"` // from the first pass to the end of the last
}

// netGoodput is what is left of an Ethernet line for the payload of TCP: 1448 of
// each 1538 octets (MTU 1500, timestamps, preamble and gap).
const netGoodput = 0.9415

// summarise fills in what follows from the passes.
func (r *NetResult) summarise() {
	r.Min, r.Max = r.Passes[0].Mbit, r.Passes[0].Mbit
	var sum, seconds float64
	var buffers int64
	r.Client.CPU, r.Server.CPU = 0, 0
	for _, p := range r.Passes {
		sum += p.Mbit
		r.Min, r.Max = min(r.Min, p.Mbit), max(r.Max, p.Mbit)
		seconds += p.Seconds
		buffers += p.Buffers
		r.Client.CPU += p.ClientCPU
		r.Server.CPU += p.ServerCPU
	}
	r.Avg = sum / float64(len(r.Passes))
	if r.Protocol != NetRaw || r.Mode == NetRoundTrip {
		r.Exchange = seconds * 1e6 / float64(buffers) * float64(r.Window)
	}
}

// String is the line of the founding text, with what it lacked behind it.
func (r *NetResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "size=%d bytes buffers=%d avg=%.1f Mbit/sec min=%.1f Mbit/sec max=%.1f Mbit/sec cold=%.1f",
		r.Size, r.Buffers, r.Avg, r.Min, r.Max, r.Cold.Mbit)
	if r.Line > 0 {
		fmt.Fprintf(&b, "  (%.1f %% of %.0f)", 100*r.Avg/r.Line, r.Line)
	}
	return b.String()
}

// Share is how much of one core an end took in the passes that count.
func (r *NetResult) Share(h NetHost) float64 {
	var seconds float64
	for _, p := range r.Passes {
		seconds += p.Seconds
	}
	if seconds == 0 {
		return 0
	}
	return h.CPU / seconds
}
