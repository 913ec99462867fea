package faultlab

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// A way is one direction of a link, as seen from the site that has dialled.
type way int

const (
	there way = iota // requests
	back             // answers
)

// A linkProxy is a link with time and loss: it stands between two sites and passes on
// what it reads, each direction later, or not at all. To whoever sends into a black hole
// everything seems to arrive: his octets are taken and acknowledged.
type linkProxy struct {
	addr string
	ln   net.Listener
	to   string
	wg   sync.WaitGroup
	done context.Context
	end  context.CancelFunc

	mu    sync.Mutex
	late  [2]time.Duration
	conns map[net.Conn]*[2]bool // both ends of a connection: whether a direction is a hole
}

// newLinkProxy listens at an address and passes on to another.
func newLinkProxy(t testing.TB, at, to string) *linkProxy {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &linkProxy{addr: ln.Addr().String(), ln: ln, to: to, conns: map[net.Conn]*[2]bool{}}
	p.done, p.end = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.end()
		ln.Close()
		p.sever()
		p.wg.Wait()
	})
	return p
}

func (p *linkProxy) accept() {
	for {
		in, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.join(in) })
	}
}

func (p *linkProxy) join(in net.Conn) {
	defer in.Close()
	out, err := net.DialTimeout("tcp", p.to, 5*time.Second)
	if err != nil {
		return
	}
	defer out.Close()
	hole := new([2]bool)
	p.mu.Lock()
	p.conns[in], p.conns[out] = hole, hole
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { p.carry(back, hole, in, out) })
	p.carry(there, hole, out, in)
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, in)
	delete(p.conns, out)
	p.mu.Unlock()
}

// parcel is what was read at once, and when it is to be passed on.
type parcel struct {
	b   []byte
	due time.Time
}

// carry passes on one direction of a connection. What is on its way when the connection
// ends arrives before that does.
func (p *linkProxy) carry(w way, holes *[2]bool, to, from net.Conn) {
	under := make(chan parcel, 1024)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer to.Close()
		for x := range under {
			wait(p.done, time.Until(x.due))
			if _, err := to.Write(x.b); err != nil {
				from.Close()
			}
		}
	})
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		p.mu.Lock()
		late, hole := p.late[w], holes[w]
		p.mu.Unlock()
		if n > 0 && !hole {
			under <- parcel{b[:n], time.Now().Add(late)}
		}
		if err != nil {
			break
		}
	}
	close(under)
	wg.Wait()
}

// delay makes a direction take so long.
func (p *linkProxy) delay(w way, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late[w] = d
}

// swallow makes a direction of all connections that there are a black hole, for ever, and
// says how many they are. Later ones work.
func (p *linkProxy) swallow(w way) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, hole := range p.conns {
		hole[w] = true
	}
	return len(p.conns) / 2
}

// sever ends every connection without a word more.
func (p *linkProxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c.(*net.TCPConn))
	}
}
