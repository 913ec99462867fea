package xmldsig

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"soapway/xmlstream"
)

const template = `<?xml version="1.0"?>
<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:x="urn:x" xml:lang="en">
 <s:Header><d:Signature xmlns:d="` + dsig + `"><d:SignedInfo><d:CanonicalizationMethod Algorithm="%[1]s"/>
<d:SignatureMethod Algorithm="%[2]s"/><d:Reference URI="#b1"><d:Transforms><d:Transform Algorithm="%[1]s"><e:InclusiveNamespaces xmlns:e="` + exc + `" PrefixList="x"/></d:Transform></d:Transforms>
<d:DigestMethod Algorithm="%[3]s"/><d:DigestValue>DIGEST</d:DigestValue></d:Reference></d:SignedInfo><d:SignatureValue>
 VALUE
</d:SignatureValue></d:Signature></s:Header>
 <s:Body u:Id='b1'   xmlns:u="` + wsu + `"><pay  b="2" a='1'>one &amp; <![CDATA[two]]><!--c--></pay></s:Body>
</s:Envelope>`

// sign fills the template in.
func sign(t *testing.T, c14n, method, digest string, key Key, private *rsa.PrivateKey) []byte {
	t.Helper()
	h := crypto.SHA1
	if strings.HasSuffix(method, "sha256") {
		h = crypto.SHA256
	}
	doc := fmt.Sprintf(template, c14n, method, digest)
	body, err := canonical([]byte(doc), form{c14n, []string{"x"}}, func(s *xmlstream.Scanner) bool { return hasID(s, "b1") })
	if err != nil {
		t.Fatal(err)
	}
	dh := crypto.SHA1
	if strings.HasSuffix(digest, "sha256") {
		dh = crypto.SHA256
	}
	doc = strings.Replace(doc, "DIGEST", base64.StdEncoding.EncodeToString(sum(dh, body)), 1)
	info, err := canonical([]byte(doc), form{c14n, nil}, func(s *xmlstream.Scanner) bool { return s.Name().Is(dsig, "SignedInfo") })
	if err != nil {
		t.Fatal(err)
	}
	var value []byte
	if private != nil {
		if value, err = rsa.SignPKCS1v15(rand.Reader, private, h, sum(h, info)); err != nil {
			t.Fatal(err)
		}
	} else {
		mac := hmac.New(h.New, key.HMAC)
		mac.Write(info)
		value = mac.Sum(nil)
	}
	return []byte(strings.Replace(doc, "VALUE", base64.StdEncoding.EncodeToString(value), 1))
}

func TestVerify(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	const more, inclusive = "http://www.w3.org/2001/04/xmldsig-more#", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
	public, secret := Key{RSA: &private.PublicKey}, Key{HMAC: []byte("no secret")}
	for _, tt := range []struct {
		c14n, method, digest string
		key                  Key
		private              *rsa.PrivateKey
	}{
		{exc, more + "hmac-sha256", "http://www.w3.org/2001/04/xmlenc#sha256", secret, nil},
		{exc + "WithComments", dsig + "hmac-sha1", dsig + "sha1", secret, nil},
		{exc, dsig + "rsa-sha1", dsig + "sha1", public, private},
		{inclusive, more + "rsa-sha256", "http://www.w3.org/2001/04/xmlenc#sha256", public, private},
		{inclusive + "#WithComments", more + "hmac-sha256", dsig + "sha1", secret, nil},
	} {
		doc := string(sign(t, tt.c14n, tt.method, tt.digest, tt.key, tt.private))
		ids, err := Verify([]byte(doc), tt.key)
		if err != nil || !slices.Equal(ids, []string{"b1"}) {
			t.Errorf("Verify(%s, %s): got %v, %v, want [b1]", tt.c14n, tt.method, ids, err)
		}
		for _, change := range []struct {
			old, new string
			want     error
		}{
			{"one &amp;", "one &#38;", nil},
			{"<![CDATA[two]]>", "two", nil},
			{"<s:Body u:Id='b1'   xmlns", "<s:Body u:Id=\"b1\" xmlns", nil},
			{"one ", "one", ErrDigest},
			{"<!--c-->", "", commented(tt.c14n)},
			{`a='1'`, `a='0'`, ErrDigest},
			{`xmlns:x="urn:x"`, `xmlns:x="urn:y"`, ErrDigest}, // the list names it, the inclusive form has all
			{`PrefixList="x"`, `PrefixList="x u"`, ErrSignature},
			{"</d:SignedInfo>", " </d:SignedInfo>", ErrSignature},
		} {
			if !strings.Contains(doc, change.old) {
				t.Fatalf("no %q to change", change.old)
			}
			_, err := Verify([]byte(strings.Replace(doc, change.old, change.new, 1)), tt.key)
			if !errors.Is(err, change.want) || change.want == nil && err != nil {
				t.Errorf("Verify(%s, %q for %q): got %v, want %v", tt.c14n, change.new, change.old, err, change.want)
			}
		}
	}
}

// commented says what taking out a comment does.
func commented(c14n string) error {
	if strings.HasSuffix(c14n, "WithComments") {
		return ErrDigest
	}
	return nil
}

// What can't be judged is never valid.
func TestVerifyRefuses(t *testing.T) {
	key := Key{HMAC: []byte("no secret")}
	good := string(sign(t, exc, dsig+"hmac-sha1", dsig+"sha1", key, nil))
	for _, tt := range []struct{ old, new, want string }{
		{"</s:Envelope>", "", "xmldsig: xmlstream: "},
		{`URI="#b1"`, `URI=""`, "not the Id of an element"},
		{`URI="#b1"`, `URI="#b2"`, "0 such elements"},
		{`<pay `, `<pay Id="b1" `, "2 such elements"},
		{dsig + "hmac-sha1", dsig + "hmac-md5", "unknown signature method"},
		{dsig + "hmac-sha1", dsig + "rsa-sha1", "no key"},
		{`DigestMethod Algorithm="` + dsig + "sha1", `DigestMethod Algorithm="` + dsig + "md5", "unknown digest"},
		{`Transform Algorithm="` + exc, `Transform Algorithm="` + dsig + "enveloped-signature", "unknown transform"},
		{"<d:DigestValue>", "<d:DigestValue>*", "illegal base64"},
		{"<s:Body", "<d:Signature xmlns:d='" + dsig + "'/><s:Body", "2 signatures"},
	} {
		if !strings.Contains(good, tt.old) {
			t.Fatalf("no %q to change", tt.old)
		}
		if _, err := Verify([]byte(strings.Replace(good, tt.old, tt.new, 1)), key); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Verify with %q for %q: got %v, want %q", tt.new, tt.old, err, tt.want)
		}
	}
	for _, doc := range []string{"<a/>", "<d:Signature xmlns:d='" + dsig + "'/>"} {
		if ids, err := Verify([]byte(doc), key); err == nil {
			t.Errorf("Verify(%s): got %v, want an error", doc, ids)
		}
	}
}
