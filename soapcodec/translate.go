package soapcodec

import (
	"bytes"
	"math"

	"soapway/xmlstream"
)

// translator is the state of rewriting a message from one version to the other
// (see doc.go, Translation). A prefix that Envelope, Header, Body or Fault binds
// to the old namespace is bound to the new one instead, so that all constructs of SOAP
// follow. Where an application's own element uses such a prefix, its old
// binding is declared again on that element.
type translator struct {
	to       Version
	old, new string // namespaces of the envelope
	prefix   string // of Envelope

	names   []rebound
	index   map[string]int // prefix to its innermost entry in names
	shadows []shadow

	style    string // encodingStyle of Envelope or Body
	hasStyle bool

	// leaf is where the innermost start tag takes a declaration, if its text asks
	// for one; -1 = none. leafAttrs are its attributes that must not follow, and
	// leafFree the prefix that it has got for them already.
	leaf      int64
	leafAttrs []leafAttr
	leafFree  string

	piPos []span // processing instructions before Envelope
	fault faultTranslation
}

type span struct{ start, end int64 }

// leafAttr is an attribute of SOAP: the octets of its name, its prefix and its
// new local name.
type leafAttr struct {
	span
	prefix, local string
}

// rebound is one prefix that is bound to another namespace than in the source.
type rebound struct {
	prefix string
	depth  int // of the element that declares it
	outer  int // the entry of the same prefix around it, -1 if there is none
	hidden bool
}

// shadow says that an element, at depth, declares the prefix of names[name] for
// itself.
type shadow struct{ depth, name int }

func (t *translator) reset() {
	if t.index == nil {
		t.index = make(map[string]int)
	}
	clear(t.index)
	f := t.fault
	*t = translator{names: t.names[:0], index: t.index, shadows: t.shadows[:0], leaf: -1, leafAttrs: t.leafAttrs[:0], piPos: t.piPos[:0]}
	f.reset()
	t.fault = f
}

// held is the offset from which on edits may still come for octets that were read.
func (t *translator) held() int64 {
	at := int64(math.MaxInt64)
	for _, h := range [...]int64{t.leaf, t.fault.partAt, t.fault.pendingAt} {
		if h >= 0 {
			at = min(at, h)
		}
	}
	return at
}

// bind notes that prefix means another namespace inside the current element.
func (t *translator) bind(prefix []byte, depth int) {
	outer, ok := t.index[string(prefix)]
	if !ok {
		outer = -1
	}
	t.names = append(t.names, rebound{prefix: string(prefix), depth: depth, outer: outer})
	t.index[string(prefix)] = len(t.names) - 1
}

// active finds prefix if it is rebound here.
func (t *translator) active(prefix []byte) (name int, ok bool) {
	name, ok = t.index[string(prefix)]
	return name, ok && !t.names[name].hidden
}

// hide notes that the element at depth declares prefix for itself.
func (t *translator) hide(prefix []byte, depth int) {
	if i, ok := t.active(prefix); ok {
		t.names[i].hidden = true
		t.shadows = append(t.shadows, shadow{depth, i})
	}
}

// leave forgets what an element that ends at depth has declared.
func (t *translator) leave(depth int) {
	for n := len(t.shadows); n > 0 && t.shadows[n-1].depth == depth; n-- {
		t.names[t.shadows[n-1].name].hidden = false
		t.shadows = t.shadows[:n-1]
	}
	for n := len(t.names); n > 0 && t.names[n-1].depth == depth; n-- {
		if o := t.names[n-1].outer; o >= 0 {
			t.index[t.names[n-1].prefix] = o
		} else {
			delete(t.index, t.names[n-1].prefix)
		}
		t.names = t.names[:n-1]
	}
}

// translateToken does what has to be done at the current token.
func (d *Decoder) translateToken(kind xmlstream.Kind) error {
	if d.facts.Version == V0 {
		if kind == xmlstream.ProcInst {
			d.room.piPos = append(d.room.piPos, span{d.sc.Offset(), d.sc.InputOffset()})
		}
		return nil
	}
	if kind == xmlstream.Start && d.sc.Depth() == envelopeDepth {
		if d.facts.Version == d.opt.Translate {
			return nil
		}
		d.beginTranslation()
	}
	t := d.tr
	if t == nil {
		return nil
	}
	var err error
	switch kind {
	case xmlstream.Start:
		t.leaf, t.leafAttrs, t.leafFree = -1, t.leafAttrs[:0], ""
		err = d.translateStart()
	case xmlstream.End:
		t.leaf = -1
		err = d.translateEnd()
	case xmlstream.Text, xmlstream.CDATA:
		d.translateText(kind)
	case xmlstream.Comment:
		if d.sc.Partial() {
			t.leaf = -1 // nothing waits for the end of a long one
		}
	case xmlstream.ProcInst:
		// SOAP 1.2 has none outside the content of Body.
		if t.to == V12 && d.phase != inBody {
			d.edits.put(d.sc.Offset(), d.sc.InputOffset(), nil)
		}
	}
	return err
}

func (d *Decoder) beginTranslation() {
	t := d.room
	d.tr = t
	t.to = d.opt.Translate
	t.old, t.new = d.ns, t.to.Namespace()
	t.prefix = string(d.sc.Name().Prefix)
	if t.to == V12 {
		for _, pi := range t.piPos {
			d.edits.put(pi.start, pi.end, nil)
		}
	}
}

func (d *Decoder) translateStart() error {
	t := d.tr
	switch depth := d.sc.Depth(); {
	case d.phase == inTrailer && t.to == V12:
		return d.reject(CodeInvalidEnvelope, errTrailer)
	case depth <= sectionDepth && d.phase != inTrailer:
		d.translateFrame()
	case d.phase == inHeader && depth == childDepth:
		return d.translateBlock()
	case depth == childDepth && d.phase == inBody && d.facts.BodyChildren == 1 && d.facts.Fault != nil:
		d.translateFrame()
		d.translateFault()
	case t.fault.open:
		d.translateFaultStart()
	default:
		d.keepBindings(depth == childDepth && d.phase == inBody)
	}
	return nil
}

func (d *Decoder) translateEnd() error {
	t := d.tr
	depth := d.sc.Depth()
	if t.fault.open {
		d.translateFaultEnd()
	}
	t.leave(depth)
	if depth == sectionDepth && d.phase == beforeBody && d.facts.Signed {
		return d.reject(CodeSigned, errSigned)
	}
	return nil
}

// translateFrame rebinds the prefixes that an element of SOAP declares.
func (d *Decoder) translateFrame() {
	t := d.tr
	attrs, depth := d.sc.Attrs(), d.sc.Depth()
	for i := range attrs {
		a := &attrs[i]
		if !a.IsNamespace() {
			continue
		}
		d.value = a.AppendValue(d.value[:0])
		if p := declaredPrefix(a); string(d.value) == t.old {
			d.replaceValue(a, t.new)
			t.bind(p, depth)
		} else {
			t.hide(p, depth)
		}
	}
	for i := range attrs {
		a := &attrs[i]
		switch string(a.Name.Space) {
		case t.new: // said nothing so far
			d.removeAttribute(a)
		case t.old:
			if t.to == V12 && string(a.Name.Local) == "encodingStyle" {
				// SOAP 1.2 Part 1 §5.1.1 has it on none of these; see keepBindings.
				d.value = a.AppendValue(d.value[:0])
				t.style, t.hasStyle = translateStyle(string(d.value), t.to), true
				d.removeAttribute(a)
			}
		}
	}
}

// Encoding styles that make no claim: SOAP 1.1 §4.1.1, SOAP 1.2 Part 1 §5.1.1.
const styleNone = NS12 + "/encoding/none"

// translateStyle turns the value of encodingStyle into that of version to.
// SOAP 1.1 may list several, the most specific first; SOAP 1.2 has one.
func translateStyle(v string, to Version) string {
	v = string(trim([]byte(v)))
	switch {
	case to == V11 && v == styleNone:
		return ""
	case to == V12 && v == "":
		return styleNone
	case to == V12:
		for i := range len(v) {
			if isSpace(v[i]) {
				return v[:i]
			}
		}
	}
	return v
}

// keepBindings sees to it that an element which is the application's own means
// what it meant, although prefixes around it are rebound. An encodingStyle
// attribute is SOAP's and follows. The child of Body inherits what was removed
// from the frame.
func (d *Decoder) keepBindings(bodyChild bool) {
	t := d.tr
	if len(t.names) == 0 {
		return
	}
	attrs, depth := d.sc.Attrs(), d.sc.Depth()
	d.hideOwn()
	name := d.sc.Name()
	if string(name.Space) == t.old {
		d.redeclare(name.Prefix)
	}
	styled := false
	for i := range attrs {
		a := &attrs[i]
		if a.IsNamespace() {
			continue
		}
		style := string(a.Name.Local) == "encodingStyle"
		if string(a.Name.Space) == t.old && (!style || d.hasNewStyle()) {
			d.redeclare(a.Name.Prefix)
		}
		styled = styled || style && len(a.Name.Space) > 0
		d.keepNames(a.Raw)
	}
	for i := range attrs {
		if a := &attrs[i]; string(a.Name.Space) == t.old && string(a.Name.Local) == "encodingStyle" {
			if _, follows := t.active(a.Name.Prefix); follows {
				d.translateStyleOf(a)
			}
		}
	}
	if bodyChild && t.hasStyle && !styled {
		prefix, decl := d.soapPrefix()
		at := d.afterName()
		with := append([]byte(decl), ' ')
		with = append(append(with, prefix...), `:encodingStyle="`...)
		with = xmlstream.AppendEscapedAttr(with, t.style)
		d.edits.put(at, at, append(with, '"'))
	}
	if depth > sectionDepth && !d.sc.SelfClosing() {
		t.leaf = d.afterName()
	}
}

// hideOwn notes the prefixes that the current tag declares itself.
func (d *Decoder) hideOwn() {
	attrs := d.sc.Attrs()
	for i := range attrs {
		if a := &attrs[i]; a.IsNamespace() {
			d.tr.hide(declaredPrefix(a), d.sc.Depth())
		}
	}
}

func (d *Decoder) translateStyleOf(a *xmlstream.Attr) {
	d.value = a.AppendValue(d.value[:0])
	if v := translateStyle(string(d.value), d.tr.to); v != string(d.value) {
		d.replaceValue(a, v)
	}
}

// hasNewStyle reports an encodingStyle of the new version in the current tag,
// beside which one of the old version could not be.
func (d *Decoder) hasNewStyle() bool {
	attrs := d.sc.Attrs()
	for i := range attrs {
		if attrs[i].Name.Is(d.tr.new, "encodingStyle") {
			return true
		}
	}
	return false
}

// redeclare gives a rebound prefix its old namespace in the current element.
func (d *Decoder) redeclare(prefix []byte) { d.redeclareAt(prefix, d.afterName()) }

func (d *Decoder) redeclareAt(prefix []byte, at int64) {
	t := d.tr
	if _, ok := t.active(prefix); !ok {
		return
	}
	t.hide(prefix, d.sc.Depth())
	with := []byte(" xmlns")
	if len(prefix) > 0 {
		with = append(append(with, ':'), prefix...)
	}
	with = append(append(append(with, `="`...), t.old...), '"')
	d.edits.put(at, at, with)
	for _, a := range t.leafAttrs {
		if a.prefix == string(prefix) {
			d.edits.put(a.start, a.end, []byte(prefixed(d.leafPrefix(at), a.local)))
		}
	}
}

// leafPrefix is a prefix for the new namespace that the start tag which takes
// declarations at the offset at declares itself.
func (d *Decoder) leafPrefix(at int64) string {
	t := d.tr
	if t.leafFree == "" {
		var decl string
		t.leafFree, decl = d.freePrefix()
		d.edits.put(at, at, []byte(decl))
	}
	return t.leafFree
}

// keepNames redeclares the rebound prefixes of what look like qualified names
// in text: a declaration more than needed harms nobody.
func (d *Decoder) keepNames(text []byte) { d.keepNamesAt(text, -1) }

func (d *Decoder) keepNamesAt(text []byte, at int64) {
	for i := 0; ; i++ {
		n := bytes.IndexByte(text[i:], ':')
		if n < 0 {
			return
		}
		i += n
		start := i
		for start > 0 && isNameOctet(text[start-1]) {
			start--
		}
		if start == i || start > 0 && text[start-1] == ':' || i+1 == len(text) || !isNameOctet(text[i+1]) {
			continue
		}
		if at < 0 {
			at = d.afterName()
		}
		d.redeclareAt(text[start:i], at)
	}
}

// isNameOctet is true of the octets of names but the colon, and of some more.
func isNameOctet(c byte) bool {
	return c >= 0x80 || c == '_' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// translateText looks for qualified names in the text of a leaf.
func (d *Decoder) translateText(kind xmlstream.Kind) {
	t := d.tr
	if t.fault.open && d.translateFaultText() {
		return
	}
	if t.leaf < 0 {
		return
	}
	text := d.sc.Text()
	if kind == xmlstream.Text && bytes.IndexByte(text, '&') >= 0 {
		d.value = d.sc.AppendText(d.value[:0])
		text = d.value
	}
	d.keepNamesAt(text, t.leaf)
	t.leaf = -1
}

// soapPrefix finds a prefix that is bound to the new namespace in the current
// tag once all edits are made, with the declaration that the tag needs for it.
func (d *Decoder) soapPrefix() (prefix, decl string) {
	t := d.tr
	if t.prefix != "" {
		if _, ok := t.active([]byte(t.prefix)); ok {
			return t.prefix, ""
		}
	}
	return d.freePrefix()
}

// freePrefix finds a prefix that means nothing here, so that declaring it takes
// nothing away.
func (d *Decoder) freePrefix() (prefix, decl string) {
	for i := 0; ; i++ {
		name := []byte("env")
		if i > 0 {
			name = appendInt(name, i)
		}
		if _, bound := d.sc.Lookup(name); !bound {
			return string(name), " xmlns:" + string(name) + `="` + d.tr.new + `"`
		}
	}
}

// translateBlock translates the attributes that tell how a header block is to
// be processed (SOAP 1.1 §4.2, SOAP 1.2 Part 1 §5.2).
func (d *Decoder) translateBlock() error {
	t := d.tr
	name := d.sc.Name()
	if t.to == V12 && len(name.Space) == 0 {
		return d.reject(CodeInvalidEnvelope, errUnqualified)
	}
	d.hideOwn()
	if string(name.Space) == t.old {
		d.redeclare(name.Prefix)
	}
	attrs := d.sc.Attrs()
	for i := range attrs {
		if a := &attrs[i]; !a.IsNamespace() && string(a.Name.Space) != t.old {
			d.keepNames(a.Raw)
		}
	}
	for i := range attrs {
		a := &attrs[i]
		if string(a.Name.Space) == t.new {
			d.removeAttribute(a) // said nothing so far
			continue
		}
		if string(a.Name.Space) != t.old {
			continue
		}
		local, keep := d.translateAttribute(a)
		if !keep {
			d.removeAttribute(a)
			continue
		}
		prefix := string(a.Name.Prefix)
		if _, ok := t.active(a.Name.Prefix); !ok {
			prefix = d.leafPrefix(d.afterName())
		}
		end := a.Offset + int64(nameLength(a.Name))
		if prefix != string(a.Name.Prefix) || local != string(a.Name.Local) {
			d.edits.put(a.Offset, end, []byte(prefixed(prefix, local)))
		}
		if prefix == string(a.Name.Prefix) {
			t.leafAttrs = append(t.leafAttrs, leafAttr{span{a.Offset, end}, prefix, local})
		}
	}
	if !d.sc.SelfClosing() {
		t.leaf = d.afterName()
	}
	return nil
}

// translateAttribute translates the value of an attribute in the envelope's
// namespace and returns its new name; keep is false if there is none.
func (d *Decoder) translateAttribute(a *xmlstream.Attr) (local string, keep bool) {
	t := d.tr
	from := d.facts.Version
	d.value = a.AppendValue(d.value[:0])
	switch local = string(a.Name.Local); local {
	case "mustUnderstand":
		set, ok := boolean(d.value)
		v := "0"
		if set || !ok {
			v = "1"
		}
		// SOAP 1.1 knows no other spelling; SOAP 1.2 any of xs:boolean.
		if string(d.value) != v && (t.to == V11 || !ok) {
			d.replaceValue(a, v)
		}
	case dialects[from].role:
		old := string(trim(d.value))
		if from == V12 && old == roleUltimate {
			return "", false // SOAP 1.1 says so by saying nothing
		}
		if v := translateRole(old, t.to); v != old {
			d.replaceValue(a, v)
		}
		local = dialects[t.to].role
	case "role", "actor", "relay":
		return "", false // a word of the other version, or one that it has not
	case "encodingStyle":
		d.translateStyleOf(a)
	}
	return local, true
}

// translateRole translates a role or actor; those that the other version does
// not name keep their URI.
func translateRole(uri string, to Version) string {
	from := V11
	if to == V11 {
		from = V12
	}
	if uri == dialects[from].next {
		return dialects[to].next
	}
	return uri
}
