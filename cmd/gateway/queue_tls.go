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
	own := leafOf(string(cfg.Admin.TLS.Certificate))
	if own == nil {
		return t, nil
	}
	roots := t.RootCAs
	t.InsecureSkipVerify = true // VerifyConnection does it
	t.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the gateway shows no certificate")
		}
		leaf := s.PeerCertificates[0]
		if bytes.Equal(leaf.Raw, own) {
			return nil
		}
		opt := x509.VerifyOptions{Roots: roots, DNSName: s.ServerName, Intermediates: x509.NewCertPool()}
		for _, c := range s.PeerCertificates[1:] {
			opt.Intermediates.AddCert(c)
		}
		_, err := leaf.Verify(opt)
		return err
	}
	return t, nil
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
