package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"soapway/soapcodec"
)

// repeating is an envelope with an id, and with a header that differs each time.
func repeating(ids []string, header, tag, body string) string {
	var b strings.Builder
	b.WriteString(`<s:Envelope xmlns:s="` + soapcodec.NS12 + `" xmlns:a="http://www.w3.org/2005/08/addressing"><s:Header>`)
	for _, id := range ids {
		fmt.Fprintf(&b, "<a:MessageID>%s</a:MessageID>", id)
	}
	fmt.Fprintf(&b, `<h:Sig xmlns:h="urn:h">%s</h:Sig></s:Header><s:Body %s>%s</s:Body></s:Envelope>`, header, tag, body)
	return b.String()
}

// TestIdentify: which messages are the same.
func TestIdentify(t *testing.T) {
	type sent struct {
		ids               []string
		header, tag, body string
		field             string // Idempotency-Key
		route             string
	}
	base := sent{ids: []string{"urn:1"}, header: "x", body: "<o/>"}
	with := func(f func(*sent)) sent { s := base; f(&s); return s }
	byField := with(func(s *sent) { s.ids, s.field = nil, "k" })
	tests := []struct {
		name             string
		a, b             sent
		sameKey, sameSum bool
	}{
		{"the same", base, base, true, true},
		{"signed again", base, with(func(s *sent) { s.header, s.tag = "y", `wsu:Id="7" xmlns:wsu="urn:w"` }), true, true},
		{"white space around the id", base, with(func(s *sent) { s.ids = []string{" urn:1\n"} }), true, true},
		{"another id", base, with(func(s *sent) { s.ids = []string{"urn:2"} }), false, true},
		{"another body", base, with(func(s *sent) { s.body = "<o >x</o>" }), true, false},
		{"one octet less in the body", base, with(func(s *sent) { s.body = "<o />" }), true, false},
		{"another route", base, with(func(s *sent) { s.route = "other" }), false, true},
		{"the MessageID counts before the field", base, with(func(s *sent) { s.field = "k" }), true, true},
		{"the field", byField, byField, true, true},
		{"the field, and a MessageID of the same text", byField, with(func(s *sent) { s.ids = []string{"k"} }), false, true},
	}
	identity := func(t *testing.T, s sent) *Identity {
		t.Helper()
		shelf := &shelf{}
		name := s.route
		if name == "" {
			name = "r"
		}
		n := newNode("http://node.test/")
		table, err := Compile(TableOptions{Routes: []Route{{Name: name, Delivery: Queue, Backend: &Backend{Name: "b", Nodes: []Node{n}}, Dedup: &Dedup{Window: time.Hour}}}})
		if err != nil {
			t.Fatal(err)
		}
		h := NewHandler(table, Options{Enqueuer: shelf})
		ex := exchange("application/soap+xml", repeating(s.ids, s.header, s.tag, s.body))
		if s.field != "" {
			ex.Header.Set("idempotency-key", s.field)
		}
		if g := serve(t, h, ex); g.Status != 202 {
			t.Fatalf("not stored: %d %s", g.Status, g.body)
		}
		i := shelf.kept[0].Identity
		if i == nil || !i.Until.Equal(ex.Received.Add(time.Hour)) {
			t.Fatalf("Identity: got %+v, want one until an hour after %v", i, ex.Received)
		}
		return i
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := identity(t, tt.a), identity(t, tt.b)
			if (a.Key == b.Key) != tt.sameKey || (a.Sum == b.Sum) != tt.sameSum {
				t.Errorf("Identity: got the same key %t and sum %t, want %t and %t", a.Key == b.Key, a.Sum == b.Sum, tt.sameKey, tt.sameSum)
			}
		})
	}
}

// TestIdentifyByKey: the id can come from where an order key comes from, beside
// one.
func TestIdentifyByKey(t *testing.T) {
	s := &shelf{}
	h := storing(t, s, Route{
		OrderBy: Key{Source: KeyHeader, Path: []soapcodec.Step{step("urn:h", "Sig")}},
		Dedup:   &Dedup{By: Key{Source: KeyBody, Path: []soapcodec.Step{step("", "o"), step("", "id")}}},
	})
	for _, id := range []string{"7", "7", "8", ""} {
		if g := serve(t, h, exchange("application/soap+xml", repeating([]string{"a", "b"}, "lane", "", "<o><id>"+id+"</id></o>"))); g.Status != 202 {
			t.Fatalf("not stored: %d %s", g.Status, g.body)
		}
	}
	k := s.kept
	if k[0].Identity.Key != k[1].Identity.Key || k[0].Identity.Key == k[2].Identity.Key || k[3].Identity != nil || k[0].Lane != "lane" {
		t.Errorf("Identity: got %+v, %+v, %+v, %+v, want two the same, one other, none", k[0].Identity, k[1].Identity, k[2].Identity, k[3].Identity)
	}
}

// TestTwoMessageIDs is a fault where ids count, and nowhere else.
func TestTwoMessageIDs(t *testing.T) {
	two := repeating([]string{"urn:1", "urn:1"}, "", "", "<o/>")
	s := &shelf{}
	g := serve(t, storing(t, s, Route{Dedup: &Dedup{}}), exchange("application/soap+xml", two))
	if g.Status != 400 || g.Code != soapcodec.CodeInvalidCardinality || len(s.kept) != 0 || !strings.Contains(g.body, ":InvalidCardinality</env:Value>") {
		t.Errorf("two MessageIDs: got %d %s\n%s", g.Status, g.Code, g.body)
	}
	if g := serve(t, storing(t, s, Route{}), exchange("application/soap+xml", two)); g.Status != 202 || s.kept[0].Identity != nil {
		t.Errorf("two MessageIDs without dedup: got %d", g.Status)
	}
	if g := serve(t, storing(t, s, Route{Dedup: &Dedup{}}), exchange("application/soap+xml", repeating(nil, "", "", "<o/>"))); g.Status != 202 || s.kept[1].Identity != nil {
		t.Errorf("no MessageID: got %d and %+v, want it stored without an identity", g.Status, s.kept[1].Identity)
	}
}

// answering is a store that answers as it is told.
type answering struct {
	receipt Receipt
	err     error
}

func (answering) NewBlob(int64) (BlobWriter, error) { return nil, ErrStoreBusy }

func (a answering) Enqueue(context.Context, *Stored) (Receipt, error) { return a.receipt, a.err }

// TestRepeatAnswers: what the caller of a repeat gets.
func TestRepeatAnswers(t *testing.T) {
	ask := func(a answering, ct, body string) got {
		t.Helper()
		n := newNode("http://node.test/")
		table, err := Compile(TableOptions{Routes: []Route{{Name: "r", Delivery: Queue, Backend: &Backend{Name: "b", Nodes: []Node{n}}, Dedup: &Dedup{}}}})
		if err != nil {
			t.Fatal(err)
		}
		return serve(t, NewHandler(table, Options{Enqueuer: a}), exchange(ct, body))
	}
	g := ask(answering{receipt: Receipt{Repeat: "first"}}, "application/soap+xml", repeating([]string{"urn:1"}, "", "", "<o/>"))
	if g.Status != 202 || g.body != "" || g.Header.Get("Gateway-Message-Id") != "first" || g.Header.Get("Location") != "/_gateway/messages/first" {
		t.Errorf("repeat: got %d, %v", g.Status, g.Header)
	}
	for _, tt := range []struct {
		err        error
		code       soapcodec.Code
		s11, s12   int
		in11, in12 string
	}{
		{ErrDeadLettered, soapcodec.CodeDeadLettered, 500, 500, "soap:Server", "env:Receiver"},
		{ErrOtherContent, soapcodec.CodeIDReused, 500, 400, "soap:Client", "env:Sender"},
	} {
		err := fmt.Errorf("store: %w", errors.Join(tt.err))
		g := ask(answering{err: err}, "text/xml", env11)
		if g.Status != tt.s11 || g.Code != tt.code || !strings.Contains(g.body, tt.in11) {
			t.Errorf("%v in 1.1: got %d %s %s", tt.err, g.Status, g.Code, g.body)
		}
		g = ask(answering{err: err}, "application/soap+xml", env12)
		if g.Status != tt.s12 || g.Code != tt.code || !strings.Contains(g.body, tt.in12) {
			t.Errorf("%v in 1.2: got %d %s %s", tt.err, g.Status, g.Code, g.body)
		}
	}
}

// TestIdentifyAttachments: what attachments hold counts, how they are packed
// does not.
func TestIdentifyAttachments(t *testing.T) {
	pack := func(boundary, id, attachment string) (ct, doc string) {
		return `multipart/related; type="application/soap+xml"; boundary=` + boundary,
			"--" + boundary + "\r\nContent-Type: application/soap+xml\r\n\r\n" + repeating([]string{"urn:1"}, boundary, "", "<o/>") +
				"\r\n--" + boundary + "\r\nContent-ID: <" + id + ">\r\n\r\n" + attachment + "\r\n--" + boundary + "--\r\n"
	}
	s := &shelf{}
	h := storing(t, s, Route{Dedup: &Dedup{}})
	for _, p := range [][3]string{{"b1", "a", "octets"}, {"b2", "b", "octets"}, {"b1", "a", "octetz"}} {
		ct, doc := pack(p[0], p[1], p[2])
		if g := serve(t, h, exchange(ct, doc)); g.Status != 202 {
			t.Fatalf("not stored: %d %s", g.Status, g.body)
		}
	}
	a, b, c := s.kept[0].Identity, s.kept[1].Identity, s.kept[2].Identity
	if a == nil || b == nil || c == nil || a.Key != b.Key || a.Key != c.Key || a.Sum != b.Sum || a.Sum == c.Sum {
		t.Errorf("Identity: got %+v, %+v, %+v, want the same key, and the sum of the third different", a, b, c)
	}
}
