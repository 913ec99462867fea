package xmlstream

import (
	"errors"
	"fmt"
)

// The reasons a document is refused. They arrive wrapped in a [*SyntaxError]:
// test for them with [errors.Is], read the place with [errors.AsType].
var (
	// ErrMalformed reports a breach of the grammar or of a well-formedness
	// constraint of XML 1.0. ErrMismatch, ErrDuplicate, ErrReference and
	// ErrCharacter are cases of it.
	ErrMalformed = errors.New("not well-formed")

	// ErrMismatch reports an end tag that does not close the innermost open
	// element (XML 1.0 §3, Element Type Match).
	ErrMismatch error = &reason{"end tag does not match start tag", ErrMalformed}

	// ErrDuplicate reports an attribute that occurs twice in a tag
	// (XML 1.0 §3.1, Unique Att Spec). Two names that differ and mean the same
	// are ErrNamespace.
	ErrDuplicate error = &reason{"attribute occurs twice", ErrMalformed}

	// ErrReference reports an ampersand that begins neither a character
	// reference nor a reference to one of the five predefined entities
	// (XML 1.0 §4.1): without a DOCTYPE no other can be declared.
	ErrReference error = &reason{"not a character reference or predefined entity", ErrMalformed}

	// ErrCharacter reports a character that XML does not allow anywhere, as
	// itself or by reference (XML 1.0 §2.2).
	ErrCharacter error = &reason{"character not allowed in XML", ErrMalformed}

	// ErrDoctype reports a document type declaration, which SOAP forbids.
	ErrDoctype = errors.New("DOCTYPE is not allowed")

	// ErrTruncated reports a document that ends too early.
	ErrTruncated = errors.New("unexpected end of document")

	// ErrNamespace reports a document that is not namespace-well-formed
	// (Namespaces in XML 1.0 §7).
	ErrNamespace = errors.New("not namespace-well-formed")

	// ErrCharset reports an unknown charset, or octets that are not of the
	// document's charset, UTF-8 included.
	ErrCharset = errors.New("charset error")

	// ErrLimit reports a document that breaks one of [Limits]; the error in
	// the chain is a [*LimitError], which tells which.
	ErrLimit = errors.New("limit exceeded")
)

// Finer texts for the kinds of fault above. The sender's own octets never
// enter them.
var (
	errTag         error = &reason{"malformed tag", ErrMalformed}
	errName        error = &reason{"a name is expected here", ErrMalformed}
	errNameChar    error = &reason{"character not allowed in a name", ErrMalformed}
	errBlank       error = &reason{"white space is missing between attributes", ErrMalformed}
	errEquals      error = &reason{"an attribute needs '=' and a value", ErrMalformed}
	errQuote       error = &reason{"an attribute value must be quoted", ErrMalformed}
	errLess        error = &reason{"'<' in an attribute value", ErrMalformed}
	errSectionEnd  error = &reason{"']]>' in character data", ErrMalformed}
	errHyphens     error = &reason{"'--' in a comment", ErrMalformed}
	errMarkup      error = &reason{"malformed markup declaration", ErrMalformed}
	errOutside     error = &reason{"character data outside the root element", ErrMalformed}
	errSecondRoot  error = &reason{"second root element", ErrMalformed}
	errStrayEnd    error = &reason{"end tag without a start tag", ErrMismatch}
	errDeclaration error = &reason{"malformed XML declaration", ErrMalformed}
	errVersion     error = &reason{"XML version is not 1.x", ErrMalformed}
	errPlacement   error = &reason{"XML declaration is not at the start of the document", ErrMalformed}
	errTarget      error = &reason{"processing instruction target 'xml' is reserved", ErrMalformed}
	errPI          error = &reason{"malformed processing instruction", ErrMalformed}

	errColon       error = &reason{"misplaced colon in a name", ErrNamespace}
	errUnbound     error = &reason{"namespace prefix is not declared", ErrNamespace}
	errSameName    error = &reason{"two attributes have the same expanded name", ErrNamespace}
	errXMLPrefix   error = &reason{"prefix xml and its namespace belong together", ErrNamespace}
	errXMLNSPrefix error = &reason{"prefix xmlns is reserved", ErrNamespace}
	errXMLNSSpace  error = &reason{"the xmlns namespace must not be declared", ErrNamespace}
	errUndeclare   error = &reason{"a prefix cannot be undeclared", ErrNamespace}

	errUTF8         error = &reason{"invalid UTF-8", ErrCharset}
	errUnknown      error = &reason{"unknown charset", ErrCharset}
	errUndecodable  error = &reason{"octets that the charset does not define", ErrCharset}
	errNotUTF16     error = &reason{"declared as a wide charset that it is evidently not in", ErrCharset}
	errLongDeclared error = &reason{"XML declaration is too long", ErrCharset}
)

// reason is an error that is a case of a broader one.
type reason struct {
	text   string
	parent error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.parent }

// maxErrorPath bounds how much of a document's own names an error repeats,
// since error text reaches logs and the names are the sender's.
const maxErrorPath = 100

// A SyntaxError says why and where a document is refused.
type SyntaxError struct {
	Offset int64  // first offending octet, counted from the start of the stream
	Line   int    // 1-based; lines end at \n, \r\n or \r
	Column int    // 1-based, in octets
	Path   string // elements open there, as in "/soap:Envelope/soap:Body"; not cut
	Err    error  // one of the Err variables, a case of one, or a *LimitError; never nil
}

// Error returns place and reason; the path is quoted and cut to 100 octets.
func (e *SyntaxError) Error() string {
	where := e.Path
	if len(where) > maxErrorPath {
		where = "…" + where[len(where)-maxErrorPath:]
	}
	if where != "" {
		where = fmt.Sprintf(" in %q", where)
	}
	return fmt.Sprintf("xmlstream: %d:%d (offset %d)%s: %v", e.Line, e.Column, e.Offset, where, e.Err)
}

// Unwrap returns the reason.
func (e *SyntaxError) Unwrap() error { return e.Err }

// A LimitError is the Err of a [*SyntaxError] for a broken limit.
type LimitError struct {
	Limit string // the configuration's key: depth, elements, attributes, namespaces, name, attribute_value, text; or in words
	Max   int64
}

// Error names the limit and its value.
func (e *LimitError) Error() string { return fmt.Sprintf("limit %s of %d exceeded", e.Limit, e.Max) }

// Is reports whether target is [ErrLimit].
func (e *LimitError) Is(target error) bool { return target == ErrLimit }
