package bench

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// netVersion is the version of the control protocol; both ends must have the same.
const netVersion = 1

const (
	// netStep is how long either end waits for the other's next step, and for
	// data to move on within a pass.
	netStep = 10 * time.Second
	// netBeat is the time between two signs of life.
	netBeat = time.Second
	// netLineLimit bounds a line of the control connection; the longest that is
	// honest, the results, takes less than a tenth of it.
	netLineLimit = 64 << 10
)

// Reasons for which a test over the network ends early. Errors wrap them.
var (
	// ErrNetBusy means that the server runs a test already.
	ErrNetBusy = errors.New("the server is busy with another test")
	// ErrNetDenied means that the server does not take the token.
	ErrNetDenied = errors.New("the server denies the test: it has another token")
	// ErrNetVersion means that the other end speaks another version of the
	// control protocol.
	ErrNetVersion = errors.New("the other end is another version of the bench")
	// ErrNetSilent means that the other end, or the data, stood still for 10 s.
	ErrNetSilent = errors.New("no sign of life from the other end for 10 s")
	// ErrNetPeer means that the other end said something that the protocol does
	// not have at this place.
	ErrNetPeer = errors.New("the other end does not keep to the protocol")
	// ErrNetCap means that a test wants more than the server lets it have.
	ErrNetCap = errors.New("the server's limit is reached")
)

// netLine is one line of the control connection: a step and what belongs to it.
//
//	server: greet   version, nonce
//	client: hello   version, nonce, proof
//	server: ok      proof, caps | busy | denied
//	client: params  params
//	server: ready   address, key
//	client: go      pass, buffers       then the pass, and from both: done
//	server: begin   pass                raw towards the client only
//	both:   done    pass, bytes, ns, cpu_us
//	client: results result              then from the server: results
//	both:   bye
//	both:   beat    moved               once a second, at any time
//	both:   error   reason              at any time, and the connection ends
type netLine struct {
	Step    string     `json:"step"`
	Version int        `json:"version,omitempty"`
	Nonce   string     `json:"nonce,omitempty"`
	Proof   string     `json:"proof,omitempty"`
	Caps    *netCaps   `json:"caps,omitempty"`
	Params  *netParams `json:"params,omitempty"`
	Address string     `json:"address,omitempty"` // HOST may be empty: the host of the control connection
	Key     string     `json:"key,omitempty"`
	Pass    int        `json:"pass,omitempty"`
	Buffers int64      `json:"buffers,omitempty"`
	Bytes   int64      `json:"bytes,omitempty"`
	NS      int64      `json:"ns,omitempty"`
	CPU     int64      `json:"cpu_us,omitempty"`
	Moved   int64      `json:"moved,omitempty"`
	Result  *NetResult `json:"result,omitempty"`
	Host    *NetHost   `json:"host,omitempty"`
	Reason  string     `json:"reason,omitempty"`

	at time.Time // when the line had been read
}

// netCaps is what a server lets a test have.
type netCaps struct {
	Bytes int64 `json:"bytes"` // of payload, over all passes
	MS    int64 `json:"ms"`    // from ok to bye
}

// netParams is what a client asks for.
type netParams struct {
	Protocol string `json:"protocol"`
	Mode     string `json:"mode"`
	Dir      string `json:"dir"`
	Size     int    `json:"size"`
	Window   int    `json:"window"`
}

// netControl is one end of a control connection. Lines are read by a goroutine
// of its own, so that a beat is seen while a pass is under way.
type netControl struct {
	conn  net.Conn
	lines chan netLine // closed when reading has ended, with err set
	err   error

	mu  sync.Mutex // held while a line is written
	enc *json.Encoder

	// moved is what this end tells in its beats, set once data flows, and
	// heard is told what the other end tells in its own.
	moved func() int64
	heard func(moved int64)

	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

// newNetControl starts to read lines from conn. The owner calls close.
func newNetControl(conn net.Conn) *netControl {
	c := &netControl{conn: conn, lines: make(chan netLine, 16), enc: json.NewEncoder(conn), stop: make(chan struct{})}
	c.wg.Go(c.read)
	return c
}

func (c *netControl) read() {
	defer close(c.lines)
	r := bufio.NewReaderSize(c.conn, netLineLimit)
	for {
		// A peer that is alive beats once a second.
		_ = c.conn.SetReadDeadline(time.Now().Add(netStep))
		line, err := r.ReadSlice('\n')
		var v netLine
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			c.err = fmt.Errorf("%w: a line of more than %d octets", ErrNetPeer, netLineLimit)
			return
		case isTimeout(err):
			c.err = ErrNetSilent
			return
		case err != nil:
			c.err = fmt.Errorf("the control connection has ended: %w", err)
			return
		}
		if err := json.Unmarshal(line, &v); err != nil || v.Step == "" {
			c.err = fmt.Errorf("%w: %.40q is no line of it", ErrNetPeer, line)
			return
		}
		v.at = time.Now()
		if v.Step == "beat" {
			c.mu.Lock()
			heard := c.heard
			c.mu.Unlock()
			if heard != nil {
				heard(v.Moved)
			}
			continue
		}
		select {
		case c.lines <- v:
		case <-c.stop:
			c.err = net.ErrClosed
			return
		}
	}
}

// beat gives signs of life until the connection is closed. moved is the number
// of octets that this end has moved so far, heard is told the other's.
func (c *netControl) beat(moved func() int64, heard func(int64)) {
	c.mu.Lock()
	c.moved, c.heard = moved, heard
	c.mu.Unlock()
	c.wg.Go(func() {
		tick := time.NewTicker(netBeat)
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-tick.C:
				if c.send(netLine{Step: "beat", Moved: moved()}) != nil {
					return // the reader finds out by itself
				}
			}
		}
	})
}

// send writes one line.
func (c *netControl) send(v netLine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(netStep))
	if err := c.enc.Encode(v); err != nil {
		if isTimeout(err) {
			return ErrNetSilent
		}
		return fmt.Errorf("the control connection has ended: %w", err)
	}
	return nil
}

// fail tells the other end why this one gives up. It is best effort: the error
// that matters is the one that is told.
func (c *netControl) fail(err error) { _ = c.send(netLine{Step: "error", Reason: netReason(err)}) }

// netReason is what of err may go to the other end: the reasons of the protocol,
// and nothing about this machine.
func netReason(err error) string {
	for _, known := range []error{ErrNetBusy, ErrNetDenied, ErrNetVersion, ErrNetSilent, ErrNetPeer, ErrNetCap} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return "the test failed there"
}

// next returns the line that must come now: one of steps. within bounds the
// wait; zero waits as long as the other end gives signs of life, for a pass
// whose progress is watched elsewhere.
func (c *netControl) next(ctx context.Context, within time.Duration, steps ...string) (netLine, error) {
	var late <-chan time.Time
	if within > 0 {
		t := time.NewTimer(within)
		defer t.Stop()
		late = t.C
	}
	select {
	case v, ok := <-c.lines:
		if !ok {
			return v, c.err
		}
		return v, checkStep(v, steps)
	case <-late:
		return netLine{}, ErrNetSilent
	case <-ctx.Done():
		return netLine{}, context.Cause(ctx)
	}
}

func checkStep(v netLine, steps []string) error {
	if slices.Contains(steps, v.Step) {
		return nil
	}
	if v.Step == "error" {
		return fmt.Errorf("the other end gave up: %.200s", printable(v.Reason))
	}
	return fmt.Errorf("%w: got %.20q, want %q", ErrNetPeer, v.Step, steps)
}

// close ends the connection and waits for its goroutines.
func (c *netControl) close() {
	c.once.Do(func() {
		close(c.stop)
		_ = c.conn.Close()
	})
	c.wg.Wait()
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// printable makes a peer's text harmless on a terminal.
func printable(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			out[i] = '?'
		}
	}
	return string(out)
}

// netNonce returns 16 octets from the system's randomness, in hexadecimal.
func netNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// netProof shows that whoever calls itself role has the token, without telling
// it: HMAC-SHA256 (RFC 2104) over the role and what both ends have drawn, so that
// neither an earlier proof nor the other end's can be used.
func netProof(token, role, serverNonce, clientNonce string) string {
	m := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(m, "soapway bench net %d\n%s\n%s\n%s\n", netVersion, role, serverNonce, clientNonce)
	return hex.EncodeToString(m.Sum(nil))
}

// proves reports whether proof is that of role.
func proves(proof, token, role, serverNonce, clientNonce string) bool {
	return hmac.Equal([]byte(proof), []byte(netProof(token, role, serverNonce, clientNonce)))
}
