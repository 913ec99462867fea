package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"soapway/internal/field"
	"soapway/proxy/guard"
	"soapway/soapcodec"
)

// TestKeptReply: what is kept of the answers to stored messages.
func TestKeptReply(t *testing.T) {
	const signature = `<s:Header><w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"/></w:Security></s:Header><s:Body>`
	reply12 := strings.ReplaceAll(reply11, soapcodec.NS11, soapcodec.NS12)
	latin := strings.Replace(reply11, `<r:Told xmlns:r="urn:depot"/>`, "<r:Told xmlns:r=\"urn:depot\">\xe9</r:Told>", 1)
	pack := func(root string) string {
		return "--b\r\nContent-Type: text/xml; charset=utf-8\r\nContent-ID: <root>\r\n\r\n" + root + "\r\n--b\r\nContent-ID: <a>\r\n\r\n\x00\xff\r\n--b--\r\n"
	}
	const packed = `multipart/related; type="text/xml"; start="<root>"; boundary=b`
	framed := func(body string) *Response {
		r := respond(200, "", body)
		r.Framed = true
		return r
	}
	large := strings.Replace(reply11, "</s:Body>", strings.Repeat("<x/>", MaxKept/4)+"</s:Body>", 1)
	for _, tt := range []struct {
		name    string
		route   Route
		resp    *Response
		wantTyp string // "" = no envelope
		want    string
		dead    string // part of the reason, where it is a dead letter
	}{
		{name: "as it came", resp: respond(200, "Text/XML ;charset=UTF-8", "\ufeff"+reply11+"\n"), wantTyp: "Text/XML ;charset=UTF-8", want: "\ufeff" + reply11 + "\n"},
		{name: "another charset", resp: respond(200, "text/xml; charset=iso-8859-1", latin), wantTyp: "text/xml; charset=iso-8859-1", want: latin},
		{name: "a content coding", resp: respond(200, "text/xml", string(encode(t, "gzip", []byte(reply11))), "Content-Encoding", "gzip"), wantTyp: "text/xml", want: reply11},
		{name: "no media type", resp: respond(200, "", reply11), wantTyp: "text/xml; charset=utf-8", want: reply11},
		{name: "framed", resp: framed(reply12), wantTyp: "application/soap+xml; charset=utf-8", want: reply12},
		{name: "another status", resp: respond(201, "text/xml", reply11), wantTyp: "text/xml", want: reply11},
		{name: "the other version, as it came", resp: respond(200, "application/soap+xml", reply12), wantTyp: "application/soap+xml", want: reply12},
		{name: "attachments", resp: respond(200, packed, pack(reply11)), wantTyp: packed, want: pack(reply11)},
		{name: "translated", route: Route{Translate: soapcodec.V12}, resp: respond(200, "application/soap+xml", reply12), wantTyp: "text/xml; charset=utf-8", want: reply11},
		{name: "not to be translated", route: Route{Translate: soapcodec.V12}, resp: respond(200, "text/xml", reply11), wantTyp: "text/xml", want: reply11},
		{name: "translated out of a frame", route: Route{Translate: soapcodec.V12}, resp: framed(reply12), wantTyp: "text/xml; charset=utf-8", want: reply11},
		{name: "attachments, not to be translated", route: Route{Translate: soapcodec.V12}, resp: respond(200, packed, pack(reply11)), wantTyp: packed, want: pack(reply11)},
		{name: "empty", resp: respond(202, "", "")},
		{name: "not SOAP, as a one-way route takes it", route: Route{OneWay: OneWayYes}, resp: respond(200, "text/html", "<html>")},
		{name: "a fault", resp: respond(500, "text/xml", fault11Of("s:Client")), dead: "fault"},
		{name: "signed", route: Route{Translate: soapcodec.V12}, resp: respond(200, "application/soap+xml", strings.Replace(reply12, "<s:Body>", signature, 1)), dead: "can not be kept"},
		{name: "larger than a record", resp: respond(200, "text/xml", large), dead: "larger than the limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode("http://n")
			n.answer = always(tt.resp, nil)
			s := &shelf{}
			tt.route.KeepReplies, tt.route.ReplyKeep = true, time.Hour
			h := storing(t, s, tt.route, n)
			if g := serve(t, h, exchange("text/xml", env11)); g.Status != 202 {
				t.Fatalf("not stored: %d %s", g.Status, g.body)
			}
			before := time.Now()
			r := h.Deliver(t.Context(), s.kept[0], Try{Attempt: 1})
			if tt.dead != "" {
				if r.Verdict != VerdictDead || r.Kept != nil || !strings.Contains(r.Reason, tt.dead) || len(r.Reply) == 0 || len(r.Reply) > keptReply {
					t.Errorf("Deliver: got %v %q, kept %v and %d octets, want a dead letter", r.Verdict, r.Reason, r.Kept, len(r.Reply))
				}
				return
			}
			if r.Verdict != VerdictDelivered || r.Kept == nil || r.Reply != nil {
				t.Fatalf("Deliver: got %+v, want it delivered and the reply kept", r)
			}
			meta, err := readReplyMeta(r.Kept.Meta)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Kept.Body); got != tt.want || string(meta.Type) != tt.wantTyp || meta.SOAP != "1.1" {
				t.Errorf("kept %q of %q for %s, want %q of %q for 1.1", got, meta.Type, meta.SOAP, tt.want, tt.wantTyp)
			}
			if d := r.Kept.Until.Sub(before); d < time.Hour || d > time.Hour+time.Minute {
				t.Errorf("kept for %v, want an hour", d)
			}
		})
	}
}

// TestReplyIsDiscarded where the route did not promise it when it took the message,
// and kept where it did, whatever a reload has changed since.
func TestReplyIsDiscarded(t *testing.T) {
	stored := func(r Route) *Stored {
		s := &shelf{}
		if g := serve(t, storing(t, s, r), exchange("text/xml", env11)); g.Status != 202 {
			t.Fatalf("not stored: %d", g.Status)
		}
		return s.kept[0]
	}
	discard, keep := Route{}, Route{KeepReplies: true, ReplyKeep: -1}
	for _, tt := range []struct {
		name           string
		taken, present Route
		kept           bool
	}{
		{"discard", discard, discard, false},
		{"discard, then store", discard, keep, false},
		{"store, then discard", keep, discard, true},
		{"store", keep, keep, true},
	} {
		r := storing(t, nil, tt.present).Deliver(t.Context(), stored(tt.taken), Try{Attempt: 1})
		if r.Verdict != VerdictDelivered || (r.Kept != nil) != tt.kept {
			t.Errorf("%s: got %+v, want kept %v", tt.name, r, tt.kept)
		}
		if r.Kept != nil && !r.Kept.Until.IsZero() {
			t.Errorf("%s: kept until %v, want for ever", tt.name, r.Kept.Until)
		}
	}
}

// ledger is a Follower by id.
type ledger map[string]*Followed

func (l ledger) Follow(id string) (*Followed, error) {
	if f := l[id]; f == nil {
		return nil, fmt.Errorf("ledger: %w", ErrNoMessage)
	} else if f.Route == "" {
		return nil, errors.New("ledger: damaged")
	} else if f.Route == "busy" {
		return nil, fmt.Errorf("ledger: %w", ErrStoreBusy)
	} else {
		return f, nil
	}
}

// TestFateOf: what callers are told of their messages.
func TestFateOf(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("01900000-0000-7000-8000-%012d", n) }
	taken := func(soap, caller string) []byte {
		return (&storedMeta{V: metaVersion, SOAP: "1.2", Reply: &replyWish{SOAP: soap, Caller: octets(caller)}}).append(nil)
	}
	reply := func(typ, caller, body string, until time.Time) *KeptReply {
		meta, err := json.Marshal(&replyMeta{V: metaVersion, Type: octets(typ), SOAP: "1.1", Caller: octets(caller)})
		if err != nil {
			t.Fatal(err)
		}
		return &KeptReply{Meta: meta, Body: []byte(body), Until: until}
	}
	soon, over := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	const key = "first-key"
	// Who keyed's key is.
	name, _, denial := keyed(t, guard.Options{}, key).Enter(&guard.Caller{Header: field.Of(http.Header{"X-Key": {key}})})
	if denial != nil || name == "" {
		t.Fatalf("the key is nobody's: %v", denial)
	}
	known := ledger{
		id(1): {Route: "open", Waiting: true, Meta: taken("1.1", "")},
		id(2): {Route: "open", Dead: true, Meta: taken("1.1", "")},
		id(3): {Route: "open", Dead: true, Meta: taken("1.2", "")},
		id(4): {Route: "open", Reply: reply("text/xml", "", reply11, soon)},
		id(5): {Route: "open", Reply: reply("text/xml", "", reply11, time.Time{})},
		id(6): {Route: "open", Reply: reply("", "", "", soon)},
		id(7): {Route: "open", Reply: reply("text/xml", "", reply11, over)},
		id(8): {Route: "open", Waiting: true, Meta: (&storedMeta{V: metaVersion, SOAP: "1.1"}).append(nil)},
		id(9): {Route: "open", Waiting: true, Meta: []byte("{")},

		id(10): {Route: "gone", Waiting: true, Meta: taken("1.1", "")},
		id(11): {Route: "hidden", Waiting: true, Meta: taken("1.1", "")},
		id(12): {Route: "busy"},
		id(13): {},
		id(14): {Route: "open", Reply: &KeptReply{Meta: []byte(`{"v":9}`), Until: soon}},

		id(20): {Route: "keyed", Waiting: true, Meta: taken("1.1", name)},
		id(21): {Route: "keyed", Reply: reply("text/xml", name, reply11, soon)},
		id(22): {Route: "keyed", Waiting: true, Meta: taken("1.1", "key:other")},
		id(23): {Route: "keyed", Reply: reply("text/xml", "key:other", reply11, soon)},
		id(24): {Route: "keyed", Reply: reply("text/xml", "key:other", reply11, over)},
		id(25): {Route: "keyed", Dead: true, Meta: taken("1.1", "key:other")},
		id(26): {Route: "keyed", Waiting: true, Meta: taken("1.1", "")}, // it asked for no proof then
		id(27): {Route: "open", Waiting: true, Meta: taken("1.1", name)},
		id(30): {Route: "wss", Waiting: true, Meta: taken("1.1", "wss:u")},
	}
	names, err := guard.ReadUsernames(strings.NewReader("u:secret\n"))
	if err != nil {
		t.Fatal(err)
	}
	wss, err := guard.New(guard.Options{Usernames: names})
	if err != nil {
		t.Fatal(err)
	}
	b := &Backend{Name: "b", Nodes: []Node{newNode("http://n")}}
	seen := &observed{}
	h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
		{Name: "open", Match: Match{Path: "/open"}, Backend: b, Delivery: Queue, KeepReplies: true},
		{Name: "keyed", Match: Match{Path: "/keyed"}, Backend: b, Delivery: Queue, KeepReplies: true, Guard: keyed(t, guard.Options{}, key)},
		{Name: "wss", Match: Match{Path: "/wss"}, Backend: b, Delivery: Queue, KeepReplies: true, Guard: wss},
		{Name: "hidden", MatchNone: true, Backend: b, Delivery: Queue, KeepReplies: true},
	}}), Options{Follower: known, Observer: seen})
	for _, tt := range []struct {
		name    string
		method  string // "" = GET
		path    string // "" = of n
		n       int
		route   string // of the listener
		key     string
		status  int
		code    soapcodec.Code
		body    string
		outcome Outcome
	}{
		{name: "waits", n: 1, status: 202, outcome: OutcomeFollowed},
		{name: "waits, HEAD", method: "HEAD", n: 1, status: 202, outcome: OutcomeFollowed},
		{name: "waits, with a query", path: messagesPath + id(1) + "?a", n: 1, status: 202, outcome: OutcomeFollowed},
		{name: "waits, at a listener with its route", n: 1, route: "open", status: 202, outcome: OutcomeFollowed},
		{name: "at a listener with another route", n: 1, route: "keyed", status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "at a listener with no route that is", n: 1, route: "none", status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "dead, of a caller in 1.1", n: 2, status: 500, code: soapcodec.CodeDeadLettered, body: "soap:Server", outcome: OutcomeFailed},
		{name: "dead, of a caller in 1.2", n: 3, status: 500, code: soapcodec.CodeDeadLettered, body: "env:Receiver", outcome: OutcomeFailed},
		{name: "answered", n: 4, status: 200, body: reply11, outcome: OutcomeFollowed},
		{name: "answered, HEAD", method: "HEAD", n: 4, status: 200, body: reply11, outcome: OutcomeFollowed},
		{name: "answered, kept for ever", n: 5, status: 200, body: reply11, outcome: OutcomeFollowed},
		{name: "answered without an envelope", n: 6, status: 204, outcome: OutcomeFollowed},
		{name: "expired", n: 7, status: 410, outcome: OutcomeRejected},
		{name: "expired, HEAD", method: "HEAD", n: 7, status: 410, outcome: OutcomeRejected},
		{name: "of a route that discards", n: 8, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "a damaged message", n: 9, status: 500, code: soapcodec.CodeInternal, body: "soap:Server", outcome: OutcomeInternal},
		{name: "a damaged reply", n: 14, status: 500, code: soapcodec.CodeInternal, body: "soap:Server", outcome: OutcomeInternal},
		{name: "a damaged store", n: 13, status: 500, code: soapcodec.CodeInternal, body: "soap:Server", outcome: OutcomeInternal},
		{name: "a store that is busy", n: 12, status: 503, code: soapcodec.CodeBusy, outcome: OutcomeBusy},
		{name: "unknown", n: 99, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "its route is gone", n: 10, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "its route is reached by no path", n: 11, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "but by its listener", n: 11, route: "hidden", status: 202, outcome: OutcomeFollowed},
		{name: "another method", method: "DELETE", n: 1, status: 405, outcome: OutcomeRejected},
		{name: "a message sent there", method: "POST", n: 1, status: 405, outcome: OutcomeRejected},
		{name: "no id", path: messagesPath, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "no UUID", path: messagesPath + "x", status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "a UUID in another form", path: messagesPath + "%7B" + id(1) + "%7D", status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "more behind it", path: messagesPath + id(1) + "/", status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},

		{name: "the caller's own", n: 20, key: key, status: 202, outcome: OutcomeFollowed},
		{name: "the caller's own, answered", n: 21, key: key, status: 200, body: reply11, outcome: OutcomeFollowed},
		{name: "without a proof", n: 21, status: 401, code: soapcodec.CodeNotAuthorised, outcome: OutcomeRejected},
		{name: "with a wrong one", n: 21, key: "wrong", status: 401, code: soapcodec.CodeNotAuthorised, outcome: OutcomeRejected},
		{name: "another caller's", n: 22, key: key, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "another caller's, answered", n: 23, key: key, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "another caller's, expired", n: 24, key: key, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "another caller's, dead", n: 25, key: key, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "nobody's, of a route that asks by now", n: 26, key: key, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "somebody's, of a route that asks no more", n: 27, status: 404, code: soapcodec.CodeNoRoute, outcome: OutcomeRejected},
		{name: "where only an envelope proves anything", n: 30, status: 403, code: soapcodec.CodeNotAuthorised, outcome: OutcomeRejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ex := exchange("", "")
			ex.Body, ex.Method, ex.Target, ex.Route = http.NoBody, "GET", messagesPath+id(tt.n), tt.route
			if tt.method != "" {
				ex.Method = tt.method
			}
			if tt.path != "" {
				ex.Target = tt.path
			}
			if tt.key != "" {
				ex.Header.Set("X-Key", tt.key)
			}
			g := serve(t, h, ex)
			if g.Status != tt.status || g.Code != tt.code || !strings.Contains(g.body, tt.body) || tt.body == "" && g.body != "" {
				t.Errorf("got %d %q %q, want %d %q %q", g.Status, g.Code, g.body, tt.status, tt.code, tt.body)
			}
			if g.Status < 300 && (g.Header.Get("Gateway-Message-Id") != id(tt.n) || g.Header.Get("Cache-Control") != "no-store") {
				t.Errorf("fields: got %v", g.Header)
			}
			if g.Status == 200 && (g.Header.Get("Content-Type") != "text/xml" || g.Version != soapcodec.V11) {
				t.Errorf("fields: got %v in %v", g.Header, g.Version)
			}
			if g.Status == 405 && g.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("Allow: got %v", g.Header)
			}
			if e := seen.exchanges[len(seen.exchanges)-1]; e.Outcome != tt.outcome || e.Status != tt.status {
				t.Errorf("observed %+v, want %s", e, tt.outcome)
			}
		})
	}
	ex := exchange("", "")
	ex.Method, ex.Target = "GET", messagesPath+id(1)
	serve(t, NewHandler(mustCompile(t, TableOptions{Routes: []Route{{Name: "open", Backend: b}}}), Options{}), ex).wantPlain(t, 404, soapcodec.CodeNoRoute)
}

// TestRepeatOfTheAnswered: the repeat of a message that was answered gets the reply,
// where it can have it.
func TestRepeatOfTheAnswered(t *testing.T) {
	latin := strings.Replace(reply11, `<r:Told xmlns:r="urn:depot"/>`, "<r:Told xmlns:r=\"urn:depot\">\xe9</r:Told>", 1)
	for _, tt := range []struct {
		name      string
		typ, body string
		status    int
		framed    string // what a framed caller gets; "" is a frame without octets
	}{
		{name: "an envelope", typ: "text/xml; charset=utf-8", body: reply11, status: 200, framed: reply11},
		{name: "in another charset", typ: "text/xml; charset=iso-8859-1", body: latin, status: 200, framed: strings.ReplaceAll(latin, "\xe9", "é")},
		{name: "with attachments", typ: "multipart/related; boundary=b", body: "--b--", status: 200},
		{name: "no envelope", status: 202},
	} {
		meta, err := json.Marshal(&replyMeta{V: metaVersion, Type: octets(tt.typ), SOAP: "1.1"})
		if err != nil {
			t.Fatal(err)
		}
		store := answering{receipt: Receipt{Repeat: "first", Reply: &KeptReply{Meta: meta, Body: []byte(tt.body)}}}
		h := NewHandler(mustCompile(t, TableOptions{Routes: []Route{
			{Name: "r", Delivery: Queue, Backend: &Backend{Name: "b", Nodes: []Node{newNode("http://n")}}, Dedup: &Dedup{}},
		}}), Options{Enqueuer: store})
		doc := repeating([]string{"urn:1"}, "", "", "<o/>")
		g := serve(t, h, exchange("application/soap+xml", doc))
		if g.Status != tt.status || g.body != tt.body || g.Header.Get("Content-Type") != tt.typ || g.Header.Get("Gateway-Message-Id") != "first" {
			t.Errorf("%s: got %d %q %v", tt.name, g.Status, g.body, g.Header)
		}
		g = serve(t, h, &Exchange{Framed: true, Method: "POST", Body: strings.NewReader(doc), Length: int64(len(doc))})
		if g.body != tt.framed || g.Status >= 300 || g.Code != "" {
			t.Errorf("%s: a framed caller got %d %s %q, want %q", tt.name, g.Status, g.Code, g.body, tt.framed)
		}
	}
}
