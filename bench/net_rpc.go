package bench

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// netSubject is where the requests of an rpc test go.
const netSubject = "bench.buffer"

// rpcClient is the client's end of rpc: a NATS request for each buffer.
type rpcClient struct {
	p     netParams
	moved *netMoved
	nc    *nats.Conn
	buf   []byte
}

func dialNetRPC(p netParams, address, key string, moved *netMoved) (netEnd, error) {
	nc, err := nats.Connect("nats://"+address, nats.Token(key), nats.NoReconnect(), nats.Timeout(netStep), nats.Name("bench"))
	if err != nil {
		return nil, err
	}
	return &rpcClient{p: p, moved: moved, nc: nc, buf: netPattern(p.requestSize())}, nil
}

// pass has as many requests under way as the window says.
func (c *rpcClient) pass(n int64) error {
	errs := make([]error, c.p.Window)
	var wg sync.WaitGroup
	for k := range errs {
		share := n / int64(len(errs))
		if int64(k) < n%int64(len(errs)) {
			share++
		}
		wg.Go(func() { errs[k] = c.requests(share) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *rpcClient) requests(n int64) error {
	for range n {
		m, err := c.nc.Request(netSubject, c.buf, netStep)
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if len(m.Data) != c.p.replySize() {
			return fmt.Errorf("%w: %d octets, want %d", errNetAnswer, len(m.Data), c.p.replySize())
		}
		c.moved.out.Add(int64(len(c.buf)))
		c.moved.in.Add(int64(len(m.Data)))
	}
	return nil
}

func (c *rpcClient) cut() { c.nc.Close() }

// rpcServer is the server's end: a NATS server of its own, which only who has
// the key may use, and one who answers.
type rpcServer struct {
	p     netParams
	moved *netMoved
	srv   *natsserver.Server
	nc    *nats.Conn
	buf   []byte

	mu      sync.Mutex
	handled int64 // requests so far
	want    int64 // requests when the pass under way is over
	wrong   error
	over    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

func listenNetRPC(p netParams, address, key string, moved *netMoved) (_ netEnd, _ string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, "", err
	}
	if number == 0 {
		number = natsserver.RANDOM_PORT
	}
	srv, err := natsserver.NewServer(&natsserver.Options{
		ServerName: "bench", Host: host, Port: number, Authorization: key, NoLog: true, NoSigs: true,
		MaxPayload: netMaxSize, MaxConn: netHandshakes, AuthTimeout: netStep.Seconds(), DisableShortFirstPing: true,
	})
	if err != nil {
		return nil, "", err
	}
	s := &rpcServer{p: p, moved: moved, srv: srv, buf: netPattern(p.replySize()), over: make(chan struct{}, 1), stopped: make(chan struct{})}
	defer func() {
		if err != nil {
			s.cut()
		}
	}()
	srv.Start()
	if !srv.ReadyForConnections(netStep) {
		return nil, "", errors.New("the NATS server does not start")
	}
	if s.nc, err = nats.Connect("", nats.InProcessServer(srv), nats.Token(key), nats.NoReconnect()); err != nil {
		return nil, "", err
	}
	if _, err = s.nc.Subscribe(netSubject, s.answer); err != nil {
		return nil, "", err
	}
	return s, srv.Addr().String(), s.nc.Flush()
}

// answer is called by one goroutine.
func (s *rpcServer) answer(m *nats.Msg) {
	var wrong error
	if len(m.Data) != s.p.requestSize() {
		wrong = fmt.Errorf("%w: %d octets, want %d", errNetAnswer, len(m.Data), s.p.requestSize())
	}
	s.moved.in.Add(int64(len(m.Data)))
	s.moved.out.Add(int64(len(s.buf)))
	wrong = errors.Join(wrong, m.Respond(s.buf))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled++
	if s.wrong == nil {
		s.wrong = wrong
	}
	if s.handled == s.want {
		s.over <- struct{}{}
	}
}

// pass returns once n more requests have been answered.
func (s *rpcServer) pass(n int64) error {
	s.mu.Lock()
	s.want += n
	there := s.handled >= s.want
	s.mu.Unlock()
	if !there {
		select {
		case <-s.over:
		case <-s.stopped:
			return nats.ErrConnectionClosed
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong
}

func (s *rpcServer) cut() {
	s.once.Do(func() {
		close(s.stopped)
		if s.nc != nil {
			s.nc.Close()
		}
		s.srv.Shutdown()
		done := make(chan struct{})
		go func() { s.srv.WaitForShutdown(); close(done) }()
		select {
		case <-done:
		case <-time.After(netStep):
		}
	})
}
