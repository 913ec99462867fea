package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// messages reads the corpus, or skips the test.
func messages(t *testing.T) map[string][]byte {
	t.Helper()
	if _, err := os.Stat(corpus()); err != nil {
		t.Skipf("no message collections: CORPUS names their folder (%v)", err)
	}
	all, err := Messages(corpus())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSOAP decodes the SOAP 1.2 test collection, the SOAPBuilders pairs and real
// messages: each is an envelope of the version it says, or is refused with the
// fault that the table names.
func TestSOAP(t *testing.T) {
	all := messages(t)
	type counts struct{ decoded, refused int }
	got := map[string]*counts{}
	for _, c := range Collections {
		got[c] = &counts{}
	}
	var refusals strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		collection, _, _ := strings.Cut(name, "/")
		utf8, _, err := xmlstream.DecodeBytes(all[name], "")
		if err != nil {
			t.Errorf("%s: DecodeBytes: %v", name, err)
			continue
		}
		facts, err := soapcodec.Decode(utf8, soapcodec.Options{})
		refusal, isRefused := Refused[name]
		if !isRefused {
			got[collection].decoded++
			if err != nil {
				t.Errorf("%s: Decode: got %v, want nil", name, err)
				continue
			}
			if want := versionOf(utf8); facts.Version != want {
				t.Errorf("%s: Version: got %v, want %v", name, facts.Version, want)
			}
			continue
		}
		got[collection].refused++
		fmt.Fprintf(&refusals, "  %s: %s, %s\n", name, refusal.Code, refusal.Reason)
		e, ok := err.(*soapcodec.Error)
		if !ok || string(e.Code) != refusal.Code {
			t.Errorf("%s: Decode: got %v, want %s (%s)", name, err, refusal.Code, refusal.Reason)
		}
	}
	for name := range Refused {
		if all[name] == nil {
			t.Errorf("%s is in the table of refusals, but not in the collections", name)
		}
	}
	var report strings.Builder
	for _, c := range Collections {
		fmt.Fprintf(&report, "%-22s %3d messages decoded, %2d refused\n", c, got[c].decoded, got[c].refused)
	}
	t.Logf("SOAP collections\n%s%s", report.String(), refusals.String())
}

// versionOf looks which namespace of an envelope stands first.
func versionOf(doc []byte) soapcodec.Version {
	before, _, has12 := bytes.Cut(doc, []byte(soapcodec.NS12))
	if has12 && !bytes.Contains(before, []byte(soapcodec.NS11)) {
		return soapcodec.V12
	}
	return soapcodec.V11
}

// TestDocuments scans documents that are no messages: feeds, price lists, data
// models, in several charsets.
func TestDocuments(t *testing.T) {
	n := 0
	for _, pattern := range []string{"bench/*.xml", "bench/encoding/*.xml", "messages/*.xml", "wsdl/*.wsdl", "wsdl/*/*.wsdl", "wsdl/onvif/*/*/*.xsd"} {
		paths, err := filepath.Glob(filepath.Join(corpus(), filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			n++
			err = scanWithin(doc, xmlstream.Limits{Name: -1})
			if filepath.Base(filepath.Dir(path)) == "encoding" {
				// Every character of a charset in one name: it is read up to the colons.
				if !errors.Is(err, xmlstream.ErrNamespace) {
					t.Errorf("%s: got %v, want %v for a colon in a name", path, err, xmlstream.ErrNamespace)
				}
				continue
			}
			want := !strings.HasPrefix(filepath.Base(path), "notwf") && !hasDoctype(doc)
			if (err == nil) != want {
				t.Errorf("%s: got %v, want it accepted: %v", path, err, want)
			}
		}
	}
	if n == 0 {
		t.Skipf("no documents in %s: CORPUS names the folder of the collections", corpus())
	}
	t.Logf("other documents\n%d scanned", n)
}
