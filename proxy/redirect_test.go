package proxy

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"soapway/proxy/balance"
	"soapway/soapcodec"
)

// TestFollow: where a redirect leads, from http://node.test/base/svc?x with the
// message at /base/svc/part?q. "" is: it passes on.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		location string
		status   int    // default 307
		want     string // node and target of the second request
	}{
		{location: "/v2/parcel", want: "http://node.test /v2/parcel"},
		{location: "/v2/parcel", status: 308, want: "http://node.test /v2/parcel"},
		{location: "/v2/parcel?a=b&c", want: "http://node.test /v2/parcel?a=b&c"},
		{location: "/v2/parcel?", want: "http://node.test /v2/parcel?"},
		{location: "/v2/%41%2F%c3%bc?%20", want: "http://node.test /v2/%41%2F%c3%bc?%20"},
		{location: "/v2/parcel#top", want: "http://node.test /v2/parcel"},
		{location: "other", want: "http://node.test /base/svc/other"},
		{location: "../other/./x", want: "http://node.test /base/other/x"},
		{location: "?y", want: "http://node.test /base/svc/part?y"},
		{location: "http://node.test/abs", want: "http://node.test /abs"},
		{location: "HTTP://NODE.TEST:80/abs", want: "http://node.test /abs"},
		{location: "http://node.test", want: "http://node.test /"},
		{location: "//node.test/x", want: "http://node.test /x"},
		{location: "http://second.test:8080/x", want: "http://second.test:8080 /x"},

		{location: "/x", status: 301},
		{location: "/x", status: 302},
		{location: "/x", status: 303},
		{location: "/x", status: 300},
		{location: ""},
		{location: "https://node.test/x"},
		{location: "http://node.test:8080/x"},
		{location: "http://second.test/x"},
		{location: "http://other.test/x"},
		{location: "//other.test/x"},
		{location: "http://user@node.test/x"},
		{location: "http://node.test@other.test/x"},
		{location: "http://other.test\\@node.test/x"},
		{location: "ftp://node.test/x"},
		{location: "http:/x"},
		{location: "mailto:a@b"},
		{location: "/x/%2e%2e/y"},
		{location: "/x?a b"},
		{location: "/x?\u00fc"},
		{location: "%zz"},
		{location: "http://169.254.10.10/latest"},
	} {
		status := c.status
		if status == 0 {
			status = 307
		}
		a, b := newNode("http://node.test/base/svc"), newNode("http://second.test:8080/svc")
		for _, n := range []*node{a, b} {
			n.answer = func(_ context.Context, req *Request) (*Response, error) {
				if req.Path != "" {
					return respond(200, "text/xml", reply11), nil
				}
				return respond(status, "text/html", "<html>moved</html>", "Location", c.location), nil
			}
		}
		for _, stored := range []bool{false, true} {
			a.got, b.got = nil, nil
			r := Route{Name: "r", Match: Match{Path: "/depot/*"}, Backend: &Backend{Nodes: []Node{a, b}, Policy: inOrder{}, Follow: true}}
			ex := exchange("text/xml", env11, "SOAPAction", `"urn:x"`, "Authorization", "Basic x")
			ex.Target = "/depot/part?q"
			s := &shelf{}
			if stored {
				r.Delivery = Queue
			}
			h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{r}}), Options{Enqueuer: s})
			g := serve(t, h, ex)
			if stored {
				d := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1})
				if delivered := d.Verdict == VerdictDelivered; delivered != (c.want != "") {
					t.Errorf("%d %q, stored: got %v %q", status, c.location, d.Verdict, d.Reason)
				}
			} else if want := map[bool]int{true: status, false: 200}[c.want == ""]; g.Status != want {
				t.Errorf("%d %q: got %d, want %d", status, c.location, g.Status, want)
			}
			var got strings.Builder
			for _, n := range []*node{a, b} {
				for _, s := range n.got {
					if s.Path != "" {
						got.WriteString(parseNodeURL(n.name).scheme + "://" + parseNodeURL(n.name).authority + " " + s.Path)
						if s.HasQuery {
							got.WriteString("?" + s.Query)
						}
						if s.body != env11 || s.Header.Get("Authorization") != "Basic x" && !stored || s.Header.Get(soapActionKey) != `"urn:x"` || s.Method != "POST" {
							t.Errorf("%d %q: the second request is %s %v %q", status, c.location, s.Method, s.Header, s.body)
						}
					}
				}
			}
			if got.String() != c.want {
				t.Errorf("%d %q: followed to %q, want %q", status, c.location, got.String(), c.want)
			}
		}
	}
}

// inOrder is the policy that takes the nodes in their order.
type inOrder struct{}

var _ balance.Policy = inOrder{}

func (inOrder) Pick(n balance.Nodes) int {
	for i := range n.Len() {
		if n.Weight(i) > 0 {
			return i
		}
	}
	return -1
}

// TestFollowEnds: five redirects are followed, and a sixth is the service's fault.
func TestFollowEnds(t *testing.T) {
	for _, hops := range []int{1, 5, 6, 1000} {
		n := newNode("http://node.test/svc")
		left := hops
		n.answer = func(context.Context, *Request) (*Response, error) {
			if left--; left < 0 {
				return respond(200, "text/xml", reply11), nil
			}
			return respond(307, "", "", "Location", fmt.Sprintf("/hop%d", left)), nil
		}
		s := &shelf{}
		h := one(t, Route{Backend: &Backend{Nodes: []Node{n}, Follow: true}})
		g := serve(t, h, exchange("text/xml", env11))
		if hops <= 5 {
			g.wantAnswer(t, 200, reply11)
		} else {
			g.wantFault(t, soapcodec.V11, soapcodec.CodeBackendNotSOAP)
		}
		if want := min(hops, 5) + 1; len(n.got) != want {
			t.Errorf("%d redirects: the node got %d requests, want %d", hops, len(n.got), want)
		}
		if hops <= 5 {
			continue
		}
		left = hops
		h = NewHandler(mustCompile(t, TableOptions{Routes: []Route{{Name: "r", Delivery: Queue, Backend: &Backend{Nodes: []Node{n}, Follow: true}}}}), Options{Enqueuer: s})
		serve(t, h, exchange("text/xml", env11))
		if d := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1}); d.Verdict != VerdictDead || d.Unhealthy || d.Reason == "" {
			t.Errorf("a stored message that is redirected without end: got %+v", d)
		}
	}
}

// TestFollowNeedsTheBody: a message of which nothing is left passes on with its
// redirect, and one whose redirect cannot be followed tells so.
func TestFollowNeedsTheBody(t *testing.T) {
	n := newNode("http://node.test/svc")
	n.answer = func(_ context.Context, req *Request) (*Response, error) {
		if req.Path != "" {
			return nil, &SendError{Class: NotSent, Err: errDial}
		}
		return respond(307, "", "", "Location", "/else"), nil
	}
	b := &Backend{Nodes: []Node{n}, Follow: true}
	r := streamRoute()
	r.Backend = b
	ex := exchange("text/xml", "")
	doc := big(300_000)
	ex.Body, ex.Length = bytes.NewReader(doc), int64(len(doc))
	if g := serve(t, one(t, r), ex); g.Status != 307 || len(n.got) != 1 {
		t.Errorf("a streamed message: got %d after %d requests, want 307 after 1", g.Status, len(n.got))
	}
	n.got = nil
	serve(t, one(t, Route{Backend: b}), exchange("text/xml", env11)).wantFault(t, soapcodec.V11, soapcodec.CodeBackendUnavailable)
	if len(n.got) != 2 {
		t.Errorf("%d requests, want 2", len(n.got))
	}
}
