package proxy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMetaForm holds the form of what is stored: a store that was written by
// one version is read by the next.
func TestMetaForm(t *testing.T) {
	for _, tt := range []struct {
		name string
		meta storedMeta
		want string
	}{
		{"least", storedMeta{V: 1, SOAP: "1.1"}, `{"v":1,"soap":"1.1"}`},
		{
			"all",
			storedMeta{
				V: 1, SOAP: "1.2", Framed: true, Doubt: true, Tail: "/a", Query: "b=c", HasQuery: true, Host: "h", Action: "urn:a",
				Client: "192.0.2.1:1", Reply: &replyWish{SOAP: "1.1", Caller: "basic:u", Keep: 5}, Header: [][2]octets{{"A", "1"}, {"B", ""}},
			},
			`{"v":1,"soap":"1.2","framed":true,"doubt":true,"has_query":true,"tail":"/a","query":"b=c","host":"h","action":"urn:a","client":"192.0.2.1:1","reply":{"soap":"1.1","caller":"basic:u","keep":5},"header":[["A","1"],["B",""]]}`,
		},
		{
			"a reply for nobody by name, kept for ever",
			storedMeta{V: 1, SOAP: "1.1", Reply: &replyWish{SOAP: "1.2"}},
			`{"v":1,"soap":"1.1","reply":{"soap":"1.2"}}`,
		},
		{
			"one whose answer goes on, and an answer",
			storedMeta{V: 1, SOAP: "1.1", To: "http://c/", Answer: &answerWish{
				SOAP: "1.2", Space: "urn:a", ID: "urn:1", Reply: &answerTarget{Address: "http://c/", Parameters: []answerParameter{{"urn:p", "p", "<p/>"}}}, Fault: &answerTarget{Address: "http://f/"},
			}},
			`{"v":1,"soap":"1.1","to":"http://c/","answer":{"soap":"1.2","wsa":"urn:a","id":"urn:1","reply":{"address":"http://c/","parameters":[{"space":"urn:p","local":"p","block":"\u003cp/\u003e"}]},"fault":{"address":"http://f/"}}}`,
		},
		{
			"an empty query",
			storedMeta{V: 1, SOAP: "1.1", HasQuery: true},
			`{"v":1,"soap":"1.1","has_query":true}`,
		},
		{
			"octets that are not plain ASCII",
			storedMeta{V: 1, SOAP: "1.1", Action: "a\"\\\t", Header: [][2]octets{{"é", "\xe9"}, {"<", "\x7f"}}},
			`{"v":1,"soap":"1.1","action":"a\"\\\t","header":[["é",{"octets":"é"}],["<","` + "\x7f" + `"]]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.meta.append(nil)
			if string(got) != tt.want {
				t.Errorf("append:\n got %s\nwant %s", got, tt.want)
			}
			back, err := readMeta(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.meta, *back); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzMeta writes fields of any octets and reads them back.
func FuzzMeta(f *testing.F) {
	f.Add("/orders/a", "q=1", "urn:a", "X-A", "v")
	f.Add("/\xff", "\x00\"", "\\\u2028", "é\xc3", "<>&\x7f")
	f.Fuzz(func(t *testing.T, tail, query, action, key, value string) {
		want := storedMeta{
			V: metaVersion, SOAP: "1.1", Tail: octets(tail), Query: octets(query), HasQuery: true,
			Action: octets(action), Reply: &replyWish{SOAP: "1.2", Caller: octets(value)}, Header: [][2]octets{{octets(key), octets(value)}, {octets(value), octets(key)}},
		}
		b := want.append([]byte("x"))[1:]
		if !json.Valid(b) {
			t.Fatalf("not JSON: %q", b)
		}
		got, err := readMeta(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// plainMeta is what most messages have.
func plainMeta() *storedMeta {
	return &storedMeta{
		V: metaVersion, SOAP: "1.1", Tail: "/a", Host: "plant:8080", Action: "urn:a", Client: "192.0.2.1:1", Space: "urn:test", Sites: []octets{"plant", "region"},
		Header: [][2]octets{{"Content-Type", "text/xml; charset=utf-8"}, {"SOAPAction", `"urn:a"`}, {"Forwarded", `for="[2001:db8::1]:1";host="a\b"`}, {"User-Agent", "x/1"}, {"Via", "1.1 gateway"}, {"X-Forwarded-For", "192.0.2.1"}, {"X-Key", "k17"}},
	}
}

// FuzzReadMeta: the quick reader reads what encoding/json reads, or leaves it to that.
func FuzzReadMeta(f *testing.F) {
	f.Add(plainMeta().append(nil))
	f.Add([]byte(`{"v":1,"soap":"1.1","header":[]}`))
	f.Add([]byte(`{"v":,"soap":""}`)) // found by this test
	f.Add([]byte(`{"v":1,"soap":"1.1","sites":["a"],"header":[["a","b"],["c","d"]]}`))
	f.Add([]byte(`{"v":12,"soap":"1.1","tail":"\\u0041"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var quick, slow storedMeta
		if !quick.readPlain(b) {
			return
		}
		if err := json.Unmarshal(b, &slow); err != nil {
			t.Fatalf("%q is read, and is no JSON: %v", b, err)
		}
		if diff := cmp.Diff(slow, quick); diff != "" {
			t.Errorf("%q is read otherwise (-want +got):\n%s", b, diff)
		}
	})
}

// TestReadMetaAllocs: Meta costs little beside its message.
func TestReadMetaAllocs(t *testing.T) {
	b := plainMeta().append(nil)
	if !new(storedMeta).readPlain(b) {
		t.Fatalf("%s is not read quickly", b)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := readMeta(b); err != nil {
			t.Error(err)
		}
	}); n > 8 {
		t.Errorf("%v allocations, want at most 8", n)
	}
}

// BenchmarkReadMeta sets the quick reader beside encoding/json.
func BenchmarkReadMeta(b *testing.B) {
	text := plainMeta().append(nil)
	b.Run("quick", func(b *testing.B) {
		for b.Loop() {
			if _, err := readMeta(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			if err := json.Unmarshal(text, new(storedMeta)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
