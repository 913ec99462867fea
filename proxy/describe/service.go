package describe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
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

	byInput map[soapcodec.QName][]*wsdl.Operation // the zero name is an empty Body
	open    []*wsdl.Operation                     // those that may have anything in Body
	sum     [sha256.Size]byte
	until   time.Time
}

// Operation returns the one that a message asks for with this first child of
// Body, the zero name for an empty Body, and with these actions, of which any may
// be empty. The actions decide where the child alone does not; if they do not
// either there is none.
func (s *Service) Operation(input soapcodec.QName, actions ...string) (*wsdl.Operation, bool) {
	ops := s.byInput[input]
	if op := byAction(ops, actions); op != nil {
		return op, true
	}
	if op := agreed(ops); op != nil {
		return op, true
	}
	op := byAction(s.open, actions)
	return op, op != nil
}

func byAction(ops []*wsdl.Operation, actions []string) *wsdl.Operation {
	for _, op := range ops {
		for _, a := range actions {
			if a != "" && (a == op.Action || a == op.InputAction) {
				return op
			}
		}
	}
	return nil
}

// agreed is what several ports have alike: one operation, by name and direction.
func agreed(ops []*wsdl.Operation) *wsdl.Operation {
	for _, op := range ops {
		if op.Name != ops[0].Name || op.Space != ops[0].Space || op.OneWay != ops[0].OneWay {
			return nil
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return ops[0]
}

// Takes reports whether a message may have this first child of Body.
func (s *Service) Takes(input soapcodec.QName) bool {
	return len(s.byInput[input]) > 0 || len(s.open) > 0
}

// Names reports whether an operation, or the first child of the Body that asks
// for one, has this name; one without a namespace fits any if anySpace is set.
func (s *Service) Names(name soapcodec.QName, anySpace bool) bool {
	ops := s.Operations()
	for i := range ops {
		op := &ops[i]
		if op.AnyInput || op.Name == name.Local && (anySpace || op.Space == name.Space) ||
			op.Input.Local == name.Local && (anySpace || op.Input.Space == name.Space) {
			return true
		}
	}
	return false
}

// Old reports whether the source could have changed since it was asked.
func (s *Service) Old() bool { return !time.Now().Before(s.until) }

// Service reads the documents from root on. It is made again when one of them
// has changed.
func (f *Front) Service(ctx context.Context, root Location) (*Service, error) {
	f.mu.Lock()
	s := f.catalogs[root]
	f.mu.Unlock()
	if s != nil && !s.Old() {
		return s, nil
	}
	return f.read(ctx, root, f.Get, time.Now().Add(max(f.opt.Fresh, leastKept)))
}

// leastKept is how long a Service is used at least, whatever Options.Fresh says of
// its documents: a file is not read for each message.
const leastKept = time.Second

// Recall is Service as far as it can be known without asking anybody: from files,
// and from what was kept. The next call of Service asks.
func (f *Front) Recall(ctx context.Context, root Location) (*Service, error) {
	return f.read(ctx, root, f.recall, time.Now())
}

// recall returns a document that is here.
func (f *Front) recall(ctx context.Context, at Location) (*Document, error) {
	if strings.HasPrefix(string(at), filePrefix) {
		return f.Get(ctx, at)
	}
	if doc, ok := f.opt.Shelf.load(f.opt.Name, at); ok {
		return doc, nil
	}
	return nil, ErrNotFound
}

// read puts together what the documents from root on say.
func (f *Front) read(ctx context.Context, root Location, get getter, until time.Time) (*Service, error) {
	var docs []*wsdl.Document
	sum := sha256.New()
	fresh := &Service{until: until}
	missing, err := f.crawl(ctx, root, get, func(d *Document) {
		docs = append(docs, d.parsed)
		fresh.Documents = append(fresh.Documents, d.Location)
		sum.Write(d.sum[:])
	})
	if err != nil {
		return nil, err
	}
	sum.Sum(fresh.sum[:0])
	fresh.Missing = missing
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.catalogs[root]; s != nil && s.sum == fresh.sum && slices.Equal(s.Documents, fresh.Documents) {
		fresh.Catalog, fresh.byInput, fresh.open = s.Catalog, s.byInput, s.open
	} else {
		fresh.Catalog = wsdl.Merge(docs...)
		fresh.index()
	}
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

// maxLabels bounds how many names of operations a front gives to metrics, whatever
// the descriptions say in the course of time; maxLabel bounds each.
const (
	maxLabels = 1000
	maxLabel  = 200
)

// Label is the name of an operation where the number of names must stay bounded;
// "" for one that comes too late.
func (f *Front) Label(op *wsdl.Operation) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.labels[op.Name]; ok {
		return op.Name
	}
	if len(f.labels) >= maxLabels || len(op.Name) > maxLabel {
		return ""
	}
	f.labels[op.Name] = struct{}{}
	return op.Name
}

func (s *Service) index() {
	s.byInput = map[soapcodec.QName][]*wsdl.Operation{}
	ops := s.Operations()
	for i := range ops {
		op := &ops[i]
		if op.AnyInput {
			s.open = append(s.open, op)
		} else {
			s.byInput[op.Input] = append(s.byInput[op.Input], op)
		}
	}
}

// A getter gets a document.
type getter func(context.Context, Location) (*Document, error)

// crawl visits root and the documents that it refers to, each once. missing has
// a line for each reference that leads nowhere; only root must be there.
func (f *Front) crawl(ctx context.Context, root Location, get getter, visit func(*Document)) (missing []string, err error) {
	type step struct {
		at    Location
		depth int
	}
	seen, octets := []Location{root}, 0
	for todo := []step{{root, 0}}; len(todo) > 0; todo = todo[1:] {
		now := todo[0]
		d, err := get(ctx, now.at)
		if err != nil {
			if now.at == root || ctx.Err() != nil {
				return missing, err
			}
			missing = append(missing, fmt.Sprintf("%s: %v", now.at, err))
			continue
		}
		if octets += len(d.Body); octets > MaxService {
			return missing, ErrTooMany
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
