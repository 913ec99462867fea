package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	"soapway/bench"
)

// remote returns what --target names, nil without it. It sets the combinations to
// those that can send there, unless some were chosen.
func (f *benchFlags) remote(combos *string) (*bench.Target, error) {
	if f.target == "" {
		return nil, nil
	}
	const hint = "such as http://127.0.0.1:8080/echo or framed://127.0.0.1:7000?length=4"
	u, err := url.Parse(f.target)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "framed" {
		return nil, &usageError{fmt.Sprintf("bench: --target %.60q is not a target", f.target), hint}
	}
	t := &bench.Target{Address: u.Host, Path: u.RequestURI()}
	if u.Scheme == "framed" {
		t.Width, t.Path = 2, ""
		if s := u.Query().Get("length"); s != "" {
			t.Width, _ = strconv.Atoi(s)
		}
		if u.Port() == "" || t.Width != 2 && t.Width != 4 {
			return nil, &usageError{fmt.Sprintf("bench: --target %.60q is not a target", f.target), hint}
		}
		*combos = "ff"
		return t, nil
	}
	if u.Port() == "" {
		t.Address = net.JoinHostPort(u.Hostname(), "80")
	}
	if *combos == "all" {
		*combos = "hh"
	}
	return t, nil
}
