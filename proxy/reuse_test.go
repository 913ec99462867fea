package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"soapway/internal/field"
)

// reuseKinds are exchanges of every kind, by what is kept of them for the next.
var reuseKinds = []struct {
	name  string
	kept  bool
	make  func() *Exchange
	reply func() (*Response, error)
}{
	{"plain", true, func() *Exchange { return exchange("text/xml", env11, "SOAPAction", `"urn:a"`) }, nil},
	{"many fields", true, func() *Exchange {
		ex := exchange("text/xml; charset=utf-8", env11, "SOAPAction", `"urn:b"`)
		for i := range 20 {
			ex.Header.Add(fmt.Sprintf("X-Field-%d", i), strings.Repeat("v", i))
		}
		ex.Target += "?q=1"
		return ex
	}, nil},
	{"few fields", true, func() *Exchange { return exchange("text/xml", strings.Replace(env11, ">x<", ">yy<", 1)) }, nil},
	{"1.2", true, func() *Exchange { return exchange("application/soap+xml", env12) }, nil},
	{"fault", true, func() *Exchange { return exchange("text/xml", env11) }, func() (*Response, error) {
		return respond(500, "text/xml", fault11, "X-Of-The-Fault", "yes", "Connection", "x-named", "X-Named", "1"), nil
	}},
	{"not SOAP", false, func() *Exchange { return exchange("text/xml", env11) }, func() (*Response, error) {
		return respond(403, "text/html", "<p>", "Allow", "POST"), nil
	}},
	{"empty", false, func() *Exchange { return exchange("text/xml", env11) }, func() (*Response, error) {
		return &Response{Status: 202, Header: field.List{}}, nil
	}},
	{"bad message", false, func() *Exchange { return exchange("text/xml", env11[:50]) }, nil},
	{"no route", false, func() *Exchange {
		ex := exchange("text/xml", env11)
		ex.Target = "/elsewhere"
		return ex
	}, nil},
	{"media type", false, func() *Exchange { return exchange("text/html", env11) }, nil},
	{"node down", false, func() *Exchange { return exchange("text/xml", env11) }, func() (*Response, error) {
		return nil, &SendError{Class: Maybe, Err: errors.New("cut")}
	}},
	{"in memory at the node", false, func() *Exchange { return exchange("text/xml", env11) }, func() (*Response, error) {
		r := respond(200, "text/xml", reply11)
		r.Data = []byte(reply11)
		return r, nil
	}},
	{"streams", false, func() *Exchange {
		return exchange("text/xml", strings.Replace(env11, ">x<", ">"+strings.Repeat("x", 4<<10)+"<", 1))
	}, nil},
	{"streams back", false, func() *Exchange { return exchange("text/xml", env11) }, func() (*Response, error) {
		return respond(200, "text/xml", strings.Replace(env11, ">x<", ">"+strings.Repeat("x", 4<<10)+"<", 1)), nil
	}},
}

// What the exchanges before have left on a caller's connection changes nothing of the
// next one, and is there only when nobody can know it any more.
func TestReuse(t *testing.T) {
	var resp func() (*Response, error)
	seen := ""
	n := newNode("http://node.test/svc")
	n.answer = func(_ context.Context, req *Request) (*Response, error) {
		h := req.Header.Clone()
		h.Del(messageID)
		seen = fmt.Sprintf("%s %q %v %q %v %d %v", req.Method, req.Query, req.HasQuery, h, req.Once, req.Length, req.Version)
		if resp == nil {
			return respond(200, "text/xml; charset=utf-8", reply11, "X-Answer", "1"), nil
		}
		return resp()
	}
	h := one(t, Route{Match: Match{Path: "/depot"}, Limits: Limits{Buffer: 1 << 10}}, n)
	run := func(k *CallerConn, i int) (string, *call) {
		kind := &reuseKinds[i]
		seen, resp = "", kind.reply
		ex := kind.make()
		ex.Caller = k
		r := h.Serve(t.Context(), ex)
		var out strings.Builder
		out.WriteString(fmt.Sprintf("%d %v ", r.Status, r.CloseConnection))
		for _, f := range r.Header {
			if f.Name != messageID {
				out.WriteString(fmt.Sprintf("%s: %s; ", f.Name, f.Value))
			}
		}
		if id := r.Header.Get(messageID); id != ex.ID && id != "" {
			t.Errorf("%s: the id of the reply is %q, that of the exchange %q", kind.name, id, ex.ID)
		}
		if r.Body != nil {
			b, err := io.ReadAll(struct{ io.Reader }{r.Body})
			if kind.name == "bad message" { // its fault has the id
				b = nil
			}
			out.WriteString(fmt.Sprintf("%q %v", b, err))
		}
		if r.Close != nil {
			again := r.Close
			again()
			again() // which a listener never does
		}
		return seen + " | " + out.String(), k.spare.Load()
	}
	var want []string
	for i := range reuseKinds {
		out, spare := run(new(CallerConn), i)
		want = append(want, out)
		if kind := reuseKinds[i]; (spare != nil) != kind.kept {
			t.Errorf("%s: kept %v, want %v", kind.name, spare != nil, kind.kept)
		}
	}
	k := new(CallerConn)
	for i := range reuseKinds {
		for j := range reuseKinds {
			for _, n := range []int{i, j} {
				if got, _ := run(k, n); got != want[n] {
					t.Fatalf("%s, after %s and others: got\n%s\nwant\n%s", reuseKinds[n].name, reuseKinds[i].name, got, want[n])
				}
			}
		}
	}
}

// Nothing of an exchange stays in what is kept.
func TestReuseIsEmpty(t *testing.T) {
	h := one(t, Route{Match: Match{Path: "/depot"}}, newNode("http://node.test/svc"))
	k := new(CallerConn)
	ex := exchange("text/xml", env11, "Authorization", "Bearer secret")
	ex.Caller = k
	serve(t, h, ex)
	c := k.spare.Load()
	if c == nil {
		t.Fatal("nothing is kept")
	}
	for _, f := range append(c.requestFields[:cap(c.requestFields)], c.replyFields[:cap(c.replyFields)]...) {
		if f != (field.Field{}) {
			t.Errorf("a field is kept: %v", f)
		}
	}
	if cap(c.requestFields) == 0 || cap(c.replyFields) == 0 {
		t.Error("no memory for fields is kept")
	}
	if c.ex != nil || c.ctx != nil || c.route != nil || c.src != nil || c.msg.data != nil || c.reqRoom.Header != nil || c.replyRoom.Header != nil || c.typ != "" || !c.closed.Load() {
		t.Errorf("kept: %+v", c)
	}
}

// With a caller's connection an exchange allocates less.
func TestReuseAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget at random under the race detector")
	}
	h, doc, header := smallPath(t)
	var body bytes.Reader
	scratch := make([]byte, 32<<10)
	k := new(CallerConn)
	measure := func(k *CallerConn) float64 {
		return testing.AllocsPerRun(200, func() {
			body.Reset(doc)
			r := h.Serve(context.Background(), &Exchange{Method: "POST", Target: "/depot", Host: "gw.test", Header: header, Body: &body, Length: int64(len(doc)), Caller: k})
			for {
				if _, err := r.Body.Read(scratch); err != nil {
					break
				}
			}
			r.Close()
		})
	}
	if with, without := measure(k), measure(nil); with > without-5 {
		t.Errorf("an exchange allocates %v times with a connection and %v times without, want at least five less", with, without)
	}
}
