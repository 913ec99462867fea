package queue

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRecordExample is the record that the comment of Format draws, octet for
// octet: a change of it is a new format.
func TestRecordExample(t *testing.T) {
	m := &Message{ID: "0190a", Route: "orders", Destination: "erp", Lane: "a b\r\n%", Accepted: time.Unix(1790000000, 5).UTC(), Meta: []byte("{}"), Body: []byte("<a/>")}
	header, data, err := encodeMessage(m)
	if want := "1 0190a orders erp a%20b%0D%0A%25 % 1790000000000000005 2 "; err != nil || header[:len(want)] != want || string(data) != "{}<a/>" {
		t.Fatalf("encodeMessage: %q, %q, %v, want %q…", header, data, err, want)
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1
		if _, err := decodeMessage(header, bad); err == nil {
			t.Errorf("decodeMessage with octet %d changed: no error", i)
		}
	}
	for _, bad := range []string{"", "1", strings.Replace(header, "erp", "crm", 1), strings.Replace(header, "1 ", "2 ", 1), header[:len(header)-1]} {
		if m, err := decodeMessage(bad, data); err == nil {
			t.Errorf("decodeMessage(%q): %+v, no error", bad, m)
		}
	}
}

// TestOptionExample is a record with the options that the comment of Format
// names, and one of a later version.
func TestOptionExample(t *testing.T) {
	m := &Message{ID: "0190a", Route: "orders", Accepted: time.Unix(1790000000, 5).UTC(), First: true, Body: []byte{}, Meta: []byte{}}
	m.Identity = Identity{Key: [16]byte{1}, Sum: [16]byte{2}, Until: time.Unix(1790086400, 5).UTC()}
	header, data, err := encodeMessage(m)
	const want = "1 0190a orders % % % 1790000000000000005 0 first=1 same=AQAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAA.1790086400000000005 "
	if err != nil || !strings.HasPrefix(header, want) {
		t.Fatalf("encodeMessage: %q, %v, want %q…", header, err, want)
	}
	later := seal([]byte(strings.Replace(want, "first=1", "new=x first=1 bare", 1)[:len(want)+len("new=x  bare")-1]), data)
	got, err := decodeMessage(later, data)
	if err != nil {
		t.Fatalf("decodeMessage(%q): %v", later, err)
	}
	if d := cmp.Diff(m, got); d != "" {
		t.Errorf("decodeMessage(%q) (-want +got):\n%s", later, d)
	}
}

// TestReplyExample is the record of a reply that the comment of Format draws, with an
// option of a later version.
func TestReplyExample(t *testing.T) {
	r := &Reply{ID: "0190a", Route: "a b", Until: time.Unix(1790000000, 5).UTC(), Meta: []byte("{}"), Body: []byte("<a/>")}
	header, data, err := encodeReply(r)
	const want = "1 0190a a%20b 1790000000000000005 2 "
	if err != nil || !strings.HasPrefix(header, want) || string(data) != "{}<a/>" {
		t.Fatalf("encodeReply: %q, %q, %v, want %q…", header, data, err, want)
	}
	later := seal([]byte(want+"new=x"), data)
	for _, h := range []string{header, later} {
		got, err := decodeReply(h, data)
		if err != nil {
			t.Fatalf("decodeReply(%q): %v", h, err)
		}
		if d := cmp.Diff(r, got); d != "" {
			t.Errorf("decodeReply(%q) (-want +got):\n%s", h, d)
		}
	}
	for _, bad := range []string{"", "1", strings.Replace(header, "0190a", "0190b", 1), seal([]byte("2 0190a r % 2"), data), seal([]byte("1 0190a r % 7"), data), seal([]byte("1 0190a r"), data)} {
		if r, err := decodeReply(bad, data); err == nil {
			t.Errorf("decodeReply(%q): %+v, no error", bad, r)
		}
	}
}

// FuzzRecord: any text survives, the header has no octet that could end it, and
// a header that was not written by us is an error, never a panic.
func FuzzRecord(f *testing.F) {
	for i := range hostile {
		m := message(i)
		header, _, _ := encodeMessage(m)
		f.Add(m.ID, m.Route, m.Lane, string(m.Meta), m.Body, header)
	}
	f.Fuzz(func(t *testing.T, id, route, lane, meta string, body []byte, other string) {
		m := &Message{ID: id, Route: route, Destination: lane, Lane: lane, Operation: route, Accepted: time.Unix(0, int64(len(body))).UTC(), Meta: []byte(meta), Body: body}
		m.First = len(body)%2 == 0
		if len(body)%3 > 0 {
			m.Identity.Until = m.Accepted
			copy(m.Identity.Key[:], meta)
			copy(m.Identity.Sum[:], body)
		}
		header, data, err := encodeMessage(m)
		if err == nil {
			if strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("encodeMessage: %q", header)
			}
			got, err := decodeMessage(header, data)
			if err != nil {
				t.Fatalf("decodeMessage(%q): %v", header, err)
			}
			if d := cmp.Diff(m, got, cmp.Comparer(bytes.Equal)); d != "" {
				t.Fatalf("round trip differs (-want +got):\n%s", d)
			}
			m.First = false // of a message that waits
			d := &DeadLetter{Stops: len(lane)%2 == 0, Message: m, Died: m.Accepted, Reason: cut(lane, 256), Text: cut(meta, maxText), Reply: body[:min(len(body), maxReply)], ReplyType: cut(id, 256)}
			header, data, err := encodeDead(d)
			if err != nil {
				t.Fatalf("encodeDead: %v", err)
			}
			dead, err := decodeDead(header, data)
			if err != nil {
				t.Fatalf("decodeDead(%q): %v", header, err)
			}
			if d := cmp.Diff(d, dead, cmp.Comparer(bytes.Equal)); d != "" {
				t.Fatalf("round trip of a dead letter differs (-want +got):\n%s", d)
			}
		}
		r := &Reply{ID: id, Route: route, Until: m.Accepted, Meta: []byte(meta), Body: body}
		if header, data, err := encodeReply(r); err == nil {
			got, err := decodeReply(header, data)
			if err != nil {
				t.Fatalf("decodeReply(%q): %v", header, err)
			}
			if d := cmp.Diff(r, got, cmp.Comparer(bytes.Equal)); d != "" {
				t.Fatalf("round trip of a reply differs (-want +got):\n%s", d)
			}
		}
		if token, err := subjectToken(id); err == nil && (token == "" || strings.ContainsAny(token, ".*> \t\r\n") || len(token) > maxKey) {
			t.Fatalf("subjectToken(%q): %q", id, token)
		}
		if m, err := decodeMessage(other, body); err == nil { // by its checksum it is ours
			if again, _, err := encodeMessage(m); err != nil {
				t.Fatalf("decodeMessage(%q) gave what is not encoded: %v, %q", other, err, again)
			}
		}
		var again []byte
		if err := parseKnown(route, body, func(k Known) (err error) { again, err = appendKnown(again, &k); return err }); err == nil && !bytes.Equal(again, body) {
			t.Fatalf("what is known reads and writes as %x, want %x", again, body)
		}
		if i, err := parseIdentity(other); err == nil {
			if again, err := parseIdentity(i.option()); err != nil || again != i {
				t.Fatalf("an identity reads and writes as %+v and %v, want %+v", again, err, i)
			}
		}
		_, _, _ = decodeHead(other)
		_, _ = decodeDeadHead(other)
		_, _ = decodeDead(other, body)
		_, _ = decodeValue(other, body)
		_, _ = decodeReply(other, body)
	})
}
