package casetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"soapway/internal/xmldsig"
	"soapway/xmlstream"
)

var signatureChecks = checkTable{
	"49": {
		"facts/signed_reference": onAll(func(t *testing.T, r *run, o *outcome) {
			if got, want := signedIDs(t, r, o.doc), fmt.Sprint(r.signed("signed_reference")); len(got) != 1 || "#"+got[0] != want {
				t.Errorf("the input signs %v, want %s", got, want)
			}
		}),
		"facts/digest_sha256_b64": onAll(holdsBehind),
		// The signature value and its key are what Verify uses.
		"facts/signature_value_b64": onAll(holdsBehind),
		"facts/hmac_key_ascii":      onAll(holdsBehind),
		"facts/canonical_body_file": onAll(func(t *testing.T, r *run, o *outcome) {
			sameForm(t, r, o, "canonical_body_file", ns11, "Body", "xs", "xsi")
		}),
		"facts/canonical_signedinfo_file": onAll(func(t *testing.T, r *run, o *outcome) {
			sameForm(t, r, o, "canonical_signedinfo_file", "http://www.w3.org/2000/09/xmldsig#", "SignedInfo")
		}),
		"to_backend/required": onAll(holdsBehind),
		"to_backend/recommended": onAll(func(t *testing.T, r *run, o *outcome) {
			octetsKept(t, r, o)
			for _, element := range []string{"ds:Signature", "wsse:Security"} {
				if in := cutElement(t, o.doc, element); !bytes.Contains(normalized(t, r, o, "envelope"), in) {
					t.Errorf("normalize: envelope: %s is not as it was", element)
				}
			}
		}),
		"must_not/rename or re-declare prefixes inside Body or SignedInfo":       onAll(contentKept),
		"must_not/drop xmlns:xs (used by value and named in PrefixList)":         onAll(holdsBehind),
		"must_not/trim, indent or re-wrap text, also the line break after Order": onAll(contentKept),
		"must_not/write the CR raw":                                              all(without("blanks\r"), onAll(contentKept)),
		"must_not/remove wsu:Id":                                                 onAll(holdsBehind),
		"must_not/reorder or reformat ds:SignedInfo":                             onAll(contentKept),
	},
}

// signed is one of the case's facts about the signature.
func (r *run) signed(name string) any { return r.expect()["facts"].(object)[name] }

func signedIDs(t *testing.T, r *run, message []byte) []string {
	t.Helper()
	ids, err := xmldsig.Verify(message, xmldsig.Key{HMAC: fmt.Append(nil, r.signed("hmac_key_ascii"))})
	if err != nil {
		t.Errorf("%v\n%s", err, message)
	}
	return ids
}

// normalized is the message as it came through a mode of normalization.
func normalized(t *testing.T, r *run, o *outcome, mode string) []byte {
	t.Helper()
	r.f.http.reset()
	a := post(t, r.f.g.addr["http"], "/"+mode+"/parcel", o.fields, o.body)
	calls := r.f.http.got()
	if len(calls) != 1 || a.Status != 200 {
		t.Fatalf("%s through normalize: %s: %s", o.label(), mode, a)
	}
	return calls[0].Body
}

// holdsBehind: digest and signature are those of the case, before the gateway
// and behind it, in every mode of normalization; and a message that was changed is
// told, so that the verifier proves something.
func holdsBehind(t *testing.T, r *run, o *outcome) {
	t.Helper()
	messages := [][]byte{o.doc, o.sole(t).Body}
	for _, mode := range []string{"envelope", "canonical"} {
		through := normalized(t, r, o, mode)
		if bytes.Equal(through, o.doc) {
			t.Errorf("normalize: %s has nothing to do in this case, which proves little", mode)
		}
		messages = append(messages, through)
	}
	for _, message := range messages {
		for _, fact := range []string{"digest_sha256_b64", "signature_value_b64"} {
			if want := fmt.Sprint(r.signed(fact)); !bytes.Contains(message, []byte(">"+want+"<")) {
				t.Errorf("no %s %s in %s", fact, want, message)
			}
		}
		signedIDs(t, r, message)
		changed := bytes.Replace(message, []byte(" two  blanks"), []byte("two  blanks"), 1)
		if ids, err := xmldsig.Verify(changed, xmldsig.Key{HMAC: fmt.Append(nil, r.signed("hmac_key_ascii"))}); err == nil {
			t.Errorf("a changed message still has %v signed", ids)
		}
	}
}

// sameForm: the exclusive form of an element is, before the gateway and behind
// it, the file that the case names.
func sameForm(t *testing.T, r *run, o *outcome, fact, space, local string, prefixes ...string) {
	t.Helper()
	want := r.file(t, fmt.Sprint(r.signed(fact)))
	for _, message := range [][]byte{o.doc, o.sole(t).Body, normalized(t, r, o, "envelope"), normalized(t, r, o, "canonical")} {
		c := xmlstream.NewCanonicalizer(xmlstream.CanonicalOptions{Exclusive: true, Inclusive: prefixes})
		s := xmlstream.NewScanner(xmlstream.Limits{})
		s.ResetBytes(message)
		var got bytes.Buffer
		for got.Len() == 0 {
			kind, err := s.Next()
			if err != nil {
				t.Fatalf("no %s: %v", local, err)
			}
			if kind == xmlstream.Start && s.Name().Is(space, local) {
				err = c.WriteElement(&got, s)
			} else {
				err = c.Skip(s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("the form of %s: got\n%s\nwant\n%s", local, got.Bytes(), want)
		}
	}
}

// contentKept: the octets inside Body and of the signature are those of the
// caller, whichever mode.
func contentKept(t *testing.T, r *run, o *outcome) {
	t.Helper()
	octetsKept(t, r, o)
	through := normalized(t, r, o, "envelope")
	for _, element := range []string{"pay:Order", "ds:SignedInfo"} {
		if in := cutElement(t, o.doc, element); !bytes.Contains(through, in) {
			t.Errorf("normalize: envelope: got\n%s\nwant in it\n%s", through, in)
		}
	}
}

// cutElement is the one element of that written name, octet for octet.
func cutElement(t *testing.T, doc []byte, name string) []byte {
	t.Helper()
	_, rest, ok := strings.Cut(string(doc), "<"+name)
	inner, _, closed := strings.Cut(rest, "</"+name+">")
	if !ok || !closed {
		t.Fatalf("no %s in %s", name, doc)
	}
	return []byte("<" + name + inner + "</" + name + ">")
}
