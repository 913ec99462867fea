package soapcodec

import (
	"net/http"
	"slices"
	"strings"

	"soapway/xmlstream"
)

// maxTranslatedText bounds a reason, a node and a role in a translated fault;
// what is longer is cut.
const maxTranslatedText = 64 << 10

// A faultPart is one of the children of Fault that are written anew.
type faultPart uint8

const (
	noPart faultPart = iota
	codePart
	reasonPart
	nodePart
	rolePart
)

// faultTranslation is the state of translating a Fault. Its small parts are
// collected, deleted and written anew before the detail, or at the end if there
// is none; the detail is renamed where it stands.
type faultTranslation struct {
	open         bool
	prefix, decl string // of the constructs that are written, and the declaration that they need
	blank        string // the declaration that makes unprefixed names unqualified, if one is needed

	part    faultPart // that is open
	partAt  int64     // its first octet; -1 outside
	textAt  int       // depth of the text to collect; 0 = none
	text    []byte
	hasCode bool

	hasReason    bool
	reason, lang string
	node, role   string

	pendingAt int64 // where the parts go when the detail came before them; -1 = not known
	written   bool

	detail    string // name of the open detail in the new version; "" outside
	space     string // the default namespace of what is in the detail
	respacing bool   // children of the detail need it declared
}

func (f *faultTranslation) reset() {
	*f = faultTranslation{partAt: -1, pendingAt: -1, text: f.text[:0]}
}

// translateFault is at the start tag of Fault.
func (d *Decoder) translateFault() {
	t := d.tr
	f := &t.fault
	f.open = true
	if p := d.sc.Name().Prefix; len(p) > 0 {
		f.prefix = string(p)
	} else {
		f.prefix, f.decl = d.freePrefix()
	}
	if uri, _ := d.sc.Lookup(nil); len(uri) > 0 {
		f.blank = ` xmlns=""`
	}
	if d.sc.SelfClosing() {
		name := d.sc.Name()
		end := d.sc.InputOffset()
		with := append([]byte(">"), d.faultParts()...)
		with = append(append(append(with, "</"...), prefixed(string(name.Prefix), string(name.Local))...), '>')
		d.edits.put(end-2, end, with)
		f.written = true
	}
}

// faultPartOf recognises a child of Fault: unqualified in SOAP 1.1, where some
// servers qualify it, and qualified in SOAP 1.2.
func (d *Decoder) faultPartOf(name xmlstream.Name) (part faultPart, isDetail bool) {
	if d.facts.Version == V12 {
		if string(name.Space) != NS12 {
			return noPart, false
		}
		switch string(name.Local) {
		case "Code":
			return codePart, false
		case "Reason":
			return reasonPart, false
		case "Node":
			return nodePart, false
		case "Role":
			return rolePart, false
		}
		return noPart, string(name.Local) == "Detail"
	}
	if len(name.Space) > 0 && string(name.Space) != NS11 {
		return noPart, false
	}
	switch string(name.Local) {
	case "faultcode":
		return codePart, false
	case "faultstring":
		return reasonPart, false
	case "faultactor":
		return rolePart, false
	}
	return noPart, string(name.Local) == "detail"
}

// translateFaultStart is at a start tag inside Fault.
func (d *Decoder) translateFaultStart() {
	f := &d.tr.fault
	depth := d.sc.Depth()
	name := d.sc.Name()
	switch {
	case f.part == reasonPart && d.facts.Version == V12 && depth == partDepth+1 && name.Is(NS12, "Text"):
		d.beginReason(depth)
		return
	case f.part != noPart:
		return // deleted with its part
	case depth > partDepth:
		if f.respacing && depth == partDepth+1 {
			d.declareSpace()
		}
		d.keepBindings(false)
		return
	}
	part, isDetail := d.faultPartOf(name)
	switch {
	case isDetail && f.detail == "" && f.pendingAt < 0 && !f.written:
		if f.hasCode && f.hasReason {
			d.writeFaultParts(d.sc.Offset())
		} else {
			f.pendingAt = d.sc.Offset()
		}
		d.translateDetail()
	case part == noPart:
		d.keepBindings(false)
	default:
		f.part, f.partAt = part, d.sc.Offset()
		switch {
		case part == reasonPart && d.facts.Version == V11:
			d.beginReason(depth)
		case part != reasonPart && (part != codePart || d.facts.Version == V11):
			f.textAt, f.text = depth, f.text[:0]
		}
	}
}

// beginReason begins to collect a text, if it is better than what is there: the
// first, or the first in English, since SOAP 1.1 has one.
func (d *Decoder) beginReason(depth int) {
	f := &d.tr.fault
	lang := ""
	attrs := d.sc.Attrs()
	for i := range attrs {
		if attrs[i].Name.Is(nsXML, "lang") {
			lang = attrs[i].Value()
		}
	}
	if f.hasReason && (isEnglish(f.lang) || !isEnglish(lang)) {
		return
	}
	f.hasReason, f.lang = true, lang
	f.textAt, f.text = depth, f.text[:0]
}

func isEnglish(lang string) bool {
	return len(lang) >= 2 && strings.EqualFold(lang[:2], "en") && (len(lang) == 2 || lang[2] == '-')
}

// translateFaultText takes a text that belongs to a part; false if it does not.
func (d *Decoder) translateFaultText() bool {
	f := &d.tr.fault
	if f.part == noPart {
		return false
	}
	if d.sc.Depth() == f.textAt && len(f.text) <= maxTranslatedText {
		f.text = d.sc.AppendText(f.text)
		f.text = cutBytes(f.text, maxTranslatedText+1)
	}
	return true
}

// translateFaultEnd is at an end tag inside Fault, or at its own.
func (d *Decoder) translateFaultEnd() {
	f := &d.tr.fault
	depth := d.sc.Depth()
	if f.part != noPart && depth == f.textAt {
		f.textAt = 0
		text := cutBytes(f.text, maxTranslatedText)
		switch f.part {
		case reasonPart:
			f.reason = string(text)
		case nodePart:
			f.node = string(trim(text))
		case rolePart:
			f.role = translateRole(string(trim(text)), d.tr.to)
		}
	}
	switch {
	case depth == partDepth && f.part != noPart:
		f.hasCode = f.hasCode || f.part == codePart
		d.edits.put(f.partAt, d.sc.InputOffset(), nil)
		f.part, f.partAt = noPart, -1
	case depth == partDepth && f.detail != "":
		if raw := d.sc.Raw(); len(raw) > 0 {
			at := d.sc.Offset() + 2
			d.edits.put(at, at+int64(nameLength(d.sc.Name())), []byte(f.detail))
		}
		f.detail, f.respacing = "", false
	case depth == faultDepth:
		if f.pendingAt >= 0 {
			d.writeFaultParts(f.pendingAt)
		} else if !f.written {
			d.writeFaultParts(d.sc.Offset())
		}
		f.open, f.pendingAt = false, -1
	}
}

func (d *Decoder) writeFaultParts(at int64) {
	d.edits.put(at, at, d.faultParts())
	d.tr.fault.written = true
}

// translateDetail renames the start tag of the detail. SOAP 1.1 has it in no
// namespace: if there is a default one, what stands in the detail gets that back.
func (d *Decoder) translateDetail() {
	t := d.tr
	f := &t.fault
	at := d.sc.Offset() + 1
	behind := d.afterName()
	if t.to == V12 {
		d.hideOwn()
		prefix, decl := f.prefix, f.decl
		if _, ok := t.active([]byte(prefix)); !ok || decl != "" {
			prefix, decl = d.freePrefix()
		}
		f.detail = prefixed(prefix, "Detail")
		d.edits.put(at, behind, []byte(f.detail+decl))
		return
	}
	f.detail = "detail"
	uri, _ := d.sc.Lookup(nil)
	f.space, f.respacing = string(uri), len(uri) > 0
	d.hideOwn()
	decl := ""
	if f.respacing {
		t.hide(nil, partDepth)
		decl = ` xmlns=""`
		attrs := d.sc.Attrs()
		for i := range attrs {
			if a := &attrs[i]; a.IsNamespace() && len(declaredPrefix(a)) == 0 {
				d.replaceValue(a, "")
				decl = ""
			}
		}
	}
	d.edits.put(at, behind, []byte("detail"+decl))
}

// declareSpace gives a child of the detail the default namespace that the detail
// has lost.
func (d *Decoder) declareSpace() {
	attrs := d.sc.Attrs()
	for i := range attrs {
		if a := &attrs[i]; a.IsNamespace() && len(declaredPrefix(a)) == 0 {
			return
		}
	}
	with := append([]byte(` xmlns="`), xmlstream.AppendEscapedAttr(nil, d.tr.fault.space)...)
	d.edits.put(d.afterName(), d.afterName(), append(with, '"'))
}

// faultParts writes all of the Fault that stands before the detail.
func (d *Decoder) faultParts() []byte {
	f := &d.tr.fault
	code := d.faultRoom.soapCode()
	if d.tr.to == V12 {
		return f.parts12(code)
	}
	return f.parts11(faultCode11(code, d.faultRoom.Subcodes))
}

func (f *faultTranslation) parts12(code QName) []byte {
	value, sub := faultCode12(code)
	p := f.prefix + ":"
	b := []byte("<" + p + "Code" + f.decl + "><" + p + "Value>" + p + value + "</" + p + "Value>")
	if !sub.IsZero() {
		own := "c"
		if f.prefix == own {
			own = "d"
		}
		b = append(b, "<"+p+"Subcode><"+p+`Value xmlns`...)
		if sub.Space == "" {
			b = append(b, `="">`...)
		} else {
			b = append(b, ":"+own+`="`...)
			b = xmlstream.AppendEscapedAttr(b, sub.Space)
			b = append(b, `">`+own+":"...)
		}
		b = xmlstream.AppendEscapedText(b, sub.Local)
		b = append(b, "</"+p+"Value></"+p+"Subcode>"...)
	}
	b = append(b, "</"+p+"Code><"+p+"Reason"+f.decl+"><"+p+`Text xml:lang="`...)
	lang := f.lang
	if lang == "" {
		lang = "en" // SOAP 1.2 wants one, and most servers speak it
	}
	b = xmlstream.AppendEscapedAttr(b, lang)
	b = append(b, `">`...)
	b = xmlstream.AppendEscapedText(b, f.reason)
	b = append(b, "</"+p+"Text></"+p+"Reason>"...)
	if f.role != "" {
		b = append(b, "<"+p+"Role"+f.decl+">"...)
		b = xmlstream.AppendEscapedText(b, f.role)
		b = append(b, "</"+p+"Role>"...)
	}
	return b
}

func (f *faultTranslation) parts11(code QName) []byte {
	b := []byte("<faultcode" + f.blank)
	switch code.Space {
	case NS11:
		b = append(b, f.decl+">"+f.prefix+":"...)
	default:
		own := "c"
		b = append(b, " xmlns:"+own+`="`...)
		b = xmlstream.AppendEscapedAttr(b, code.Space)
		b = append(b, `">`+own+":"...)
	}
	b = xmlstream.AppendEscapedText(b, code.Local)
	b = append(b, "</faultcode><faultstring"+f.blank...)
	if f.lang != "" {
		b = append(b, ` xml:lang="`...)
		b = xmlstream.AppendEscapedAttr(b, f.lang)
		b = append(b, '"')
	}
	b = append(b, '>')
	b = xmlstream.AppendEscapedText(b, f.reason)
	b = append(b, "</faultstring>"...)
	actor := f.role
	if actor == "" {
		actor = f.node
	}
	if actor != "" {
		b = append(b, "<faultactor"+f.blank+">"...)
		b = xmlstream.AppendEscapedText(b, actor)
		b = append(b, "</faultactor>"...)
	}
	return b
}

// soapCode is Code, in the namespace of SOAP where the prefix of one of SOAP's
// own codes was forgotten.
func (f *FaultFacts) soapCode() QName {
	if f.Code.Space == "" || f.bare {
		base, _, _ := strings.Cut(f.Code.Local, ".")
		if _, ok := generic(base); ok {
			return QName{NS11, f.Code.Local}
		}
	}
	return f.Code
}

// generic returns the SOAP 1.2 code for the generic part of a code of either
// version.
func generic(local string) (code12 string, ok bool) {
	switch local {
	case "Client", "Sender":
		return "Sender", true
	case "Server", "Receiver":
		return "Receiver", true
	case "VersionMismatch", "MustUnderstand", "DataEncodingUnknown":
		return local, true
	}
	return "", false
}

const dataEncoding11 = "Client.DataEncodingUnknown"

// faultCode12 translates the code of a SOAP 1.1 fault. A dotted code (SOAP 1.1
// §4.4.1) and one of an application become the subcode, unchanged. An application's own code says
// nothing about whose fault it is; SOAP 1.1 sends it with 500, so it
// is Receiver, but for those that WS-Security and WS-Addressing define.
func faultCode12(code QName) (value string, sub QName) {
	if code.Space == NS11 || code.Space == NS12 {
		if code.Local == dataEncoding11 {
			return "DataEncodingUnknown", QName{}
		}
		base, _, dotted := strings.Cut(code.Local, ".")
		if value, ok := generic(base); ok {
			if dotted && isSubcode(code.Local) {
				return value, QName{NS11, code.Local}
			}
			return value, QName{}
		}
		return "Receiver", QName{}
	}
	switch {
	case isSenderCode(code):
		return "Sender", code
	case isSubcode(code.Local):
		return "Receiver", code
	}
	return "Receiver", QName{}
}

// faultCode11 translates code and subcodes of a SOAP 1.2 fault. Codes of
// WS-Security and WS-Addressing stand alone in SOAP 1.1, as those say, where their
// class is that of the code; other subcodes become the dotted part, which keeps
// the class for who looks no further.
func faultCode11(code QName, subcodes []QName) QName {
	base := ""
	switch code.Local {
	case "Sender", "Client":
		base = "Client"
	case "VersionMismatch", "MustUnderstand":
		return QName{NS11, code.Local}
	case "DataEncodingUnknown":
		return QName{NS11, dataEncoding11}
	default:
		base = "Server"
		if isSenderCode(code) { // not of SOAP 1.2, which allows no other; Status judges it alike
			base = "Client"
		}
	}
	if len(subcodes) == 0 {
		return QName{NS11, base}
	}
	first := subcodes[0]
	if !isSubcode(first.Local) {
		return QName{NS11, base}
	}
	if first.Space == NS11 && strings.HasPrefix(first.Local, base+".") {
		return first
	}
	if isSpecified(first) && isSenderCode(first) == (base == "Client") {
		return first
	}
	var local strings.Builder
	local.WriteString(base)
	for _, s := range subcodes {
		if !isSubcode(s.Local) {
			break
		}
		local.WriteString("." + s.Local)
	}
	return QName{NS11, local.String()}
}

// isSpecified reports a code of WS-Security or WS-Addressing.
func isSpecified(code QName) bool {
	return addressingVersion(code.Space) != 0 || slices.Contains(nsSecurity[:], code.Space)
}

// isSenderCode reports a code whose specification says that the sender is to
// blame (WS-Addressing 1.0 SOAP Binding §6.4, WS-Security 1.0 §12).
func isSenderCode(code QName) bool {
	return isSpecified(code) && isSubcode(code.Local) && code.Local != "EndpointUnavailable"
}

// isSubcode reports what can be the local part of a name and is not too long
// to repeat.
func isSubcode(s string) bool {
	if s == "" || len(s) > maxQuoted || s[0] == '.' || s[0] == '-' || '0' <= s[0] && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		if !isNameOctet(s[i]) {
			return false
		}
	}
	return true
}

// Status is the HTTP status of the fault in version v: that of its binding
// (SOAP 1.1 §6.2; SOAP 1.2 Part 2 §7.5.2.2).
func (f *FaultFacts) Status(v Version) int {
	if v != V12 {
		return http.StatusInternalServerError
	}
	if value, _ := faultCode12(f.soapCode()); value == "Sender" {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
