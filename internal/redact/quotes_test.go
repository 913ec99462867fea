package redact

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"soapway/xmlstream"
)

// TestQuotes: what is hidden of a message is hidden where the answer repeats it, and
// the answer stays as well-formed as it was.
func TestQuotes(t *testing.T) {
	message := `<e xmlns:w="` + wsse + `"><w:Password Type="http://x/y#PasswordText">hunter&amp;2</w:Password>` +
		`<card kind="gold-7">4111-2222<pin>1234</pin><![CDATA[deep<er]]></card><card>true</card><card>abc</card><card>41</card></e>`
	m := New(Name{Local: "card", AnySpace: true})
	for _, c := range []struct {
		answer, want string
		n            int
	}{
		{`<f>card 4111-2222 is refused</f>`, `<f>card *** is refused</f>`, 1},
		{`<f why="no 4111-2222, no gold-7">pin:1234</f>`, `<f why="no ***, no ***">pin:***</f>`, 3},
		{`<f>91234 and 12345, 1234a, ä1234</f>`, `<f>91234 and 12345, 1234a, ä1234</f>`, 0},
		{`<f>x4111-2222y</f>`, `<f>x***y</f>`, 1},
		{`<f>hunter&amp;2<![CDATA[hunter&2]]></f>`, `<f>***<![CDATA[***]]></f>`, 2},
		{`<f><!-- deep&lt;er --><?p deep<er?></f>`, `<f><!-- *** --><?p ***?></f>`, 2},
		{`<f Type="http://x/y#PasswordText">true abc 41</f>`, `<f Type="http://x/y#PasswordText">true abc 41</f>`, 0},
		{`<a1234 xmlns="4111-2222"/>`, `<a1234 xmlns="4111-2222"/>`, 0},
		{`{"error": "hunter&2 1234"}`, `{"error": "*** ***"}`, 2},
		{`<p>4111-2222<br>4111-2222`, `<p>***<br>***`, 2},
		{"", "", 0},
	} {
		got, n := m.Quotes(strings.NewReader(message), "text/xml").Document([]byte(c.answer))
		if string(got) != c.want || n != c.n {
			t.Errorf("%s: got %s (%d), want %s (%d)", c.answer, got, n, c.want, c.n)
		}
	}
	if got, n := new(Quotes).Document([]byte("<a>1234</a>")); n != 0 || string(got) != "<a>1234</a>" {
		t.Errorf("nothing is hidden: got %s, %d", got, n)
	}
	// Floods of values stay within bounds.
	var flood strings.Builder
	flood.WriteString("<e>" + strings.Repeat("<card>"+strings.Repeat("9", 5000)+"</card>", 3))
	for i := range 3 * maxQuotes {
		flood.WriteString(fmt.Sprintf("<card>number %d</card>", i))
	}
	if q := m.Quotes(strings.NewReader(flood.String()), ""); len(q.values) != maxQuotes {
		t.Errorf("%d values are remembered, want %d", len(q.values), maxQuotes)
	}
}

// TestPlain: texts that repeat a request are not shown, pages of errors are.
func TestPlain(t *testing.T) {
	for doc, want := range map[string]bool{
		"<html><h1>502 Bad Gateway</h1><hr>nginx":         true,
		"401 Authorization Required":                      true,
		"Authentication failed for user me":               true,
		"unexpected token < in JSON at position 0":        true,
		"Your session has expired. Basic functions only.": true,
		"wrong Password hunter2":                          false,
		"Authorization: Basic bWU6aHVudGVyMg==":           false,
		"GET / HTTP/1.1\r\nX-Auth-Token : abc":            false,
		`{"access_token": "abc"}`:                         false,
		"client_secret=abc&x=1":                           false,
		"Set-Cookie: JSESSIONID=1":                        false,
		"refused: bearer eyJhbGciOiJIUzI1NiJ9.e30":        false,
		"X-API-Key:abc":                                   false,
		"\xff\xfe binary":                                 false,
	} {
		if got := New().Plain([]byte(doc)); got != want {
			t.Errorf("Plain(%q): got %t", doc, got)
		}
	}
	if New(Name{Local: "a"}).Plain([]byte("harmless")) {
		t.Error("a text is shown though it may have what is named")
	}
}

// FuzzQuotes: nothing of a value is left in a text or an attribute, and XML stays XML.
func FuzzQuotes(f *testing.F) {
	f.Add("4111-2222", "<f a='4111-2222'>no 4111-2222<!--4111-2222--></f>")
	f.Add("hunter&2", "<f>hunter&amp;2</f>")
	f.Add("12345678", "12345678 1234567812345678")
	f.Add("abcdef12", "<f>abcdef12<")
	f.Fuzz(func(t *testing.T, value, doc string) {
		value = strings.TrimSpace(value)
		if len(value) < minInside || len(value) > maxQuote || strings.ContainsAny(value, "&<>\"'*") || !utf8.ValidString(value) {
			return
		}
		q := new(Quotes)
		q.Add(value)
		got, n := q.Document([]byte(doc))
		if scans(doc) && !scans(string(got)) {
			t.Fatalf("%q hidden in %q: %q is not well-formed", value, doc, got)
		}
		if !scans(doc) && n == 0 && string(got) != doc {
			t.Fatalf("%q is changed to %q", doc, got)
		}
		if !strings.ContainsAny(doc, "<&") && strings.Contains(string(got), value) {
			t.Fatalf("%q is left in %q", value, got)
		}
	})
}

// scans reports whether a document is well-formed.
func scans(doc string) bool {
	s := xmlstream.NewScanner(limits)
	s.ResetBytes([]byte(doc))
	for {
		if _, err := s.Next(); err != nil {
			return err == io.EOF
		}
	}
}
