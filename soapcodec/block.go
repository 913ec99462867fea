package soapcodec

import (
	"bytes"
	"errors"
	"io"

	"soapway/xmlstream"
)

// What can be wrong with the file of a header block.
var (
	errBlockSpace = errors.New("the element has no namespace, as a header block must have")
	errBlockSOAP  = errors.New("the element is an Envelope, but only one header block is wanted")
)

// HeaderBlockOf takes a document that is one header block and makes of it what
// [Options.Add] wants: its element in UTF-8, without what stands around it. It
// means the same wherever it is put, because a document can only use prefixes
// that it declares, and xmlns="" is added where it needs it. The error is an
// [*Error] with the place.
func HeaderBlockOf(doc []byte) ([]byte, error) {
	text, _, err := xmlstream.DecodeBytes(doc, "")
	if err != nil {
		return nil, blockError(err)
	}
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes(text)
	var out []byte
	nameEnd := 0
	bare, ownDefault := false, false // an unprefixed element; a default namespace of the root's own
	for {
		kind, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, blockError(err)
		}
		switch {
		case kind == xmlstream.ProcInst:
			return nil, &Error{Code: CodeInvalidEnvelope, Err: s.Fault(errPI)}
		case kind == xmlstream.Start && s.Depth() == 1:
			name := s.Name()
			if len(name.Space) == 0 {
				return nil, &Error{Code: CodeInvalidEnvelope, Err: s.Fault(errBlockSpace)}
			}
			if name.Is(NS11, "Envelope") || name.Is(NS12, "Envelope") {
				return nil, &Error{Code: CodeInvalidEnvelope, Err: s.Fault(errBlockSOAP)}
			}
			nameEnd = 1 + nameLength(name)
			attrs := s.Attrs()
			for i := range attrs {
				ownDefault = ownDefault || attrs[i].IsNamespace() && len(declaredPrefix(&attrs[i])) == 0
			}
		case kind == xmlstream.Start:
			bare = bare || len(s.Name().Prefix) == 0
		}
		if s.Depth() > 0 {
			out = append(out, s.Raw()...)
		}
	}
	if bare && !ownDefault {
		out = append(out[:nameEnd], append([]byte(` xmlns=""`), bytes.Clone(out[nameEnd:])...)...)
	}
	return out, nil
}

func blockError(err error) error {
	if se, ok := errors.AsType[*xmlstream.SyntaxError](err); ok {
		return &Error{Code: codeOf(se), Err: se}
	}
	return err
}
