package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"soapway/soapcodec"
)

// A Combo is a sender and a binder: one of the founding combinations.
type Combo struct {
	Code     string // such as "ff"
	Label    string
	Founding string // its founding name; "" for the yardstick
	sender   string // product, raw, framed or std
	binder   string // the listener of a gateway (web, plant) or the kind of a peer
}

// combos are the combinations, in the founding order.
var combos = []Combo{
	{"hh", "http client - http listener", "SoapSender-IberBinder", "product", "web"},
	{"hr", "http client - raw http listener", "SoapSender-SocketBinder", "product", "raw-http"},
	{"rh", "raw http client - http listener", "SocketSender-IberBinder", "raw", "web"},
	{"rr", "raw http client - raw http listener", "SocketSender-SocketBinder", "raw", "raw-http"},
	{"ff", "framed - framed", "FastSocketSender-FastSocketBinder", "framed", "plant"},
	{"nn", "net/http - net/http", "", "std", "std-http"},
}

// Combos returns the combinations of these codes, all without one, in the
// founding order.
func Combos(codes ...string) ([]Combo, error) {
	for _, code := range codes {
		if !slices.ContainsFunc(combos, func(c Combo) bool { return c.Code == code }) {
			return nil, fmt.Errorf("bench: there is no combination %.20q", code)
		}
	}
	var chosen []Combo
	for _, c := range combos {
		if len(codes) == 0 || slices.Contains(codes, c.Code) {
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

// EchoOptions describe two ends that exchange SOAP messages.
type EchoOptions struct {
	Lab *Lab
	// Product connects the product's own sender.
	Product DialCaller
	Combo   Combo
	// Version and Size are those of the message. Default SOAP 1.1, 225 octets.
	Version soapcodec.Version
	Size    int
	// Messages, when there are any, are sent in turn in place of a ping.
	Messages []*Message
	// Via puts a gateway between sender and binder.
	Via bool
	// Page fetches a web page in place of sending messages.
	Page bool
	// Remote, when set, is what answers, in place of processes of Lab; RemoteName
	// is how it is shown.
	Remote     *Target
	RemoteName string
	// Nagle provokes the stall that the bench must recognise.
	Nagle bool
	// Faults are what a raw or framed binder does wrong on purpose. With any, a
	// peer takes the place of the gateway's listener.
	Faults Faults
	// Conns is how many connections the listeners must take. Default 10000.
	Conns int
}

func (o EchoOptions) withDefaults() EchoOptions {
	if o.Version == 0 {
		o.Version = soapcodec.V11
	}
	if o.Size == 0 {
		o.Size = PingSize
	}
	if o.Conns == 0 {
		o.Conns = 10_000
	}
	return o
}

// ends are a sender and what it sends to.
type ends struct {
	opt     EchoOptions
	message *Message // its first
	dial    DialCaller
	target  Target
	check   CheckReply
	servers []*Child
	line    float64 // [Spec.Line]
}

// newEnds starts what is to answer. close is to be called also after an error.
func newEnds(ctx context.Context, opt EchoOptions) (*ends, error) {
	opt = opt.withDefaults()
	e := &ends{opt: opt, check: Echoed}
	if len(opt.Messages) == 0 {
		m, err := NewPing(opt.Version, opt.Size)
		if err != nil {
			return e, err
		}
		e.opt.Messages = []*Message{m}
	}
	e.message = e.opt.Messages[0]
	e.dial = map[string]DialCaller{"product": opt.Product, "raw": DialRaw, "framed": DialFramed, "std": DialStd}[opt.Combo.sender]
	if opt.Remote != nil {
		e.target = *opt.Remote
		e.check = unknownService()
		if !e.serverHere() {
			e.line = lineTo(ctx, e.target.Address)
		}
	} else if err := e.start(ctx); err != nil {
		return e, err
	}
	if opt.Page {
		e.target.Get, e.check = true, samePage()
		if opt.Remote == nil {
			e.target.Path = "/page"
		}
	}
	e.target.ContentType = e.message.contentType
	e.target.Nagle = opt.Nagle
	return e, nil
}

// lineTo is what the network card on the way to address carries of payload, in
// Mbit/s; 0 where nobody knows.
func lineTo(ctx context.Context, address string) float64 {
	c, err := dial(ctx, address)
	if err != nil {
		return 0 // the first caller says so
	}
	defer c.Close()
	_, line := connFacts(c)
	return line
}

// samePage wants the same page every time.
func samePage() CheckReply {
	var once sync.Once
	var first []byte
	return func(_, page []byte) error {
		once.Do(func() { first = bytes.Clone(page) })
		switch {
		case len(page) == 0:
			return errors.New("an empty page")
		case !bytes.Equal(first, page):
			return errors.New("the page is not the same as before")
		}
		return nil
	}
}

// start starts the binder, and a gateway in front of it if one is asked for.
func (e *ends) start(ctx context.Context) error {
	binder := e.opt.Combo.binder
	node := "builtin:echo"
	if e.opt.Faults != (Faults{}) {
		binder = map[string]string{"web": "raw-http", "plant": "framed"}[binder]
		if binder == "" {
			binder = e.opt.Combo.binder
		}
	}
	switch binder {
	case "web", "plant":
		if err := e.gateway(ctx, node, binder); err != nil {
			return err
		}
	default:
		peer, err := e.opt.Lab.Peer(ctx, binder, e.opt.Faults.args()...)
		if err != nil {
			return err
		}
		e.servers = append(e.servers, peer)
		e.target = Target{Address: peer.Ready.Address, Path: "/echo"}
	}
	if !e.opt.Via {
		return nil
	}
	node, front := "http://"+e.target.Address+"/echo", "web"
	if e.opt.Combo.sender == "framed" {
		node, front = "framed://"+e.target.Address, "plant"
	}
	return e.gateway(ctx, node, front)
}

// gateway starts one whose route /echo leads to node, and takes one of its
// listeners as the target.
func (e *ends) gateway(ctx context.Context, node, listener string) error {
	g, err := e.opt.Lab.Serve(ctx, echoConfig(node, e.opt.Conns))
	if err != nil {
		return err
	}
	e.servers = append(e.servers, g)
	e.target = Target{Address: g.Ready.Listener(listener), Path: "/echo"}
	return nil
}

// echoConfig is the configuration of a gateway that hands messages to node.
func echoConfig(node string, conns int) string {
	return fmt.Sprintf(`listeners:
  - {name: web, address: "127.0.0.1:0", max_connections: %d}
  - {name: plant, address: "127.0.0.1:0", protocol: framed, route: echo, max_connections: %d}
admin: {address: "127.0.0.1:0"}
log: {level: warn}
backends:
  echo: {nodes: [%q], max_connections: %d}
routes:
  - {name: echo, match: {path: /echo}, backend: echo}
  - {name: page, match: {path: /page}, methods: [GET], to: ["builtin:page"]}
`, conns, conns, node, conns)
}

// args are the flags of a peer for these faults.
func (f Faults) args() (args []string) {
	if f.Pause > 0 {
		args = append(args, "--pause", f.Pause.String())
	}
	if f.WrongEvery > 0 {
		args = append(args, "--wrong-every", fmt.Sprint(f.WrongEvery))
	}
	if f.Cap > 0 {
		args = append(args, "--cap", fmt.Sprint(f.Cap))
	}
	if f.Nagle {
		args = append(args, "--nagle")
	}
	return args
}

// clones returns the messages of one caller, whose counters begin at n.
func (e *ends) clones(n uint64) []*Message {
	messages := make([]*Message, len(e.opt.Messages))
	for i, m := range e.opt.Messages {
		messages[i] = m.Clone(n)
	}
	return messages
}

func (e *ends) pids() (pids []int) {
	for _, s := range e.servers {
		pids = append(pids, s.PID())
	}
	return pids
}

// label says who sends to whom, and the founding name of that.
func (e *ends) label() (label, founding string) {
	label, founding = e.opt.Combo.Label, e.opt.Combo.Founding
	sender, _, _ := strings.Cut(label, " - ")
	switch {
	case e.opt.Remote != nil:
		return sender + " - " + e.opt.RemoteName, ""
	case e.opt.Via:
		return strings.Replace(label, " - ", " - gateway - ", 1), ""
	}
	return label, founding
}

// serverHere is Spec.ServerHere.
func (e *ends) serverHere() bool {
	if e.opt.Remote == nil {
		return false
	}
	host, _, err := net.SplitHostPort(e.opt.Remote.Address)
	if err != nil || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// processes is Test.Processes.
func (e *ends) processes() string {
	if e.opt.Remote != nil {
		return ""
	}
	return "separate"
}

// close stops what was started, the front first.
func (e *ends) close() error {
	var errs []error
	for _, s := range slices.Backward(e.servers) {
		errs = append(errs, s.Stop())
	}
	e.servers = nil
	return errors.Join(errs...)
}
