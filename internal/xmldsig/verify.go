package xmldsig

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	_ "crypto/sha1" // what most WS-Security clients still sign with
	_ "crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"soapway/xmlstream"
)

const (
	dsig = "http://www.w3.org/2000/09/xmldsig#"
	exc  = "http://www.w3.org/2001/10/xml-exc-c14n#"
	wsu  = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd"
)

// Reasons for which a signature does not hold. Everything else that [Verify]
// returns says why it could not be judged.
var (
	ErrDigest    = errors.New("a digest does not match what is referenced")
	ErrSignature = errors.New("the signature value does not match SignedInfo")
)

// A Key is what a signature is verified with: octets for HMAC, or a public key
// for RSA.
type Key struct {
	HMAC []byte
	RSA  *rsa.PublicKey
}

// Verify checks the one signature of doc, which is UTF-8: the digest of every
// reference, of which there is at least one, and the signature value. It returns
// the Ids that are signed, in the order of the references.
func Verify(doc []byte, key Key) (ids []string, err error) {
	s, err := read(doc)
	if err != nil {
		return nil, fmt.Errorf("xmldsig: %w", err)
	}
	for _, r := range s.references {
		if err := r.verify(doc); err != nil {
			return nil, fmt.Errorf("xmldsig: reference %q: %w", r.uri, err)
		}
		ids = append(ids, r.uri[1:])
	}
	if len(ids) == 0 {
		return nil, errors.New("xmldsig: a signature without references")
	}
	signed, err := canonical(doc, s.form, func(s *xmlstream.Scanner) bool { return s.Name().Is(dsig, "SignedInfo") })
	if err != nil {
		return nil, fmt.Errorf("xmldsig: SignedInfo: %w", err)
	}
	if err := key.verify(s.method, signed, s.value); err != nil {
		return nil, fmt.Errorf("xmldsig: %w", err)
	}
	return ids, nil
}

// A form is a canonicalization algorithm with its parameter.
type form struct {
	algorithm string
	prefixes  []string // PrefixList of the exclusive forms
}

func (f form) options() (xmlstream.CanonicalOptions, error) {
	switch f.algorithm {
	case "http://www.w3.org/TR/2001/REC-xml-c14n-20010315":
		return xmlstream.CanonicalOptions{}, nil
	case "http://www.w3.org/TR/2001/REC-xml-c14n-20010315#WithComments":
		return xmlstream.CanonicalOptions{Comments: true}, nil
	case exc:
		return xmlstream.CanonicalOptions{Exclusive: true, Inclusive: f.prefixes}, nil
	case exc + "WithComments":
		return xmlstream.CanonicalOptions{Exclusive: true, Comments: true, Inclusive: f.prefixes}, nil
	}
	return xmlstream.CanonicalOptions{}, fmt.Errorf("unknown transform %q", f.algorithm)
}

type reference struct {
	uri        string
	transforms []form
	method     string
	digest     []byte
}

// A signature is what its element says.
type signature struct {
	form       form // of SignedInfo
	method     string
	references []reference
	value      []byte
}

// read finds the Signature of doc.
func read(doc []byte) (*signature, error) {
	var sig signature
	found := 0
	var last *form // the transform whose PrefixList may come
	var text []byte
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if kind == xmlstream.Text || kind == xmlstream.CDATA {
			text = s.AppendText(text)
			continue
		}
		name := s.Name()
		if kind == xmlstream.Start && name.Is(exc, "InclusiveNamespaces") && last != nil {
			last.prefixes = strings.Fields(attribute(s, "PrefixList"))
		}
		if string(name.Space) != dsig {
			continue
		}
		r := &reference{}
		if n := len(sig.references); n > 0 {
			r = &sig.references[n-1]
		}
		if kind == xmlstream.Start {
			text = text[:0]
			switch string(name.Local) {
			case "Signature":
				found++
			case "CanonicalizationMethod":
				sig.form.algorithm = attribute(s, "Algorithm")
				last = &sig.form
			case "SignatureMethod":
				sig.method = attribute(s, "Algorithm")
			case "Reference":
				sig.references = append(sig.references, reference{uri: attribute(s, "URI")})
			case "Transform":
				r.transforms = append(r.transforms, form{algorithm: attribute(s, "Algorithm")})
				last = &r.transforms[len(r.transforms)-1]
			case "DigestMethod":
				r.method = attribute(s, "Algorithm")
			}
			continue
		}
		if kind == xmlstream.End {
			switch string(name.Local) {
			case "DigestValue":
				r.digest, err = decode(text)
			case "SignatureValue":
				sig.value, err = decode(text)
			case "SignedInfo":
				last = nil
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if found != 1 {
		return nil, fmt.Errorf("%d signatures, want one", found)
	}
	return &sig, nil
}

// decode reads base64 with white space in it.
func decode(text []byte) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(text)), ""))
}

func attribute(s *xmlstream.Scanner, local string) string {
	attrs := s.Attrs()
	for i := range attrs {
		if attrs[i].Name.Is("", local) {
			return attrs[i].Value()
		}
	}
	return ""
}

func (r *reference) verify(doc []byte) error {
	id, ok := strings.CutPrefix(r.uri, "#")
	if !ok || id == "" || strings.Contains(id, "(") {
		return errors.New("not the Id of an element")
	}
	if len(r.transforms) != 1 {
		return fmt.Errorf("%d transforms, want one", len(r.transforms))
	}
	octets, err := canonical(doc, r.transforms[0], func(s *xmlstream.Scanner) bool { return hasID(s, id) })
	if err != nil {
		return err
	}
	var h crypto.Hash
	switch r.method {
	case dsig + "sha1":
		h = crypto.SHA1
	case "http://www.w3.org/2001/04/xmlenc#sha256":
		h = crypto.SHA256
	default:
		return fmt.Errorf("unknown digest %q", r.method)
	}
	if !bytes.Equal(sum(h, octets), r.digest) {
		return ErrDigest
	}
	return nil
}

// hasID reports whether the start tag has this Id, by any of its names.
func hasID(s *xmlstream.Scanner, id string) bool {
	attrs := s.Attrs()
	for i := range attrs {
		n := attrs[i].Name
		if (n.Is(wsu, "Id") || n.Is("", "Id") || n.Is("", "ID") || n.Is("http://www.w3.org/XML/1998/namespace", "id")) && attrs[i].Value() == id {
			return true
		}
	}
	return false
}

// canonical returns the form of the one element that is asked for.
func canonical(doc []byte, f form, is func(*xmlstream.Scanner) bool) ([]byte, error) {
	opt, err := f.options()
	if err != nil {
		return nil, err
	}
	if n, err := count(doc, is); err != nil || n != 1 {
		// With two of them a receiver might take the other one (signature wrapping).
		return nil, cmp.Or(err, fmt.Errorf("%d such elements, want one", n))
	}
	c := xmlstream.NewCanonicalizer(opt)
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err != nil {
			return nil, err
		}
		if kind == xmlstream.Start && is(s) {
			var out bytes.Buffer
			err := c.WriteElement(&out, s)
			return out.Bytes(), err
		}
		if err := c.Skip(s); err != nil {
			return nil, err
		}
	}
}

// count reads all of doc.
func count(doc []byte, is func(*xmlstream.Scanner) bool) (n int, err error) {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if kind == xmlstream.Start && is(s) {
			n++
		}
	}
}

func sum(h crypto.Hash, octets []byte) []byte {
	w := h.New()
	w.Write(octets)
	return w.Sum(nil)
}

func (k Key) verify(method string, signed, value []byte) error {
	var h crypto.Hash
	switch method {
	case dsig + "hmac-sha1", dsig + "rsa-sha1":
		h = crypto.SHA1
	case "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256":
		h = crypto.SHA256
	default:
		return fmt.Errorf("unknown signature method %q", method)
	}
	isHMAC := strings.Contains(method, "#hmac-")
	switch {
	case isHMAC && k.HMAC != nil:
		mac := hmac.New(h.New, k.HMAC)
		mac.Write(signed)
		if !hmac.Equal(mac.Sum(nil), value) {
			return ErrSignature
		}
	case !isHMAC && k.RSA != nil:
		if rsa.VerifyPKCS1v15(k.RSA, h, sum(h, signed), value) != nil {
			return ErrSignature
		}
	default:
		return fmt.Errorf("no key for %q", method)
	}
	return nil
}
