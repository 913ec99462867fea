package proxy

import (
	"net/url"
	"strings"
)

// StoredFields are the header fields that were kept with a stored message, in
// their order, from its Meta: what an operator is shown.
func StoredFields(meta []byte) ([][2]string, error) {
	m, err := readMeta(meta)
	if err != nil {
		return nil, err
	}
	fields := make([][2]string, len(m.Header))
	for i, f := range m.Header {
		fields[i] = [2]string{string(f[0]), string(f[1])}
	}
	return fields, nil
}

// MaskStored returns the Meta of a stored message with *** for the values of the
// header fields, and of the parameters of the query, that hide names, and how many
// they are.
func MaskStored(meta []byte, hide func(name string) bool) (masked []byte, hidden int, err error) {
	m, err := readMeta(meta)
	if err != nil {
		return nil, 0, err
	}
	for i, f := range m.Header {
		if hide(string(f[0])) {
			m.Header[i][1] = "***"
			hidden++
		}
	}
	if query, n := maskQuery(string(m.Query), hide); n > 0 {
		m.Query = octets(query)
		hidden += n
	}
	if hidden == 0 {
		return meta, 0, nil
	}
	return m.append(nil), hidden, nil
}

// maskQuery hides values of parameters, which end at & or ;.
func maskQuery(query string, hide func(name string) bool) (masked string, hidden int) {
	var b strings.Builder
	for rest := query; rest != ""; {
		end := strings.IndexAny(rest, "&;")
		if end < 0 {
			end = len(rest)
		}
		name, value, _ := strings.Cut(rest[:end], "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if value != "" && hide(plain) {
			b.WriteString(name + "=***")
			hidden++
		} else {
			b.WriteString(rest[:end])
		}
		if end < len(rest) {
			b.WriteByte(rest[end])
			end++
		}
		rest = rest[end:]
	}
	return b.String(), hidden
}
