package soapcodec

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"soapway/xmlstream"
)

// maxReason bounds a fault's text, which may repeat parts of the message.
const maxReason = 1 << 10

// Fault is one that this gateway makes, never one that a peer sent (see
// [FaultFacts]).
type Fault struct {
	Code Code
	// Reason is in English, one sentence, without internals, untrusted text
	// quoted and cut. "" takes the code's default.
	Reason        string
	Version       Version   // of the envelope it answers; V0 = choose by FaultVersion
	NotUnderstood []QName   // for MustUnderstand: the header blocks
	Supported     []Version // for VersionMismatch: what the Upgrade block offers; none = 1.2 and 1.1
}

// Error makes a Fault an error, for the log.
func (f *Fault) Error() string { return "soapcodec: fault " + string(f.Code) + ": " + f.reason() }

func (f *Fault) reason() string {
	if f.Reason == "" {
		return f.Code.row().reason + "."
	}
	return f.Reason
}

// Status is the HTTP status for version v.
func (f *Fault) Status(v Version) int {
	if v == V12 {
		return f.Code.row().status12
	}
	return f.Code.row().status11
}

// ContentType is the media type of Append's output, with its charset.
func (f *Fault) ContentType(v Version) string {
	if v == V12 {
		return "application/soap+xml; charset=utf-8"
	}
	return "text/xml; charset=utf-8"
}

// FaultVersion chooses the version of a fault: that of the envelope, and if
// none was recognised, 1.2 for application/soap+xml and 1.1 for all else.
// mediaType may be a whole Content-Type field.
func FaultVersion(recognised Version, mediaType string) Version {
	if recognised != V0 {
		return recognised
	}
	essence, _, _ := strings.Cut(mediaType, ";")
	if strings.EqualFold(strings.TrimSpace(essence), V12.MediaType()) {
		return V12
	}
	return V11
}

// Append appends the complete envelope in version v; V0 is taken as 1.1.
func (f *Fault) Append(dst []byte, v Version) []byte {
	if v == V12 {
		return f.append12(dst)
	}
	return f.append11(dst)
}

// append11 writes SOAP 1.1 §4.4. The code stands in detail whatever part of the
// message was at fault, so that clients find it in one place (SPEC.md §3).
func (f *Fault) append11(dst []byte) []byte {
	dst = append(dst, `<soap:Envelope xmlns:soap="`+NS11+`">`...)
	if f.Code == CodeVersionMismatch {
		// SOAP 1.2 Part 1 Appendix A: a SOAP 1.1 fault may carry the SOAP 1.2
		// Upgrade block.
		dst = append(dst, `<soap:Header>`...)
		dst = f.appendUpgrade(dst)
		dst = append(dst, `</soap:Header>`...)
	}
	dst = append(dst, `<soap:Body><soap:Fault><faultcode`...)
	if sub := f.Code.row().sub; sub.IsZero() {
		dst = append(append(dst, `>soap:`...), f.Code.row().local11...)
	} else {
		dst = appendSub(dst, sub)
	}
	dst = append(dst, `</faultcode><faultstring>`...)
	dst = appendReason(dst, f.reason())
	dst = append(dst, `</faultstring>`...)
	if f.Code == CodeMustUnderstand {
		dst = append(dst, `<faultactor>`...)
		dst = append(dst, dialects[V11].next...)
		dst = append(dst, `</faultactor>`...)
	}
	dst = append(dst, `<detail>`...)
	dst = f.appendDetail(dst)
	return append(dst, `</detail></soap:Fault></soap:Body></soap:Envelope>`...)
}

// append12 writes SOAP 1.2 Part 1 §5.4.
func (f *Fault) append12(dst []byte) []byte {
	dst = append(dst, `<env:Envelope xmlns:env="`+NS12+`">`...)
	switch {
	case f.Code == CodeVersionMismatch:
		dst = append(dst, `<env:Header>`...)
		dst = f.appendUpgrade(dst)
		dst = append(dst, `</env:Header>`...)
	case len(f.NotUnderstood) > 0:
		dst = append(dst, `<env:Header>`...)
		for _, q := range f.NotUnderstood {
			dst = appendNotUnderstood(dst, q)
		}
		dst = append(dst, `</env:Header>`...)
	}
	dst = append(dst, `<env:Body><env:Fault><env:Code><env:Value>env:`...)
	dst = append(dst, f.Code.row().local12...)
	dst = append(dst, `</env:Value>`...)
	if sub := f.Code.row().sub; !sub.IsZero() {
		dst = append(dst, `<env:Subcode><env:Value`...)
		dst = appendSub(dst, sub)
		dst = append(dst, `</env:Value></env:Subcode>`...)
	}
	dst = append(dst, `</env:Code><env:Reason><env:Text xml:lang="en">`...)
	dst = appendReason(dst, f.reason())
	dst = append(dst, `</env:Text></env:Reason>`...)
	if f.Code == CodeMustUnderstand {
		// The gateway speaks as an intermediary here, which must say so
		// (SOAP 1.2 Part 1 §5.4.3, §5.4.4).
		dst = append(dst, `<env:Node>urn:soapway:gateway</env:Node><env:Role>`...)
		dst = append(dst, dialects[V12].next...)
		dst = append(dst, `</env:Role>`...)
	}
	dst = append(dst, `<env:Detail>`...)
	dst = f.appendDetail(dst)
	return append(dst, `</env:Detail></env:Fault></env:Body></env:Envelope>`...)
}

// appendSub ends a start tag that is open, so that it binds the prefix of q, and
// writes q.
func appendSub(dst []byte, q QName) []byte {
	dst = append(dst, ` xmlns:sub="`...)
	dst = xmlstream.AppendEscapedAttr(dst, q.Space)
	dst = append(dst, `">sub:`...)
	return append(dst, q.Local...)
}

func (f *Fault) appendDetail(dst []byte) []byte {
	dst = append(dst, `<f:code xmlns:f="`+NSFault+`">`...)
	dst = appendReason(dst, string(f.Code))
	return append(dst, `</f:code>`...)
}

// appendUpgrade writes the Upgrade block (SOAP 1.2 Part 1 §5.4.7); it is never
// mandatory. It declares its own prefixes, and so is the same in both versions.
func (f *Fault) appendUpgrade(dst []byte) []byte {
	dst = append(dst, `<u:Upgrade xmlns:u="`+NS12+`">`...)
	supported := f.Supported
	if len(supported) == 0 {
		supported = []Version{V12, V11}
	}
	for _, v := range supported {
		if v == V12 {
			dst = append(dst, `<u:SupportedEnvelope qname="u:Envelope"/>`...)
		} else {
			dst = append(dst, `<u:SupportedEnvelope qname="s:Envelope" xmlns:s="`+NS11+`"/>`...)
		}
	}
	return append(dst, `</u:Upgrade>`...)
}

const nsXML = "http://www.w3.org/XML/1998/namespace"

// appendNotUnderstood writes one NotUnderstood block (SOAP 1.2 Part 1 §5.4.8).
func appendNotUnderstood(dst []byte, q QName) []byte {
	dst = append(dst, `<env:NotUnderstood qname="`...)
	switch q.Space {
	case "":
	case nsXML: // may not be bound to another prefix (Namespaces in XML §3)
		dst = append(dst, "xml:"...)
	default:
		dst = append(dst, "n:"...)
	}
	dst = xmlstream.AppendEscapedAttr(dst, q.Local)
	if q.Space != "" && q.Space != nsXML {
		dst = append(dst, `" xmlns:n="`...)
		dst = xmlstream.AppendEscapedAttr(dst, q.Space)
	}
	return append(dst, `"/>`...)
}

// appendReason writes text that may come from anywhere: cut, and with every
// character that XML 1.0 §2.2 forbids replaced.
func appendReason(dst []byte, s string) []byte {
	s = cut(s, maxReason)
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r >= ' ' && r <= 0xD7FF, r >= 0xE000 && r <= 0xFFFD, r >= 0x10000:
			return r
		}
		return utf8.RuneError
	}, s)
	return xmlstream.AppendEscapedText(dst, s)
}

// maxQuoted bounds how much of a message's own text an error repeats.
const maxQuoted = 100

// quoteCut quotes text of the sender's, cut to a length that a log can bear.
func quoteCut(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(cut(s, maxQuoted)) + "…"
}

// cut shortens s to at most n octets at the border of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func cutBytes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}
