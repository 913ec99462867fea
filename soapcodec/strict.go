package soapcodec

import (
	"slices"
	"strings"

	"soapway/xmlstream"
)

// A StrictRule is one rule that strict checking enforces on requests.
type StrictRule struct {
	ID       string    // its number in WS-I BP 1.1 (SOAP 1.1) and BP 2.0 (SOAP 1.2), or the section that has it
	Versions []Version // in which it holds
	Where    string    // what it is about: "envelope", "charset" or "HTTP"
	What     string    // what must be, a sentence without its full stop
}

// strictRule is an index into strictTable.
type strictRule int

const (
	ruleAction strictRule = iota
	ruleActionQuoted
	ruleType11
	ruleType12
	ruleCharset
	ruleLabels
	rulePI
	ruleFrameAttribute
	ruleFrameUnqualified
	ruleStyleOnSOAP
	ruleStyleOnBodyChild
	ruleMustUnderstand
	ruleBlockUnqualified
	ruleBodyChildUnqualified
	ruleBodyChildren
	ruleTrailer
	ruleArrayType
	rulePackageType
	rulePackageRoot
	rulePackageInfo
)

var (
	in11   = []Version{V11}
	in12   = []Version{V12}
	inBoth = []Version{V11, V12}
)

// strictTable has every rule that is applied beyond what is always checked. A
// rule that only a WSDL can decide is not in it.
var strictTable = [...]StrictRule{
	ruleAction:               {"SOAP 1.1 §6.1.1", in11, "HTTP", "a request has a SOAPAction field"},
	ruleActionQuoted:         {"R1109", in11, "HTTP", "the value of SOAPAction is a quoted string"},
	ruleType11:               {"SOAP 1.1 §6", in11, "HTTP", "the media type is text/xml"},
	ruleType12:               {"SOAP 1.2 Part 2 §7.1.4", in12, "HTTP", "the media type is application/soap+xml"},
	ruleCharset:              {"R1012", inBoth, "charset", "an envelope is in UTF-8 or UTF-16"},
	ruleLabels:               {"RFC 7303 §3", inBoth, "charset", "byte order mark, charset parameter and XML declaration agree"},
	rulePI:                   {"R1009", inBoth, "envelope", "there is no processing instruction, in Body neither"},
	ruleFrameAttribute:       {"R1032", inBoth, "envelope", "Envelope, Header and Body have no attribute in the namespace of the envelope"},
	ruleFrameUnqualified:     {"SOAP 1.1 §4, SOAP 1.2 Part 1 §5", inBoth, "envelope", "attributes of Envelope, Header and Body have a namespace"},
	ruleStyleOnSOAP:          {"R1005", inBoth, "envelope", "no element in the namespace of the envelope has encodingStyle"},
	ruleStyleOnBodyChild:     {"R1006", inBoth, "envelope", "no child of Body has encodingStyle"},
	ruleMustUnderstand:       {"R1013", in11, "envelope", "mustUnderstand is 0 or 1"},
	ruleBlockUnqualified:     {"SOAP 1.1 §4.2", in11, "envelope", "header blocks have a namespace"},
	ruleBodyChildUnqualified: {"R1014", inBoth, "envelope", "children of Body have a namespace"},
	ruleBodyChildren:         {"R9981", in12, "envelope", "Body has at most one child"},
	ruleTrailer:              {"R1011", in11, "envelope", "no element stands behind Body"},
	ruleArrayType:            {"R2113", in11, "envelope", "there is no soapenc:arrayType attribute"},
	rulePackageType:          {"RFC 2387 §3.1", inBoth, "HTTP", "the type parameter of multipart/related is the media type of the root"},
	rulePackageRoot:          {"XOP 1.0 §5", inBoth, "HTTP", "the root is an envelope, or application/xop+xml with the type of one"},
	rulePackageInfo:          {"XOP 1.0 §4.1", inBoth, "HTTP", "start-info is the type of the envelope in application/xop+xml"},
}

// StrictRules returns the rules that strict checking enforces, besides those that are
// always enforced.
func StrictRules() []StrictRule { return slices.Clone(strictTable[:]) }

// ruleError names a broken rule.
type ruleError struct{ rule strictRule }

func (e ruleError) Error() string {
	r := &strictTable[e.rule]
	return r.ID + ": " + r.What
}

func (d *Decoder) breaks(rule strictRule) error { return d.reject(CodeStrict, ruleError{rule}) }

const nsEncoding11 = "http://schemas.xmlsoap.org/soap/encoding/"

// strictToken applies the rules about the envelope to the current token.
func (d *Decoder) strictToken(kind xmlstream.Kind) error {
	if kind == xmlstream.ProcInst {
		return d.breaks(rulePI)
	}
	if kind != xmlstream.Start {
		return nil
	}
	name := d.sc.Name()
	depth, old := d.sc.Depth(), d.facts.Version == V11
	frame := depth <= sectionDepth && d.phase != inTrailer
	bodyChild := depth == childDepth && d.phase == inBody
	switch {
	case d.phase == inTrailer:
		return d.breaks(ruleTrailer)
	case depth == childDepth && d.phase == inHeader && len(name.Space) == 0:
		return d.breaks(ruleBlockUnqualified)
	case bodyChild && len(name.Space) == 0:
		return d.breaks(ruleBodyChildUnqualified)
	case bodyChild && !old && d.facts.BodyChildren > 1:
		return d.breaks(ruleBodyChildren)
	}
	attrs := d.sc.Attrs()
	for i := range attrs {
		a := &attrs[i]
		if a.IsNamespace() {
			continue
		}
		if len(a.Name.Space) == 0 {
			if frame {
				return d.breaks(ruleFrameUnqualified)
			}
			continue
		}
		soap := string(a.Name.Space) == d.ns
		switch local := string(a.Name.Local); {
		case soap && local == "encodingStyle" && string(name.Space) == d.ns:
			return d.breaks(ruleStyleOnSOAP)
		case soap && local == "encodingStyle" && bodyChild:
			return d.breaks(ruleStyleOnBodyChild)
		case soap && frame:
			return d.breaks(ruleFrameAttribute)
		case soap && old && local == "mustUnderstand" && d.phase == inHeader && depth == childDepth:
			d.value = a.AppendValue(d.value[:0])
			if v := string(d.value); v != "0" && v != "1" {
				return d.breaks(ruleMustUnderstand)
			}
		case old && local == "arrayType" && string(a.Name.Space) == nsEncoding11:
			return d.breaks(ruleArrayType)
		}
	}
	return nil
}

// StrictHead is what the rules about a request's binding look at.
type StrictHead struct {
	Version     Version     // of the envelope
	ContentType ContentType // not looked at if Framed
	SOAPAction  []string    // values of the field
	Framed      bool        // there are no fields at all
	Charset     string      // that the envelope was in, see [xmlstream.DecodeBytes]
	Agrees      bool        // see [xmlstream.CharsetAgrees]
}

// Check returns the fault for the first rule that is broken, nil if there is none.
func (h *StrictHead) Check() *Fault {
	rule, broken := h.broken()
	if !broken {
		return nil
	}
	return &Fault{Code: CodeStrict, Version: h.Version, Reason: CodeStrict.row().reason + ": " + ruleError{rule}.Error() + "."}
}

func (h *StrictHead) broken() (rule strictRule, broken bool) {
	if !h.Framed {
		if h.ContentType.Type != h.Version.MediaType() && !h.ContentType.IsMultipart() {
			if h.Version == V11 {
				return ruleType11, true
			}
			return ruleType12, true
		}
		if h.Version == V11 {
			if len(h.SOAPAction) == 0 {
				return ruleAction, true
			}
			if v := strings.Trim(h.SOAPAction[0], " \t"); len(h.SOAPAction) > 1 || len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' || strings.Contains(v[1:len(v)-1], `"`) {
				return ruleActionQuoted, true
			}
		}
	}
	switch h.Charset {
	case "utf-8", "us-ascii", "utf-16", "utf-16le", "utf-16be":
	default:
		return ruleCharset, true
	}
	return ruleLabels, !h.Agrees
}
