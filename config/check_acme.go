package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// checkACME checks what an authority will be asked for, and that nobody else has
// the port of the http challenge.
func (l *loader) checkACME(a *ACME, path string) {
	for i, name := range a.Domains {
		key := fmt.Sprintf("%s.domains[%d]", path, i)
		switch _, err := netip.ParseAddr(name); {
		case strings.Contains(name, "*"):
			l.reportKey(key, fmt.Sprintf("%s has a wildcard, for which authorities ask more than acme here can do", l.quoted(key, name)), "list the names one by one")
		case err != nil && !isDomain(name):
			l.reportKey(key, fmt.Sprintf("%s is no name of a host", l.quoted(key, name)), "write soap.example.com, without a port or a path")
		}
	}
	l.checkAuthorities(a.RootCA, path+".root_ca")
	l.needIf(a.Challenge != ChallengeHTTP && a.HTTPPort != 80, path+".http_port", "is for challenge: http", "write challenge: http, or remove it")
	if a.Challenge != ChallengeHTTP {
		return
	}
	taken := func(address string) (port string, ok bool) {
		_, port, err := net.SplitHostPort(address)
		return port, err == nil && port == strconv.Itoa(a.HTTPPort)
	}
	if port, ok := taken(l.cfg.Admin.Address); ok {
		l.reportKey(path+".http_port", fmt.Sprintf("the admin listener has port %s and does not answer there", port), "set http_port to that of an http listener without tls, or to a free one")
	}
	for i := range l.cfg.Listeners {
		ls := &l.cfg.Listeners[i]
		port, ok := taken(ls.Address)
		if ok && (ls.TLS != nil || ls.Protocol == ProtocolFramed) {
			l.reportKey(path+".http_port", fmt.Sprintf("listener %s has port %s and does not speak HTTP in the clear", l.quoted(l.items["listeners"][i]+".name", ls.Name), port),
				"set http_port to that of an http listener without tls, or to a free one")
		}
	}
}

// isDomain reports whether name can be that of a host: labels of letters, digits
// and hyphens.
func isDomain(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}
