package acme_test

import (
	"crypto/tls"
	"fmt"

	"soapway/internal/acme"
)

// A listener asks the manager for a certificate at each handshake. Until Run has
// one there is none.
func Example() {
	m, err := acme.New(acme.Options{Domains: []string{"soap.example.com"}, Dir: "acme", Email: "ops@example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := &tls.Config{GetCertificate: m.GetCertificate}
	_, err = cfg.GetCertificate(&tls.ClientHelloInfo{ServerName: "soap.example.com"})
	fmt.Println(err, m.Until().IsZero())
	// Output: acme: no certificate yet true
}
