package soapcodec

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindUsernameToken(t *testing.T) {
	const security = `<w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd" xmlns:u="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd" `
	const full = `<w:UsernameToken><w:Username> ann </w:Username><w:Password Type="urn:t"> p&amp;<![CDATA[<q]]> </w:Password><w:Nonce EncodingType="x">
 bm8= </w:Nonce><u:Created> 2026-01-01T00:00:00Z</u:Created></w:UsernameToken>`
	want := &UsernameToken{"ann", " p&<q ", "urn:t", "bm8=", "2026-01-01T00:00:00Z"}
	for _, tt := range []struct {
		name   string
		header string
		want   *UsernameToken
		err    error
	}{
		{"none", `<a xmlns="urn:a"/>`, nil, nil},
		{"an empty block", security + `/>`, nil, nil},
		{"all", `<a xmlns="urn:a"/>` + security + `><x/>` + full + `<y/></w:Security>`, want, nil},
		{"for next", security + `s:actor="http://schemas.xmlsoap.org/soap/actor/next">` + full + `</w:Security>`, want, nil},
		{"for another", security + `s:actor="urn:other">` + full + `</w:Security>`, nil, nil},
		{"in the second block", security + `/>` + security + `>` + full + `</w:Security>`, want, nil},
		{"twice in a block", security + `>` + full + full + `</w:Security>`, nil, errTokens},
		{"in two blocks", security + `>` + full + `</w:Security>` + security + `>` + full + `</w:Security>`, nil, errTokens},
		{"deeper", security + `><x>` + full + `</x></w:Security>`, nil, nil},
		{"values of others", security + `><w:UsernameToken><w:Username>ann</w:Username></w:UsernameToken><x><w:Username>eve</w:Username></x></w:Security>`, &UsernameToken{Username: "ann"}, nil},
		{"values inside values", security + `><w:UsernameToken><w:Username>a<x>b</x>c</w:Username></w:UsernameToken></w:Security>`, &UsernameToken{Username: "ac"}, nil},
		{"a value twice", security + `><w:UsernameToken><w:Username>ann</w:Username><w:Username>eve</w:Username></w:UsernameToken></w:Security>`, nil, errTokenValue},
		{"a long value", security + `><w:UsernameToken><w:Username>` + strings.Repeat("x", maxCredential+1) + `</w:Username></w:UsernameToken></w:Security>`, nil, errTokenValue},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := `<s:Envelope xmlns:s="` + NS11 + `"><s:Header>` + tt.header + `</s:Header>`
			doc := head + `<s:Body><w:UsernameToken xmlns:w="urn:x"/></s:Body></s:Envelope>`
			facts, err := Decode([]byte(doc), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range []string{doc, head} {
				got, err := FindUsernameToken([]byte(doc), facts)
				if !errors.Is(err, tt.err) {
					t.Fatalf("got error %v, want %v", err, tt.err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}
