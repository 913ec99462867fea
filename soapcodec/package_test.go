package soapcodec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"soapway/xmlstream"
)

const (
	root11 = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><p:Scan xmlns:p="urn:depot"><p:i><x:Include xmlns:x="http://www.w3.org/2004/08/xop/include" href="cid:img%2B1%40depot.test"/></p:i></p:Scan></s:Body></s:Envelope>`
	xop11  = `multipart/related; type="application/xop+xml"; boundary=b; start="<root@depot.test>"; start-info="text/xml"`
)

// pkg writes a package: each part is its fields, an empty line and its content.
func pkg(parts ...string) string {
	return "--b\r\n" + strings.Join(parts, "\r\n--b\r\n") + "\r\n--b--\r\n"
}

func rootPart(fields ...string) string {
	return strings.Join(append(fields, "", root11), "\r\n")
}

var (
	xopRoot = rootPart(`Content-Type: application/xop+xml; charset=UTF-8; type="text/xml"`, "Content-ID: <root@depot.test>")
	image   = "Content-Type: image/png\r\nContent-ID: <img+1@depot.test>\r\n\r\n\x00\r\n\xff--b"
)

// walk reads a whole package and tells the root, the parts and what the envelope
// says, or why it was refused.
func walk(r io.Reader, contentType string, lim PackageOptions) (string, error) {
	ct, err := ParseContentType(contentType)
	if err != nil {
		return "", err
	}
	lim.References = true
	p, err := NewPackageReader(r, ct, Options{References: true}, lim)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		part, err := p.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return "", err
		}
		if part.Root {
			fmt.Fprintf(&out, "root %d <%s> %d octets; ", part.Index, part.ContentID, len(b))
		} else {
			fmt.Fprintf(&out, "<%s> %q; ", part.ContentID, b)
		}
	}
	f := p.Facts()
	fmt.Fprintf(&out, "%s %s dangling %q", f.Version, f.Operation, p.Dangling())
	return out.String(), nil
}

func TestPackageReader(t *testing.T) {
	good := `root 0 <root@depot.test> 234 octets; <img+1@depot.test> "\x00\r\n\xff--b"; 1.1 {urn:depot}Scan dangling []`
	for _, c := range []struct {
		name, ct, doc, want string
		code                Code
		err                 error
	}{
		{name: "XOP", ct: xop11, doc: pkg(xopRoot, image), want: good},
		{name: "root last", ct: xop11, doc: pkg(image, xopRoot), want: `<img+1@depot.test> "\x00\r\n\xff--b"; root 1 <root@depot.test> 234 octets; 1.1 {urn:depot}Scan dangling []`},
		{name: "no start", ct: "multipart/related; boundary=b; type=text/xml", doc: pkg(rootPart("Content-Type: text/xml"), image), want: strings.Replace(good, "root@depot.test", "", 1)},
		{name: "nothing said", ct: "multipart/related; boundary=b", doc: pkg("\r\n"+root11, image), want: strings.Replace(good, "root@depot.test", "", 1)},
		{name: "start without brackets", ct: strings.NewReplacer("<", "", ">", "").Replace(xop11), doc: pkg(xopRoot, image), want: good},
		{name: "Content-ID without brackets", ct: xop11, doc: pkg(strings.NewReplacer("<root@depot.test>", "root@depot.test").Replace(xopRoot), image), want: good},
		{name: "LF", ct: xop11, doc: strings.ReplaceAll(pkg(xopRoot, strings.ReplaceAll(image, "\x00\r\n", "\x00\n")), "\r\n", "\n"), want: strings.Replace(good, `\r\n`, `\n`, 1)},
		{name: "folded fields in any case", ct: xop11, doc: pkg(rootPart("CONTENT-TYPE : application/xop+xml;\r\n\ttype=\"text/xml\"", "content-id:\r\n  <root@depot.test>"), image), want: good},
		{name: "no type of the envelope in XOP", ct: xop11, doc: pkg(rootPart("Content-Type: application/xop+xml", "Content-ID: <root@depot.test>"), image), want: good},
		{name: "dangling", ct: xop11, doc: pkg(xopRoot), want: `root 0 <root@depot.test> 234 octets; 1.1 {urn:depot}Scan dangling ["cid:img%2B1%40depot.test"]`},
		{name: "base64", ct: xop11, doc: pkg("Content-Type: text/xml\r\nContent-Transfer-Encoding: BASE64\r\nContent-ID: <root@depot.test>\r\n\r\n" +
			"PGU6RW52ZWxvcGUgeG1sbnM6ZT0iaHR0cDovL3NjaGVtYXMueG1sc29hcC5vcmcv\r\nc29hcC9lbnZlbG9wZS8iPjxlOkJvZHkvPjwvZTpFbnZlbG9wZT4=\r\n"), want: `root 0 <root@depot.test> 86 octets; 1.1 {} dangling []`},
		{name: "quoted-printable", ct: xop11, doc: pkg("Content-Type: text/xml\r\nContent-Transfer-Encoding: quoted-printable\r\nContent-ID: <root@depot.test>\r\n\r\n" +
			"<e:Envelope xmlns:e=3D\"http://schemas.xmlsoap.org/soap=\r\n/envelope/\"><e:Body/></e:Envelope>"), want: `root 0 <root@depot.test> 86 octets; 1.1 {} dangling []`},
		{name: "an attachment in base64", ct: xop11, doc: pkg(xopRoot, "Content-Transfer-Encoding: base64\r\nContent-ID: <img+1@depot.test>\r\n\r\neA=="), want: `root 0 <root@depot.test> 234 octets; <img+1@depot.test> "x"; 1.1 {urn:depot}Scan dangling []`},
		{name: "UTF-16", ct: xop11, doc: pkg("Content-Type: text/xml; charset=utf-16be\r\nContent-ID: <root@depot.test>\r\n\r\n" + "\x00" + strings.Join(strings.Split(`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body/></e:Envelope>`, ""), "\x00")), want: `root 0 <root@depot.test> 86 octets; 1.1 {} dangling []`},

		{name: "not a package", ct: "text/xml", doc: root11, err: ErrNotPackage},
		{name: "type of no envelope", ct: "multipart/related; boundary=b; type=\"text/html\"", doc: pkg(image), err: ErrNotPackage},
		{name: "no boundary", ct: "multipart/related; type=\"text/xml\"", doc: pkg(xopRoot), err: ErrNotPackage},
		{name: "two boundaries", ct: "multipart/related; boundary=b; boundary=c", doc: pkg(xopRoot), err: ErrNotPackage},
		{name: "boundary in pieces", ct: "multipart/related; boundary=b; boundary*0=c", doc: pkg(xopRoot), err: ErrNotPackage},
		{name: "two starts", ct: xop11 + "; start=x", doc: pkg(xopRoot), err: ErrNotPackage},
		{name: "boundary ends in a blank", ct: "multipart/related; boundary=\"b \"", doc: pkg(xopRoot), err: ErrNotPackage},
		{name: "octets behind the quotes", ct: "multipart/related; boundary=\"b\"c", doc: pkg(xopRoot), err: ErrNotPackage},
		{name: "a blank inside", ct: "multipart/related; boundary=b c", doc: pkg(xopRoot), err: ErrNotPackage},
		{name: "root is an image", ct: "multipart/related; boundary=b", doc: pkg(image), code: CodePackage, err: ErrRootType},
		{name: "XOP around an image", ct: xop11, doc: pkg(strings.Replace(xopRoot, `type="text/xml"`, `type="image/png"`, 1)), code: CodePackage, err: ErrRootType},
		{name: "start names no part", ct: xop11, doc: pkg(image), code: CodePackage, err: errNoRoot},
		{name: "start names two parts", ct: xop11, doc: pkg(xopRoot, xopRoot), code: CodePackage, err: errTwoRoots},
		{name: "no parts", ct: xop11, doc: "--b--\r\n", code: CodePackage, err: errNoParts},
		{name: "no close delimiter", ct: xop11, doc: strings.TrimSuffix(pkg(xopRoot, image), "--\r\n"), code: CodePackage, err: errNoClose},
		{name: "two types", ct: xop11, doc: pkg("Content-Type: text/xml\r\n" + xopRoot), code: CodePackage, err: errTwice},
		{name: "two ids of an attachment", ct: xop11, doc: pkg(xopRoot, "content-id: <a>\r\n"+image), code: CodePackage, err: errTwice},
		{name: "no colon", ct: xop11, doc: pkg("Content-Type\r\n" + xopRoot), code: CodePackage, err: errFieldLine},
		{name: "no name", ct: xop11, doc: pkg(": x\r\n" + xopRoot), code: CodePackage, err: errFieldLine},
		{name: "begins folded", ct: xop11, doc: pkg(" a: x\r\n" + xopRoot), code: CodePackage, err: errFieldLine},
		{name: "CR in a field", ct: xop11, doc: pkg("X: a\rContent-ID: <root@depot.test>\r\n\r\n"), code: CodePackage, err: errFieldOctets},
		{name: "NUL in a field", ct: xop11, doc: pkg("X: a\x00\r\n" + xopRoot), code: CodePackage, err: errFieldOctets},
		{name: "unknown transfer encoding", ct: xop11, doc: pkg("Content-Transfer-Encoding: gzip\r\n" + xopRoot), code: CodePackage, err: errTransfer},
		{name: "broken base64", ct: xop11, doc: pkg("Content-Transfer-Encoding: base64\r\n" + xopRoot), code: CodePackage, err: errTransferred},
		{name: "broken envelope", ct: xop11, doc: strings.Replace(pkg(xopRoot, image), "</s:Body>", "", 1), code: CodeNotWellFormed},
		{name: "empty root", ct: xop11, doc: pkg("Content-ID: <root@depot.test>\r\n\r\n"), code: CodeNotWellFormed},
		{name: "root is no envelope", ct: "multipart/related; boundary=b", doc: pkg("\r\n<x/>"), code: CodeVersionMismatch},
		{name: "unknown charset", ct: xop11, doc: strings.Replace(pkg(xopRoot), "UTF-8", "x-none", 1), code: CodeCharset},
		{name: "eleven parts", ct: xop11, doc: pkg(append(slices.Repeat([]string{image}, 10), xopRoot)...), code: CodeLimit, err: xmlstream.ErrLimit},
	} {
		for how, r := range map[string]io.Reader{"whole": strings.NewReader(c.doc), "one byte": iotest.OneByteReader(strings.NewReader(c.doc))} {
			got, err := walk(r, c.ct, PackageOptions{Parts: 10})
			e, _ := errors.AsType[*Error](err)
			switch {
			case c.want != "":
				if err != nil || got != c.want {
					t.Errorf("%s, %s: got\n%s, %v, want\n%s", c.name, how, got, err, c.want)
				}
			case err == nil, c.err != nil && !errors.Is(err, c.err), c.code != "" && (e == nil || e.Code != c.code):
				t.Errorf("%s, %s: got %s, %v, want %v, %s", c.name, how, got, err, c.err, c.code)
			case e != nil && e.Fault().Reason == "":
				t.Errorf("%s: the fault has no reason", c.name)
			}
		}
	}
}

// TestPackageReaderSkips: parts that nobody reads are passed over, the root is
// checked all the same, and small reads give what large ones give.
func TestPackageReaderSkips(t *testing.T) {
	ct, err := ParseContentType(xop11)
	if err != nil {
		t.Fatal(err)
	}
	open := func(doc string) *PackageReader {
		p, err := NewPackageReader(strings.NewReader(doc), ct, Options{}, PackageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := open(pkg(image, "Content-Transfer-Encoding: base64\r\n\r\n!!!", "Content-Transfer-Encoding: x-own\r\n\r\n?", xopRoot))
	for i := range 4 {
		if part, err := p.Next(); err != nil || part.Index != i {
			t.Fatalf("part %d: got %+v, %v", i, part, err)
		}
	}
	if _, err := p.Next(); err != io.EOF || p.Facts().Operation.Local != "Scan" {
		t.Errorf("at the end: got %v, %s", err, dump(p.Facts()))
	}
	if _, err := p.Next(); err != io.EOF {
		t.Errorf("behind the end: got %v", err)
	}
	encoded, err := NewPackageReader(strings.NewReader(pkg(xopRoot, "Content-Transfer-Encoding: base64\r\n\r\n!!!")), ct, Options{}, PackageOptions{Encoded: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{root11, "!!!"} {
		if _, err := encoded.Next(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(encoded); err != nil || string(b) != want {
			t.Errorf("part %d, encoded: got %q, %v", i, b, err)
		}
	}
	p = open(strings.Replace(pkg(xopRoot), "</s:Body>", "", 1))
	if _, err := p.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Next(); err == nil || err == io.EOF {
		t.Errorf("a bad root that nobody read: got %v", err)
	}
	p = open(pkg(xopRoot))
	if n, err := p.Read(make([]byte, 9)); n != 0 || err != nil {
		t.Errorf("Read before Next: got %d, %v", n, err)
	}
	if _, err := p.Next(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(iotest.OneByteReader(p)); err != nil || string(b) != root11 {
		t.Errorf("octet by octet: got %q, %v", b, err)
	}
}

func TestContentIDOf(t *testing.T) {
	for _, c := range []struct {
		url, id string
		ok      bool
	}{
		{"cid:img%2B1%40depot.test", "img+1@depot.test", true},
		{"cid:img+1@depot.test", "img+1@depot.test", true},
		{"CID:a%2fb", "a/b", true},
		{"cid:%C3%A9", "é", true},
		{"cid:", "", false},
		{"cid:a%2", "", false},
		{"cid:a%zz", "", false},
		{"http://a/", "", false},
		{"", "", false},
	} {
		if id, ok := ContentIDOf(c.url); id != c.id || ok != c.ok {
			t.Errorf("ContentIDOf(%q): got %q, %v, want %q, %v", c.url, id, ok, c.id, c.ok)
		}
	}
}

func TestAppendHeader(t *testing.T) {
	header := "X-A: 1\r\ncontent-type: text/xml;\r\n charset=\"UTF-16\"; a=b\r\nContent-Length:  7 \r\nContent-Transfer-Encoding: 7bit\r\n\r\n"
	for _, c := range []struct {
		change HeaderChange
		want   string
	}{
		{HeaderChange{Length: -1}, header},
		{HeaderChange{Length: -1, Charset: "utf-8"}, strings.Replace(header, "UTF-16", "utf-8", 1)},
		{HeaderChange{Length: 12}, strings.Replace(header, "  7 ", " 12", 1)},
		{HeaderChange{Length: -1, Encoding: "binary"}, strings.Replace(header, "7bit", "binary", 1)},
		{HeaderChange{Charset: "utf-8", Encoding: "8bit"}, strings.NewReplacer("UTF-16", "utf-8", "7bit", "8bit", "  7 ", " 0").Replace(header)},
	} {
		if got := string(AppendHeader([]byte("kept"), []byte(header), c.change)); got != "kept"+c.want {
			t.Errorf("AppendHeader(%+v): got %q, want %q", c.change, got, c.want)
		}
	}
}

func TestPackageAction(t *testing.T) {
	for _, c := range []struct{ name, ct, part, want string }{
		{"package", `multipart/related; boundary=b; action="urn:1"; start-info="application/soap+xml; action=\"urn:2\""`, "Content-Type: application/soap+xml; action=\"urn:3\"", "urn:1"},
		{"start-info", `multipart/related; boundary=b; start-info="application/soap+xml; action=\"urn:2\""`, "Content-Type: application/soap+xml; action=\"urn:3\"", "urn:2"},
		{"root", `multipart/related; boundary=b; start-info="application/soap+xml"`, "Content-Type: application/soap+xml; action=\"urn:3\"", "urn:3"},
		{"type of the root", `multipart/related; boundary=b`, "Content-Type: application/xop+xml; type=\"application/soap+xml; action=\\\"urn:4\\\"\"", "urn:4"},
		{"none", `multipart/related; boundary=b`, "Content-Type: text/xml", ""},
	} {
		ct, err := ParseContentType(c.ct)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPackage(PackageOptions{})
		p.ResetBytes([]byte(pkg(rootPart(c.part))), ct)
		for {
			if _, err := p.Next(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if got, has := p.Action(); got != c.want || has != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, has, c.want)
		}
	}
}

// TestPackageCases are the acceptance cases with attachments: their facts.
func TestPackageCases(t *testing.T) {
	dir := testData(t, "CASES", "../../shared/cases")
	n := 0
	for _, glob := range []string{"09-*", "10-*", "11-*"} {
		paths, err := filepath.Glob(filepath.Join(dir, glob, "case.json"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("%s: %v, %v", glob, paths, err)
		}
		n++
		text, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Request  struct{ Headers map[string]string }
			Variants []struct{ Headers map[string]string }
			Expect   struct {
				Facts struct {
					SOAPVersion string `json:"soap_version"`
					RootID      string `json:"root_content_id"`
					RootIndex   int    `json:"root_part_index"`
					Body        string `json:"body_qname"`
					Parts       int
					Resolved    map[string]string
					Attachment  struct {
						ContentID string `json:"content_id"`
						Bytes     int
						SHA256    string
					}
				}
			}
		}
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		doc, err := os.ReadFile(filepath.Join(filepath.Dir(paths[0]), "request.bin"))
		if err != nil {
			t.Fatal(err)
		}
		types := []string{c.Request.Headers["Content-Type"]}
		for _, v := range c.Variants {
			types = append(types, v.Headers["Content-Type"])
		}
		for _, field := range types {
			ct, err := ParseContentType(field)
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPackageReader(bytes.NewReader(doc), ct, Options{References: true}, PackageOptions{References: true})
			if err != nil {
				t.Fatal(err)
			}
			want := c.Expect.Facts
			ids := map[string]bool{}
			for {
				part, err := p.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", glob, err)
				}
				ids[part.ContentID] = true
				b, err := io.ReadAll(p)
				if err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(b)
				switch {
				case part.Root && want.RootID != "" && want.RootID != "<"+part.ContentID+">", part.Root && part.Index != want.RootIndex && want.RootID == "":
					t.Errorf("%s: root is part %d <%s>", glob, part.Index, part.ContentID)
				case !part.Root && want.Attachment.SHA256 != "" && (len(b) != want.Attachment.Bytes || hex.EncodeToString(sum[:]) != want.Attachment.SHA256):
					t.Errorf("%s: attachment %q of %d octets", glob, b, len(b))
				}
			}
			f := p.Facts()
			if f.Version.String() != want.SOAPVersion || f.Operation.String() != want.Body || want.Parts != 0 && p.pkg.Parts() != want.Parts {
				t.Errorf("%s: got %s", glob, dump(f))
			}
			if d := p.Dangling(); len(d) > 0 || len(f.References) != 1 {
				t.Errorf("%s: references %q, dangling %q", glob, f.References, d)
			}
			for url, id := range want.Resolved {
				if got, ok := ContentIDOf(url); !ok || "<"+got+">" != id || !ids[got] {
					t.Errorf("%s: %s is %q", glob, url, got)
				}
			}
		}
	}
	if n != 3 {
		t.Errorf("got %d cases", n)
	}
}

// TestPackageCorpus reads packages of real stacks.
func TestPackageCorpus(t *testing.T) {
	dir := filepath.Join(testData(t, "CORPUS", "../../shared/corpus"), "messages")
	for _, c := range []struct {
		file, start, boundary string
		version               Version
		parts, dangling       int
	}{
		{"01k_xroad_mtom_response.mime", "", "MIMEBoundaryurn_uuid_0FE43E4D025F0BF3DC11582467646812", V11, 2, 0},
		{"02k_nhs_ebxml_multipart.mime", "<ebXMLHeader@spine.nhs.uk>", "--=_MIME-Boundary", V11, 2, 0},
		{"09k_axiom_mtom_quoted_printable.mime", "<rootpart@soapui.org>", "----=_Part_542_1447667749.1430736561148", V12, 2, 0},
		{"54k_axiom_swa.mime", "", "MIMEBoundaryurn:uuid:A3ADBAEE51A1A87B2A11443668160701", V12, 2, 0},
		{"63k_axiom_mtom_two_jpegs.mime", "<0.urn:uuid:A3ADBAEE51A1A87B2A11443668160702@apache.org>", "MIMEBoundaryurn:uuid:A3ADBAEE51A1A87B2A11443668160701", V12, 3, 0},
	} {
		doc, err := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		ct, err := ParseContentType(fmt.Sprintf("multipart/related; boundary=%q; start=%q", c.boundary, c.start))
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPackageReader(bytes.NewReader(doc), ct, Options{References: true}, PackageOptions{References: true})
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err = p.Next(); err != nil {
				break
			}
		}
		if err != io.EOF || p.pkg.Parts() < c.parts || p.Facts().Version != c.version || len(p.Dangling()) != c.dangling {
			t.Errorf("%s: %v, %d parts, dangling %q\n%s", c.file, err, p.pkg.Parts(), p.Dangling(), dump(p.Facts()))
		}
	}
}

// TestPackageReferences bounds what is kept of references and ids.
func TestPackageReferences(t *testing.T) {
	many := strings.Repeat(`<x:Include xmlns:x="http://www.w3.org/2004/08/xop/include" href="cid:0123456789"/>`, 50_000)
	doc := strings.Replace(root11, "<p:i>", many+"<p:i>", 1)
	if _, err := Decode([]byte(doc), Options{References: true}); !errors.Is(err, xmlstream.ErrLimit) {
		t.Errorf("50000 references: got %v, want a limit", err)
	}
	if f, err := Decode([]byte(doc), Options{}); err != nil || f.References != nil {
		t.Errorf("not asked for: got %v, %d", err, len(f.References))
	}
	var b strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&b, "--b\r\nContent-ID: <%0200d>\r\n\r\n\r\n", i)
	}
	if _, err := walk(strings.NewReader(b.String()+pkg(xopRoot)), xop11, PackageOptions{}); !errors.Is(err, xmlstream.ErrLimit) {
		t.Errorf("long ids: got %v, want a limit", err)
	}
	header := strings.Replace(root11, "<s:Body>", `<s:Header><h:a xmlns:h="urn:h"><x:Include xmlns:x="http://www.w3.org/2004/08/xop/include" href="cid:h"/></h:a></s:Header><s:Body>`, 1)
	if f, err := Decode([]byte(header), Options{References: true}); err != nil || strings.Join(f.References, " ") != "cid:h cid:img%2B1%40depot.test" {
		t.Errorf("in a header block: got %v, %v", f, err)
	}
}

// FuzzPackage: reading never fails but with an error of its own kinds, and what
// was read octet by octet is what was read at once.
func FuzzPackage(f *testing.F) {
	for _, doc := range []string{pkg(xopRoot, image), pkg(image, xopRoot), pkg("\r\n" + root11), "--b\n\n" + root11 + "\n--b--", pkg("Content-Transfer-Encoding: base64\r\n\r\neA==")} {
		f.Add([]byte(doc), xop11)
		f.Add([]byte(doc), "multipart/related; boundary=b")
	}
	f.Fuzz(func(t *testing.T, doc []byte, field string) {
		got, err := walk(bytes.NewReader(doc), field, PackageOptions{})
		again, err2 := walk(iotest.OneByteReader(bytes.NewReader(doc)), field, PackageOptions{})
		if got != again || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Errorf("whole: %s, %v; octet by octet: %s, %v", got, err, again, err2)
		}
		if _, ok := errors.AsType[*Error](err); err != nil && !ok && !errors.Is(err, ErrNotPackage) && !errors.Is(err, ErrMediaType) {
			t.Errorf("got %v, want an *Error", err)
		}
	})
}
