package guard

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// holder makes a certificate with a subject, from its root on, and names.
func holder(t testing.TB, subject pkix.RDNSequence, dns, emails, uris []string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := asn1.Marshal(subject)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), RawSubject: raw,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: dns, EmailAddresses: emails,
	}
	for _, s := range uris {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		tmpl.URIs = append(tmpl.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func part(oid asn1.ObjectIdentifier, value any) []pkix.AttributeTypeAndValue {
	return []pkix.AttributeTypeAndValue{{Type: oid, Value: value}}
}

var (
	oidCountry  = asn1.ObjectIdentifier{2, 5, 4, 6}
	oidOrg      = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidUnit     = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidCommon   = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidEmail    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	oidDomain   = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	oidNobodys  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 32473, 1}
	wholeOfErp  = pkix.RDNSequence{part(oidCountry, "DE"), part(oidOrg, "Example, Inc."), part(oidCommon, "erp")}
	erpsSubject = `CN=erp,O=Example\, Inc.,C=DE`
)

func TestSubjects(t *testing.T) {
	erp := holder(t, wholeOfErp, []string{"ERP.example.com"}, []string{"erp@Example.com"}, []string{"spiffe://example/erp?a=b"})
	several := holder(t, pkix.RDNSequence{
		part(oidDomain, "com"), part(oidDomain, "example"),
		{{Type: oidCommon, Value: "a+b"}, {Type: oidUnit, Value: " x "}},
		part(oidCommon, "ü#\"=;<>\\"), part(oidEmail, "a@b"), part(oidNobodys, "own"),
	}, nil, nil, nil)
	nobody := holder(t, nil, []string{"alt.example.com"}, nil, nil)
	for _, tt := range []struct {
		subject string
		of      *x509.Certificate
		want    bool
	}{
		{erpsSubject, erp, true},
		{`cn = erp, o = Example\2C Inc. , c = DE`, erp, true},
		{`2.5.4.3=erp,2.5.4.10=#130d4578616d706c652c20496e632e,C=DE`, erp, true},
		{`CN=erp`, erp, true},
		{`erp.EXAMPLE.com`, erp, true},
		{`erp@example.COM`, erp, true},
		{`spiffe://example/erp?a=b`, erp, true},
		{`CN=Erp`, erp, false},
		{`CN=erp,O=Example\, Inc.`, erp, false}, // not all of it
		{`C=DE,O=Example\, Inc.,CN=erp`, erp, false},
		{`CN=erp,O=Example,C=DE`, erp, false},
		{`CN=erp\,O=Example\\\, Inc.\,C=DE`, erp, false}, // one part that looks like three
		{`O=Example\, Inc.`, erp, false},
		{`example.com`, erp, false},
		{`*.example.com`, erp, false},
		{`ERP@example.com`, erp, false},
		{`spiffe://example/erp`, erp, false},
		{`1.3.6.1.4.1.32473.1=own,E=a@b,CN=ü\#\"\=\;\<\>\\,OU=\ x\ +CN=a\+b,DC=example,DC=com`, several, true},
		{`1.3.6.1.4.1.32473.1=own,emailAddress=a@b,CN=\c3\bc\23\22=\3b\3c\3e\5c,CN=a\+b+OU=\20x\20,DC=example,DC=com`, several, true},
		{`CN=a\+b`, several, true},
		{`OU=\ x\ `, several, false},
		{`alt.example.com`, nobody, true},
		{`CN=`, nobody, false},
		{`CN=alt.example.com`, nobody, false},
	} {
		s, err := NewSubjects([]string{"CN=somebody else", tt.subject})
		if err != nil {
			t.Errorf("NewSubjects(%s): %v", tt.subject, err)
			continue
		}
		name, ok := s.check(NewCertificate(tt.of), time.Now())
		if ok != tt.want || ok && name != tt.subject {
			t.Errorf("check %s: got %q %v, want %v", tt.subject, name, ok, tt.want)
		}
	}
}

func TestSubjectsRefused(t *testing.T) {
	for _, tt := range []struct{ subject, want string }{
		{"", "empty"},
		{" CN=a", "blank"},
		{"a.b ", "is no distinguished name"},
		{"a b@c", "is no e-mail address"},
		{"urn:x ", "is no URI"},
		{"CN", ""}, // a DNS name
		{"CN=a,", "without ="},
		{"CN=a,,O=b", "type that is not known"},
		{"=a", "type that is not known"},
		{"FOO=a", "type that is not known"},
		{"01.2=a", "type that is not known"},
		{`CN=a\`, "backslash"},
		{`CN=a\x`, "escapes nothing"},
		{`CN="a"`, "backslash"},
		{`CN=#zz`, "# form"},
		{`CN=#0500`, "# form"},
		{"a b", "is no distinguished name"},
		{"-.", "is no distinguished name"},
		{"a@", "is no e-mail address"},
		{"@a", "is no e-mail address"},
		{"://x", "is no URI"},
		{"cn=b", "is there twice"},
	} {
		_, err := NewSubjects([]string{"CN=b", tt.subject})
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("NewSubjects(%q): got %v, want %q", tt.subject, err, tt.want)
		}
		if item, ok := errors.AsType[*SubjectError](err); err != nil && (!ok || item.Index != 1) {
			t.Errorf("NewSubjects(%q): got %#v, want it at item 1", tt.subject, err)
		}
	}
	if _, err := NewSubjects(nil); err == nil {
		t.Error("NewSubjects of nothing: got no error")
	}
}

// What a certificate is worth beside the other ways of proof.
func TestCertificateProof(t *testing.T) {
	subjects, err := NewSubjects([]string{"CN=erp"})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := NewTokens([]string{"tok"})
	if err != nil {
		t.Fatal(err)
	}
	usernames, err := ReadUsernames(strings.NewReader("ann:secret\n"))
	if err != nil {
		t.Fatal(err)
	}
	erp := NewCertificate(holder(t, wholeOfErp, nil, nil, nil))
	eve := NewCertificate(holder(t, pkix.RDNSequence{part(oidCommon, "eve")}, nil, nil, nil))
	alone := Options{Subjects: subjects}
	bearer := Options{Subjects: subjects, Bearer: tokens}
	envelope := Options{Subjects: subjects, Usernames: usernames}
	for _, tt := range []struct {
		name   string
		opt    Options
		has    *Certificate
		fields []string
		want   string
		open   bool
		status int
	}{
		{"right", alone, erp, nil, "mtls:CN=erp", false, 0},
		{"none", alone, nil, nil, "", false, http.StatusForbidden},
		{"of somebody else", alone, eve, nil, "", false, http.StatusForbidden},
		{"none, and a token would do", bearer, nil, nil, "", false, http.StatusUnauthorized},
		{"of somebody else, and a token", bearer, eve, []string{"Authorization", "Bearer tok"}, "bearer:1", false, 0},
		{"right, and a wrong token", bearer, erp, []string{"Authorization", "Bearer no"}, "mtls:CN=erp", false, 0},
		{"right, and the envelope is not asked", envelope, erp, nil, "mtls:CN=erp", false, 0},
		{"of somebody else, and the envelope is", envelope, eve, nil, "", true, 0},
		{"none, and the envelope is", envelope, nil, nil, "", true, 0},
		{"not asked for", Options{Bearer: tokens}, erp, nil, "", false, http.StatusUnauthorized},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := from("192.0.2.1", tt.fields...)
			c.Certificate = tt.has
			name, open, denial := mustNew(t, tt.opt).Enter(c)
			status := 0
			if denial != nil {
				status = denial.Status
			}
			if name != tt.want || open != tt.open || status != tt.status {
				t.Errorf("Enter: got %q %v %d, want %q %v %d", name, open, status, tt.want, tt.open, tt.status)
			}
			if denial != nil && (status == http.StatusUnauthorized) != (len(denial.Challenges) > 0) {
				t.Errorf("Enter: %d with %d challenges", status, len(denial.Challenges))
			}
		})
	}
}

// A connection may live longer than its certificate.
func TestCertificateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subjects, err := NewSubjects([]string{"CN=erp"})
		if err != nil {
			t.Fatal(err)
		}
		g := mustNew(t, Options{Subjects: subjects})
		c := from("192.0.2.1")
		c.Certificate = NewCertificate(holder(t, wholeOfErp, nil, nil, nil))
		if denial := g.Screen(c); denial != nil {
			t.Errorf("Screen: got %v", denial)
		}
		time.Sleep(time.Hour + time.Second)
		if denial := g.Screen(c); denial == nil || denial.Status != http.StatusForbidden {
			t.Errorf("Screen after its end: got %v", denial)
		}
	})
}

// A certificate costs an exchange next to nothing: it was read with its
// connection.
func TestCertificateAllocs(t *testing.T) {
	subjects, err := NewSubjects([]string{"CN=a", erpsSubject})
	if err != nil {
		t.Fatal(err)
	}
	c, now := NewCertificate(holder(t, wholeOfErp, nil, nil, nil)), time.Now()
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := subjects.check(c, now); !ok {
			t.Error("was not let in")
		}
	}); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

// Whatever is taken as a name is the name of a certificate with these parts.
func FuzzSubject(f *testing.F) {
	for _, s := range []string{erpsSubject, `CN=#0c0161`, `OU=\ x\ +CN=a\+b,DC=com`, "erp.example.com", "a@b", "urn:x", `CN=\c3\bc`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := subjectKey(text)
		if err != nil {
			return
		}
		if kind, rest, ok := strings.Cut(key, ":"); !ok || kind == "" || rest == "" && kind != "cn" {
			t.Errorf("subjectKey(%q): got %q", text, key)
		}
		if !strings.HasPrefix(key, "dn:") && !strings.HasPrefix(key, "cn:") {
			return
		}
		rdns, err := parseDN(text)
		if err != nil {
			t.Fatalf("parseDN(%q): %v", text, err)
		}
		// Printed as RFC 4514 says and read again it is the same.
		var b strings.Builder
		for i, rdn := range rdns {
			for j, a := range rdn {
				switch {
				case j > 0:
					b.WriteByte('+')
				case i > 0:
					b.WriteByte(',')
				}
				b.WriteString(a.oid + "=")
				for k := range len(a.value) {
					b.WriteString(`\` + string("0123456789abcdef"[a.value[k]>>4]) + string("0123456789abcdef"[a.value[k]&15]))
				}
			}
		}
		again, err := subjectKey(b.String())
		if err != nil || again != key {
			t.Errorf("subjectKey(%q) of %q: got %q, %v, want %q", b.String(), text, again, err, key)
		}
	})
}
