package soapcodec

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"soapway/xmlstream"
)

// maxHeaderBlocks bounds the list in Facts; real messages have a dozen.
const maxHeaderBlocks = 1024

// The structural faults of an envelope. Clients read these texts.
var (
	errVersion       = errors.New("this SOAP version is not accepted here")
	errChild         = errors.New("an element other than Header or Body stands before Body")
	errSecondHeader  = errors.New("a second Header")
	errHeaderLate    = errors.New("the Header must stand before Body")
	errSecondBody    = errors.New("a second Body")
	errNoBody        = errors.New("the Envelope has no Body")
	errTrailer       = errors.New("an element stands after Body")
	errText          = errors.New("character data stands directly in Envelope or Header")
	errPI            = errors.New("a processing instruction stands outside the content of Body")
	errUnqualified   = errors.New("a header block has no namespace")
	errBoolean       = errors.New("a value is not an xs:boolean")
	errNotUnderstood = errors.New("a mandatory header block was not understood")
)

// phase is where in the envelope the decoder stands.
type phase uint8

const (
	inProlog phase = iota
	beforeHeader
	inHeader
	beforeBody
	inBody
	afterBody
	inTrailer // an element after Body, SOAP 1.1
	inEpilog
)

// Depths of the scanner at the elements of the frame.
const (
	envelopeDepth = 1
	sectionDepth  = 2 // Header, Body
	childDepth    = 3 // header block, child of Body
)

// Decoder checks one envelope in one pass over UTF-8 octets (see
// [xmlstream.Reader] for other charsets). It is reusable by Reset and not safe
// for concurrent use.
type Decoder struct {
	sc    *xmlstream.Scanner
	opt   Options
	err   error // sticky
	names interner

	phase     phase
	headKnown bool
	watch     bool // tokens deep in Body matter: a fault is read, or signatures or references are looked for
	prologPI  bool // a processing instruction came before the version was known
	ns        string
	facts     Facts

	security      bool // inside a wsse:Security block
	addr          addressing
	text          collector
	fault         faultReader
	value         []byte // scratch for attribute values
	refOctets     int    // of facts.References
	keys          []keySearch
	keysLeft      int // not found yet
	notUnderstood []QName

	extra  bool        // options ask for a second look at each token, see extras
	tr     *translator // nil unless this message is translated
	room   *translator // what tr points to, kept for the next message
	insert inserter
	// reaches: a signature in the header may cover the whole message, or what
	// only its parties know.
	reaches bool

	edits     editor
	faultRoom FaultFacts // what facts.Fault points to
}

// NewDecoder returns a decoder; call Reset or ResetBytes before use.
func NewDecoder(opt Options) *Decoder {
	d := &Decoder{sc: xmlstream.NewScanner(opt.Limits)}
	d.opt = opt
	d.ResetBytes(nil)
	return d
}

// SetOptions replaces the options; call before Reset.
func (d *Decoder) SetOptions(opt Options) {
	d.opt = opt
	d.sc.SetLimits(opt.Limits)
}

// Reset starts a new message that is read from r.
func (d *Decoder) Reset(r io.Reader) {
	d.reset()
	d.sc.Reset(r)
}

// ResetBytes starts a new message that is scanned in place: doc must not change
// until the next Reset.
func (d *Decoder) ResetBytes(doc []byte) {
	d.reset()
	d.sc.ResetBytes(doc)
}

func (d *Decoder) reset() {
	d.err = nil
	d.phase = inProlog
	d.headKnown, d.watch, d.prologPI, d.security = false, false, false, false
	d.ns, d.refOctets = "", 0
	clear(d.facts.Headers) // the last message's strings must not live on in the pool
	d.facts = Facts{Headers: d.facts.Headers[:0], Keys: d.facts.Keys}
	d.resetKeys()
	d.faultRoom = FaultFacts{Subcodes: d.faultRoom.Subcodes[:0]}
	d.addr = addressing{}
	d.text.reset()
	if cap(d.value) > maxCollected {
		d.value = nil
	}
	d.fault = faultReader{}
	d.notUnderstood = nil
	d.edits.reset(d.opt.Normalize == Envelope)
	d.resetExtras()
}

// Facts are filled as far as the decoder has come. They are the decoder's own
// and valid until the next Reset; the strings in them may be kept.
func (d *Decoder) Facts() *Facts { return &d.facts }

// Head advances until Version, Headers, Operation and Action are known: the
// start tag of the first child of Body, or Body's end.
func (d *Decoder) Head() error {
	for !d.headKnown {
		if err := d.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Finish steps to the end; nil when the whole envelope is good.
func (d *Decoder) Finish() error {
	for {
		if d.phase == inBody && !d.fault.open && !d.opt.References && !d.extra && d.keysLeft == 0 && d.err == nil {
			d.skim()
		} else if err := d.Step(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// skim is Step up to and with the first token that is not deep in Body, where
// nothing means anything but signatures that normalization may break.
func (d *Decoder) skim() {
	if !d.watch {
		d.err = d.take(d.sc.Skip(childDepth))
		return
	}
	for {
		kind, err := d.sc.Next()
		if err != nil || d.sc.Depth() <= childDepth {
			d.err = d.take(kind, err)
			return
		}
		if kind == xmlstream.Start {
			d.signature()
		}
	}
}

// Step handles one token. It returns io.EOF once everything is checked, an
// [*Error] for the message's own faults, and errors of the reader untouched.
// All are sticky.
//
// Hot path: must not allocate but for new strings in Facts (TestAllocs).
// Measure: go test ./soapcodec -run '^$' -bench Decode -count 10
func (d *Decoder) Step() error {
	if d.err != nil {
		return d.err
	}
	d.err = d.take(d.sc.Next())
	return d.err
}

// take handles what the scanner's Next has returned.
func (d *Decoder) take(kind xmlstream.Kind, err error) error {
	if err == nil {
		// Nearly all tokens of a message are deep in Body, where only the depth
		// counts.
		if d.phase == inBody {
			err = d.body(kind)
		} else {
			err = d.token(kind)
		}
		if d.extra && err == nil {
			err = d.extras(kind)
		}
	}
	if err != nil {
		return d.explain(err)
	}
	return nil
}

// explain turns the scanner's verdict on the document into an *Error.
func (d *Decoder) explain(err error) error {
	if err == io.EOF {
		if d.phase == inEpilog {
			return err
		}
		return d.reject(CodeNotWellFormed, xmlstream.ErrTruncated)
	}
	if _, ours := err.(*Error); ours {
		return err
	}
	if se, ok := errors.AsType[*xmlstream.SyntaxError](err); ok {
		return &Error{Code: codeOf(se), Version: d.facts.Version, Err: se}
	}
	return err
}

// reject makes the error for a fault at the current token.
func (d *Decoder) reject(code Code, reason error) *Error {
	e := &Error{Code: code, Version: d.facts.Version, Err: d.sc.Fault(reason)}
	switch code {
	case CodeVersionMismatch:
		e.Supported = d.opt.accepted()
	case CodeMustUnderstand:
		e.NotUnderstood = d.notUnderstood
	}
	return e
}

// token handles a token outside Body.
func (d *Decoder) token(kind xmlstream.Kind) error {
	if d.keysLeft > 0 && d.phase == inHeader {
		if err := d.keyToken(kind, true); err != nil {
			return err
		}
	}
	switch kind {
	case xmlstream.Declaration:
		return nil
	case xmlstream.Start:
		return d.start()
	case xmlstream.End:
		return d.end()
	case xmlstream.ProcInst:
		if d.phase == inProlog {
			d.prologPI = true
		} else if d.facts.Version == V12 {
			return d.reject(CodeInvalidEnvelope, errPI)
		}
	case xmlstream.Text, xmlstream.CDATA:
		if d.inFrame() {
			if !d.blank(kind) {
				return d.reject(CodeInvalidEnvelope, errText)
			}
		} else if err := d.collect(); err != nil {
			return err
		}
	}
	if d.inFrame() {
		d.edits.remove(d.sc.Offset(), d.sc.InputOffset())
	}
	return nil
}

// inFrame reports whether the current token, not being a tag, is a direct child
// of the document, of Envelope or of Header.
func (d *Decoder) inFrame() bool {
	switch d.phase {
	case inHeader:
		return d.sc.Depth() == sectionDepth
	case inTrailer:
		return false
	}
	return true
}

// blank reports whether the current text is white space only, also if some of
// it is written as references.
func (d *Decoder) blank(kind xmlstream.Kind) bool {
	raw := d.sc.Text()
	if isBlank(raw) {
		return true
	}
	if kind == xmlstream.CDATA || bytes.IndexByte(raw, '&') < 0 {
		return false
	}
	d.value = d.sc.AppendText(d.value[:0])
	return isBlank(d.value)
}

func (d *Decoder) start() error {
	switch d.phase {
	case inProlog:
		return d.root()
	case inHeader:
		if d.sc.Depth() == childDepth {
			return d.blockStart()
		}
		return d.blockChild()
	case inTrailer:
		d.signature()
		return nil
	}
	return d.section()
}

// root handles the document element (SOAP 1.2 Part 1 §5.1, SOAP 1.1 §4.1.2).
// Namespaces are compared octet by octet (Namespaces in XML §2.3).
func (d *Decoder) root() error {
	name := d.sc.Name()
	v := V0
	switch {
	case name.Is(NS11, "Envelope"):
		v = V11
	case name.Is(NS12, "Envelope"):
		v = V12
	default:
		return d.reject(CodeVersionMismatch, fmt.Errorf("the root element %s is not a SOAP Envelope of a known namespace", quoteCut(name.String())))
	}
	d.facts.Version = v
	d.ns = v.Namespace()
	if !d.opt.accepts(v) {
		return d.reject(CodeVersionMismatch, errVersion)
	}
	if d.prologPI && v == V12 {
		return d.reject(CodeInvalidEnvelope, errPI)
	}
	d.phase = beforeHeader
	d.frameTag()
	return nil
}

// frameTag normalizes the current tag, which is one of Envelope, Header or Body.
func (d *Decoder) frameTag() {
	if !d.edits.normalize {
		return
	}
	if d.phase != inBody && hasID(d.sc.Attrs()) {
		// A signature may name this element, and its content is about to change.
		d.skipNormalize()
		return
	}
	d.edits.tag(d.sc.Raw(), d.sc.Offset())
}

// section handles a child element of Envelope.
func (d *Decoder) section() error {
	var header, body bool
	if string(d.sc.Space()) == d.ns {
		local := d.sc.Local()
		header, body = string(local) == "Header", string(local) == "Body"
	}
	if d.phase == afterBody {
		switch {
		case header:
			return d.reject(CodeInvalidEnvelope, errHeaderLate)
		case body:
			return d.reject(CodeInvalidEnvelope, errSecondBody)
		case d.facts.Version == V12:
			return d.reject(CodeInvalidEnvelope, errTrailer)
		}
		d.phase = inTrailer
		d.signature()
		return nil
	}
	switch {
	case header && d.phase == beforeBody:
		return d.reject(CodeInvalidEnvelope, errSecondHeader)
	case header:
		d.facts.HasHeader = true
		d.phase = inHeader
	case body:
		d.phase = inBody
		d.facts.BodyStart = d.sc.InputOffset()
	default:
		return d.reject(CodeInvalidEnvelope, errChild)
	}
	d.frameTag()
	return nil
}

func (d *Decoder) end() error {
	depth := d.sc.Depth()
	switch d.phase {
	case beforeHeader, beforeBody:
		return d.reject(CodeInvalidEnvelope, errNoBody)
	case inHeader:
		switch depth {
		case sectionDepth:
			d.phase = beforeBody
			d.edits.tag(d.sc.Raw(), d.sc.Offset())
			return d.headerEnd()
		case childDepth:
			return d.blockEnd()
		}
		return d.collectEnd()
	case inTrailer:
		if depth == sectionDepth {
			d.phase = afterBody
		}
	case afterBody:
		d.phase = inEpilog
		d.edits.tag(d.sc.Raw(), d.sc.Offset())
	}
	return nil
}

// body handles a token inside Body, whose content is the application's: no
// name, comment or processing instruction in it means anything to us but a
// Fault as the first child, and signatures if normalization may break them.
func (d *Decoder) body(kind xmlstream.Kind) error {
	if d.keysLeft > 0 {
		if err := d.keyToken(kind, false); err != nil {
			return err
		}
	}
	switch kind {
	case xmlstream.Start:
		if d.sc.Depth() == childDepth {
			d.bodyChild()
		}
	case xmlstream.End:
		if d.sc.Depth() == sectionDepth {
			d.headDone()
			d.phase = afterBody
			d.facts.BodyEnd = max(d.sc.Offset(), d.facts.BodyStart)
			d.edits.tag(d.sc.Raw(), d.sc.Offset())
			return nil
		}
	}
	if d.watch {
		return d.watchBody(kind)
	}
	return nil
}

func (d *Decoder) bodyChild() {
	d.facts.BodyChildren++
	if d.facts.BodyChildren > 1 {
		return
	}
	d.facts.Operation = d.name()
	d.headDone()
	d.watch = d.watches() || d.opt.References
	if d.facts.Operation == (QName{Space: d.ns, Local: "Fault"}) {
		d.facts.Fault = &d.faultRoom
		d.fault.open = true
		d.watch = true
	}
}

func (d *Decoder) watchBody(kind xmlstream.Kind) error {
	if kind == xmlstream.Start {
		if d.watches() {
			d.signature()
		}
		if d.opt.References {
			if err := d.reference(); err != nil {
				return err
			}
		}
	}
	if d.fault.open {
		return d.faultToken(kind)
	}
	return nil
}

// headDone marks the point from which edits are handed out.
func (d *Decoder) headDone() {
	if !d.headKnown {
		d.headKnown = true
		d.edits.open = true
	}
}

// name is that of the current element.
func (d *Decoder) name() QName {
	return QName{Space: d.names.get(d.sc.Space()), Local: d.names.get(d.sc.Local())}
}

// Decode checks doc as a whole and returns its facts.
func Decode(doc []byte, opt Options) (*Facts, error) {
	d := NewDecoder(opt)
	d.ResetBytes(doc)
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return &d.facts, nil
}
