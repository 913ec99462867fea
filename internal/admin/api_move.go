package admin

import (
	"fmt"
	"slices"
)

// Moved is the answer of POST /queues/move.
type Moved struct {
	Count   int      `json:"count"`   // messages that were moved
	Busy    int      `json:"busy"`    // left: under way, or behind one that is
	Damaged int      `json:"damaged"` // left: they cannot be read
	Unknown []string `json:"unknown,omitempty"`
}

func (a *api) move(c *call) (any, error) {
	given, ids, err := c.object("ids")
	if err != nil {
		return nil, err
	}
	to, from := given["to"], given["from"]
	_, hasFrom := given["from"]
	_, hasIDs := given["ids"]
	delete(given, "to")
	delete(given, "from")
	delete(given, "ids")
	switch {
	case to == "":
		return nil, refusef(kindBody, "to which route: give to")
	case from == "" && len(ids) == 0:
		return nil, refusef(kindBody, "which messages: give from or ids")
	case hasIDs && (hasFrom || len(given) > 0):
		return nil, refusef(kindBody, "ids and from, with its filters, exclude each other")
	case slices.Contains(ids, ""):
		return nil, refusef(kindBody, "an id is empty")
	case from == to:
		return nil, refusef(kindBody, "from and to are the same route")
	}
	f, err := selection(from, given)
	if err != nil {
		return nil, err
	}
	if hasFrom {
		err = a.sure(from)
	} else if !a.queue().Loaded() {
		err = refusef(kindLoading, "the store is still being read, so that not all messages are known")
	}
	if err != nil {
		return nil, err
	}
	var m Moved
	which := []any{"from", from}
	if hasFrom {
		m, err = a.queue().MoveAll(c.r.Context(), f, to)
	} else {
		m, err = a.queue().Move(c.r.Context(), ids, to)
		which = []any{"ids", len(ids)}
	}
	which = append(which, "to", to, "count", m.Count, "busy", m.Busy)
	a.changed(c, "move", err, append(which, f.words()...)...)
	if err == ErrTarget {
		err = fmt.Errorf("%w: %s", err, quote(to))
	}
	if err != nil {
		e := *asRefusal(err)
		e.count = m.Count
		return nil, &e
	}
	return m, nil
}
