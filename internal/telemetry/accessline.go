package telemetry

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"soapway/proxy"
)

// maxAccessLine is more than any line has, in octets: each text in it is cut, and
// may be written with six octets for one.
const maxAccessLine = 8 << 10

// The longest texts of a line, in octets before they are quoted.
const (
	maxAccessPath = 256
	maxAccessText = 128
)

// appendAccess appends the line of an exchange. Its fields are those that
// docs/operations.md lists: none is ever renamed, and new ones come behind the
// others. Bodies, header fields and queries are none of them.
func appendAccess(dst []byte, asJSON bool, at time.Time, e *proxy.ExchangeEvent) []byte {
	l := accessLine{b: dst, json: asJSON, first: true}
	if asJSON {
		l.b = append(l.b, '{')
	}
	l.name("time")
	if asJSON {
		l.b = append(l.b, '"')
	}
	l.b = at.UTC().AppendFormat(l.b, "2006-01-02T15:04:05.000Z")
	if asJSON {
		l.b = append(l.b, '"')
	}
	l.text("id", e.ID)
	l.text("listener", e.Listener)
	if x := e.Exchange; x != nil {
		l.address("client", x.Client)
		if !x.Framed {
			l.text("method", x.Method)
			path, _, _ := strings.Cut(x.Target, "?") // a query may hold secrets
			l.cut("path", path, maxAccessPath)
		}
	}
	l.text("route", e.Route)
	l.text("operation", e.Operation)
	if e.Version != 0 {
		l.text("soap", e.Version.String())
	}
	l.number("status", int64(e.Status))
	l.text("outcome", string(e.Outcome))
	if e.Code != "" {
		l.text("code", string(e.Code))
	}
	l.number("attempts", int64(e.Attempts))
	if e.Node != "" {
		l.text("node", e.Node)
	}
	if e.RequestOctets >= 0 {
		l.number("in", e.RequestOctets)
	}
	if e.ReplyOctets >= 0 {
		l.number("out", e.ReplyOctets)
	}
	l.name("ms")
	l.b = strconv.AppendFloat(l.b, float64(e.Duration.Microseconds())/1000, 'f', 3, 64)
	if e.Trace.On() {
		l.name("trace")
		if asJSON {
			l.b = append(l.b, '"')
		}
		l.b = hex.AppendEncode(l.b, e.Trace.ID[:])
		if asJSON {
			l.b = append(l.b, '"')
		}
	}
	if asJSON {
		l.b = append(l.b, '}')
	}
	return append(l.b, '\n')
}

// accessLine is a line that is being made.
type accessLine struct {
	b           []byte
	json, first bool
}

func (l *accessLine) name(name string) {
	switch {
	case l.json && l.first:
		l.b = append(l.b, '"')
	case l.json:
		l.b = append(l.b, `,"`...)
	case !l.first:
		l.b = append(l.b, ' ')
	}
	l.first = false
	l.b = append(l.b, name...)
	if l.json {
		l.b = append(l.b, `":`...)
	} else {
		l.b = append(l.b, '=')
	}
}

func (l *accessLine) number(name string, n int64) {
	l.name(name)
	l.b = strconv.AppendInt(l.b, n, 10)
}

func (l *accessLine) text(name, value string) { l.cut(name, value, maxAccessText) }

// cut appends a text of at most so many octets.
func (l *accessLine) cut(name, value string, most int) {
	l.name(name)
	rest := ""
	if len(value) > most {
		for most > 0 && !utf8.RuneStart(value[most]) {
			most--
		}
		value, rest = value[:most], "…"
	}
	quoted := l.json || rest != "" || value == "" || strings.ContainsFunc(value, special)
	if !quoted {
		l.b = append(l.b, value...)
		return
	}
	l.b = append(l.b, '"')
	l.b = appendQuoted(l.b, value)
	l.b = append(append(l.b, rest...), '"')
}

func (l *accessLine) address(name string, a netip.AddrPort) {
	if !a.IsValid() {
		return
	}
	l.name(name)
	if l.json {
		l.b = append(l.b, '"')
	}
	l.b = a.Addr().AppendTo(l.b)
	if l.json {
		l.b = append(l.b, '"')
	}
}

// special tells what a value in text cannot have without quotes.
func special(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r == '\\' || r >= 0x7f }

// appendQuoted appends a string as it stands between quotes in JSON (RFC 8259 §7).
// What is not UTF-8 becomes U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return dst
}
