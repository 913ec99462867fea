package casetest

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestOracle holds the judge itself to what it must see and refuse.
func TestOracle(t *testing.T) {
	const env = `<e:a xmlns:e="urn:e" xmlns:x="urn:x"><b at="1  2" e:at='"'>t<!--c-->u<?pi d?></b></e:a>`
	equal := []string{
		env,
		"<?xml version='1.0' encoding=\"utf-8\" standalone='no'?>\n" + env + "<!--after-->",
		`<e:a xmlns:x="urn:x" xmlns:e="urn:e"  ><b e:at="&quot;" at="1&#32; 2"><![CDATA[t]]><!--c-->&#x75;<?pi d?></b ></e:a>`,
		strings.ReplaceAll(env, `"1  2"`, "\"1 \n2\""),
	}
	differ := []string{
		strings.ReplaceAll(env, "<!--c-->", ""),
		strings.ReplaceAll(env, "<?pi d?>", ""),
		strings.ReplaceAll(env, "<?pi d?>", "<?pi e?>"),
		strings.ReplaceAll(env, " xmlns:x=\"urn:x\"", ""), // an unused binding is in scope
		strings.ReplaceAll(env, "urn:x", "urn:y"),
		strings.ReplaceAll(env, "1  2", "1 2"),
		strings.ReplaceAll(env, "1  2", "1&#10; 2"),
		strings.ReplaceAll(env, ">t<", ">t <"),
		strings.ReplaceAll(env, ">t<", "><t/><"),
		strings.ReplaceAll(env, "e:at", "at2"),
		strings.ReplaceAll(env, "<b", `<b xmlns="urn:d"`),
		strings.ReplaceAll(strings.ReplaceAll(env, "e:a>", "e:z>"), "<e:a ", "<e:z "),
	}
	print := func(s string) string {
		doc, err := parseXML(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return dump(doc.Root, nil)
	}
	want := print(env)
	for _, s := range equal {
		if got := print(s); got != want {
			t.Errorf("%s\nis not equal:\n%s%s", s, got, want)
		}
	}
	for _, s := range differ {
		if print(s) == want {
			t.Errorf("%s\nis equal", s)
		}
	}
	for _, s := range []string{
		"", "x", "<a>", "<a></b>", "<a/><b/>", "<a/>x", "<a b='<'/>", "<a b=1/>", "<a b='1' b='2'/>", "<a b='1'c='2'/>", "<a>]]></a>", "<a>&x;</a>", "<a>&#0;</a>",
		"<a>&#xD800;</a>", "<a>\x01</a>", "<a>\xff</a>", "<a><!-- -- --></a>", "<a><?xml v?></a>", " <?xml version='1.0'?><a/>", "<?xml version='1.1'?><a/>", "<?xml encoding='a'?><a/>",
		"<p:a/>", "<a p:b=''/>", "<a xmlns:p=''/>", "<a xmlns:p='u' xmlns:q='u' p:x='' q:x=''/>", "<a:b:c xmlns:a='u'/>", "<:a/>", "<a: xmlns:a='u'/>", "<a xmlns:xmlns='u'/>",
		"<a xmlns='http://www.w3.org/XML/1998/namespace'/>", "<a xmlns:xml='u'/>", "<1a/>", "<a><![CDATA[</a>", "<a &x;/>", "<a>&lt</a>",
	} {
		if doc, err := parseXML(s); err == nil {
			t.Errorf("%q was taken: %s", s, dump(doc.Root, nil))
		}
	}
	if _, err := parseXML("<!DOCTYPE a><a/>"); !errors.Is(err, errDTD) {
		t.Errorf("DOCTYPE: %v", err)
	}
	doc, err := parseXML("<a>\r\n\r&#13;&#10;</a>")
	if err != nil || doc.Root.text() != "\n\n\r\n" {
		t.Errorf("line ends: %q %v", doc.Root.text(), err)
	}
}

// TestOracleAgreesWithTheCases compares the oracle with what the cases say of
// their files, and with xmllint where it is installed.
func TestOracleAgreesWithTheCases(t *testing.T) {
	lint, lintErr := exec.LookPath("xmllint")
	for _, c := range needCases(t) {
		bodies, _ := c.doc["bodies"].([]any)
		for _, x := range bodies {
			b := x.(object)
			name := b["file"].(string)
			label, _ := b["decode_as"].(string)
			body := c.file(t, name)
			text, _, _, err := decodeText(body, label)
			if err == nil {
				_, err = parseXML(text)
			}
			want := b["well_formed"] == true && b["namespace_well_formed"] != false
			if errors.Is(err, errDTD) && b["soap_legal"] == false {
				continue
			}
			if got := err == nil; got != want && !errors.Is(err, errDTD) {
				t.Errorf("%s/%s: the oracle says %v (%v), the case %v", c.ID, name, got, err, want)
			}
			if lintErr != nil || label != "" {
				continue
			}
			cmd := exec.Command(lint, "--noout", "--nonet", "-")
			cmd.Stdin = bytes.NewReader(body)
			out, err := cmd.CombinedOutput()
			if got := err == nil && !bytes.Contains(out, []byte("error")); got != want {
				t.Logf("%s/%s: xmllint says %v: %s", c.ID, name, got, out)
			}
		}
	}
}

func TestDecodeText(t *testing.T) {
	for _, c := range []struct {
		in, label   string
		text, used  string
		agree, fail bool
	}{
		{"<a/>", "", "<a/>", "utf-8", true, false},
		{bom + "<a/>", "iso-8859-1", "<a/>", "utf-8", false, false},
		{"\xE9", "ISO-8859-1", "é", "iso-8859-1", true, false},
		{"\xE9", "", "", "utf-8", false, true},
		{"<?xml version='1.0' encoding='windows-1252'?>\x80", "", "<?xml version='1.0' encoding='windows-1252'?>€", "windows-1252", true, false},
		{"<?xml version='1.0' encoding='windows-1252'?>a", "utf-8", "<?xml version='1.0' encoding='windows-1252'?>a", "utf-8", false, false},
		{"\xFF\xFE<\x00a\x00/\x00>\x00", "utf-16", "<a/>", "utf-16", true, false},
		{"\xFE\xFF\x00<\x00a\x00/\x00>", "", "<a/>", "utf-16", true, false},
	} {
		text, used, agree, err := decodeText([]byte(c.in), c.label)
		if (err != nil) != c.fail || !c.fail && (text != c.text || used != c.used || agree != c.agree) {
			t.Errorf("decodeText(%q, %q): %q, %s, %v, %v", c.in, c.label, text, used, agree, err)
		}
	}
}

func TestParam(t *testing.T) {
	for _, c := range []struct{ in, name, want string }{
		{`a/b; charset=utf-8; action="x;y,z"`, "action", "x;y,z"},
		{`a/b;ACTION="u:v";CHARSET="UTF-8"`, "charset", "UTF-8"},
		{`a/b; action=u:v`, "action", "u:v"},
		{`a/b; x; charset=y;`, "charset", "y"},
		{`a/b; q="a\"b"; c=d`, "c", "d"},
	} {
		if got, ok := param(c.in, c.name); !ok || got != c.want {
			t.Errorf("param(%q, %q): %q, %v", c.in, c.name, got, ok)
		}
	}
	for _, none := range []string{"a/b", "a/b;", "a/b; charset=utf-8;", ""} {
		if got, ok := param(none, "action"); ok {
			t.Errorf("param(%q): %q", none, got)
		}
	}
}
