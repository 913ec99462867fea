package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"soapway/soapcodec"
)

// handedOver is what the site that has accepted a message keeps of it when another has
// taken it, and what the node of that other site got.
func handedOver(t *testing.T, h *Handler, m *Stored, n *node) ([]byte, *Request) {
	t.Helper()
	var got *Request
	n.answer = func(_ context.Context, r *Request) (*Response, error) {
		got = r
		return &Response{Status: http.StatusAccepted, Later: true}, nil
	}
	m.Label = "label"
	r := h.Deliver(t.Context(), m, Try{Attempt: 1})
	if r.Verdict != VerdictDelivered || r.Kept != nil || r.Next != nil {
		t.Fatalf("Deliver: got %+v, want it delivered, and nothing kept or sent on", r)
	}
	return r.Awaits, got
}

// arrived is what a site stores of a message of another whose answer is wanted there.
func arrived(t *testing.T, h *Handler, s *shelf, req *Request, id string) *Stored {
	t.Helper()
	body, err := req.Body()
	if err != nil {
		t.Fatal(err)
	}
	ex := exchange(req.Header.Get("Content-Type"), "", "SOAPAction", `"urn:a"`)
	ex.Route, ex.Target, ex.Body, ex.Length = "r", "", body, req.Length
	ex.Arrival = &Arrival{Site: "plant", Sites: []string{"plant"}, Label: "came", WantsReply: id}
	if a := h.Arrive(t.Context(), []*Exchange{ex}); a[0].Outcome != OutcomeStored {
		t.Fatalf("Arrive: got %+v, want it stored", a)
	}
	return s.kept[len(s.kept)-1]
}

// TestAnswerComesBack: the answer of a service at another site becomes what that of a
// service here would, in the caller's version, whichever site translates.
func TestAnswerComesBack(t *testing.T) {
	reply12 := strings.ReplaceAll(reply11, soapcodec.NS11, soapcodec.NS12)
	to12 := Route{Translate: soapcodec.V12}
	for _, tt := range []struct {
		name      string
		here, far Route
		resp      *Response
		typ, want string // what is kept for the caller
		dead      string // part of the reason
	}{
		{name: "as it came", resp: respond(200, "Text/XML ;charset=UTF-8", reply11), typ: "Text/XML ;charset=UTF-8", want: reply11},
		{name: "empty", resp: respond(202, "", "")},
		{name: "translated there", far: to12, resp: respond(200, "application/soap+xml", reply12), typ: "text/xml; charset=utf-8", want: reply11},
		{name: "translated here", here: to12, resp: respond(200, "application/soap+xml", reply12), typ: "text/xml; charset=utf-8", want: reply11},
		{name: "what the far route does with answers does not count", far: Route{KeepReplies: true, ReplyKeep: -1, ReplyTo: true}, resp: respond(200, "text/xml", reply11), typ: "text/xml", want: reply11},
		{name: "fault", resp: respond(500, "text/xml", fault11Of("s:Client")), dead: `fault code "Client"`},
		{name: "refused", resp: respond(404, "text/html", "<html>secret"), dead: "status 404"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.here.KeepReplies, tt.here.ReplyKeep = true, time.Hour
			node, service := newNode("site:hq/r"), newNode("http://service")
			service.answer = always(tt.resp, nil)
			shelf1, shelf2 := &shelf{}, &shelf{}
			here, far := storing(t, shelf1, tt.here, node), storing(t, shelf2, tt.far, service)
			if g := serve(t, here, exchange("text/xml", env11)); g.Status != 202 {
				t.Fatalf("not stored: %d %s", g.Status, g.body)
			}
			m := shelf1.kept[0]
			awaits, req := handedOver(t, here, m, node)
			if !req.WantsReply || awaits == nil {
				t.Fatalf("the answer is not asked for, or not awaited: %t, %s", req.WantsReply, awaits)
			}
			there := arrived(t, far, shelf2, req, m.ID)
			if !there.Forwards {
				t.Error("the message does not lead to an answer")
			}
			r := far.Deliver(t.Context(), there, Try{Attempt: 1})
			if want := map[bool]Verdict{true: VerdictDead}[tt.dead != ""]; r.Verdict != want || r.Kept != nil || r.Next == nil {
				t.Fatalf("Deliver there: got %+v", r)
			}
			if r.Next.Route != "replies@site:plant" || r.Next.Backend != "site:plant" {
				t.Errorf("the answer goes to %s, %s", r.Next.Route, r.Next.Backend)
			}
			if err := CheckStored(r.Next.Meta); err != nil {
				t.Errorf("CheckStored: %v", err)
			}
			a, err := ReadReturn(r.Next.Meta)
			if err != nil {
				t.Fatal(err)
			}
			if a.ID != m.ID || a.Dead != (tt.dead != "") || !strings.Contains(a.Reason, tt.dead) || strings.Contains(a.Reason+a.Type, "secret") || a.Doubt {
				t.Errorf("the answer says %+v", a)
			}
			got, err := here.Answer(t.Context(), &Stored{ID: m.ID, Route: "r", Meta: awaits}, a, r.Next.Body)
			if err != nil {
				t.Fatal(err)
			}
			if tt.dead != "" {
				if got.Verdict != VerdictDead || got.Kept != nil || !strings.Contains(got.Reason, tt.dead) {
					t.Errorf("Answer: got %+v", got)
				}
				return
			}
			if got.Verdict != VerdictDelivered || got.Kept == nil {
				t.Fatalf("Answer: got %+v, want that it is kept", got)
			}
			meta, err := readReplyMeta(got.Kept.Meta)
			if err != nil {
				t.Fatal(err)
			}
			if string(meta.Type) != tt.typ || string(got.Kept.Body) != tt.want || meta.SOAP != "1.1" {
				t.Errorf("kept %q of %q for %s, want %q of %q", got.Kept.Body, meta.Type, meta.SOAP, tt.want, tt.typ)
			}
		})
	}
}

// TestAnswerGoesOn: a site in the middle hands an answer on to the site before, with
// the sites that it has passed; its own route has nothing to say to that.
func TestAnswerGoesOn(t *testing.T) {
	node := newNode("site:hq/r")
	s := &shelf{}
	h := storing(t, s, Route{}, node)
	body := []byte(env11)
	first := &Request{Header: nil, Body: (&message{data: body}).open, Length: int64(len(body))}
	first.Header.Set("Content-Type", "text/xml")
	m := arrived(t, h, s, first, "id-at-plant")
	awaits, req := handedOver(t, h, m, node)
	if !req.WantsReply || !slices.Equal(req.Sites, []string{"plant"}) {
		t.Errorf("the request wants its answer: %t, and has passed %v", req.WantsReply, req.Sites)
	}
	for _, far := range []*FarAnswer{
		{ID: m.ID, Status: 200, Type: "text/xml", SOAP: "1.1", Sites: []string{"hq"}},
		{ID: m.ID, Status: 404, SOAP: "1.1", Sites: []string{"hq"}, Dead: true, Reason: "permanent: status 404", Doubt: true},
	} {
		text := []byte(reply11)
		if far.Dead {
			text = nil
		}
		r, err := h.Answer(t.Context(), &Stored{ID: m.ID, Route: "r", Meta: awaits}, far, text)
		if err != nil || r.Kept != nil || r.Next == nil {
			t.Fatalf("Answer: got %+v, %v", r, err)
		}
		a, err := ReadReturn(r.Next.Meta)
		if err != nil {
			t.Fatal(err)
		}
		if a.ID != "id-at-plant" || !slices.Equal(a.Sites, []string{"hq"}) || a.Dead != far.Dead || a.Reason != far.Reason || a.Doubt != far.Doubt || string(r.Next.Body) != string(text) {
			t.Errorf("it goes on as %+v with %q", a, r.Next.Body)
		}
	}
}

// TestAnswerRefused: what cannot be the answer to a message changes nothing.
func TestAnswerRefused(t *testing.T) {
	node := newNode("site:hq/r")
	s := &shelf{}
	h := storing(t, s, Route{KeepReplies: true}, node)
	if g := serve(t, h, exchange("text/xml", env11)); g.Status != 202 {
		t.Fatalf("not stored: %d", g.Status)
	}
	m := s.kept[0]
	awaits, _ := handedOver(t, h, m, node)
	large := strings.Replace(reply11, "</s:Body>", strings.Repeat("<x/>", MaxKept/4)+"</s:Body>", 1)
	for _, tt := range []struct {
		name  string
		a     FarAnswer
		body  string
		route string
	}{
		{name: "no envelope", a: FarAnswer{Type: "text/xml"}, body: "<x/>"},
		{name: "no SOAP", a: FarAnswer{Type: "text/html"}, body: "<html/>"},
		{name: "a fault of a message that was delivered", a: FarAnswer{Type: "text/xml"}, body: fault11Of("s:Client")},
		{name: "an answer of one that is dead", a: FarAnswer{Type: "text/xml", Dead: true}, body: reply11},
		{name: "too large", a: FarAnswer{Type: "text/xml"}, body: large},
		{name: "cut off", a: FarAnswer{Type: "text/xml"}, body: reply11[:len(reply11)-3]},
		{name: "a route that is gone", a: FarAnswer{Type: "text/xml"}, body: reply11, route: "gone"},
	} {
		if tt.route == "" {
			tt.route = "r"
		}
		statuses := []int{0, 200, 204, 304, 999}
		if len(tt.body) > MaxKept {
			statuses = statuses[:2]
		}
		for _, status := range statuses {
			tt.a.Status = status
			r, err := h.Answer(t.Context(), &Stored{ID: m.ID, Route: tt.route, Meta: awaits}, &tt.a, []byte(tt.body))
			if err == nil || tt.route == "r" && !errors.Is(err, ErrFarAnswer) {
				t.Errorf("%s, status %d: got %+v, %v, want that it is refused", tt.name, status, r, err)
			}
		}
	}
}

// TestLastWord: a site that waits is told that no answer will come, and nobody else.
func TestLastWord(t *testing.T) {
	plain := storedMessage(t, env11)
	if m := LastWord(plain.Meta, "expired"); m != nil {
		t.Errorf("LastWord of a message that nobody waits for: got %+v", m)
	}
	if m := LastWord([]byte("{"), "expired"); m != nil {
		t.Errorf("LastWord of what cannot be read: got %+v", m)
	}
	if _, err := ReadReturn(plain.Meta); err == nil {
		t.Error("ReadReturn takes a message that is no answer")
	}
	meta := storedMeta{V: metaVersion, SOAP: "1.2", Back: &backWish{Site: "plant", ID: "id-1", SOAP: "1.2"}}
	m := LastWord(meta.append(nil), "expired:\r\nlate")
	if m == nil || m.Route != ReturnRoute("plant") || len(m.Body) != 0 {
		t.Fatalf("LastWord: got %+v", m)
	}
	if a, err := ReadReturn(m.Meta); err != nil || a.ID != "id-1" || !a.Dead || a.Reason != "expired:  late" || a.Type != "" {
		t.Errorf("it says %+v, %v", a, err)
	}
}
