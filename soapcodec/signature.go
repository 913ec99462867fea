package soapcodec

import (
	"bytes"
	"slices"
	"strings"

	"soapway/xmlstream"
)

const nsSignature = "http://www.w3.org/2000/09/xmldsig#"

// signature looks at the start tag of any element in a header block or Body:
// it notes a signature in a Security block, and gives up normalization if the
// signature could cover what normalization changes.
func (d *Decoder) signature() {
	if string(d.sc.Space()) != nsSignature {
		return
	}
	switch string(d.sc.Local()) {
	case "Signature":
		if d.security {
			d.facts.Signed = true
		}
	case "Reference":
		if (d.edits.normalize || d.insert.on) && !d.harmless("URI", harmlessReference) {
			d.reached()
		}
		if d.opt.Normalize == Canonical && !d.harmless("URI", isKnownReference) {
			d.facts.NormalizeSkipped = true
		}
	case "Transform":
		if (d.edits.normalize || d.insert.on) && !d.harmless("Algorithm", harmlessTransform) {
			d.reached()
		}
		if d.opt.Normalize == Canonical && !d.harmless("Algorithm", isKnownTransform) {
			d.facts.NormalizeSkipped = true
		}
	}
}

// A message and its canonical form are the same to all that works on the nodes
// of XPath, as every known transform does (Canonical XML 1.0 §1): only what
// the parties have agreed upon by themselves could tell them apart.
func isKnownReference(string) bool { return true }

func isKnownTransform(algorithm string) bool {
	return harmlessTransform(algorithm) || slices.Contains(nodeTransforms[:], algorithm)
}

var nodeTransforms = [...]string{
	"http://www.w3.org/TR/1999/REC-xpath-19991116",
	"http://www.w3.org/2002/06/xmldsig-filter2",
	"http://www.w3.org/TR/1999/REC-xslt-19991116",
}

// watches reports whether signatures in the content of Body matter.
func (d *Decoder) watches() bool { return d.edits.normalize || d.opt.Normalize == Canonical }

// harmless applies ok to an attribute of the current tag; without it the
// meaning is private to the parties, so it is not harmless.
func (d *Decoder) harmless(attr string, ok func(string) bool) bool {
	attrs := d.sc.Attrs()
	for i := range attrs {
		a := &attrs[i]
		if len(a.Name.Space) == 0 && string(a.Name.Local) == attr {
			d.value = a.AppendValue(d.value[:0])
			return ok(string(trim(d.value)))
		}
	}
	return false
}

// harmlessReference reports whether what a ds:Reference names keeps its octets
// under normalization (XML Signature §4.4.3.2). An ID names an element in a
// header block, in Body, Body itself, or behind it, since neither Envelope nor
// Header has one (see hasID): their octets stay, and the tag of Body changes
// only in what Canonical XML evens out. Another resource is not touched. The
// whole document, an XPath or a relative reference may reach what is changed.
func harmlessReference(uri string) bool {
	if fragment, ok := strings.CutPrefix(uri, "#"); ok {
		if pointer, ok := strings.CutPrefix(fragment, "xpointer("); ok {
			return strings.HasPrefix(pointer, "id(")
		}
		return fragment != "" && !strings.ContainsAny(fragment, "()")
	}
	scheme, _, ok := strings.Cut(uri, ":")
	return ok && scheme != "" && !strings.ContainsAny(scheme, "/?#")
}

// harmlessTransforms only look at the element that the reference names. XPath
// and XSLT can look at all of the document around it.
var harmlessTransforms = [...]string{
	"http://www.w3.org/2001/10/xml-exc-c14n#",
	"http://www.w3.org/2001/10/xml-exc-c14n#WithComments",
	"http://www.w3.org/TR/2001/REC-xml-c14n-20010315",
	"http://www.w3.org/TR/2001/REC-xml-c14n-20010315#WithComments",
	"http://www.w3.org/2006/12/xml-c14n11",
	"http://www.w3.org/2006/12/xml-c14n11#WithComments",
	"http://www.w3.org/2000/09/xmldsig#base64",
	"http://www.w3.org/2000/09/xmldsig#enveloped-signature",
	"http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#STR-Transform",
	"http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Content-Signature-Transform",
	"http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Complete-Signature-Transform",
	"http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Ciphertext-Transform",
}

func harmlessTransform(algorithm string) bool {
	for _, t := range harmlessTransforms {
		if algorithm == t {
			return true
		}
	}
	return false
}

// hasID reports whether an element has an attribute that signatures may name it
// by: Id, ID, id, wsu:Id, xml:id or one that is spelled alike.
func hasID(attrs []xmlstream.Attr) bool {
	for i := range attrs {
		if a := &attrs[i]; !a.IsNamespace() && bytes.EqualFold(a.Name.Local, []byte("id")) {
			return true
		}
	}
	return false
}

// reached notes that a signature may cover what lies between the tags of the frame.
func (d *Decoder) reached() {
	d.reaches = true
	if d.edits.normalize {
		d.skipNormalize()
	}
}

// skipNormalize withdraws normalization for this message. In a stream the edits
// of the head may already have been made when a signature in Body shows up;
// then the rest follows them, as half of the edits would help nobody.
func (d *Decoder) skipNormalize() {
	if d.edits.withdraw() {
		d.facts.NormalizeSkipped = true
	}
}
