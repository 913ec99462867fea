package describe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/soapcodec/wsdl"
)

// A tap is a source of which a test lets the documents run.
type tap struct {
	typ    string
	length int64
	asked  int
	ctx    context.Context // of the last request
	in     *io.PipeWriter  // of its body
	closed bool
}

func (s *tap) fetch(ctx context.Context, _ Location, _, _ string) (*Copy, error) {
	r, w := io.Pipe()
	s.asked++
	s.ctx, s.in, s.closed = ctx, w, false
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	return &Copy{Status: 200, Type: s.typ, Length: s.length, Body: closer{r, func() { stop(); s.closed = true; r.Close() }}}, nil
}

type closer struct {
	io.Reader
	f func()
}

func (c closer) Close() error { c.f(); return nil }

// large is a description with references at its start and its end, of about so many
// octets.
func large(octets int) string {
	return definitions(imports("/b?xsd=1") + strings.Repeat("<w:documentation>more &amp; more</w:documentation>", octets/50) + imports("/c?xsd=1"))
}

func mapped(r wsdl.Ref) (string, bool) { return "http://gw.test" + r.Value, true }

// rewritten is what mapped makes of a document.
func rewritten(t *testing.T, doc string) string {
	t.Helper()
	b, err := wsdl.Rewrite(nil, []byte(doc), mapped)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A reader has what has come of a stream.
type streamReader struct {
	*Stream
	got []byte
	err error
}

// open opens a document that is on its way.
func open(ctx context.Context, t *testing.T, f *Front) *streamReader {
	t.Helper()
	d, s, err := f.Open(ctx, "/a?wsdl")
	if err != nil || d != nil || s == nil {
		t.Fatalf("Open: got a document %t, a stream %t, %v; want a stream", d != nil, s != nil, err)
	}
	s.Rewrite(mapped)
	return &streamReader{Stream: s}
}

// run reads on, until the end.
func (r *streamReader) run() {
	p := make([]byte, 1000)
	for r.err == nil {
		n, err := r.Read(p)
		r.got, r.err = append(r.got, p[:n]...), err
	}
	r.Close()
}

// begin lets n octets of a document run, and opens it.
func (s *tap) begin(t *testing.T, f *Front, doc string, n int) *streamReader {
	t.Helper()
	go func() {
		synctest.Wait()
		_, _ = io.WriteString(s.in, doc[:n])
	}()
	r := open(t.Context(), t, f)
	synctest.Wait()
	return r
}

// A large document goes on while it comes, and is kept when it has come.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := &tap{typ: "text/xml; charset=utf-8"}
		f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain, Shelf: NewShelf(dir)})
		doc := large(300_000)
		want := rewritten(t, doc)
		r := s.begin(t, f, doc, 200_000)
		if r.Type() != s.typ {
			t.Errorf("type %q", r.Type())
		}
		go r.run()
		synctest.Wait()
		if n := len(r.got); n < 150_000 || !strings.HasPrefix(want, string(r.got)) {
			t.Errorf("of 200000 octets %d have gone on", n)
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("half a document is kept: %v", files)
		}
		if _, err := io.WriteString(s.in, doc[200_000:]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r.err != nil || len(r.got) == len(want) {
			t.Errorf("before the end is known: %d octets of %d, %v", len(r.got), len(want), r.err)
		}
		s.in.Close()
		synctest.Wait()
		if r.err != io.EOF || string(r.got) != want {
			t.Errorf("got %d octets of %d, %v", len(r.got), len(want), r.err)
		}
		f.Wait()
		d, next, err := f.Open(t.Context(), "/a?wsdl")
		if err != nil || next != nil || string(d.Body) != doc || s.asked != 1 {
			t.Errorf("then: a stream %t, %v, asked %d times", next != nil, err, s.asked)
		}
		s.fail(NewFront(Options{Name: "r", Fetch: s.fetch, Shelf: NewShelf(dir)}), t, doc)
	})
}

// fail wants a front whose source is down to have the document.
func (s *tap) fail(f *Front, t *testing.T, doc string) {
	t.Helper()
	f.opt.Fetch = func(context.Context, Location, string, string) (*Copy, error) { return nil, errors.New("down") }
	if d, err := f.Get(t.Context(), "/a?wsdl"); err != nil || string(d.Body) != doc {
		t.Errorf("after a restart: %v", err)
	}
}

// A small document goes on as a whole: what is wrong with it can still be told.
func TestOpenSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name, doc string
			good      bool
		}{
			{"good", large(streamFrom - 1000), true},
			{"spoiled", large(streamFrom-1000) + "<", false},
			{"no XML", "<html><br></html>", false},
			{"empty", "", false},
		} {
			s := &tap{typ: "text/xml"}
			f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain})
			go func() {
				synctest.Wait()
				_, _ = io.WriteString(s.in, tt.doc)
				s.in.Close()
			}()
			d, stream, err := f.Open(t.Context(), "/a?wsdl")
			if stream != nil || (err == nil) != tt.good || tt.good && string(d.Body) != tt.doc {
				t.Errorf("%s: got a document %t, a stream %t, %v", tt.name, d != nil, stream != nil, err)
			}
			if !s.closed {
				t.Errorf("%s: the source is still open", tt.name)
			}
			if len(f.entries) > 0 != tt.good {
				t.Errorf("%s: %d places", tt.name, len(f.entries))
			}
		}
	})
}

// Many who want the same document get it of one fetch. A slow one holds neither the
// others nor what is kept, and shares the memory.
func TestOpenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := &tap{typ: "text/xml"}
		f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain, Shelf: NewShelf(dir)})
		doc := large(400_000)
		want := rewritten(t, doc)
		slow := s.begin(t, f, doc, 100_000)
		all := make([]*streamReader, 10)
		for i := range all {
			all[i] = open(t.Context(), t, f)
			go all[i].run()
		}
		var whole *Document
		go func() { whole, _ = f.Get(t.Context(), "/a?wsdl") }()
		synctest.Wait()
		late := open(t.Context(), t, f)
		go late.run()
		_, _ = io.WriteString(s.in, doc[100_000:])
		s.in.Close()
		synctest.Wait()
		for i, r := range append(all, late) {
			if r.err != io.EOF || string(r.got) != want {
				t.Errorf("reader %d: %d octets of %d, %v", i, len(r.got), len(want), r.err)
			}
		}
		if whole == nil || string(whole.Body) != doc || s.asked != 1 {
			t.Errorf("who waited for the whole got it: %t; the source was asked %d times", whole != nil, s.asked)
		}
		if files, err := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("kept: %v, %v", files, err)
		}
		f.Wait()
		slow.run()
		if slow.err != io.EOF || string(slow.got) != want {
			t.Errorf("the slow one: %d octets, %v", len(slow.got), slow.err)
		}
	})
}

// A document is given up when the last one who wants it has left, and only then.
func TestOpenLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tap{typ: "text/xml"}
		dir := t.TempDir()
		f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain, Shelf: NewShelf(dir)})
		doc := large(200_000)
		first := s.begin(t, f, doc, 100_000)
		ctx, cancel := context.WithCancel(t.Context())
		second := open(ctx, t, f)
		go second.run()
		first.Close()
		first.Close() // once is enough
		synctest.Wait()
		if s.ctx.Err() != nil {
			t.Fatal("given up although somebody reads it")
		}
		cancel()
		synctest.Wait()
		if second.err != context.Canceled || context.Cause(s.ctx) != errUnwanted || !s.closed {
			t.Errorf("reader: %v; source: %v, closed %t", second.err, context.Cause(s.ctx), s.closed)
		}
		f.Wait()
		if files, _ := os.ReadDir(dir); len(files)+len(f.entries) > 0 {
			t.Errorf("kept: %v, %d places", files, len(f.entries))
		}
		again := s.begin(t, f, doc, len(doc))
		go again.run()
		s.in.Close()
		synctest.Wait()
		if again.err != io.EOF || s.asked != 2 {
			t.Errorf("the next one: %v, asked %d times", again.err, s.asked)
		}
	})
}

// Who comes while a document is being given up begins anew.
func TestOpenAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tap{typ: "text/xml"}
		stuck := make(chan struct{})
		f := NewFront(Options{Name: "r", Resolve: plain, Fetch: func(ctx context.Context, at Location, etag, modified string) (*Copy, error) {
			if s.asked == 0 {
				s.asked++
				<-stuck // a source that does not end at once
				return nil, context.Cause(ctx)
			}
			return s.fetch(ctx, at, etag, modified)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		if _, err := f.Get(ctx, "/a?wsdl"); err != context.Canceled {
			t.Errorf("got %v", err)
		}
		doc := large(100_000)
		r := s.begin(t, f, doc, len(doc))
		close(stuck)
		go r.run()
		s.in.Close()
		synctest.Wait()
		if r.err != io.EOF || s.asked != 2 {
			t.Errorf("got %v, asked %d times", r.err, s.asked)
		}
		f.Wait()
		if d, err := f.Get(t.Context(), "/a?wsdl"); err != nil || string(d.Body) != doc || s.asked != 2 {
			t.Errorf("then %v, asked %d times", err, s.asked)
		}
	})
}

// A document that turns bad after its first octets have gone on is never whole for
// anybody, and is not kept.
func TestOpenBroken(t *testing.T) {
	cut := errors.New("cut")
	whole := large(200_000)
	half := strings.LastIndex(whole[:150_000], "<w:documentation>")
	for name, tt := range map[string]struct {
		rest string
		end  error // nil: of the body
		want error
	}{
		"cut":                 {"<w:more>", cut, cut},
		"ended early":         {"<w:more>", nil, nil},
		"not well-formed":     {"<w:more></w:less>" + whole[half:], nil, nil},
		"a second root":       {whole[half:] + "<w:more/>", nil, nil},
		"cut behind the root": {whole[half:], cut, cut},
		"too large":           {"<w:more>" + strings.Repeat("x", MaxDocument), nil, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				s := &tap{typ: "text/xml"}
				f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain, Shelf: NewShelf(dir)})
				r := s.begin(t, f, whole, half)
				waits := make(chan error, 1)
				go func() {
					_, err := f.Get(t.Context(), "/a?wsdl")
					waits <- err
				}()
				go r.run()
				synctest.Wait()
				_, _ = io.WriteString(s.in, tt.rest)
				_ = s.in.CloseWithError(tt.end)
				synctest.Wait()
				if r.err == nil || r.err == io.EOF || tt.want != nil && !errors.Is(r.err, tt.want) {
					t.Errorf("got error %v, want %v", r.err, tt.want)
				}
				if err := <-waits; err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("who waits for the whole got %v, want %v", err, tt.want)
				}
				if len(r.got) < 100_000 {
					t.Errorf("only %d octets went out", len(r.got))
				}
				if _, err := wsdl.Parse(r.got); err == nil {
					t.Error("what went out looks whole")
				}
				f.Wait()
				if files, _ := os.ReadDir(dir); len(files)+len(f.entries) > 0 {
					t.Errorf("kept: %v, %d places", files, len(f.entries))
				}
			})
		})
	}
}

// A source that tells its length is refused before anything goes out.
func TestOpenTooLarge(t *testing.T) {
	s := &tap{typ: "text/xml", length: MaxDocument + 1}
	f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain})
	if d, stream, err := f.Open(t.Context(), "/a?wsdl"); !errors.Is(err, ErrTooLarge) || !s.closed {
		t.Errorf("got a document %t, a stream %t, %v, closed %t", d != nil, stream != nil, err, s.closed)
	}
}

// How long a source may take: patience for the beginning, more where it goes on
// to somebody.
func TestOpenSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tap{typ: "text/xml"}
		f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain})
		began := time.Now()
		if d, stream, err := f.Open(t.Context(), "/a?wsdl"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got a document %t, a stream %t, %v", d != nil, stream != nil, err)
		}
		if took := time.Since(began); took != patience {
			t.Errorf("waited for %v, want %v", took, patience)
		}
		doc := large(200_000)
		for _, pace := range []time.Duration{longest/2 - time.Second, longest/2 + time.Second} {
			f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain})
			r := s.begin(t, f, doc, 100_000)
			go r.run()
			for i := range 2 {
				time.Sleep(pace)
				_, _ = io.WriteString(s.in, doc[100_000+i*50_000:][:50_000])
			}
			_, _ = io.WriteString(s.in, doc[200_000:])
			s.in.Close()
			synctest.Wait()
			if inTime := 2*pace < longest; inTime != (r.err == io.EOF) || !inTime && !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("in %v: got %v", 2*pace, r.err)
			}
		}
	})
}

// What a stream gives is what the kept document gives, in any charset, and what is
// remembered of it is the same.
func TestOpenAgrees(t *testing.T) {
	wide := func(s string) string {
		b := []byte("\xff\xfe")
		for _, c := range s {
			b = append(b, byte(c), byte(c>>8))
		}
		return string(b)
	}
	text := large(200_000)
	for _, tt := range []struct{ name, typ, body string }{
		{"utf-8", "text/xml; charset=utf-8", `<?xml version="1.0"?>` + text},
		{"a byte order mark", "application/wsdl+xml", "\xEF\xBB\xBF" + text},
		{"no type", "", text},
		{"us-ascii", "text/xml; charset=us-ascii", text},
		{"latin-1", `text/xml; charset="iso-8859-1"`, "<!-- \xe9 -->" + text},
		{"latin-1 by its declaration", "text/xml", "<?xml version='1.0' encoding='iso-8859-1'?><!-- \xe9 -->" + text},
		{"utf-16", "text/xml", wide("<?xml version='1.0' encoding='UTF-16'?><!-- \u20ac -->" + text)},
		{"not latin-1", "text/xml; charset=us-ascii", text[:150_000] + "\xe9" + text[150_000:]},
		{"utf-16 cut", "text/xml", wide(text) + "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &tap{typ: tt.typ}
				f := NewFront(Options{Name: "r", Fetch: s.fetch, Resolve: plain})
				r := s.begin(t, f, tt.body, 150_000)
				go r.run()
				_, _ = io.WriteString(s.in, tt.body[150_000:])
				s.in.Close()
				synctest.Wait()
				f.Wait()
				want, err := newDocument("/a?wsdl", &Copy{Type: tt.typ}, []byte(tt.body), sha256.Sum256([]byte(tt.body)))
				if err != nil {
					if r.err == nil || r.err == io.EOF {
						t.Errorf("as a whole: %v, as a stream: %v", err, r.err)
					}
					return
				}
				pieces, _ := want.Rewrite(mapped)
				if r.err != io.EOF || !bytes.Equal(r.got, bytes.Join(pieces, nil)) || r.Type() != want.Type {
					t.Errorf("got %d octets of %s, %v; want %d of %s", len(r.got), r.Type(), r.err, len(want.Body), want.Type)
				}
				got, err := f.Get(t.Context(), "/a?wsdl")
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.Body, want.Body) || got.sum != want.sum || got.source != want.source || got.sourceType != want.sourceType ||
					got.Type != want.Type || got.Kind != want.Kind || fmt.Sprint(got.Refs()) != fmt.Sprint(want.Refs()) {
					t.Errorf("another document is kept: %s, %v, %x", got.Type, got.Kind, got.sum)
				}
			})
		})
	}
}

// A shelf that cannot keep a document, and a source that panics, are no reason for
// others to wait.
func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	doc := large(100_000)
	fetch := func(context.Context, Location, string, string) (*Copy, error) {
		return &Copy{Status: 200, Body: content(doc)}, nil
	}
	f := NewFront(Options{Name: "r", Fetch: fetch, Resolve: plain, Shelf: NewShelf(file)})
	if d, err := f.Get(t.Context(), "/a?wsdl"); err != nil || string(d.Body) != doc {
		t.Errorf("nowhere to keep it: %v", err)
	}
	f = NewFront(Options{Name: "r", Resolve: plain, Fetch: func(context.Context, Location, string, string) (*Copy, error) { panic("no") }})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if d, err := f.Get(t.Context(), "/a?wsdl"); err == nil {
				t.Errorf("got %v", d)
			}
		})
	}
	wg.Wait()
}
