package app

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/bundle"
	"soapway/queue"
)

const secretWord = "4111-2222"

// maskedQueue has the given bodies on the route of their name.
func maskedQueue(t *testing.T, messages ...*queue.Message) *adminQueue {
	t.Helper()
	store := queue.NewMemory()
	q, err := queue.New(store, idle{}, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	routes := []queue.Route{{Name: "orders", Destination: "erp"}, {Name: "open", Destination: "erp"}, {Name: "keyed", Destination: "erp"}}
	if err := q.Configure(routes, []queue.Destination{{Name: "erp"}}); err != nil {
		t.Fatal(err)
	}
	for i, m := range messages {
		m.ID, m.Destination, m.Accepted = messageID(i), "erp", time.Now()
		if len(m.Body) > mostShown {
			w, err := store.NewBlob(int64(len(m.Body)))
			if err == nil {
				_, err = w.Write(m.Body)
			}
			if err == nil {
				m.Blob, err = w.Blob()
			}
			if err != nil {
				t.Fatal(err)
			}
			m.Body = nil
		}
		err := store.Bury(t.Context(), &queue.DeadLetter{
			Message: m, Died: time.Now(), Reason: "permanent", ReplyType: "text/plain", Reply: fmt.Appendf(nil, "busy: %s", secretWord),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Routes: []config.Route{
		{Name: "orders", Redact: []config.QName{{Local: "card", AnySpace: true}}},
		{Name: "open"},
		{Name: "keyed", Redact: []config.QName{{Local: "id"}}, OrderBy: config.OrderBy{Kind: config.OrderBody, Path: []config.QName{{Local: "op"}, {Local: "id"}}}},
	}}
	return &adminQueue{Queue: q, store: store, cfg: func() *config.Config { return cfg }}
}

func metaOf(contentType string) []byte {
	return fmt.Appendf(nil, `{"v":1,"soap":"1.1","header":[["Content-Type",%q]]}`, contentType)
}

// TestMaskShown: what a route names is hidden in everything that is shown of its
// messages; of a route that is gone what any route names.
func TestMaskShown(t *testing.T) {
	card := "<op><card>" + secretWord + "</card></op>"
	large := "<op><card>" + secretWord + "</card>" + strings.Repeat("<x>y</x>", 3<<20/8) + "<card>" + secretWord + "</card></op>"
	package2 := "--b\r\nContent-Type: text/xml\r\n\r\n" + card + "\r\n--b\r\n\r\n" + secretWord + "\r\n--b--\r\n"
	for _, c := range []struct {
		name, route, body, typ, lane string
		shows, hides                 bool // the word in the envelope, and anything
		reply                        bool // is shown
	}{
		{name: "named", route: "orders", body: card, typ: "text/xml", hides: true},
		{name: "not named", route: "open", body: card, typ: "text/xml", shows: true, reply: true},
		{name: "gone", route: "gone", body: card, typ: "text/xml", hides: true},
		{name: "large", route: "orders", body: large, typ: "text/xml", hides: true},
		{name: "attachments", route: "orders", body: package2, typ: "multipart/related; boundary=b; type=\"text/xml\"", hides: true},
		{name: "key", route: "keyed", body: "<op><id>" + secretWord + "</id></op>", typ: "text/xml", lane: secretWord, hides: true},
		{name: "damaged", route: "orders", body: "<op>" + "<card" + secretWord, typ: "text/xml"},
	} {
		a := maskedQueue(t, &queue.Message{Route: c.route, Lane: c.lane, Meta: metaOf(c.typ), Body: []byte(c.body)})
		d, err := a.Get(messageID(0))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := bytes.Contains(d.Envelope, []byte(secretWord)); got != c.shows || (d.Hidden > 0) != c.hides {
			t.Errorf("%s: the envelope is %.200s, %d hidden", c.name, d.Envelope, d.Hidden)
		}
		if got := bytes.Contains(d.Reply, []byte(secretWord)); got != c.reply || (d.ReplyError == "") != c.reply {
			t.Errorf("%s: the reply is %s, %s", c.name, d.Reply, d.ReplyError)
		}
		page, _, err := a.List(admin.Filter{Route: c.route})
		if err != nil || len(page) != 1 || c.lane != "" && (page[0].Lane != "***" || d.Entry.Lane != "***") {
			t.Errorf("%s: the list is %+v, %v", c.name, page, err)
		}
		if c.name == "damaged" && d.EnvelopeError == "" || c.name == "large" && !d.EnvelopeCut || c.name == "attachments" && d.Attachments != 1 {
			t.Errorf("%s: cut %t, %d attachments, error %q", c.name, d.EnvelopeCut, d.Attachments, d.EnvelopeError)
		}
	}
}

// TestMaskExport: a message that is masked in a file says so and is not imported;
// with Whole nothing is masked, and all is.
func TestMaskExport(t *testing.T) {
	card := "<op><card>" + secretWord + "</card></op>"
	large := "<op>" + strings.Repeat("<x>y</x>", 3<<20/8) + "<card>" + secretWord + "</card></op>"
	secretField := fmt.Appendf(nil, `{"v":1,"soap":"1.1","header":[["Content-Type","text/xml"],["X-Api-Key",%q]]}`, secretWord)
	a := maskedQueue(t,
		&queue.Message{Route: "orders", Meta: metaOf("text/xml"), Body: []byte(card)},
		&queue.Message{Route: "orders", Meta: metaOf("text/xml"), Body: []byte(large)},
		&queue.Message{Route: "orders", Meta: secretField, Body: []byte("<op/>")},
		&queue.Message{Route: "orders", Meta: metaOf("multipart/related; boundary=b"), Body: []byte("--b\r\n\r\n<op/>\r\n--b\r\n\r\n" + secretWord + "\r\n--b--\r\n")},
		&queue.Message{Route: "orders", Meta: metaOf("text/xml"), Body: []byte("<op/>")},
	)
	var file bytes.Buffer
	done, err := a.Export(t.Context(), admin.Filter{Route: "orders"}, admin.ExportOptions{}, &file)
	if err != nil || done != (admin.Exported{Count: 5, Masked: 4}) {
		t.Fatalf("Export: %+v, %v", done, err)
	}
	if bytes.Contains(file.Bytes(), []byte(secretWord)) {
		t.Error("the file has what is hidden")
	}
	r, err := bundle.NewReader(bytes.NewReader(file.Bytes()), bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		m, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Masked != (i < 4) {
			t.Errorf("message %d: masked is %t", i, m.Masked)
		}
	}
	if got, err := maskedQueue(t).Import(t.Context(), &file, ""); err != nil || got != (admin.Imported{Count: 1, Masked: 4}) {
		t.Errorf("Import: %+v, %v", got, err)
	}
	file.Reset()
	if done, err := a.Export(t.Context(), admin.Filter{Route: "orders"}, admin.ExportOptions{Whole: true}, &file); err != nil || done.Masked != 0 || done.Count != 5 {
		t.Fatalf("Export, whole: %+v, %v", done, err)
	}
	if got, err := maskedQueue(t).Import(t.Context(), &file, ""); err != nil || got != (admin.Imported{Count: 5}) {
		t.Errorf("Import, whole: %+v, %v", got, err)
	}
}
