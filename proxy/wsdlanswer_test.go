package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"soapway/proxy/describe"
	"soapway/soapcodec"
)

// large is a description of about 200 KB, with its address at the end.
func large(address string) string {
	return describes(address, strings.Repeat("<w:documentation>more &amp; more</w:documentation>", 4000))
}

// pouring is a node whose description at /svc?wsdl a test lets run.
func pouring(n *node, fields ...string) (in func() *io.PipeWriter) {
	var w *io.PipeWriter
	n.answer = func(ctx context.Context, req *Request) (*Response, error) {
		if req.Method != http.MethodGet {
			return respond(200, "text/xml", reply11), nil
		}
		if req.Path+"?"+req.Query != "/svc?wsdl" {
			return respond(404, "text/html", ""), nil
		}
		var r *io.PipeReader
		r, w = io.Pipe()
		resp := respond(200, "text/xml", "", fields...)
		stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
		resp.Length, resp.Body = -1, struct {
			io.Reader
			io.Closer
		}{r, closing(func() error { stop(); return r.Close() })}
		return resp, nil
	}
	return func() *io.PipeWriter { return w }
}

type closing func() error

func (f closing) Close() error { return f() }

// A large description that nobody has asked for goes on while it comes; what is made
// of it is what is made of the kept one, which is there afterwards.
func TestDescribeComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = "http://node.test:9000/svc"
		n := newNode(at)
		in := pouring(n)
		doc, want := large(at), large("http://gw.test/svc")
		var o observed
		h := one(t, Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{Shelf: describe.NewShelf(filepath.Join(t.TempDir(), "wsdl"))}}, n)
		h.opt.Observer = &o
		go func() {
			synctest.Wait()
			_, _ = io.WriteString(in(), doc[:100_000])
		}()
		r := h.Serve(t.Context(), get("/svc?wsdl"))
		if r.Status != 200 || r.Length != -1 || r.Header.Get("Content-Type") != "text/xml; charset=utf-8" && r.Header.Get("Content-Type") != "text/xml" || r.Header.Get("Etag") != "" {
			t.Fatalf("got %d, length %d, %v", r.Status, r.Length, r.Header)
		}
		begun := make([]byte, 60_000)
		if _, err := io.ReadFull(r.Body, begun); err != nil {
			t.Fatal(err)
		}
		// A message that is checked waits for the rest, as do others who need all of it.
		f := h.table.Load().byName["r"].front
		answers := make(chan got, 3)
		head := get("/svc?wsdl")
		head.Method = http.MethodHead
		for _, ex := range []*Exchange{head, get("/svc?wsdl", "If-None-Match", `"x"`), get("/svc?singleWsdl")} {
			go func() { answers <- serve(t, h, ex) }()
		}
		synctest.Wait()
		if len(answers) > 0 || f.Known("/svc?wsdl") != nil {
			t.Fatalf("half a description was enough for %d", len(answers))
		}
		go func() {
			_, _ = io.WriteString(in(), doc[100_000:])
			in().Close()
		}()
		rest, err := io.ReadAll(struct{ io.Reader }{r.Body})
		if got := string(begun) + string(rest); err != nil || got != want {
			t.Errorf("got %d octets of %d, %v", len(got), len(want), err)
		}
		r.Close()
		tag := ""
		for range 3 {
			g := <-answers
			if g.Status != 200 || g.Length != int64(len(want)) || g.Header.Get("Etag") == "" || g.Body != nil && g.body != want {
				t.Errorf("got %d, length %d, want %d", g.Status, g.Length, len(want))
			}
			tag = g.Header.Get("Etag")
		}
		serve(t, h, get("/svc?wsdl")).wantAnswer(t, 200, want)
		if asked := n.asked(); strings.Join(asked, " ") != "/svc?wsdl /svc?singleWsdl" {
			t.Errorf("the node was asked %q", asked)
		}
		if e := o.exchanges[0]; e.Outcome != OutcomeAnswered {
			t.Errorf("outcome %s", e.Outcome)
		}
		if tag == "" {
			t.Error("no tag")
		}
		learnNow(t, h)
		if s := f.Known("/svc?wsdl"); s == nil || len(s.Operations()) != 1 {
			t.Errorf("the operations are not known: %v", s)
		}
		h.table.Load().Wait()
	})
}

// wsdl_check waits for a description that somebody else gets.
func TestCheckWhileComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = "http://node.test/svc"
		n := newNode(at)
		in := pouring(n)
		doc := large(at)
		h := one(t, Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{Check: true}}, n)
		go func() {
			synctest.Wait()
			_, _ = io.WriteString(in(), doc[:100_000])
		}()
		r := h.Serve(t.Context(), get("/svc?wsdl"))
		answer := make(chan got, 1)
		go func() {
			ex := exchange("text/xml", env11)
			ex.Target = "/svc"
			answer <- serve(t, h, ex)
		}()
		synctest.Wait()
		if len(answer) > 0 {
			t.Fatal("the message did not wait")
		}
		r.Close() // the caller has seen enough; the message has not
		_, _ = io.WriteString(in(), doc[100_000:])
		in().Close()
		(<-answer).wantAnswer(t, 200, reply11)
		if asked := n.asked(); len(asked) != 1 {
			t.Errorf("the node was asked %q", asked)
		}
	})
}

// A description that breaks off, or turns bad, on its way to the caller is cut there;
// one that does so before is a fault.
func TestDescribeBreaks(t *testing.T) {
	const at = "http://node.test/svc"
	doc := large(at)
	half := strings.LastIndex(doc[:150_000], "<w:documentation>")
	bad := &SendError{Class: Maybe, Timeout: true, Err: errors.New("slow")}
	for name, c := range map[string]struct {
		parts []string
		end   error
		code  soapcodec.Code
		fault bool
	}{
		"broken off":            {[]string{doc[:half]}, io.ErrUnexpectedEOF, soapcodec.CodeBackendBroken, false},
		"stalled":               {[]string{doc[:half]}, bad, soapcodec.CodeBackendTimeout, false},
		"not XML":               {[]string{doc[:half], "<br></w:more>"}, nil, soapcodec.CodeBackendNotSOAP, false},
		"more than a document":  {[]string{doc[:half], doc[half:], "<html/>"}, nil, soapcodec.CodeBackendNotSOAP, false},
		"broken off, small":     {[]string{doc[:1000]}, io.ErrUnexpectedEOF, soapcodec.CodeBackendBroken, true},
		"stalled, small":        {[]string{doc[:1000]}, bad, soapcodec.CodeBackendTimeout, true},
		"a web page":            {[]string{"<html><br>", strings.Repeat("<p>down<br>", 20_000)}, nil, soapcodec.CodeBackendNotSOAP, true},
		"a DOCTYPE, then large": {[]string{"<!DOCTYPE d []>", doc}, nil, soapcodec.CodeBackendNotSOAP, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(at)
				in := pouring(n)
				var o observed
				h := one(t, Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{}}, n)
				h.opt.Observer = &o
				go func() {
					synctest.Wait()
					w := in()
					for _, part := range c.parts {
						_, _ = io.WriteString(w, part)
						synctest.Wait()
					}
					_ = w.CloseWithError(c.end)
				}()
				g := serve(t, h, get("/svc?wsdl"))
				if c.fault {
					g.wantFault(t, soapcodec.V11, c.code)
				} else {
					if g.Status != 200 || g.err == nil || len(g.body) < 100_000 {
						t.Errorf("got %d, %d octets, %v", g.Status, len(g.body), g.err)
					}
					if strings.Contains(g.body, "</w:definitions>") {
						t.Error("what the caller has looks whole")
					}
				}
				if e := o.exchanges[0]; e.Outcome != OutcomeFailed || e.Code != c.code {
					t.Errorf("outcome %s, code %s; want code %s", e.Outcome, e.Code, c.code)
				}
				// It is asked for again.
				n.do(map[string]string{"/svc?wsdl": doc})
				serve(t, h, get("/svc?wsdl")).wantAnswer(t, 200, large("http://gw.test/svc"))
			})
		})
	}
}

// A caller who leaves lets go of the node, if nobody else wants the description.
func TestDescribeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = "http://node.test/svc"
		n := newNode(at)
		in := pouring(n)
		h := one(t, Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{}}, n)
		failed := make(chan error)
		go func() {
			synctest.Wait()
			_, err := io.WriteString(in(), large(at)[:100_000])
			if err == nil {
				synctest.Wait()
				_, err = io.WriteString(in(), "more")
			}
			failed <- err
		}()
		ctx, cancel := context.WithCancel(t.Context())
		r := h.Serve(ctx, get("/svc?wsdl"))
		cancel()
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{r.Body}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		r.Close()
		if err := <-failed; err == nil {
			t.Error("the node goes on")
		}
		h.table.Load().Wait()
	})
}

// A node may compress although nobody has asked for it.
func TestDescribeCoded(t *testing.T) {
	const at = "http://node.test/svc"
	for _, doc := range []func(string) string{func(a string) string { return describes(a, "") }, large} {
		for _, name := range append(codings, "unheard-of") {
			n := newNode(at)
			field := name
			if name == "raw" {
				field = "deflate"
			}
			n.answer = func(context.Context, *Request) (*Response, error) {
				return respond(200, "text/xml", string(encode(t, name, []byte(doc(at)))), "Content-Encoding", field), nil
			}
			h := one(t, Route{Match: Match{Path: "/svc"}, WSDL: &WSDL{}}, n)
			g := serve(t, h, get("/svc?wsdl"))
			if name == "unheard-of" {
				g.wantFault(t, soapcodec.V11, soapcodec.CodeBackendNotSOAP)
				continue
			}
			if g.wantAnswer(t, 200, doc("http://gw.test/svc")); g.Header.Has("Content-Encoding") {
				t.Errorf("%s: the answer has %v", name, g.Header)
			}
		}
	}
}
