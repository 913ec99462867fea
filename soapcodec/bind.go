package soapcodec

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	"soapway/xmlstream"
)

const nsXSI = "http://www.w3.org/2001/XMLSchema-instance"

// maxBindDepth bounds how deep values may nest, since those with pointers to
// themselves have no end.
const maxBindDepth = 250

// What the values of a message may take beside the octets they were read from:
// a fixed part, and a multiple of the message. An empty element of four octets
// may become a struct of any size.
const (
	leastBindRoom = 4 << 20
	bindRoom      = 32
)

var (
	// ErrEmptyBody reports an envelope whose Body has no child to decode.
	ErrEmptyBody = errors.New("soapcodec: the Body is empty")

	errNotPointer = errors.New("must be a pointer that is not nil")
	errTooDeep    = errors.New("nests too deep")
	errTooMuch    = errors.New("the values take too much memory for a message of this length")
	errOtherName  = errors.New("another element is expected")
	errNoFace     = errors.New("an interface that holds no pointer can't be decoded into")
	errNoName     = errors.New("the value has no name: give its type an XMLName")
	errNotOne     = errors.New("must be one element: a struct, a pointer to one, or a named scalar")
	errNoVersion  = errors.New("the version is not 1.1 or 1.2")
	errFragment   = errors.New("the innerxml is not well-formed by itself")
)

// A BindError says which field, and where in the message, does not fit.
type BindError struct {
	Field string // Go names, as in "Order.Items.Price", or that of a type with a wrong tag
	Err   error  // *xmlstream.SyntaxError with line, column and path while reading; the plain reason otherwise
}

// Error names the field, the place and the reason.
func (e *BindError) Error() string {
	text := strings.TrimPrefix(e.Err.Error(), "xmlstream: ")
	if e.Field == "" {
		return "soapcodec: bind: " + text
	}
	return fmt.Sprintf("soapcodec: bind %s: %s", e.Field, text)
}

// Unwrap returns the error with the place, or the reason.
func (e *BindError) Unwrap() error { return e.Err }

// within makes err an error of the field name, which is around the one that it
// names.
func within(name string, err error) error {
	be, ok := err.(*BindError)
	if !ok || name == "" {
		return err
	}
	if be.Field != "" {
		name += "." + be.Field
	}
	return &BindError{Field: name, Err: be.Err}
}

// BindAttr is an attribute that no other field takes: a field
//
//	Attrs []BindAttr `xml:",any,attr"`
//
// collects them.
type BindAttr struct {
	Name  QName
	Value string
}

// FaultError is a Fault in the Body of an envelope that was to be decoded: what
// a peer has answered.
type FaultError struct {
	Version Version
	Facts   FaultFacts
	detail  []byte // the first child of the detail element, complete by itself
}

// Error is for the log: code and reason, quoted and cut.
func (e *FaultError) Error() string {
	return fmt.Sprintf("soapcodec: fault %s: %s", quoteCut(e.Facts.Code.String()), quoteCut(e.Facts.Reason))
}

// Detail decodes the first child of the fault's detail element into v, as
// [Unmarshal] does. Without one it is [io.EOF].
func (e *FaultError) Detail(v any) error {
	if e.detail == nil {
		return io.EOF
	}
	target, err := targetOf(v)
	if err != nil {
		return err
	}
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(e.detail)
	if _, err := s.Next(); err != nil {
		return err
	}
	return newBindReader(s, len(e.detail)).root(target)
}

// Unmarshal checks the envelope and decodes the first child of its Body into v,
// a pointer to a struct whose tags are those of encoding/xml: see the package
// documentation for what differs. Nothing is stored in v unless the whole
// envelope is good SOAP; then decoding stops at the first value that does not
// fit, which is a [*BindError].
//
// A Fault in the Body is not decoded but returned as a [*FaultError], an
// envelope that is not good as an [*Error], an empty Body as [ErrEmptyBody].
// The charset is that of the byte order mark or the XML declaration.
func Unmarshal(envelope []byte, v any) error {
	target, err := targetOf(v)
	if err != nil {
		return err
	}
	doc, _, err := xmlstream.DecodeBytes(envelope, "")
	if err != nil {
		if se, ok := errors.AsType[*xmlstream.SyntaxError](err); ok {
			return &Error{Code: codeOf(se), Err: se}
		}
		return err
	}
	b := binders.Get().(*binder)
	defer b.release()
	b.d.ResetBytes(doc)
	if err := b.d.Finish(); err != nil {
		return err
	}
	facts, s := b.d.Facts(), b.s
	s.ResetBytes(doc)
	switch ok, err := toBody(s, facts.Version); {
	case err != nil:
		return err
	case facts.Fault != nil:
		return newFaultError(s, facts)
	case !ok:
		return ErrEmptyBody
	}
	return newBindReader(s, len(doc)).root(target)
}

// binder is what decoding a message takes: one pass to check it, one to read.
type binder struct {
	d *Decoder
	s *xmlstream.Scanner
}

var binders = sync.Pool{New: func() any {
	return &binder{NewDecoder(Options{}), xmlstream.NewScanner(xmlstream.Limits{})}
}}

// release gives b back without the message.
func (b *binder) release() {
	b.d.ResetBytes(nil)
	b.s.ResetBytes(nil)
	binders.Put(b)
}

func targetOf(v any) (reflect.Value, error) {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return target, &BindError{Field: fmt.Sprintf("%T", v), Err: errNotPointer}
	}
	return target.Elem(), nil
}

// toBody moves s, of an envelope that is known to be good, to the start tag of
// the first child of Body; false if there is none.
func toBody(s *xmlstream.Scanner, v Version) (bool, error) {
	body := false
	for {
		kind, err := s.Next()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		switch {
		case kind == xmlstream.Start && s.Depth() == sectionDepth:
			body = s.Name().Is(v.Namespace(), "Body")
		case kind == xmlstream.Start && s.Depth() == childDepth && body:
			return true, nil
		case kind == xmlstream.End && s.Depth() == sectionDepth:
			if body {
				return false, nil
			}
		}
	}
}

// newFaultError returns the error for the Fault at whose start tag s stands.
func newFaultError(s *xmlstream.Scanner, facts *Facts) error {
	e := &FaultError{Version: facts.Version, Facts: *facts.Fault}
	e.Facts.Subcodes = slices.Clone(e.Facts.Subcodes)
	local, space := "detail", ""
	if facts.Version == V12 {
		local, space = "Detail", NS12
	}
	detail := false
	for {
		kind, err := s.Next()
		if err != nil {
			return err
		}
		switch {
		case kind == xmlstream.Start && s.Depth() == partDepth:
			detail = s.Name().Is(space, local)
		case kind == xmlstream.Start && s.Depth() == partDepth+1 && detail:
			p := xmlstream.NewPrinter()
			if err := p.RawElement(s); err != nil {
				return err
			}
			e.detail, err = p.Bytes()
			if err != nil {
				return err
			}
			return e
		case kind == xmlstream.End && s.Depth() == faultDepth:
			return e
		}
	}
}

var bindPrinters = sync.Pool{New: func() any { return xmlstream.NewPrinter() }}

// Marshal returns an envelope of that version whose Body holds the one element
// that body is encoded as, or nothing if body is nil, and whose Header, if there
// are any blocks, holds them in their order. Values are encoded by the tags of
// encoding/xml: see the package documentation for what differs. The result is
// UTF-8 with an XML declaration. What does not fit is a [*BindError].
func Marshal(version Version, body any, blocks ...any) ([]byte, error) {
	if version != V11 && version != V12 {
		return nil, &BindError{Err: errNoVersion}
	}
	p := bindPrinters.Get().(*xmlstream.Printer)
	defer func() {
		p.ResetBytes(nil) // the envelope is the caller's
		bindPrinters.Put(p)
	}()
	p.ResetBytes(nil)
	w := bindWriter{p: p}
	ns := version.Namespace()
	p.Declaration()
	p.Start("soap", "Envelope", ns)
	if len(blocks) > 0 {
		p.Start("soap", "Header", ns)
		for _, block := range blocks {
			if err := w.root(block); err != nil {
				return nil, err
			}
		}
		p.End()
	}
	p.Start("soap", "Body", ns)
	if body != nil {
		if err := w.root(body); err != nil {
			return nil, err
		}
	}
	p.End()
	p.End()
	return p.Bytes()
}
