package soapcodec

import (
	"errors"
	"fmt"
	"strings"

	"soapway/xmlstream"
)

// Error is a fault of the message with its place.
type Error struct {
	Code          Code
	Version       Version   // recognised so far
	NotUnderstood []QName   // MustUnderstand: the blocks, in document order
	Supported     []Version // VersionMismatch: the versions that are accepted
	Err           error     // *xmlstream.SyntaxError with line, column and path, or *PackageError
}

// Error is for the log.
func (e *Error) Error() string { return fmt.Sprintf("soapcodec: %s: %v", e.Code, e.Err) }

// Unwrap returns the error with the place.
func (e *Error) Unwrap() error { return e.Err }

// Fault turns e into the client's answer: what is wrong, with line, column and
// path, and nothing about the gateway.
func (e *Error) Fault() *Fault {
	return &Fault{
		Code:          e.Code,
		Reason:        e.reason(),
		Version:       e.Version,
		NotUnderstood: e.NotUnderstood,
		Supported:     e.Supported,
	}
}

func (e *Error) reason() string {
	var out strings.Builder
	out.WriteString(e.Code.row().reason)
	if pe, ok := errors.AsType[*PackageError](e.Err); ok {
		return out.String() + ": " + detail(pe.Err) + pe.place() + "."
	}
	se, ok := errors.AsType[*xmlstream.SyntaxError](e.Err)
	if !ok {
		return out.String() + "."
	}
	if e.Code != CodeDoctype && e.Code != CodeMustUnderstand && !errors.Is(se.Err, errVersion) {
		out.WriteString(": ")
		out.WriteString(detail(se.Err))
	}
	for i, q := range e.NotUnderstood {
		if i == 3 {
			fmt.Fprintf(&out, " and %d more", len(e.NotUnderstood)-i)
			break
		}
		out.WriteString([]string{": ", ", "}[min(i, 1)])
		out.WriteString(quoteCut(q.String()))
	}
	fmt.Fprintf(&out, ", at line %d, column %d", se.Line, se.Column)
	if se.Path != "" {
		out.WriteString(", in ")
		out.WriteString(quotePath(se.Path))
	}
	out.WriteByte('.')
	return out.String()
}

// detail is the reason without the name of the package that gave it.
func detail(err error) string {
	if limit, ok := errors.AsType[*xmlstream.LimitError](err); ok {
		return fmt.Sprintf("%s may be at most %d", limit.Limit, limit.Max)
	}
	return cut(strings.TrimPrefix(err.Error(), "xmlstream: "), 4*maxQuoted)
}

// quotePath quotes a path and keeps its inner end, which is where the fault is.
func quotePath(path string) string {
	if len(path) <= maxQuoted {
		return quoteCut(path)
	}
	tail := path[len(path)-maxQuoted:]
	for len(tail) > 0 && tail[0]&0xC0 == 0x80 {
		tail = tail[1:]
	}
	return "…" + quoteCut(tail)
}
