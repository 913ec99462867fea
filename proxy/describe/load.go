package describe

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"soapway/soapcodec/wsdl"
	"soapway/xmlstream"
)

// A document that is not here goes to those who ask for it while it comes from its
// source, once so much of it is good. What is wrong before that is still an answer
// of its own.
const streamFrom = 64 << 10

// longest bounds a document that somebody gets while it comes; until then patience
// does.
const longest = time.Minute

var errUnwanted = errors.New("describe: nobody waits for the document any more")

// A load is a document on its way from its source to memory and disk. Any number
// of readers may have what has come of it, each at its own pace: all of them read
// the same octets, which become those of the document. It is given up when
// nobody waits for it.
type load struct {
	front  *Front
	at     Location
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	news   chan struct{} // closed with the next change; nil while nobody waits
	wanted int           // who waits for it, or reads it
	flows  bool          // somebody reads it
	typ    string        // Content-Type, with the first part
	part   wsdl.Part
	whole  bool      // part is the document
	doc    *Document // once it can be handed out,
	err    error     // or why there is none
	over   bool      // and has been kept
}

// load begins to get a document; whoever asks for that is counted.
func (f *Front) load(e *entry, at Location) *load {
	l := &load{front: f, at: at, wanted: 1}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	f.loads.Go(func() {
		doc, err := l.fetch()
		l.cancel(nil)
		f.loaded(e, l, doc, err)
	})
	return l
}

// join counts one more who waits; false if the load is being given up.
func (l *load) join() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == 0 && !l.whole {
		return false
	}
	l.wanted++
	return true
}

func (l *load) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted--; l.wanted == 0 && !l.whole {
		l.cancel(errUnwanted)
	}
}

// change changes the load, and wakes up who waits for that.
func (l *load) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// look calls f with mu held.
func (l *load) look(f func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f()
}

// wait returns once enough, which is called with mu held, says so.
func (l *load) wait(ctx context.Context, enough func() bool) error {
	for {
		l.mu.Lock()
		if enough() {
			l.mu.Unlock()
			return nil
		}
		if l.news == nil {
			l.news = make(chan struct{})
		}
		news := l.news
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// get waits for the document, and leaves.
func (l *load) get(ctx context.Context) (*Document, error) {
	defer l.leave()
	if err := l.wait(ctx, func() bool { return l.over }); err != nil {
		return nil, err
	}
	return l.doc, l.err
}

// fetch gets the document.
func (l *load) fetch() (doc *Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.front.opt.Log.Error("reading a description panicked", "route", l.front.opt.Name, "document", string(l.at),
				"panic", fmt.Sprint(p), slog.String("stack", string(debug.Stack())))
			doc, err = nil, fmt.Errorf("describe: %s: panic", l.at)
		}
	}()
	ctx, stop := context.WithTimeout(l.ctx, longest)
	defer stop()
	late := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.flows {
			l.cancel(context.DeadlineExceeded)
		}
	})
	defer late.Stop()
	doc, err = l.ask(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return doc, err
}

// ask asks the source for the document.
func (l *load) ask(ctx context.Context) (*Document, error) {
	c, err := l.front.opt.Fetch(ctx, l.at, "", "")
	if err != nil {
		return nil, err
	}
	defer c.close()
	switch {
	case c.Status != http.StatusOK:
		return nil, &StatusError{Status: c.Status}
	case c.Length > MaxDocument:
		return nil, ErrTooLarge
	}
	d, err := l.read(c)
	if err != nil {
		return nil, fmt.Errorf("describe: %s: %w", l.at, err)
	}
	return d, nil
}

// read reads the document, and lets others have what is good of it meanwhile.
func (l *load) read(c *Copy) (*Document, error) {
	typ, label := mediaType(c.Type)
	src := &source{r: c.Body, undecided: true}
	in, err := xmlstream.NewReader(src, label)
	if err != nil {
		return nil, err
	}
	d := &Document{Location: l.at, Type: handed(c.Type, typ, in.Charset()), etag: c.ETag, modified: c.Modified, sourceType: c.Type}
	l.change(func() { l.typ = d.Type })
	src.decide(in.Converted())
	a := &arriving{load: l, src: in}
	a.reading = wsdl.NewReading(a)
	if err := a.reading.Run(); err != nil {
		return nil, err
	}
	l.change(func() { l.part, l.whole = a.reading.Part(a.doc), true })
	d.Body = a.joined()
	d.parsed = a.reading.Document(d.Body)
	d.Kind, d.sum = d.parsed.Kind, sha256.Sum256(d.Body)
	d.source = d.sum
	if src.hash != nil {
		src.hash.Sum(d.source[:0])
	}
	return d, nil
}

// loaded ends a load: the shelf has its document, and so has e.
func (f *Front) loaded(e *entry, l *load, doc *Document, err error) {
	if err == nil {
		l.change(func() { l.doc = doc })
		f.keep(doc)
	}
	e.turn <- struct{}{}
	if e.load == l { // or it was given up, and another one has begun
		e.load = nil
		now := time.Now()
		if err == nil {
			e.until = now.Add(f.opt.Fresh)
			f.set(e, doc)
		} else {
			if !errors.Is(context.Cause(l.ctx), errUnwanted) {
				e.err, e.until = err, now.Add(time.Second)
			}
			f.forget(l.at, e)
		}
	}
	<-e.turn
	l.change(func() { l.err, l.over = err, true })
}

// source bounds what comes from a source, and sums it up where the document will
// be something else: which is decided by its first octets.
type source struct {
	r         io.Reader
	n         int64
	first     []byte // while it is undecided
	undecided bool
	hash      hash.Hash
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.n += int64(n); s.n > MaxDocument {
		return 0, ErrTooLarge
	}
	if s.undecided {
		s.first = append(s.first, p[:n]...)
	}
	if s.hash != nil {
		s.hash.Write(p[:n])
	}
	return n, err
}

func (s *source) decide(sum bool) {
	if sum {
		s.hash = sha256.New()
		s.hash.Write(s.first)
	}
	s.first, s.undecided = nil, false
}

// arriving is the document as it is read: the scanner takes from it, and what it
// has taken others may have before the source is asked for more.
type arriving struct {
	load    *load
	src     io.Reader
	reading *wsdl.Reading
	doc     [][]byte // in pieces of pieceSize, of which the last is filled
	n       int      // octets
	taken   int
}

// A document on its way is in pieces, so that none of it has to be moved when more
// comes than was foreseen: others read it.
const pieceSize = 64 << 10

func (a *arriving) Read(p []byte) (int, error) {
	if a.taken == a.n {
		if err := a.more(); err != nil {
			return 0, err
		}
	}
	at := a.taken % pieceSize
	n := copy(p, a.doc[a.taken/pieceSize][at:min(pieceSize, at+a.n-a.taken)])
	a.taken += n
	return n, nil
}

// more reads more of the document.
func (a *arriving) more() error {
	if part := a.reading.Part(a.doc); part.Len() > a.load.part.Len() {
		a.load.change(func() { a.load.part = part })
	}
	at := a.n % pieceSize
	if at == 0 && a.n/pieceSize == len(a.doc) {
		a.doc = append(a.doc, make([]byte, pieceSize))
	}
	n, err := a.src.Read(a.doc[a.n/pieceSize][at:])
	if a.n+n > MaxDocument {
		return ErrTooLarge
	}
	a.n += n
	if n > 0 {
		return nil // the error comes again
	}
	return err
}

// joined is the document in one piece.
func (a *arriving) joined() []byte {
	b := make([]byte, 0, a.n)
	for i, piece := range a.doc {
		b = append(b, piece[:min(pieceSize, a.n-i*pieceSize)]...)
	}
	return b
}
