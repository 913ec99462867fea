package soapcodec

import "strings"

// ParseSOAPAction reads the values of the SOAPAction field of a request (SOAP
// 1.1 §6.1.1). The quotes are removed, and may be missing. A quoted empty
// string is present and says that the request URI is the intent; a field
// without a value says nothing and counts as absent. Of several fields the
// first with a value counts.
func ParseSOAPAction(values []string) (action string, present bool) {
	for _, v := range values {
		v = strings.Trim(v, " \t")
		if v == "" {
			continue
		}
		if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
			return v[1 : len(v)-1], true
		}
		return strings.Trim(v, `"`), true
	}
	return "", false
}
