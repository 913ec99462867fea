package describe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"soapway/soapcodec/wsdl"
	"soapway/xmlstream"
)

// The limits of descriptions.
const (
	MaxDocument  = 16 << 20 // octets of a document
	MaxDocuments = 500      // of a service
	MaxService   = 64 << 20 // octets of the documents of a service together
	MaxDepth     = 16       // of references from one to the next
	maxCached    = 64 << 20 // octets in memory of a route
	maxTokens    = 20_000
)

// DefaultFresh is how long a document is handed out before its source is asked
// again.
const DefaultFresh = time.Minute

// The times that a source has.
const (
	patience = 10 * time.Second
	// haste is for a document of which an older copy is here.
	haste = 2 * time.Second
)

// A Location says where a document is: "/depot?wsdl" on the backend,
// "file:types.xsd" beside the file of a route, or an absolute URL.
type Location string

// A Copy is a document as its source sent it, with what tells whether it has
// changed since.
type Copy struct {
	Status         int           // 200, or 304 when asked with ETag or Modified
	Type           string        // Content-Type
	ETag, Modified string        // fields ETag and Last-Modified
	Body           io.ReadCloser // of 200; must be closed
	Length         int64         // of Body; not positive if it is not known
}

func (c *Copy) close() {
	if c.Body != nil {
		c.Body.Close()
	}
}

// A StatusError is an answer that is no document.
type StatusError struct {
	Status int
	Header http.Header // WWW-Authenticate, Retry-After and Allow of it
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("describe: the source answered with status %d", e.Status)
}

// The reasons for which a document is not handed out.
var (
	ErrTooLarge = fmt.Errorf("describe: the document has more than %d MiB", MaxDocument>>20)
	ErrTooMany  = fmt.Errorf("describe: the service has more than %d documents, or %d MiB of them", MaxDocuments, MaxService>>20)
	ErrNotFound = errors.New("describe: there is no such document")
)

// A Document is a description that can be handed out. It does not change.
type Document struct {
	Location Location
	Type     string // Content-Type
	Body     []byte // UTF-8
	Kind     wsdl.Kind
	// Stale says that the source could not be asked whether it has changed.
	Stale bool

	parsed         *wsdl.Document
	sum            [sha256.Size]byte
	etag, modified string
	source         [sha256.Size]byte // of the octets that the source sent
	sourceType     string            // its Content-Type
}

// Refs are the references of the document, in their order.
func (d *Document) Refs() []wsdl.Ref { return d.parsed.Refs }

// Rewrite returns the document with the references that f replaces, in pieces, and
// what tells it from what other functions make of it.
func (d *Document) Rewrite(f func(wsdl.Ref) (string, bool)) (pieces [][]byte, tag string) {
	h := sha256.New()
	h.Write(d.sum[:])
	pieces = d.parsed.Pieces(func(r wsdl.Ref) (string, bool) {
		value, ok := f(r)
		fmt.Fprintf(h, "%t %q", ok, value)
		return value, ok
	})
	return pieces, hex.EncodeToString(h.Sum(nil)[:12])
}

// Options configures a [Front].
type Options struct {
	// Name tells the documents of this front from those of others on a Shelf.
	Name string

	// Fetch gets a document, when etag or modified is not empty only if it has
	// changed. ctx lives until Body is closed. Errors: *[StatusError], [ErrNotFound], or
	// why the source cannot be reached.
	Fetch func(ctx context.Context, at Location, etag, modified string) (*Copy, error)

	// Resolve tells which document a reference in another one leads to, false if
	// it is none that may be fetched.
	Resolve func(from Location, ref string) (Location, bool)

	// Shelf keeps documents between runs. Default: memory only.
	Shelf *Shelf

	// Fresh is how long a document is handed out before its source is asked
	// again. Default [DefaultFresh].
	Fresh time.Duration

	// Log is told when a source cannot be asked. Default: discard.
	Log *slog.Logger
}

// Front has the descriptions of a route. Its methods may be called from many
// goroutines.
type Front struct {
	opt Options

	mu       sync.Mutex
	entries  map[Location]*entry
	clock    int64 // of uses
	tokens   map[string]Location
	catalogs map[Location]*Service
	labels   map[string]struct{}

	loads sync.WaitGroup // under way
}

type entry struct {
	turn  chan struct{} // has room for one: who asks the source
	load  *load         // that gets doc, if that is not here
	doc   *Document
	err   error // why there is no doc, until until
	until time.Time
	used  int64 // under Front.mu
	size  int64 // under Front.mu
	quiet time.Time
}

// NewFront returns a front that has asked nobody yet.
func NewFront(opt Options) *Front {
	if opt.Fresh == 0 {
		opt.Fresh = DefaultFresh
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Front{opt: opt, entries: map[Location]*entry{}, tokens: map[string]Location{}, catalogs: map[Location]*Service{}, labels: map[string]struct{}{}}
}

// Get returns a document. If its source cannot be asked, an older copy will do,
// which is then Stale. Errors: *[StatusError], [ErrTooLarge], [ErrNotFound],
// *xmlstream.SyntaxError, or why the source cannot be reached.
func (f *Front) Get(ctx context.Context, at Location) (*Document, error) {
	doc, l, err := f.begin(ctx, at)
	if l == nil {
		return doc, err
	}
	return l.get(ctx)
}

// Wait returns once no document is on its way, or to be kept. Call it when nobody
// can ask for one any more.
func (f *Front) Wait() { f.loads.Wait() }

// begin finds a document, or the load that gets it, which the caller must leave.
func (f *Front) begin(ctx context.Context, at Location) (*Document, *load, error) {
	e := f.entry(at)
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if e.load != nil && e.load.join() {
		return nil, e.load, nil
	}
	now := time.Now()
	if e.doc == nil {
		if doc, ok := f.opt.Shelf.load(f.opt.Name, at); ok {
			f.set(e, doc)
		}
	}
	if now.Before(e.until) && (e.doc != nil || e.err != nil) {
		return e.doc, nil, e.err
	}
	if e.doc == nil {
		e.load = f.load(e, at)
		return nil, e.load, nil
	}
	doc, err := f.again(ctx, at, e)
	return doc, nil, err
}

// again asks the source whether the document of e has changed. e.turn is taken.
func (f *Front) again(ctx context.Context, at Location, e *entry) (*Document, error) {
	asking, cancel := context.WithTimeout(ctx, haste)
	defer cancel()
	doc, err := f.fetch(asking, at, e.doc)
	now := time.Now()
	var status *StatusError
	switch {
	case err == nil && doc == nil: // as it was
		e.until = now.Add(f.opt.Fresh)
		f.opt.Shelf.touch(f.opt.Name, at)
		if e.doc.Stale {
			fresh := *e.doc
			fresh.Stale = false
			e.doc = &fresh
		}
		return e.doc, nil
	case err == nil:
		e.until = now.Add(f.opt.Fresh)
		f.set(e, doc)
		f.keep(doc)
		return doc, nil
	case errors.As(err, &status) && status.Status < 500, ctx.Err() != nil:
		return nil, err
	}
	if now.After(e.quiet) {
		e.quiet = now.Add(f.opt.Fresh)
		f.opt.Log.Warn("description served from an older copy", "route", f.opt.Name, "document", string(at), "err", err)
	}
	if !e.doc.Stale {
		old := *e.doc
		old.Stale = true
		e.doc = &old
	}
	e.until = now.Add(min(f.opt.Fresh, 5*time.Second)) // not everybody waits for a dead source
	return e.doc, nil
}

// entry finds the place of a document, and makes room for it.
func (f *Front) entry(at Location) *entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock++
	e := f.entries[at]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		f.entries[at] = e
	}
	e.used = f.clock
	return e
}

// forget gives up the place of a document that is not to be had.
func (f *Front) forget(at Location, e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[at] == e && e.doc == nil {
		delete(f.entries, at)
	}
}

// set puts a document into its place; others that are used less make room.
func (f *Front) set(e *entry, doc *Document) {
	e.doc, e.err = doc, nil
	f.mu.Lock()
	defer f.mu.Unlock()
	e.size = int64(len(doc.Body))
	for {
		var sum int64
		var oldest Location
		var last *entry
		for at, o := range f.entries {
			sum += o.size
			if o != e && (last == nil || o.used < last.used) {
				oldest, last = at, o
			}
		}
		if sum <= maxCached && len(f.entries) <= MaxDocuments || last == nil {
			return
		}
		delete(f.entries, oldest)
	}
}

// keep puts a document on the shelf.
func (f *Front) keep(doc *Document) {
	if err := f.opt.Shelf.save(f.opt.Name, doc); err != nil {
		f.opt.Log.Warn("description not kept on disk", "route", f.opt.Name, "document", string(doc.Location), "err", err)
	}
}

// fetch asks the source; nil without an error means that nothing has changed since
// old.
func (f *Front) fetch(ctx context.Context, at Location, old *Document) (*Document, error) {
	c, err := f.opt.Fetch(ctx, at, old.etag, old.modified)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if c.Status == http.StatusNotModified && (old.etag != "" || old.modified != "") {
		return nil, nil
	}
	if c.Status != http.StatusOK {
		return nil, &StatusError{Status: c.Status}
	}
	octets, err := readAll(c.Body, c.Length)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(octets)
	if old.source == sum && old.sourceType == c.Type && old.etag == c.ETag && old.modified == c.Modified {
		return nil, nil // most sources make no tags, and send the same
	}
	return newDocument(at, c, octets, sum)
}

// newDocument checks and converts what a source has sent with the fields of c: octets
// that have that sum.
func newDocument(at Location, c *Copy, octets []byte, sum [sha256.Size]byte) (*Document, error) {
	typ, label := mediaType(c.Type)
	body, charset, err := xmlstream.DecodeBytes(octets, label)
	if err == nil && len(body) > MaxDocument {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("describe: %s: %w", at, err)
	}
	parsed, err := wsdl.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("describe: %s: %w", at, err)
	}
	d := &Document{Location: at, Type: handed(c.Type, typ, charset), Body: body, Kind: parsed.Kind, parsed: parsed, etag: c.ETag, modified: c.Modified}
	d.sum, d.source, d.sourceType = sum, sum, c.Type
	if len(body) == 0 || &body[0] != &octets[0] {
		d.sum = sha256.Sum256(body)
	}
	return d, nil
}

// handed is the Content-Type under which a document is handed out that came with
// field, which is of this type, and had this charset.
func handed(field, typ, charset string) string {
	if field == "" || charset != "utf-8" {
		return typ + "; charset=utf-8"
	}
	return field
}

// Token is the name under which clients ask for a document that no route reaches
// by its path.
func (f *Front) Token(at Location) string {
	sum := sha256.Sum256([]byte(at))
	token := "~" + hex.EncodeToString(sum[:12])
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tokens) >= maxTokens {
		clear(f.tokens) // they are found again
	}
	f.tokens[token] = at
	return token
}

// Find returns the document of a token. One that is not known, as after a
// restart, is looked for among the documents that root refers to.
func (f *Front) Find(ctx context.Context, root Location, token string) (Location, error) {
	known := func() (Location, bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		at, ok := f.tokens[token]
		return at, ok
	}
	if at, ok := known(); ok {
		return at, nil
	}
	_, err := f.crawl(ctx, root, f.Get, func(d *Document) {
		for _, r := range d.parsed.Refs {
			if r.Use == wsdl.Address {
				continue
			}
			if at, ok := f.opt.Resolve(d.Location, r.Value); ok {
				f.Token(at)
			}
		}
	})
	if at, ok := known(); ok {
		return at, nil
	}
	if err == nil {
		err = ErrNotFound
	}
	return "", err
}
