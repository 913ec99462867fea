package describe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"soapway/soapcodec"
	"soapway/soapcodec/wsdl"
)

// A Service is what the documents that one refers to say together.
type Service struct {
	*wsdl.Catalog
	Documents []Location
	// Missing has the references that could not be followed, one line each.
	Missing []string

	byInput map[soapcodec.QName]*wsdl.Operation
	any     bool // an operation may have anything in Body
	empty   *wsdl.Operation
	sum     [sha256.Size]byte
	until   time.Time
}

// Operation returns the one that a message with this first child of Body asks
// for; the zero name is an empty Body.
func (s *Service) Operation(input soapcodec.QName) (*wsdl.Operation, bool) {
	if op := s.byInput[input]; op != nil {
		return op, true
	}
	if input.IsZero() && s.empty != nil {
		return s.empty, true
	}
	return nil, false
}

// Takes reports whether a message may have this first child of Body.
func (s *Service) Takes(input soapcodec.QName) bool {
	_, ok := s.Operation(input)
	return ok || s.any
}

// Service reads the documents from root on. It is made again when one of them
// has changed.
func (f *Front) Service(ctx context.Context, root Location) (*Service, error) {
	f.mu.Lock()
	s := f.catalogs[root]
	f.mu.Unlock()
	if s != nil && time.Now().Before(s.until) {
		return s, nil
	}
	var docs []*wsdl.Document
	sum := sha256.New()
	fresh := &Service{}
	missing, err := f.crawl(ctx, root, func(d *Document) {
		docs = append(docs, d.parsed)
		fresh.Documents = append(fresh.Documents, d.Location)
		sum.Write(d.sum[:])
	})
	if err != nil {
		return nil, err
	}
	sum.Sum(fresh.sum[:0])
	fresh.until = time.Now().Add(f.opt.Fresh)
	fresh.Missing = missing
	fresh.Catalog = wsdl.Merge(docs...)
	fresh.index()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.catalogs) >= MaxDocuments {
		clear(f.catalogs)
	}
	f.catalogs[root] = fresh
	return fresh, nil
}

// Known is Service without asking anybody: nil if it was not read yet.
func (f *Front) Known(root Location) *Service {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.catalogs[root]
}

func (s *Service) index() {
	s.byInput = map[soapcodec.QName]*wsdl.Operation{}
	ops := s.Operations()
	for i := range ops {
		op := &ops[i]
		switch {
		case op.AnyInput:
			s.any = true
		case op.Input.IsZero():
			if s.empty == nil {
				s.empty = op
			}
		case s.byInput[op.Input] == nil:
			s.byInput[op.Input] = op
		}
	}
}

// crawl visits root and the documents that it refers to, each once. missing has
// a line for each reference that leads nowhere; only root must be there.
func (f *Front) crawl(ctx context.Context, root Location, visit func(*Document)) (missing []string, err error) {
	type step struct {
		at    Location
		depth int
	}
	seen := []Location{root}
	for todo := []step{{root, 0}}; len(todo) > 0; todo = todo[1:] {
		now := todo[0]
		d, err := f.Get(ctx, now.at)
		if err != nil {
			if now.at == root || ctx.Err() != nil {
				return missing, err
			}
			missing = append(missing, fmt.Sprintf("%s: %v", now.at, err))
			continue
		}
		visit(d)
		for _, r := range d.parsed.Refs {
			if r.Use != wsdl.Import && r.Use != wsdl.Schema {
				continue
			}
			at, ok := f.opt.Resolve(now.at, r.Value)
			switch {
			case !ok:
				if line := "not fetched: " + r.Value; !slices.Contains(missing, line) {
					missing = append(missing, line)
				}
			case slices.Contains(seen, at):
			case len(seen) >= MaxDocuments:
				return missing, ErrTooMany
			case now.depth >= MaxDepth:
				missing = append(missing, fmt.Sprintf("%s: references are more than %d deep", at, MaxDepth))
			default:
				seen = append(seen, at)
				todo = append(todo, step{at, now.depth + 1})
			}
		}
	}
	return missing, nil
}
