package soapcodec

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"soapway/internal/conformance"
	"soapway/xmlstream"
)

// bindWhole takes any element as it is.
type bindWhole struct {
	XMLName QName
	Attrs   []BindAttr `xml:",any,attr"`
	Inner   []byte     `xml:",innerxml"`
}

// TestBindCorpus decodes the first child of Body of real messages and writes it
// again: what is in it keeps its canonical form.
func TestBindCorpus(t *testing.T) {
	messages, err := conformance.Messages(testData(t, "CORPUS", "../../shared/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	done, faults := 0, 0
	for name, doc := range messages {
		utf8, _, err := xmlstream.DecodeBytes(doc, "")
		if err != nil {
			continue
		}
		facts, err := Decode(utf8, Options{})
		if err != nil || facts.BodyChildren == 0 {
			continue
		}
		var v bindWhole
		err = Unmarshal(doc, &v)
		if fault, ok := errors.AsType[*FaultError](err); ok && facts.Fault != nil {
			if fault.Facts.Code != facts.Fault.Code {
				t.Errorf("%s: got %+v, want %+v", name, fault.Facts, facts.Fault)
			}
			if err := fault.Detail(&v); err != nil && err != io.EOF {
				t.Errorf("%s: Detail: %v", name, err)
			}
			faults++
			continue
		}
		if err != nil || v.XMLName != facts.Operation {
			t.Errorf("%s: got %v, %v, want %v", name, v.XMLName, err, facts.Operation)
			continue
		}
		written, err := Marshal(facts.Version, &v)
		if err != nil {
			t.Errorf("%s: Marshal: %v", name, err)
			continue
		}
		if got, want := innerForms(t, written), innerForms(t, utf8); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		done++
	}
	if done < 100 || faults < 5 {
		t.Errorf("only %d messages and %d faults", done, faults)
	}
	t.Logf("%d messages, %d faults", done, faults)
}

// innerForms returns the text and the exclusive forms of the elements in the first
// child of Body.
func innerForms(t *testing.T, doc []byte) string {
	t.Helper()
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	c := xmlstream.NewCanonicalizer(xmlstream.CanonicalOptions{Exclusive: true, Comments: true})
	var out bytes.Buffer
	body, first := false, false
	for {
		kind, err := s.Next()
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case kind == xmlstream.Start && s.Depth() == sectionDepth:
			body = string(s.Name().Local) == "Body"
		case kind == xmlstream.Start && s.Depth() == childDepth && body:
			first = true
		case kind == xmlstream.End && s.Depth() == childDepth && first:
			return out.String()
		case kind == xmlstream.Start && s.Depth() == childDepth+1 && first:
			if err := c.WriteElement(&out, s); err != nil {
				t.Fatal(err)
			}
		case (kind == xmlstream.Text || kind == xmlstream.CDATA) && s.Depth() == childDepth && first:
			out.Write(s.AppendText(nil))
		}
	}
}
