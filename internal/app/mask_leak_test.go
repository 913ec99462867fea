package app

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/queue"
)

// TestMaskSearch: order keys that are hidden cannot be read by asking for one piece
// after the other, neither in a list nor by what an export or a change finds.
func TestMaskSearch(t *testing.T) {
	messages := func() []*queue.Message {
		return []*queue.Message{
			{Route: "keyed", Lane: secretWord, Meta: metaOf("text/xml"), Body: []byte("<op/>")},
			{Route: "open", Lane: secretWord, Meta: metaOf("text/xml"), Body: []byte("<op/>")},
			{Route: "gone", Lane: secretWord, Meta: metaOf("text/xml"), Body: []byte("<op/>")},
		}
	}
	for route, found := range map[string]int{"keyed": 0, "open": 1, "gone": 0} {
		f := admin.Filter{Route: route, Text: secretWord[:5]}
		a := maskedQueue(t, messages()...)
		if page, _, err := a.List(f); err != nil || len(page) != found {
			t.Errorf("List on %s: %d, %v, want %d", route, len(page), err, found)
		}
		if done, err := a.Export(t.Context(), f, admin.ExportOptions{}, new(bytes.Buffer)); err != nil || done.Count != found {
			t.Errorf("Export on %s: %+v, %v, want %d", route, done, err, found)
		}
		if n, err := a.DropAll(t.Context(), f); err != nil || n != found {
			t.Errorf("DropAll on %s: %d, %v, want %d", route, n, err, found)
		}
		f.Text = "perman" // the reason is no secret
		if page, _, err := a.List(f); err != nil || len(page) != 1-found {
			t.Errorf("List by reason on %s: %d, %v, want %d", route, len(page), err, 1-found)
		}
	}
}

// TestMaskQuoted: a backend that repeats what is hidden, of the envelope or of a
// header field, gives it to nobody who looks at its answer.
func TestMaskQuoted(t *testing.T) {
	login := base64.StdEncoding.EncodeToString([]byte("me:" + secretWord))
	large := "<op><card>" + secretWord + "</card>" + strings.Repeat("<x>y</x>", 3<<20/8) + "</op>"
	for _, c := range []struct{ name, route, meta, body, reply, typ string }{
		{"element", "orders", string(metaOf("text/xml")), "<op><card>" + secretWord + "</card></op>", "<f>card " + secretWord + " is refused</f>", "text/xml"},
		{"attribute", "orders", string(metaOf("text/xml")), "<op card='" + secretWord + "'/>", "<f why='" + secretWord + "'/>", "text/xml"},
		{"large", "orders", string(metaOf("text/xml")), large, "<f>" + secretWord + "</f>", "text/xml"},
		{"password", "open", string(metaOf("text/xml")), `<op><w:Password xmlns:w="http://x/secext">` + secretWord + "</w:Password></op>", secretWord + " is wrong", "text/plain"},
		{"field", "open", fmt.Sprintf(`{"v":1,"soap":"1.1","header":[["Content-Type","text/xml"],["X-Api-Key",%q]]}`, secretWord), "<op/>", "<f>key " + secretWord + "</f>", "text/xml"},
		{"basic", "open", fmt.Sprintf(`{"v":1,"soap":"1.1","header":[["Content-Type","text/xml"],["Authorization","Basic %s"]]}`, login), "<op/>", "<f>no user me with " + secretWord + "</f>", "text/xml"},
		{"request", "open", string(metaOf("text/xml")), "<op/>", "You sent:\nX-Token: " + secretWord, "text/plain"},
		{"own field", "api", fmt.Sprintf(`{"v":1,"soap":"1.1","header":[["Content-Type","text/xml"],["x-customer",%q]]}`, secretWord), "<op/>", "<f>" + secretWord + "</f>", "text/xml"},
		{"query", "open", fmt.Sprintf(`{"v":1,"soap":"1.1","query":"a=1&api%%5Fkey=%s","has_query":true,"header":[["Content-Type","text/xml"]]}`, secretWord), "<op/>", "<f/>", "text/xml"},
	} {
		a := maskedQueue(t, &queue.Message{Route: "orders", Meta: metaOf("text/xml"), Body: []byte("<op/>")})
		cfg := *a.cfg()
		cfg.Routes = append(cfg.Routes, config.Route{Name: "api", Auth: &config.Auth{APIKey: &config.APIKey{Header: "X-Customer"}}})
		a.cfg = func() *config.Config { return &cfg }
		m := &queue.Message{
			Route: c.route, Meta: []byte(c.meta), Body: []byte(c.body), ID: messageID(7), Destination: "erp", Accepted: time.Now(),
			Identity: queue.Identity{Key: [16]byte{1}, Sum: [16]byte{2}, Until: time.Now().Add(time.Hour)},
		}
		if len(c.body) > mostShown {
			m.Body, m.Blob = nil, blobOf(t, a, c.body)
		}
		if err := a.store.(*queue.Memory).Bury(t.Context(), &queue.DeadLetter{Message: m, Died: time.Now(), Reason: "permanent", Reply: []byte(c.reply), ReplyType: c.typ}); err != nil {
			t.Fatal(err)
		}
		q, err := queue.New(a.store, idle{}, queue.Options{})
		if err == nil {
			err = q.Load(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Queue = q
		d, err := a.Get(messageID(7))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if bytes.Contains(d.Reply, []byte(secretWord)) {
			t.Errorf("%s: the reply is %s", c.name, d.Reply)
		}
		for _, f := range d.Header {
			if f.Name == "x-customer" && !f.Secret {
				t.Errorf("%s: %s is shown", c.name, f.Name)
			}
		}
		var file bytes.Buffer
		if done, err := a.Export(t.Context(), admin.Filter{Route: c.route}, admin.ExportOptions{}, &file); err != nil || done.Count < 1 {
			t.Errorf("%s: Export: %+v, %v", c.name, done, err)
		} else if bytes.Contains(file.Bytes(), []byte(secretWord)) || bytes.Contains(file.Bytes(), []byte(login)) {
			t.Errorf("%s: the file has what is hidden", c.name)
		} else if c.name != "request" && bytes.Contains(file.Bytes(), []byte(`"identity"`)) {
			t.Errorf("%s: a masked message has hashes of what is hidden", c.name)
		}
	}
}

func blobOf(t *testing.T, a *adminQueue, body string) queue.Blob {
	t.Helper()
	w, err := a.store.(*queue.Memory).NewBlob(int64(len(body)))
	if err == nil {
		_, err = w.Write([]byte(body))
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Blob()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
