package soapcodec

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"soapway/internal/golden"
	"soapway/xmlstream"
)

// TestFaultTable has a golden for every row of the table, in both versions, and
// reads each with our own decoder.
// Accept with: go test ./soapcodec -run TestFaultTable -update
func TestFaultTable(t *testing.T) {
	var seen []string
	golden.Run(t, "testdata/fault/*.txtar", func(t *testing.T, c *golden.Case) {
		seen = append(seen, c.Name)
		f := &Fault{Code: Code(c.Name)}
		if f.Code == CodeMustUnderstand {
			f.NotUnderstood = []QName{{"urn:depot:hop", "Hop"}, {"urn:a&b", "Other"}}
		}
		if f.Code.row().code != f.Code {
			t.Fatalf("%s has no row in the fault table", f.Code)
		}
		c.Check(t, "soap11", string(f.Append(nil, V11)))
		c.Check(t, "soap12", string(f.Append(nil, V12)))
		checkFault(t, f, V11)
		checkFault(t, f, V12)
	})
	for _, row := range faultTable {
		if !slices.Contains(seen, string(row.code)) {
			t.Errorf("testdata/fault has no case for %s", row.code)
		}
	}
}

// wantCode is the code of a fault in version v, whose local name is local unless
// another specification gives it a name.
func wantCode(row *faultRow, v Version, local string) QName {
	if v == V11 && !row.sub.IsZero() {
		return row.sub
	}
	return QName{v.Namespace(), local}
}

// checkFault decodes a fault of ours and compares it with the table.
func checkFault(t *testing.T, f *Fault, v Version) {
	t.Helper()
	doc := f.Append([]byte("kept"), v)
	if string(doc[:4]) != "kept" {
		t.Errorf("Append(%v): the prefix is lost", v)
	}
	doc = doc[4:]
	facts, err := Decode(doc, Options{})
	if err != nil {
		t.Fatalf("Decode of fault %s in %v: %v\n%s", f.Code, v, err, doc)
	}
	row := f.Code.row()
	local, status := row.local11, row.status11
	if v == V12 {
		local, status = row.local12, row.status12
	}
	if facts.Version != v || facts.Fault == nil || facts.Fault.Code != wantCode(row, v, local) {
		t.Errorf("fault %s in %v: got\n%s, want code %s", f.Code, v, dump(facts), local)
	}
	if got := f.Status(v); got != status || got < 400 || v == V11 && got != 500 {
		t.Errorf("Status of %s in %v: got %d, want %d", f.Code, v, got, status)
	}
	ct, err := ParseContentType(f.ContentType(v))
	if err != nil || ct.Type != v.MediaType() || ct.Charset != "utf-8" {
		t.Errorf("ContentType of %s in %v: got %+v, %v", f.Code, v, ct, err)
	}
	if got := detailCode(t, doc); got != string(f.Code) {
		t.Errorf("detail code of %s in %v: got %q", f.Code, v, got)
	}
	for _, h := range facts.Headers {
		if h.MustUnderstand || h.Role != "" {
			t.Errorf("fault %s in %v: header block %v is mandatory or aimed at a role", f.Code, v, h.Name)
		}
	}
}

// detailCode finds the text of {urn:soapway:fault}code, which must be a child
// of the detail element.
func detailCode(t *testing.T, doc []byte) string {
	t.Helper()
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err != nil {
			t.Fatalf("no code in %s: %v", doc, err)
		}
		if kind == xmlstream.Start && s.Name().Is(NSFault, "code") {
			if !strings.HasSuffix(strings.ToLower(s.Path()), "detail/f:code") {
				t.Errorf("code stands in %s, want it in detail", s.Path())
			}
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			return string(s.AppendText(nil))
		}
	}
}

// qnames reads the qname attributes of all elements {NS12}local in doc and
// resolves them where they stand.
func qnames(t *testing.T, doc []byte, local string) []string {
	t.Helper()
	var out []string
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if kind != xmlstream.Start || !s.Name().Is(NS12, local) {
			continue
		}
		for _, a := range s.Attrs() {
			if string(a.Name.Local) != "qname" || len(a.Name.Space) != 0 {
				continue
			}
			prefix, name, ok := strings.Cut(a.Value(), ":")
			if !ok {
				prefix, name = "", prefix
			}
			uri, bound := s.Lookup([]byte(prefix))
			if prefix != "" && !bound {
				t.Errorf("%s: prefix of qname %q is not bound", local, a.Value())
			}
			out = append(out, QName{string(uri), name}.String())
		}
	}
}

func TestUpgrade(t *testing.T) {
	e11, e12 := "{"+NS11+"}Envelope", "{"+NS12+"}Envelope"
	tests := []struct {
		opt  Options
		doc  string
		want []string
	}{
		{Options{}, "<x/>", []string{e12, e11}},
		{Options{Accept11: true, Accept12: true}, "<x/>", []string{e12, e11}},
		{Options{Accept12: true}, open11 + "<s:Body/>" + shut, []string{e12}},
		{Options{Accept11: true}, open12 + "<s:Body/>" + shut, []string{e11}},
	}
	for _, tt := range tests {
		_, err := Decode([]byte(tt.doc), tt.opt)
		e, ok := err.(*Error)
		if !ok {
			t.Fatalf("Decode(%s): got %v, want an *Error", tt.doc, err)
		}
		for _, v := range []Version{V11, V12} {
			doc := e.Fault().Append(nil, v)
			if got := qnames(t, doc, "SupportedEnvelope"); !slices.Equal(got, tt.want) {
				t.Errorf("Upgrade for %+v in %v: got %v, want %v", tt.opt, v, got, tt.want)
			}
			facts, err := Decode(doc, Options{})
			if err != nil || len(facts.Headers) != 1 || facts.Headers[0].Name != (QName{NS12, "Upgrade"}) {
				t.Errorf("Upgrade for %+v in %v: got %v, %v, want one Upgrade block", tt.opt, v, facts, err)
			}
		}
	}
}

func TestNotUnderstood(t *testing.T) {
	names := []QName{{"urn:a", "A"}, {`urn:"<&>'`, "B"}, {"", "C"}, {nsXML, "D"}, {NS12, "E"}}
	f := &Fault{Code: CodeMustUnderstand, NotUnderstood: names}
	got := qnames(t, f.Append(nil, V12), "NotUnderstood")
	for i, want := range names {
		if i >= len(got) || got[i] != want.String() {
			t.Errorf("NotUnderstood: got %v, want %v", got, names)
			break
		}
	}
	if doc := string(f.Append(nil, V11)); strings.Contains(doc, "NotUnderstood") {
		t.Errorf("NotUnderstood in SOAP 1.1: got %s", doc)
	}
}

// The text of a fault may hold parts of a hostile message: it must come out
// well-formed, whole and bounded.
func TestFaultText(t *testing.T) {
	for _, reason := range []string{
		"a<b>&\"'c]]>", "nul \x00 vt \x0b esc \x1b", "bad \xff\xfe octets", "￾￿ \ufdd0", "line\nbreak\ttab\rcr",
		strings.Repeat("é", maxReason), strings.Repeat("&", 10*maxReason), "😀",
	} {
		f := &Fault{Code: CodeInvalidEnvelope, Reason: reason}
		for _, v := range []Version{V11, V12} {
			doc := f.Append(nil, v)
			facts, err := Decode(doc, Options{})
			if err != nil || facts.Fault == nil || facts.Fault.Reason == "" {
				t.Errorf("fault with reason %q in %v: got %v", reason, v, err)
			}
			if len(doc) > 8*maxReason {
				t.Errorf("fault with a reason of %d octets in %v: got %d octets", len(reason), v, len(doc))
			}
		}
	}
	if got := (&Fault{Code: "Nonsense"}).Status(V12); got != 500 {
		t.Errorf("Status of an unknown code: got %d, want 500", got)
	}
}

// Untrusted names in an error are quoted and cut.
func TestErrorText(t *testing.T) {
	name := strings.Repeat("n", 600)
	_, err := Decode([]byte("<e:"+name+" xmlns:e='"+strings.Repeat("u", 5000)+"'/>"), Options{})
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("Decode: got %v, want an *Error", err)
	}
	if got := e.Fault().Reason; len(got) > 700 {
		t.Errorf("Fault of a message with long names: got a reason of %d octets: %s", len(got), got)
	}
	_, err = Decode([]byte(open12+"<s:Body>"+strings.Repeat("<"+name+">", 50)+"</s:Body>"), Options{})
	if e, ok = err.(*Error); !ok {
		t.Fatalf("Decode: got %v, want an *Error", err)
	}
	if got := e.Fault().Reason; len(got) > 1000 || !strings.Contains(got, "line 1") {
		t.Errorf("Fault of a message with a long path: got a reason of %d octets: %s", len(got), got)
	}
}

// TestReasonsAreSaidOnce: the text for the client does not repeat itself.
func TestReasonsAreSaidOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
		want string
	}{
		{"limit", Options{Limits: xmlstream.Limits{Depth: 1}}, "The message exceeds a limit: depth may be at most 1, at line 1, column "},
		{"version", Options{Accept12: true}, "accepted here, at line 1, column 1"},
	} {
		_, err := Decode([]byte(`<e:Envelope xmlns:e="`+NS11+`"><e:Body/></e:Envelope>`), tt.opt)
		own, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("%s: got %v", tt.name, err)
		}
		if got := own.Fault().Reason; !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want it to contain %q", tt.name, got, tt.want)
		}
	}
}
