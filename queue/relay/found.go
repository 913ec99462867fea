package relay

import "slices"

// A Finding is something about another site that somebody may have to look up later:
// it was refused, or what it has sent says that something is wrong at one of the two.
type Finding struct {
	Kind Kind
	// Peer is the site, as its certificate has shown it.
	Peer Peer
	// Items is how many items of a batch it is about, 0 where it is about none.
	Items int
	// ID and Route are those that the first of these items claims.
	ID, Route string
	// Reason is one line, without content of messages.
	Reason string
}

// A Kind is that of a [Finding].
type Kind string

// The kinds of findings.
const (
	FoundForged   Kind = "forged"   // it calls itself, or the way of an item, otherwise than its certificate does
	FoundDenied   Kind = "denied"   // it may not send to that route, or there is none
	FoundLoop     Kind = "loop"     // an item has been here, or has passed too many sites
	FoundRefused  Kind = "refused"  // the route has refused an item for good
	FoundRepeated Kind = "repeated" // an item was here before: its answer was lost, or somebody replays it
	FoundBomb     Kind = "bomb"     // a batch decompresses to too much
	FoundBroken   Kind = "broken"   // a batch or a greeting cannot be read, or has come in part
	FoundCopy     Kind = "copy"     // it has numbers that this store has never given
	FoundLost     Kind = "lost"     // it has not any more what it had answered for
)

// found tells of a finding.
func (h *Hub) found(f Finding) {
	if h.opt.Found != nil {
		f.Reason = oneLine(f.Reason)
		h.opt.Found(f)
	}
}

// findings gathers what is found of the items of a batch, so that it is told once.
type findings []Finding

// add takes up the answer to an item, if it is one to tell of.
func (f *findings) add(peer Peer, it *Item, r Result) {
	kind := r.found()
	if kind == "" {
		return
	}
	i := slices.IndexFunc(*f, func(g Finding) bool { return g.Kind == kind })
	if i < 0 {
		*f = append(*f, Finding{Kind: kind, Peer: peer, ID: it.ID, Route: it.Route, Reason: r.Reason})
		i = len(*f) - 1
	}
	(*f)[i].Items++
}

// found says what the answer to an item tells of the site that has sent it, "" for
// nothing.
func (r *Result) found() Kind {
	switch {
	case r.kind != "":
		return r.kind
	case r.Outcome == Refused:
		return FoundRefused
	case r.Outcome == Duplicate:
		return FoundRepeated
	case r.Outcome == Denied:
		return FoundDenied
	}
	return ""
}
