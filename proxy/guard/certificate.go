package guard

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Certificate is what a certificate says about who has it. It is made once
// for a connection, so that asking costs nothing for each exchange.
type Certificate struct {
	names []string // what Subjects may have, as keys
	until time.Time
	leaf  *x509.Certificate
}

// Leaf is the certificate itself, which is not to be changed.
func (c *Certificate) Leaf() *x509.Certificate { return c.leaf }

// NewCertificate reads a certificate that was verified for a client.
func NewCertificate(leaf *x509.Certificate) *Certificate {
	c := &Certificate{until: leaf.NotAfter, leaf: leaf}
	var rdns pkix.RDNSequence
	// Subject.String has its own order of the parts, so it is no help.
	if rest, err := asn1.Unmarshal(leaf.RawSubject, &rdns); err == nil && len(rest) == 0 && len(rdns) > 0 {
		if dn, ok := dnOf(rdns); ok {
			c.names = append(c.names, "dn:"+dn)
		}
	}
	for _, a := range leaf.Subject.Names {
		if cn, ok := a.Value.(string); ok && a.Type.String() == oidCN {
			c.names = append(c.names, "cn:"+cn)
		}
	}
	for _, name := range leaf.DNSNames {
		c.names = append(c.names, "dns:"+strings.ToLower(name))
	}
	for _, uri := range leaf.URIs {
		c.names = append(c.names, "uri:"+uri.String())
	}
	for _, address := range leaf.EmailAddresses {
		c.names = append(c.names, "email:"+lowerDomain(address))
	}
	return c
}

// Subjects are the certificates that prove who their holder is. Each is one of
//
//   - a distinguished name as RFC 4514 writes it, "CN=erp,O=Example,C=DE": the
//     subject has these parts in this order and no others, octet for octet;
//   - "CN=erp" alone: the subject has this common name, whatever else it has;
//   - a URI, "spiffe://example/erp", an e-mail address, "erp@example.com", or a
//     DNS name, "erp.example.com": the certificate has it as a subject
//     alternative name. DNS names and domains have no case.
type Subjects struct {
	names map[string]string // as written, by the key of Certificate.names
}

// A SubjectError says which item of a list is no subject.
type SubjectError struct {
	Index int // from 0
	Err   error
}

// Error gives the reason without the place.
func (e *SubjectError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *SubjectError) Unwrap() error { return e.Err }

// NewSubjects reads a list. Its error is a *SubjectError for one of the items;
// it has no part of it, which may be a secret.
func NewSubjects(list []string) (*Subjects, error) {
	if len(list) == 0 {
		return nil, errors.New("is empty")
	}
	s := &Subjects{names: make(map[string]string, len(list))}
	for i, text := range list {
		key, err := subjectKey(text)
		if _, twice := s.names[key]; err == nil && twice {
			err = errors.New("is there twice")
		}
		if err != nil {
			return nil, &SubjectError{i, err}
		}
		s.names[key] = text
	}
	return s, nil
}

// check returns the subject of the list that c has, as the list has it.
func (s *Subjects) check(c *Certificate, now time.Time) (name string, ok bool) {
	if now.After(c.until) {
		return "", false // since the handshake
	}
	for _, key := range c.names {
		if name, ok = s.names[key]; ok {
			return name, true
		}
	}
	return "", false
}

// Match returns the subject of the list that a certificate has, as the list has it;
// false also for a certificate that has expired.
func (s *Subjects) Match(c *Certificate, now time.Time) (subject string, ok bool) {
	if c == nil {
		return "", false
	}
	return s.check(c, now)
}

// subjectKey tells the forms apart by their first special octet: a type before a
// "=" is letters, digits, hyphens and dots, and an address or a URI has another
// octet in front of any "=".
func subjectKey(text string) (string, error) {
	if text == "" || text[0] == ' ' { // one at the end may be escaped
		return "", errors.New("is empty, or begins with a blank")
	}
	if i := strings.IndexAny(text, "=:@/"); i >= 0 && text[i] == '=' {
		rdns, err := parseDN(text)
		if err != nil {
			return "", err
		}
		if len(rdns) == 1 && len(rdns[0]) == 1 && rdns[0][0].oid == oidCN {
			return "cn:" + rdns[0][0].value, nil
		}
		return "dn:" + joinDN(rdns), nil
	}
	if strings.Contains(text, ":") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" || u.String() != text || strings.Contains(text, " ") {
			return "", errors.New("is no URI")
		}
		return "uri:" + text, nil
	}
	if local, domain, ok := strings.Cut(text, "@"); ok {
		if local == "" || strings.Contains(local, " ") || !isDNSName(domain) {
			return "", errors.New("is no e-mail address")
		}
		return "email:" + lowerDomain(text), nil
	}
	if !isDNSName(strings.TrimPrefix(text, "*.")) {
		return "", errors.New("is no distinguished name, URI, e-mail address or DNS name")
	}
	return "dns:" + strings.ToLower(text), nil
}

func lowerDomain(address string) string {
	i := strings.LastIndexByte(address, '@')
	return address[:i+1] + strings.ToLower(address[i+1:])
}

func isDNSName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return len(s) <= 253
}

// An attribute is a part of a distinguished name.
type attribute struct {
	oid   string // dotted
	value string
}

const oidCN = "2.5.4.3"

// attributeTypes are the short names of RFC 4514 §3, and those that the tools
// that show certificates use besides.
var attributeTypes = map[string]string{
	"CN": oidCN, "C": "2.5.4.6", "L": "2.5.4.7", "ST": "2.5.4.8", "S": "2.5.4.8", "STREET": "2.5.4.9",
	"O": "2.5.4.10", "OU": "2.5.4.11", "DC": "0.9.2342.19200300.100.1.25", "UID": "0.9.2342.19200300.100.1.1",
	"SN": "2.5.4.4", "SERIALNUMBER": "2.5.4.5", "TITLE": "2.5.4.12", "POSTALCODE": "2.5.4.17",
	"GN": "2.5.4.42", "GIVENNAME": "2.5.4.42", "DNQUALIFIER": "2.5.4.46",
	"EMAILADDRESS": "1.2.840.113549.1.9.1", "E": "1.2.840.113549.1.9.1",
	"ORGANIZATIONIDENTIFIER": "2.5.4.97",
}

// joinDN writes a name so that equal names, and only these, are equal strings.
// The parts of an element that has several have no order.
func joinDN(rdns [][]attribute) string {
	var b strings.Builder
	for _, rdn := range rdns {
		parts := make([]string, len(rdn))
		for i, a := range rdn {
			parts[i] = a.oid + "=" + strconv.Quote(a.value)
		}
		slices.Sort(parts)
		b.WriteString(strings.Join(parts, "+"))
		b.WriteByte(',')
	}
	return b.String()
}

// dnOf is joinDN of a certificate's name, which RFC 4514 §2.1 writes from its
// end. ok is false where a value is no string.
func dnOf(seq pkix.RDNSequence) (dn string, ok bool) {
	rdns := make([][]attribute, 0, len(seq))
	for _, set := range slices.Backward(seq) {
		rdn := make([]attribute, len(set))
		for i, a := range set {
			value, ok := a.Value.(string)
			if !ok {
				return "", false
			}
			rdn[i] = attribute{a.Type.String(), value}
		}
		rdns = append(rdns, rdn)
	}
	return joinDN(rdns), true
}

// parseDN reads the string form of RFC 4514 §3. Blanks around types and values
// do not count, as in RFC 2253 §4.
func parseDN(s string) (rdns [][]attribute, err error) {
	var rdn []attribute
	for {
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil, errors.New("has a part without =")
		}
		oid, err := attributeType(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		value, end, err := attributeValue(rest)
		if err != nil {
			return nil, err
		}
		rdn = append(rdn, attribute{oid, value})
		if end == len(rest) {
			return append(rdns, rdn), nil
		}
		if rest[end] == ',' {
			rdns, rdn = append(rdns, rdn), nil
		}
		s = rest[end+1:]
	}
}

func attributeType(name string) (oid string, err error) {
	if oid, ok := attributeTypes[strings.ToUpper(name)]; ok {
		return oid, nil
	}
	for arc := range strings.SplitSeq(name, ".") {
		if n, err := strconv.ParseUint(arc, 10, 64); err != nil || strconv.FormatUint(n, 10) != arc {
			return "", errors.New("has an attribute of a type that is not known, write its object identifier")
		}
	}
	return name, nil
}

// attributeValue reads a value up to the "," or "+" behind it, or the end.
func attributeValue(s string) (value string, end int, err error) {
	blanks := len(s) - len(strings.TrimLeft(s, " "))
	if strings.HasPrefix(s[blanks:], "#") {
		end = len(s)
		if i := strings.IndexAny(s, ",+"); i >= 0 {
			end = i
		}
		ber, err := hex.DecodeString(strings.TrimRight(s[blanks+1:end], " "))
		var v any
		if err == nil {
			_, err = asn1.Unmarshal(ber, &v)
		}
		text, ok := v.(string)
		if err != nil || !ok {
			return "", 0, errors.New("has a value in # form that is no string")
		}
		return text, end, nil
	}
	var b []byte
	kept := 0 // of b, without blanks at the end that were not escaped
	for i := blanks; i < len(s); i++ {
		switch c := s[i]; c {
		case ',', '+':
			return string(b[:kept]), i, nil
		case '\\':
			i++
			if i == len(s) {
				return "", 0, errors.New("ends in a backslash")
			}
			if strings.IndexByte(` "#+,;<=>\`, s[i]) >= 0 {
				b = append(b, s[i])
			} else if octet, err := hex.DecodeString(s[i:min(i+2, len(s))]); err == nil && len(octet) == 1 {
				b = append(b, octet[0])
				i++
			} else {
				return "", 0, errors.New("has a backslash that escapes nothing")
			}
			kept = len(b)
		case '"', ';', '<', '>', 0:
			return "", 0, errors.New(`has one of " ; < > without a backslash in front`)
		default:
			b = append(b, c)
			if c != ' ' {
				kept = len(b)
			}
		}
	}
	return string(b[:kept]), len(s), nil
}
