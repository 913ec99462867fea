package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSOptions are what a backend's connections use (CONFIG.md backends.tls). The
// zero value verifies the node against the system's roots.
type TLSOptions struct {
	// CA is a PEM file of the roots that sign the node's certificate.
	CA string

	// Certificate and Key are PEM files of our own identity; both or none.
	Certificate, Key string

	// ServerName is verified instead of the host in the node's URL, and sent
	// as SNI.
	ServerName string

	// Insecure verifies nothing.
	Insecure bool
}

// TLSConfig reads the files and builds the configuration of a TLS client. It
// reports every problem at once.
func TLSConfig(opt TLSOptions) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         opt.ServerName,
		InsecureSkipVerify: opt.Insecure,
	}
	var errs []error
	if opt.CA != "" {
		pem, err := os.ReadFile(opt.CA)
		if err != nil {
			errs = append(errs, fmt.Errorf("ca: %w", err))
		} else if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			errs = append(errs, fmt.Errorf("ca: no certificate in %q", opt.CA))
		}
	}
	switch {
	case opt.Certificate != "" && opt.Key != "":
		pair, err := tls.LoadX509KeyPair(opt.Certificate, opt.Key)
		if err != nil {
			errs = append(errs, fmt.Errorf("certificate: %w", err))
		}
		cfg.Certificates = []tls.Certificate{pair}
	case opt.Certificate != "" || opt.Key != "":
		errs = append(errs, errors.New("certificate: certificate and key must be given together"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("upstream: tls: %w", err)
	}
	return cfg, nil
}
