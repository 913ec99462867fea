package proxy

import (
	"encoding/hex"
	"strings"
	"time"

	"soapway/internal/field"
)

// Trace is the place of an exchange or a try in a trace. The zero value is that of
// one that is not traced.
type Trace struct {
	ID     [16]byte // of the trace
	Span   [8]byte  // of the exchange or try itself
	Parent [8]byte  // of what it is part of; zero for the first of its trace
	State  string   // the caller's tracestate
}

// Tracer decides which exchanges are traced. Its methods are called from many
// goroutines.
type Tracer interface {
	// Begin returns the place of an exchange whose caller has sent these fields
	// (W3C Trace Context), "" where it has sent none.
	Begin(traceparent, tracestate string) Trace
	// Child returns a place below another that is traced.
	Child(t Trace) Trace
}

// On reports whether the exchange or try is traced.
func (t *Trace) On() bool { return t.ID != [16]byte{} }

// String is the traceparent of what is part of t (Trace Context §3.2).
func (t *Trace) String() string {
	b := make([]byte, 0, len("00-00000000000000000000000000000000-0000000000000000-01"))
	b = hex.AppendEncode(append(b, "00-"...), t.ID[:])
	b = hex.AppendEncode(append(b, '-'), t.Span[:])
	return string(append(b, "-01"...))
}

// ParseTrace reads a traceparent: t.Span is that of the caller. sampled is what the
// caller has decided. Versions after 00 are read as it (Trace Context §4.3).
func ParseTrace(field string) (t Trace, sampled, ok bool) {
	const size = len("00-00000000000000000000000000000000-0000000000000000-01")
	if len(field) < size || field[2] != '-' || field[35] != '-' || field[52] != '-' {
		return Trace{}, false, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		dst  []byte
		text string
	}{{version[:], field[:2]}, {t.ID[:], field[3:35]}, {t.Span[:], field[36:52]}, {flags[:], field[53:55]}} {
		if strings.ToLower(part.text) != part.text {
			return Trace{}, false, false
		}
		if _, err := hex.Decode(part.dst, []byte(part.text)); err != nil {
			return Trace{}, false, false
		}
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(field) != size, len(field) > size && field[size] != '-':
		return Trace{}, false, false
	case t.ID == [16]byte{}, t.Span == [8]byte{}:
		return Trace{}, false, false
	}
	return t, flags[0]&1 != 0, true
}

const (
	traceField = "Traceparent"
	stateField = "Tracestate"
)

// beginTrace finds the place of the exchange.
func (c *call) beginTrace() {
	tr := c.h.opt.Tracer
	if tr == nil {
		return
	}
	parent := ""
	if v := c.ex.Header.Values(traceField); len(v) == 1 { // of several none can be believed
		parent = v[0]
	}
	state := ""
	if parent != "" {
		state = strings.Join(c.ex.Header.Values(stateField), ",")
	}
	c.trace = tr.Begin(parent, state)
}

// resumeTrace finds the place of a stored message: what is done for it is part of
// the exchange that has stored it.
func (c *call) resumeTrace(header [][2]octets, accepted time.Time, attempt int) {
	if c.h.opt.Tracer == nil {
		return
	}
	for _, f := range header {
		if strings.EqualFold(string(f[0]), traceField) {
			if t, sampled, ok := ParseTrace(string(f[1])); ok && sampled {
				if c.trace = t; attempt == 1 {
					c.waited = accepted
				}
			}
			return
		}
	}
}

// traceTry returns the place of the next try, and tells it to the node.
func (c *call) traceTry(req *Request) Trace {
	if !c.trace.On() {
		return Trace{}
	}
	t := c.h.opt.Tracer.Child(c.trace)
	if req.Header != nil {
		t.put(&req.Header)
	}
	return t
}

// put makes h say that what follows is part of t.
func (t *Trace) put(h *field.List) { h.Set(traceField, t.String()) }
