package admin

import (
	"errors"
	"time"

	"soapway/internal/telemetry"
)

// Routes is the answer of GET /routes.
type Routes struct {
	Routes []Route `json:"routes"`
}

func (a *api) routes(*call) (any, error) {
	return Routes{append([]Route{}, a.gateway.Routes()...)}, nil
}

// Backends is the answer of GET /backends.
type Backends struct {
	Backends []Backend `json:"backends"`
}

func (a *api) backends(*call) (any, error) {
	return Backends{append([]Backend{}, a.gateway.Backends()...)}, nil
}

// Links is the answer of GET /links.
type Links struct {
	Links []Link `json:"links"`
}

func (a *api) links(*call) (any, error) {
	if a.stopped {
		return nil, ErrStopped
	}
	return Links{append([]Link{}, a.gateway.Links()...)}, nil
}

func (a *api) configuration(*call) (any, error) {
	if a.stopped {
		return nil, ErrStopped
	}
	return a.gateway.Configuration(), nil
}

// History is the answer of GET /history: the last hour, step for step, the oldest
// first.
type History struct {
	Until  time.Time        `json:"until"`
	Step   float64          `json:"step_seconds"`
	Hour   Hour             `json:"hour"`
	Total  telemetry.Counts `json:"total"` // since the start
	Points []Hour           `json:"points"`
}

func (a *api) history(*call) (any, error) {
	if a.stopped {
		return nil, ErrStopped
	}
	h := a.gateway.History()
	points, step := h.Points()
	out := History{Until: time.Now(), Step: step.Seconds(), Hour: HourOf(h.Whole()), Total: h.Total(), Points: make([]Hour, len(points))}
	for i, p := range points {
		out.Points[i] = HourOf(p)
	}
	return out, nil
}

func (a *api) reload(c *call) (any, error) {
	if a.stopped {
		return nil, ErrStopped
	}
	before := a.gateway.Configuration().Digest
	err := a.gateway.Reload()
	c.before, c.after = digested{before}, digested{a.gateway.Configuration().Digest}
	a.changed(c, "reload", err)
	if bad, ok := errors.AsType[*BadConfiguration](err); ok {
		return nil, &refusal{kind: kindConfig, detail: bad.Error(), problems: bad.Problems}
	}
	return nil, err
}

// digested stands for a configuration in the audit file.
type digested struct {
	Digest string `json:"digest"`
}
