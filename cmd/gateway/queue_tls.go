package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"soapway/config"
)

// adminTLS is how an admin listener is spoken to over TLS: by the authorities of
// --ca, else those of the system. The certificate that the configuration names is
// believed as it stands, whatever names it has: who can read it there need not be
// told by an authority whose it is.
func (f *queueFlags) adminTLS(cfg *config.Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		b, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, &problem{fmt.Errorf("--ca: %w", err), ""}
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(b) {
			return nil, &problem{fmt.Errorf("--ca: %s has no certificate", f.ca), "it must be a PEM file"}
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, &usageError{"queue: --cert and --key belong together", ""}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, &problem{fmt.Errorf("--cert: %w", err), ""}
		}
		t.Certificates = []tls.Certificate{pair}
	}
	if cfg == nil || cfg.Admin.TLS == nil {
		return t, nil
	}
	if a := cfg.Admin.TLS.ACME; a != nil {
		if err := believeIssued(t, a, f.ca != ""); err != nil {
			return nil, err
		}
	} else if own := leafOf(string(cfg.Admin.TLS.Certificate)); own != nil {
		believe(t, own)
	}
	return t, nil
}

// believe has t take a certificate as it stands, and any other by the authorities.
func believe(t *tls.Config, own []byte) {
	roots := t.RootCAs
	t.InsecureSkipVerify = true // VerifyConnection does it
	t.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errNoCertificate
		}
		if bytes.Equal(s.PeerCertificates[0].Raw, own) {
			return nil
		}
		return vouched(&s, roots, s.ServerName)
	}
}

// believeIssued has t take a certificate that an authority has issued for a name that the
// configuration asks for, at whatever address: that is often the loopback. A root_ca
// vouches for it beside the system's authorities, unless others were named.
func believeIssued(t *tls.Config, a *config.ACME, named bool) error {
	if a.RootCA != "" && !named {
		b, err := os.ReadFile(string(a.RootCA))
		if err != nil {
			return &problem{fmt.Errorf("admin.tls.acme.root_ca: %w", err), ""}
		}
		if t.RootCAs, err = x509.SystemCertPool(); err != nil {
			t.RootCAs = x509.NewCertPool()
		}
		t.RootCAs.AppendCertsFromPEM(b) // the configuration was checked
	}
	names, roots := a.Domains, t.RootCAs
	t.InsecureSkipVerify = true // VerifyConnection does it
	t.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errNoCertificate
		}
		err := vouched(&s, roots, s.ServerName)
		for i := 0; err != nil && i < len(names); i++ {
			if e := vouched(&s, roots, names[i]); e == nil {
				err = nil
			}
		}
		return err
	}
	return nil
}

var errNoCertificate = errors.New("the gateway shows no certificate")

// vouched says why the authorities do not vouch for what a connection has shown, as
// that of a name or address.
func vouched(s *tls.ConnectionState, roots *x509.CertPool, name string) error {
	opt := x509.VerifyOptions{Roots: roots, DNSName: name, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		opt.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(opt)
	return err
}

// leafOf is the first certificate of a PEM file, nil if it cannot be read.
func leafOf(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block.Bytes
		}
	}
	return nil
}
