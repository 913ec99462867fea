package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"soapway/xmlstream"
)

// seeds are documents that have every construct, to be spoiled.
var seeds = []string{
	`<?xml version="1.0" encoding="UTF-8" standalone='yes'?><a/>`,
	"<!-- c --><?p i?>\n<r a='1' b=\"&lt;&#65;&#x42;\">t&amp;<![CDATA[<&]]>]]&gt;</r>\n<!-- d -->",
	`<p:r xmlns:p="urn:p" xmlns="urn:d" p:a="1" a="2"><b xmlns=""/><p:c xmlns:p="urn:q" p:d=""/></p:r>`,
	`<r xmlns:p="urn:p" xmlns:q="urn:p"><e p:a="" q:b=""/><e xml:lang="en" xml:space="preserve"> </e></r>`,
	"<r>\u00e9\u6d4b\U0001F600<\u00e9 \u03b1='\u4e8c'/>\t\r\n</r>",
	// Tags that come again, so that what is learnt from the first is at stake.
	`<r xmlns:p="urn:p"><p:i a="1" p:b='2'>x</p:i><p:i a="3" p:b='4'>y</p:i><p:i a="5" p:b='6'/><p:i a="7" p:b='8'/></r>`,
	`<r><i xmlns="urn:i" k="1"/><i xmlns="urn:i" k="2"/><i xmlns="urn:i" k="&#51;"/><i k="4"/><i  k="5"/></r>`,
	`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><m xmlns="urn:m"><i>1</i></m></s:Body></s:Envelope>`,
}

// pieces are what a seed is spoiled with.
var pieces = []string{
	"<", ">", "/", "&", ";", "'", `"`, "]]>", "--", "-", "<!--", "-->", "<?", "?>", "<![CDATA[", "<!", "xmlns:", "xmlns", ":", "=", " ", "\t", "\n", "\r",
	"\x00", "\x01", "\x7f", "\x80", "\xc3", "\xc3\xa9", "\xe2\x82\xac", "\xed\xa0\x80", "\xef\xbf\xbe", "\xef\xbb\xbf", "\xf0\x9f\x98\x80", "\xf4\x90\x80\x80", "\xc0\xaf",
	"&#x", "&#0;", "&#1;", "&#xD800;", "&#x10FFFF;", "&#x110000;", "&lt;", "&nope;", "/>", "</", "<a", "a", "0", ".", "xml", "XML", "p:", "p", "version", "1.0", "encoding", "x='y'", ` xmlns:p=""`,
	` xmlns:xml="urn:x"`, ` xmlns:p="http://www.w3.org/2000/xmlns/"`, "\u0300", "\u00b7", "\u00d7", "\u037e", "\u2028", "\u0085",
}

// spoil changes doc in one to three places.
func spoil(rnd *rand.Rand, doc string) string {
	for range 1 + rnd.IntN(3) {
		at := rnd.IntN(len(doc) + 1)
		end := min(len(doc), at+rnd.IntN(6))
		switch rnd.IntN(4) {
		case 0: // leave out
			doc = doc[:at] + doc[end:]
		case 1: // put in
			doc = doc[:at] + pieces[rnd.IntN(len(pieces))] + doc[at:]
		case 2: // replace
			doc = doc[:at] + pieces[rnd.IntN(len(pieces))] + doc[end:]
		case 3: // say twice
			doc = doc[:end] + doc[at:end] + doc[end:]
		}
	}
	return doc
}

// TestLibxml2 asks libxml2 for its verdict on documents with small faults: it and
// the scanner must agree, but for what libxml2Deviates says.
func TestLibxml2(t *testing.T) {
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint (Debian: libxml2-utils) is not there")
	}
	n := 8000
	if testing.Short() {
		n = 800
	}
	rnd := rand.New(rand.NewPCG(20130923, 1))
	dir := t.TempDir()
	docs := map[string]string{} // by file
	var files []string
	for i := range n {
		doc := spoil(rnd, seeds[i%len(seeds)])
		if strings.Contains(doc, "<!D") {
			continue
		}
		file := filepath.Join(dir, fmt.Sprintf("%05d.xml", i))
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		docs[file] = doc
		files = append(files, file)
	}
	refusals := map[string]string{} // by file: libxml2's reasons
	for chunk := range slices.Chunk(files, 500) {
		// One process for many files; what is wrong with them is told by name.
		out, err := exec.Command(xmllint, append([]string{"--noout", "--nonet"}, chunk...)...).CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out) {
			file, rest, ok := strings.Cut(string(line), ":")
			if docs[file] == "" || !ok {
				continue
			}
			_, reason, _ := strings.Cut(rest, ": ")
			if !strings.Contains(reason, "warning :") {
				refusals[file] += reason
			}
		}
	}
	kept := xmlstream.NewScanner(xmlstream.Limits{}) // it reads all of them
	accepted, refused := 0, 0
	deviations := map[string]int{}
	for _, file := range files {
		ours, theirs := scanBytes([]byte(docs[file])), refusals[file]
		if utf8, _, err := xmlstream.DecodeBytes([]byte(docs[file]), ""); err == nil {
			kept.ResetBytes(utf8)
			if again := drain(kept); fmt.Sprint(again) != fmt.Sprint(ours) {
				t.Errorf("%q: got %v from a scanner that has read others, want %v", docs[file], again, ours)
			}
		}
		if (ours == nil) == (theirs == "") {
			if ours == nil {
				accepted++
			} else {
				refused++
			}
			continue
		}
		if why := libxml2Deviates(docs[file], ours, theirs); why != "" {
			deviations[why]++
			continue
		}
		t.Errorf("%q: got %v, libxml2 says %q", docs[file], ours, theirs)
	}
	if accepted < n/20 || refused < n/3 {
		t.Errorf("%d accepted, %d refused: the documents are spoiled too much or too little", accepted, refused)
	}
	var report strings.Builder
	fmt.Fprintf(&report, "%d accepted and %d refused by both\n", accepted, refused)
	for _, why := range slices.Sorted(maps.Keys(deviations)) {
		fmt.Fprintf(&report, "  %4d deviate: %s\n", deviations[why], why)
	}
	t.Logf("documents with small faults, beside libxml2\n%s", report.String())
}

var notSpaced = regexp.MustCompile(`^<\?xml[^>]*["']standalone`)

// libxml2Deviates says why the verdicts may differ; "" if they may not.
func libxml2Deviates(doc string, ours error, theirs string) string {
	switch {
	case ours == nil && strings.Count(theirs, "error :") == strings.Count(theirs, "is not a valid URI"):
		return "accepted, libxml2 refuses a namespace name that is no URI, which is no matter of well-formedness (Namespaces 1.0 §2.2)"
	case ours == nil:
		return ""
	case errors.Is(ours, xmlstream.ErrCharset):
		return "refused, libxml2 reads a charset that it does not know as UTF-8"
	case strings.Contains(doc, "\x00"):
		return "refused, libxml2 ends the document at a NUL outside the root element"
	case notSpaced.MatchString(doc):
		return "refused, libxml2 wants no white space before standalone"
	}
	return ""
}
