package soapcodec

import (
	"fmt"
	"io"

	"soapway/xmlstream"
)

// Endpoint is an endpoint reference that a message names for its answers
// (WS-Addressing 1.0 - Core §2, and its draft of 2004/08).
type Endpoint struct {
	// Address is an IRI, white space around it removed. Never empty.
	Address string
	// Parameters become header blocks of every message to the endpoint.
	Parameters []Parameter
}

// Parameter is a reference parameter, or a reference property of 2004/08.
type Parameter struct {
	Name QName
	// Block is the parameter as a header block that stands alone: with all
	// namespace declarations that were in force around it, and in 1.0 with
	// wsa:IsReferenceParameter (WS-Addressing 1.0 - SOAP Binding §3.4).
	Block []byte
}

// Endpoints are where a message wants its answers to go.
type Endpoints struct {
	Reply, Fault *Endpoint // nil where the message names none
	// Namespace is that of the headers which name them, "" if none does.
	Namespace string
}

// The addresses that are no places: answers go back the way the request came,
// or nowhere. The draft of 2004/08 knows the first alone.
const (
	anonymousAddress     = nsAddressing + "/anonymous"
	anonymousAddress2004 = nsAddressing2004 + "/role/anonymous"
	noneAddress          = nsAddressing + "/none"
)

// Anonymous reports whether answers go back the way the request came, as they do
// where a message names no endpoint.
func (e *Endpoint) Anonymous() bool {
	return e == nil || e.Address == anonymousAddress || e.Address == anonymousAddress2004
}

// None reports whether answers go nowhere.
func (e *Endpoint) None() bool { return e != nil && e.Address == noneAddress }

// maxParameters bounds the reference parameters of an endpoint, as they are kept.
const maxParameters = 32 << 10

// FindEndpoints reads ReplyTo and FaultTo of a message in UTF-8 that has passed a
// Decoder, of which f are the facts. Those aimed at the ultimate receiver count,
// and of two specifications the later. The error is a *Fault.
func FindEndpoints(doc []byte, f *Facts) (Endpoints, error) {
	var e Endpoints
	for i := range f.Headers {
		b := &f.Headers[i]
		if b.Role == "" && (b.Name.Local == "ReplyTo" || b.Name.Local == "FaultTo") &&
			addressingVersion(b.Name.Space) > addressingVersion(e.Namespace) {
			e.Namespace = b.Name.Space
		}
	}
	if e.Namespace == "" {
		return e, nil
	}
	s := xmlstream.NewScanner(xmlstream.Limits{
		Depth: -1, Attributes: -1, Namespaces: -1, Name: -1, AttributeValue: -1, Elements: -1, Text: -1,
	})
	s.ResetBytes(doc)
	for i := range f.Headers {
		b := &f.Headers[i]
		if b.Role != "" || b.Name.Space != e.Namespace {
			continue
		}
		to := &e.Reply
		switch b.Name.Local {
		case "ReplyTo":
		case "FaultTo":
			to = &e.Fault
		default:
			continue
		}
		if *to != nil {
			return e, &Fault{Code: CodeInvalidCardinality, Reason: "The message has more than one " + b.Name.Local + "."}
		}
		if err := seek(s, b.Start); err != nil {
			return e, err
		}
		var err error
		if *to, err = readEndpoint(s, b.Name); err != nil {
			return e, err
		}
	}
	return e, nil
}

// seek goes on to the token at an offset.
func seek(s *xmlstream.Scanner, offset int64) error {
	for {
		if _, err := s.Next(); err != nil {
			return unreadable(err)
		}
		if s.Offset() == offset {
			return nil
		}
	}
}

// unreadable is an error that a message which has passed the checks cannot cause.
func unreadable(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("soapcodec: endpoint: %w", err)
}

// readEndpoint reads the header block whose start tag is the current token.
func readEndpoint(s *xmlstream.Scanner, block QName) (*Endpoint, error) {
	e := new(Endpoint)
	depth := s.Depth()
	addresses, size := 0, 0
	for {
		kind, err := s.Next()
		if err != nil {
			return nil, unreadable(err)
		}
		if kind == xmlstream.End && s.Depth() == depth {
			break
		}
		if kind != xmlstream.Start || s.Depth() != depth+1 || string(s.Space()) != block.Space {
			continue
		}
		switch string(s.Local()) {
		case "Address":
			addresses++
			if e.Address, err = elementText(s); err != nil {
				return nil, err
			}
		case "ReferenceParameters", "ReferenceProperties":
			if err := e.readParameters(s, block, &size); err != nil {
				return nil, err
			}
		}
	}
	if addresses != 1 || e.Address == "" {
		return nil, &Fault{Code: CodeInvalidAddress, Reason: "The " + block.Local + " of the message must have one Address."}
	}
	return e, nil
}

// elementText is the character data directly inside the current element, white space
// around it removed; afterwards its end tag is the current token.
func elementText(s *xmlstream.Scanner) (string, error) {
	var b []byte
	for depth := s.Depth(); ; {
		kind, err := s.Next()
		if err != nil {
			return "", unreadable(err)
		}
		switch {
		case s.Depth() > depth:
		case kind == xmlstream.End:
			return string(trim(b)), nil
		case kind == xmlstream.Text || kind == xmlstream.CDATA:
			b = s.AppendText(b)
		}
	}
}

// readParameters reads the children of the current element.
func (e *Endpoint) readParameters(s *xmlstream.Scanner, block QName, size *int) error {
	p := xmlstream.NewPrinter()
	for depth := s.Depth(); ; {
		kind, err := s.Next()
		if err != nil {
			return unreadable(err)
		}
		switch {
		case kind == xmlstream.End:
			return nil
		case kind != xmlstream.Start:
			continue
		}
		name := QName{string(s.Space()), string(s.Local())}
		switch {
		case name.Space == NS11, name.Space == NS12, addressingVersion(name.Space) != 0, name.Space == "":
			return &Fault{Code: CodeInvalidAddress, Reason: "A reference parameter of the " + block.Local + " can not be a header block."}
		}
		mark := markOf(s, block.Space)
		at := 1 + nameLength(s.Name())
		p.ResetBytes(nil)
		if err := p.RawElement(s); err != nil {
			return unreadable(err)
		}
		raw, err := p.Bytes()
		if err != nil {
			return unreadable(err)
		}
		if *size += len(raw); *size > maxParameters {
			return &Fault{Code: CodeLimit, Reason: "The reference parameters of the " + block.Local + " are too large."}
		}
		b := append(make([]byte, 0, len(raw)+len(mark)), raw[:at]...)
		e.Parameters = append(e.Parameters, Parameter{name, append(append(b, mark...), raw[at:]...)})
		if s.Depth() != depth+1 {
			return unreadable(io.ErrUnexpectedEOF)
		}
	}
}

// markOf is the attribute that tells a reference parameter from other header
// blocks, as text for the current start tag: 1.0 alone asks for it.
func markOf(s *xmlstream.Scanner, space string) string {
	const local = "IsReferenceParameter"
	if space != nsAddressing {
		return ""
	}
	attrs := s.Attrs()
	for i := range attrs {
		if attrs[i].Name.Is(nsAddressing, local) {
			return ""
		}
	}
	prefix := "wsa"
	for n := 1; ; n++ {
		if _, bound := s.Lookup([]byte(prefix)); !bound {
			return ` xmlns:` + prefix + `="` + nsAddressing + `" ` + prefix + `:` + local + `="true"`
		}
		prefix = "wsa" + string(appendInt(nil, n))
	}
}

// AnswerBlocks are the header blocks that an answer with the facts f lacks for
// its receiver to take it: RelatesTo, To and the parameters of the endpoint e that
// it is sent to (WS-Addressing 1.0 - Core §3.3, §3.4). They are of the
// specification that the answer itself follows, else of the one in namespace
// space, in which the request named the endpoint. messageID is that of the
// request; without one the answer relates to a message that is not specified.
func AnswerBlocks(f *Facts, e *Endpoint, space, messageID string) []byte {
	own := ""
	has := map[QName]bool{}
	for i := range f.Headers {
		name := f.Headers[i].Name
		has[name] = true
		if addressingVersion(name.Space) > addressingVersion(own) {
			own = name.Space
		}
	}
	if own == "" {
		own = space
	}
	if messageID == "" {
		messageID = own + "/unspecified"
		if own == nsAddressing2004 {
			messageID = own + "/id/unspecified"
		}
	}
	var b []byte
	add := func(local, text string) {
		b = append(b, `<wsa:`+local+` xmlns:wsa="`+own+`">`...)
		b = xmlstream.AppendEscapedText(b, text)
		b = append(b, `</wsa:`+local+`>`...)
	}
	if f.To == "" {
		add("To", e.Address)
	}
	if f.RelatesTo == "" {
		add("RelatesTo", messageID)
	}
	for _, p := range e.Parameters {
		if !has[p.Name] {
			b = append(b, p.Block...)
		}
	}
	return b
}
