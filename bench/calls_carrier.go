package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"slices"
	"strings"
	"sync"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"soapway/internal/frame"
)

// A CallService is what the calls rows call: parts of the product, which the
// command hands over. Its functions may be called by any number of goroutines.
type CallService struct {
	// Lookup returns the name of the route that a message takes in a table of a
	// thousand, "" for none.
	Lookup func(host, path, action string) string
	// Local hands a message to the handler, with its route known. The reply
	// belongs to the caller.
	Local func(message []byte) ([]byte, error)
	// Remote is Local for a message that comes from elsewhere, whose route is to
	// be found first.
	Remote func(message []byte) ([]byte, error)
}

// The ways in which a remote call is carried.
const (
	CallFramed = "framed"
	CallHTTP   = "http"
	CallNATS   = "nats"
	CallNetRPC = "netrpc" // of Go's library: a yardstick
)

// CallTransports are all of them.
func CallTransports() []string { return []string{CallFramed, CallHTTP, CallNATS, CallNetRPC} }

// Subjects, paths and methods of the two things that can be asked of a service
// elsewhere.
const (
	askLookup = "lookup" // host, path and action, each with a line break behind it
	askCall   = "call"   // an envelope
)

// callLimit bounds a message between the two sides.
const callLimit = 1 << 20

// A callCarrier brings one request at a time to a service and its answer back.
type callCarrier interface {
	ask(what string, request []byte) ([]byte, error)
	close()
}

// answer is what the service says to a request.
func (s *CallService) answer(what string, request []byte) ([]byte, error) {
	if what == askCall {
		return s.Remote(request)
	}
	parts := strings.Split(string(request), "\n")
	if what != askLookup || len(parts) != 4 {
		return nil, fmt.Errorf("%w: %.20q", errNetAnswer, what)
	}
	return []byte(s.Lookup(parts[0], parts[1], parts[2])), nil
}

// ServeCalls answers over a transport until ctx ends. ready is told the address
// at which it does.
func ServeCalls(ctx context.Context, transport string, s *CallService, ready func(address string) error) error {
	if !slices.Contains(CallTransports(), transport) {
		return fmt.Errorf("bench: no transport %.20q, want one of %s", transport, strings.Join(CallTransports(), ", "))
	}
	if transport == CallNATS {
		srv, done, err := startCallNATS(s, false)
		if err != nil {
			return err
		}
		defer done()
		if err := ready(srv.Addr().String()); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := ready(ln.Addr().String()); err != nil {
		_ = ln.Close()
		return err
	}
	conns := &connSet{conns: map[net.Conn]bool{}}
	context.AfterFunc(ctx, func() { _ = ln.Close(); conns.close() })
	for {
		c, err := ln.Accept()
		if err != nil {
			conns.wg.Wait()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		conns.serve(c, func() { serveCallConn(c, transport, s) })
	}
}

// serveCallConn answers what comes over one connection until it ends.
func serveCallConn(c net.Conn, transport string, s *CallService) {
	switch transport {
	case CallNetRPC:
		r := rpc.NewServer()
		_ = r.RegisterName("Service", &rpcService{s}) // its methods are fit for it
		r.ServeConn(c)
	case CallHTTP:
		serveHTTPCalls(c, s)
	default:
		serveFramedCalls(c, s)
	}
}

// dialCalls connects to a service in another process.
func dialCalls(ctx context.Context, transport, address string) (callCarrier, error) {
	if transport == CallNATS {
		nc, err := nats.Connect("nats://"+address, nats.NoReconnect())
		if err != nil {
			return nil, err
		}
		return &natsCarrier{nc: nc}, nil
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return carrierOver(transport, c), nil
}

// memoryCalls makes a way to a service of this process that goes through memory
// but else as it would to another one.
func memoryCalls(transport string, s *CallService) (callCarrier, error) {
	if transport == CallNATS {
		srv, done, err := startCallNATS(s, true)
		if err != nil {
			return nil, err
		}
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.NoReconnect())
		if err != nil {
			done()
			return nil, err
		}
		return &natsCarrier{nc: nc, done: done}, nil
	}
	near, far := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { serveCallConn(far, transport, s); _ = far.Close() })
	return &pipedCarrier{callCarrier: carrierOver(transport, near), wg: &wg}, nil
}

type pipedCarrier struct {
	callCarrier
	wg *sync.WaitGroup
}

func (p *pipedCarrier) close() { p.callCarrier.close(); p.wg.Wait() }

func carrierOver(transport string, c net.Conn) callCarrier {
	switch transport {
	case CallNetRPC:
		return &netRPCCarrier{rpc.NewClient(c)}
	case CallHTTP:
		return &httpCarrier{conn: c, r: bufio.NewReader(c), w: bufio.NewWriter(c)}
	}
	return &framedCarrier{conn: c, r: bufio.NewReader(c)}
}

// framedCarrier sends a frame for a request, whose first octet says what is
// asked, and gets a frame.
type framedCarrier struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
	in   []byte
}

func (f *framedCarrier) ask(what string, request []byte) ([]byte, error) {
	out, err := frame.AppendLength(f.out[:0], netFrameWidth, int64(1+len(request)))
	if err != nil {
		return nil, err
	}
	f.out = append(append(out, what[0]), request...)
	if _, err := f.conn.Write(f.out); err != nil {
		return nil, err
	}
	f.in, err = readFrame(f.r, f.in, callLimit)
	return f.in, err
}

func (f *framedCarrier) close() { _ = f.conn.Close() }

func serveFramedCalls(c net.Conn, s *CallService) {
	r := bufio.NewReader(c)
	var in, out []byte
	for {
		var err error
		if in, err = readFrame(r, in, callLimit); err != nil || len(in) == 0 {
			return
		}
		what := askCall
		if in[0] == askLookup[0] {
			what = askLookup
		}
		reply, err := s.answer(what, in[1:])
		if err != nil {
			return
		}
		if out, err = frame.Append(out[:0], netFrameWidth, reply); err != nil {
			return
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// httpCarrier posts a request to /lookup or /call.
type httpCarrier struct {
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
	in   []byte
}

func (h *httpCarrier) ask(what string, request []byte) ([]byte, error) {
	f := httpFraming{soap: true, path: what}
	if err := f.request(h.w, "", request); err != nil {
		return nil, err
	}
	if err := h.w.Flush(); err != nil {
		return nil, err
	}
	var err error
	h.in, err = f.takeReply(h.r, h.in, callLimit)
	return h.in, err
}

func (h *httpCarrier) close() { _ = h.conn.Close() }

func serveHTTPCalls(c net.Conn, s *CallService) {
	r, w := bufio.NewReader(c), bufio.NewWriter(c)
	f := httpFraming{soap: true}
	var in []byte
	for {
		first, length, err := readHTTPHead(r)
		if err != nil || length > callLimit {
			return
		}
		if in, err = readInto(r, in, length); err != nil {
			return
		}
		what := askCall
		if bytes.HasPrefix(first, []byte("POST /"+askLookup+" ")) {
			what = askLookup
		}
		reply, err := s.answer(what, in)
		if err != nil || f.reply(w, reply) != nil || w.Flush() != nil {
			return
		}
	}
}

// natsCarrier makes a NATS request.
type natsCarrier struct {
	nc   *nats.Conn
	done func() // stops the server; nil if it is elsewhere
}

func (n *natsCarrier) ask(what string, request []byte) ([]byte, error) {
	m, err := n.nc.Request("bench."+what, request, netStep)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

func (n *natsCarrier) close() {
	n.nc.Close()
	if n.done != nil {
		n.done()
	}
}

// startCallNATS starts a server and a service behind it.
func startCallNATS(s *CallService, memory bool) (srv *natsserver.Server, done func(), err error) {
	srv, err = natsserver.NewServer(&natsserver.Options{
		ServerName: "bench", Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, DontListen: memory, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, nil, err
	}
	srv.Start()
	var nc *nats.Conn
	done = func() {
		if nc != nil {
			nc.Close()
		}
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	if !srv.ReadyForConnections(netStep) {
		done()
		return nil, nil, errors.New("the NATS server does not start")
	}
	if nc, err = nats.Connect("", nats.InProcessServer(srv), nats.NoReconnect()); err != nil {
		done()
		return nil, nil, err
	}
	_, err = nc.Subscribe("bench.*", func(m *nats.Msg) {
		if reply, err := s.answer(strings.TrimPrefix(m.Subject, "bench."), m.Data); err == nil {
			_ = m.Respond(reply) // who asks notices that nothing comes
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return srv, done, nil
}

// netRPCCarrier calls by net/rpc.
type netRPCCarrier struct{ client *rpc.Client }

func (n *netRPCCarrier) ask(what string, request []byte) ([]byte, error) {
	var reply []byte
	err := n.client.Call(map[string]string{askLookup: "Service.Lookup", askCall: "Service.Call"}[what], request, &reply)
	return reply, err
}

func (n *netRPCCarrier) close() { _ = n.client.Close() }

// rpcService has the shape that net/rpc asks for.
type rpcService struct{ s *CallService }

// Lookup answers a look-up.
func (r *rpcService) Lookup(request []byte, reply *[]byte) (err error) {
	*reply, err = r.s.answer(askLookup, request)
	return err
}

// Call answers a call.
func (r *rpcService) Call(request []byte, reply *[]byte) (err error) {
	*reply, err = r.s.answer(askCall, request)
	return err
}
