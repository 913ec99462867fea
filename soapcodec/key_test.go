package soapcodec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/xmlstream"
)

// way makes a Key of names in Clark form; a name alone is of any namespace.
func way(header bool, names ...string) Key {
	k := Key{Header: header}
	for _, n := range names {
		space, local, found := strings.Cut(strings.TrimPrefix(n, "{"), "}")
		if !found {
			k.Path = append(k.Path, Step{Name: QName{Local: n}, AnySpace: true})
			continue
		}
		k.Path = append(k.Path, Step{Name: QName{Space: space, Local: local}})
	}
	return k
}

func TestKeys(t *testing.T) {
	const doc = open12 + `<s:Header xmlns:h="urn:h">` +
		`<h:Customer> 47 &amp; <!-- no --> 11 </h:Customer><h:Customer>second</h:Customer>` +
		`<h:Empty/><h:Deep><h:Inner>in</h:Inner>out</h:Deep>` +
		`<h:Next s:role="http://www.w3.org/2003/05/soap-envelope/role/next">next</h:Next>` +
		`<a:MessageID xmlns:a="` + nsAddressing + `">urn:1</a:MessageID></s:Header>` +
		`<s:Body xmlns:o="urn:o"><o:Order><o:Line><o:Id>not this</o:Id></o:Line><o:Id>A&#x37;<![CDATA[&b]]></o:Id><o:Id>late</o:Id>` +
		`<o:Order><o:Order>inner</o:Order></o:Order><Plain xmlns="">p</Plain><o:Late/></o:Order><o:Order><o:Only>only</o:Only></o:Order></s:Body>` + shut
	tests := []struct {
		name string
		key  Key
		want string
	}{
		{"block", way(true, "{urn:h}Customer"), "47 &  11"},
		{"block of any namespace", way(true, "Customer"), "47 &  11"},
		{"block of another namespace", way(true, "{urn:o}Customer"), ""},
		{"block without a namespace", way(true, "{}Customer"), ""},
		{"no such block", way(true, "Order"), ""},
		{"empty block", way(true, "{urn:h}Empty"), ""},
		{"only the text directly inside", way(true, "{urn:h}Deep"), "out"},
		{"not a block but its child", way(true, "{urn:h}Inner"), ""},
		{"block for another role", way(true, "{urn:h}Next"), "next"},
		{"addressing as well", way(true, "{"+nsAddressing+"}MessageID"), "urn:1"},
		{"element", way(false, "{urn:o}Order", "{urn:o}Id"), "A7&b"},
		{"element deep", way(false, "Order", "Line", "Id"), "not this"},
		{"element of the same name", way(false, "{urn:o}Order", "{urn:o}Order", "{urn:o}Order"), "inner"},
		{"in the second child of Body", way(false, "{urn:o}Order", "{urn:o}Only"), "only"},
		{"without a namespace", way(false, "{urn:o}Order", "{}Plain"), "p"},
		{"empty element", way(false, "{urn:o}Order", "{urn:o}Late"), ""},
		{"child of Body", way(false, "{urn:o}Order"), ""},
		{"not below Body", way(false, "{urn:o}Id"), ""},
		{"no such element", way(false, "{urn:o}Order", "{urn:o}Id", "{urn:o}Id"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other := way(false, "{urn:o}Order", "{urn:o}Id")
			d := NewDecoder(Options{Keys: []Key{tt.key, other}})
			for _, r := range readers {
				r.reset(d, []byte(doc))
				if err := d.Finish(); err != nil {
					t.Fatalf("Finish over %s: got %v, want nil", r.name, err)
				}
				if want := []string{tt.want, "A7&b"}; !slices.Equal(d.Facts().Keys, want) {
					t.Errorf("Keys over %s: got %q, want %q", r.name, d.Facts().Keys, want)
				}
				if d.Facts().MessageID != "urn:1" {
					t.Errorf("MessageID over %s: got %q, want that of the message", r.name, d.Facts().MessageID)
				}
			}
		})
	}
}

// A key is never cut, wherever the reader cuts the text.
func TestKeyLimit(t *testing.T) {
	body := func(value string) []byte {
		return []byte(open11 + `<s:Body><o><k>` + value + `</k></o></s:Body>` + shut)
	}
	d := NewDecoder(Options{Keys: []Key{way(false, "o", "k")}})
	for _, r := range readers {
		r.reset(d, body(strings.Repeat("x", MaxKey)))
		if err := d.Finish(); err != nil || len(d.Facts().Keys[0]) != MaxKey {
			t.Errorf("Finish over %s of the longest key: got %v and %d octets", r.name, err, len(d.Facts().Keys[0]))
		}
		for _, value := range []string{strings.Repeat("x", MaxKey+1), strings.Repeat(" ", MaxKey) + "x", strings.Repeat("&#x41;", MaxKey/6+1)} {
			r.reset(d, body(value))
			err := d.Finish()
			if e, ok := err.(*Error); !ok || e.Code != CodeLimit || !errors.Is(err, xmlstream.ErrLimit) {
				t.Errorf("Finish over %s of a key of %d octets: got %v, want %s", r.name, len(value), err, CodeLimit)
			}
		}
	}
}

// What one message has must not show in the next one.
func TestKeysReset(t *testing.T) {
	d := NewDecoder(Options{Keys: []Key{way(false, "o", "k")}})
	doc := open11 + `<s:Body><o><k>v</k></o></s:Body>` + shut
	for n := range len(doc) {
		d.ResetBytes([]byte(doc[:n]))
		_ = d.Finish() // each prefix fails
		d.ResetBytes([]byte(open11 + `<s:Body><k>w</k></s:Body>` + shut))
		if err := d.Finish(); err != nil || d.Facts().Keys[0] != "" {
			t.Fatalf("Keys after %d octets of another message: got %q and %v, want none", n, d.Facts().Keys, err)
		}
	}
	d.SetOptions(Options{})
	d.ResetBytes([]byte(doc))
	if err := d.Finish(); err != nil || len(d.Facts().Keys) != 0 {
		t.Errorf("Keys of a decoder that looks for none: got %q and %v", d.Facts().Keys, err)
	}
}

func TestBodyPlace(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"content", `<s:Body wsu:Id="1" xmlns:wsu="u"> <o/>x</s:Body >`, " <o/>x"},
		{"empty", `<s:Body></s:Body>`, ""},
		{"empty tag", `<s:Body />`, ""},
	}
	d := NewDecoder(Options{})
	for _, tt := range tests {
		doc := open11 + `<s:Header/>` + tt.body + ` ` + shut
		for _, r := range readers {
			r.reset(d, []byte(doc))
			if err := d.Finish(); err != nil {
				t.Fatal(err)
			}
			f := d.Facts()
			if f.BodyEnd < f.BodyStart || doc[f.BodyStart:f.BodyEnd] != tt.want {
				t.Errorf("%s over %s: got [%d, %d), want the octets %q", tt.name, r.name, f.BodyStart, f.BodyEnd, tt.want)
			}
		}
	}
}

func TestKeyAllocs(t *testing.T) {
	d := NewDecoder(Options{Keys: []Key{way(true, "{urn:depot:trace}Trace"), way(false, "{urn:depot:parcel}Book", "{urn:depot:parcel}line")}})
	got := testing.AllocsPerRun(100, func() {
		d.ResetBytes(benchMessage)
		if err := d.Finish(); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("decoding with two keys: got %v allocations, want one for each value", got)
	}
}

// keyByTree is what encoding/xml has under a path, found by a way of its own:
// the names from the root down to each element, and the first that fits.
func keyByTree(doc []byte, k Key) (string, error) {
	path := []Step{{Name: QName{Local: "Envelope"}, AnySpace: true}, {Name: QName{Local: "Body"}, AnySpace: true}}
	if k.Header {
		path[1].Name.Local = "Header"
	}
	path = append(path, k.Path...)
	var open []xml.Name
	value, reading := "", 0
	for d := xml.NewDecoder(bytes.NewReader(doc)); ; {
		tok, err := d.Token()
		if err == io.EOF {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			open = append(open, tok.Name)
			if reading == 0 && slices.EqualFunc(open, path, func(n xml.Name, s Step) bool {
				return n.Local == s.Name.Local && (s.AnySpace || n.Space == s.Name.Space)
			}) {
				reading = len(open)
			}
		case xml.EndElement:
			if reading == len(open) {
				return strings.Trim(value, blanks), nil
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if reading == len(open) && reading > 0 {
				value += string(tok)
			}
		}
	}
}

// FuzzKeys: the keys of a good message are those that another reader finds, and
// do not depend on how the message arrives.
func FuzzKeys(f *testing.F) {
	addSeeds(f)
	f.Add([]byte(open12 + `<s:Header><o:k xmlns:o="urn:o"> a&#x41;<![CDATA[ b ]]> </o:k></s:Header><s:Body><o xmlns="urn:o"><k/></o><o xmlns="urn:o"><x><k>no</k></x><k>1<i>2</i>3</k><k>4</k></o></s:Body>` + shut))
	keys := []Key{way(true, "k"), way(true, "{urn:o}k"), way(false, "o", "k"), way(false, "{urn:o}o", "{urn:o}k"), way(false, "o")}
	f.Fuzz(func(t *testing.T, doc []byte) {
		d := NewDecoder(Options{Keys: keys})
		d.ResetBytes(doc)
		if d.Finish() != nil {
			return
		}
		got := slices.Clone(d.Facts().Keys)
		d.Reset(iotest.OneByteReader(bytes.NewReader(doc)))
		if err := d.Finish(); err != nil || !slices.Equal(d.Facts().Keys, got) {
			t.Fatalf("Keys in pieces: got %q and %v, want %q", d.Facts().Keys, err, got)
		}
		if bytes.Contains(doc, []byte("<?xml")) {
			return // encoding/xml knows one encoding and one version
		}
		for i, k := range keys {
			want, err := keyByTree(doc, k)
			if err != nil {
				return // it refuses more, and differs in namespaces: see docs/specifications.md
			}
			if got[i] != want {
				t.Fatalf("Keys[%d] (%+v): got %q, want %q", i, k, got[i], want)
			}
		}
	})
}
