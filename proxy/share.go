package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"soapway/soapcodec"
)

// weightUnit is what a weight of 1 counts for, so that a share can be a
// fraction of it.
const weightUnit = 1000

// weight is the share of node i when it is well.
func (b *backend) weight(i int) int64 {
	if len(b.Weights) == 0 {
		return weightUnit
	}
	return weightUnit * int64(b.Weights[i])
}

// share is that of node i at this moment.
func (b *backend) share(i int) int64 {
	if b.Health == nil {
		return b.weight(i)
	}
	return b.Health.Share(i, b.weight(i))
}

// failedTry tells the health of node i of a try without an answer. What the
// message, the caller or our own limits are to blame for says nothing about it.
func (c *call) failedTry(i int, err *SendError) {
	b := c.route.backend
	switch {
	case b.Health == nil, err.Source, err.Permanent, errors.Is(err, ErrNoConnection), errors.Is(err, errHeld):
	case c.ctx.Err() != nil, c.msg.failure() != nil:
	default:
		b.Health.Failed(i, oneLine(err.Error()))
	}
}

// judge tells the health of node i of an answer, once what it consists of is
// known: it may have broken off, or be a 502, 503 or 504 that is not SOAP, which
// whoever stands before the service has made. A SOAP fault proves that the
// service is there (SPEC.md §4). err is why the answer is not passed on.
func (c *call) judge(i, status int, err error) {
	good := c.envelope || !gatewayStatus(status)
	if err == nil && good {
		c.route.backend.mark(i, true, "")
		return
	}
	var failed *backendError
	switch isBackend := errors.As(err, &failed); {
	case isBackend && (failed.code == soapcodec.CodeBackendBroken || failed.code == soapcodec.CodeBackendTimeout):
		c.route.backend.mark(i, false, oneLine(err.Error()))
	case err != nil && !isBackend: // the caller's fault, or our own
	default:
		c.route.backend.mark(i, good, statusReason(status))
	}
}

// mark tells the health of node i of a good or a bad outcome.
func (b *backend) mark(i int, good bool, why string) {
	switch {
	case b.Health == nil:
	case good:
		b.Health.Succeeded(i)
	default:
		b.Health.Failed(i, why)
	}
}

// gatewayStatus reports a status by which a proxy or a server in front of a
// service says that the service is not there.
func gatewayStatus(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// statusReason says for logs what an answer was that counts against a node.
func statusReason(status int) string {
	return "status " + strconv.Itoa(status) + " without an envelope"
}

// BackendHealth is what is known of a backend at one moment.
type BackendHealth struct {
	Name  string
	Down  bool // every node is out
	Nodes []NodeHealth
}

// NodeHealth is what is known of a node at one moment.
type NodeHealth struct {
	Name string
	Up   bool // it gets messages
	// Why says what has put it out, and Until when it is tried again; both are
	// empty while it is up, Until where a check decides.
	Why   string
	Until time.Time
}

// Health lists the backends that routes lead to, in no order.
func (h *Handler) Health() (list []BackendHealth) {
	for _, b := range h.table.Load().backends {
		s := BackendHealth{Name: b.Name, Down: b.Health != nil && b.Health.Down()}
		for i, n := range b.Nodes {
			state := NodeHealth{Name: n.Name(), Up: true}
			if b.Health != nil {
				state.Up, state.Why, state.Until = b.Health.State(i)
			}
			s.Nodes = append(s.Nodes, state)
		}
		list = append(list, s)
	}
	return list
}
