package faultlab

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// trouble is what a chaos does to a connection.
type trouble string

const (
	calm       trouble = ""
	slowReply  trouble = "latency"    // the answer comes late
	cutRequest trouble = "cut"        // in the middle of the request
	cutBetween trouble = "between"    // the request arrives, the answer does not
	cutReply   trouble = "half"       // in the middle of the answer
	resetting  trouble = "reset"      // as soon as there is a connection
	swallowing trouble = "black hole" // everything goes in, nothing comes out
	slowReader trouble = "slow reader"
	halfOpen   trouble = "half open"   // the backend is gone and did not say so
	halfClosed trouble = "half closed" // one direction ends after an answer
)

// troubles are those that a storm draws from.
var troubles = []trouble{slowReply, cutRequest, cutBetween, cutReply, resetting, swallowing, slowReader, halfOpen, halfClosed}

// A chaos stands between a gateway and a backend, and passes on what it reads
// until it is told to make trouble: then about every third event goes wrong, so
// that some messages go through and the backend is not simply down.
type chaos struct {
	rec   *recorder
	route string
	addr  string
	ln    net.Listener
	to    string
	wg    sync.WaitGroup

	mu    sync.Mutex
	rnd   *rand.Rand
	does  trouble
	ctx   context.Context // of the present trouble: ends with it
	end   context.CancelFunc
	pairs map[*pair]bool
}

// pair is a connection of the gateway's and the one to the backend behind it.
type pair struct {
	c           *chaos
	front, back *net.TCPConn
	silent      atomic.Bool // the gateway is not to notice that the backend's side is gone
}

// newChaos puts itself before b, which is told of it.
func newChaos(t testing.TB, b *backend, seed uint64) *chaos {
	t.Helper()
	addr := closedPort(t)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{rec: b.rec, route: b.route, addr: addr, ln: ln, to: b.addr, rnd: rand.New(rand.NewPCG(seed, 3)), pairs: map[*pair]bool{}}
	c.ctx, c.end = context.WithCancel(context.Background())
	b.chaos = c
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		c.make(calm)
		ln.Close()
		c.sever()
		c.wg.Wait()
	})
	return c
}

// make starts a trouble and ends the one before. What that has left hanging is
// reset.
func (c *chaos) make(x trouble) {
	c.rec.breach(c.route, "network of "+c.route+": "+string(x))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.does = x
	c.ctx, c.end = context.WithCancel(context.Background())
}

// sever ends every connection, as those of a killed process end.
func (c *chaos) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.pairs {
		p.reset()
	}
}

// abandoned reports whether the gateway has given up the connection behind which
// the backend's peer has this address.
func (c *chaos) abandoned(peer net.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.pairs {
		if p.back.LocalAddr().String() == peer.String() {
			return hungUp(p.front)
		}
	}
	return true // it is gone
}

// event draws whether one of these troubles happens now, and tells of it.
func (c *chaos) event(of ...trouble) (trouble, context.Context) {
	c.mu.Lock()
	x, ctx := c.does, c.ctx
	happens := slices.Contains(of, x) && c.rnd.IntN(3) == 0
	c.mu.Unlock() // the recorder asks with its lock held
	if !happens {
		return calm, ctx
	}
	c.rec.breach(c.route, "network of "+c.route+": "+string(x))
	return x, ctx
}

func (c *chaos) accept() {
	for {
		conn, err := c.ln.Accept()
		if err != nil {
			return
		}
		front := conn.(*net.TCPConn)
		if x, _ := c.event(resetting); x == resetting {
			reset(front)
			continue
		}
		c.wg.Go(func() { c.join(front) })
	}
}

// join passes on what comes by one connection. One that the backend does not take
// is closed at once, as a port is that nobody listens on.
func (c *chaos) join(front *net.TCPConn) {
	conn, err := net.DialTimeout("tcp", c.to, time.Second)
	if err != nil {
		reset(front)
		return
	}
	p := &pair{c: c, front: front, back: conn.(*net.TCPConn)}
	c.mu.Lock()
	c.pairs[p] = true
	c.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(p.replies)
	p.requests()
	wg.Wait()
	front.Close()
	conn.Close()
	c.mu.Lock()
	delete(c.pairs, p)
	c.mu.Unlock()
}

func (p *pair) reset() {
	reset(p.front)
	reset(p.back)
}

// requests passes on what the gateway sends.
func (p *pair) requests() {
	b := make([]byte, 32<<10)
	for {
		n, err := p.front.Read(b)
		if n > 0 {
			switch x, ctx := p.c.event(cutRequest, swallowing, slowReader); x {
			case cutRequest:
				_, _ = p.back.Write(b[:n/2])
				p.reset()
				return
			case swallowing:
				p.hole(ctx)
				return
			case slowReader:
				if !p.trickle(ctx, b[:n]) {
					return
				}
			default:
				if _, e := p.back.Write(b[:n]); e != nil {
					if p.silent.Load() {
						continue // it is swallowed
					}
					p.reset()
					return
				}
			}
		}
		if err != nil {
			_ = p.back.CloseWrite()
			if err != io.EOF {
				p.reset()
			}
			return
		}
	}
}

// hole takes what comes until the trouble is over, and gives nothing on: the
// backend is cut off at once.
func (p *pair) hole(ctx context.Context) {
	p.silent.Store(true)
	reset(p.back)
	defer context.AfterFunc(ctx, p.reset)()
	_, _ = io.Copy(io.Discard, p.front)
	p.reset()
}

// trickle passes octets on slowly, and not at all once nobody waits for them.
func (p *pair) trickle(ctx context.Context, b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), 2<<10)
		wait(ctx, 10*time.Millisecond)
		if hungUp(p.front) {
			p.reset()
			return false
		}
		if _, err := p.back.Write(b[:n]); err != nil {
			p.reset()
			return false
		}
		b = b[n:]
	}
	return true
}

// replies passes on what the backend answers.
func (p *pair) replies() {
	b := make([]byte, 32<<10)
	for {
		n, err := p.back.Read(b)
		if n > 0 && !p.reply(b[:n]) {
			return
		}
		if err == io.EOF {
			_ = p.front.CloseWrite()
			return
		}
		if err != nil {
			if !p.silent.Load() {
				p.reset()
			}
			return
		}
	}
}

// reply passes on a part of an answer and reports whether the next may follow.
func (p *pair) reply(b []byte) bool {
	x, ctx := p.c.event(slowReply, cutBetween, cutReply, halfOpen, halfClosed)
	switch x {
	case cutBetween:
		p.reset()
		return false
	case cutReply:
		_, _ = p.front.Write(b[:len(b)/2])
		p.reset()
		return false
	case halfOpen: // until the trouble is over; what the gateway sends goes nowhere
		p.silent.Store(true)
		reset(p.back)
		<-ctx.Done()
		p.reset()
		return false
	case slowReply:
		wait(ctx, 250*time.Millisecond)
	}
	if _, err := p.front.Write(b); err != nil {
		p.reset()
		return false
	}
	if x == halfClosed {
		_ = p.front.CloseWrite()
		return false
	}
	return true
}
