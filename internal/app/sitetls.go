package app

import (
	"crypto/tls"

	"soapway/config"
	"soapway/proxy/upstream"
)

// tlsOfLink is how a link proves this site to the other, and that to this one.
func tlsOfLink(l *config.Link) (*tls.Config, error) {
	return upstream.TLSConfig(upstream.TLSOptions{CA: string(l.CA), Certificate: string(l.Certificate), Key: string(l.Key)})
}
