// Package xmlstream reads and writes XML as a stream of tokens and never holds
// more of a document than one token and the stack of open elements.
//
// It is the syntax layer of the gateway: it knows names, namespaces, text,
// charsets and well-formedness, and nothing about SOAP. What a token means is
// the business of package soapcodec. Nothing here builds a tree.
//
// # Scanning
//
// A [Scanner] is pulled: [Scanner.Next] returns the kind of the next token,
// and the other methods tell about it until the next call.
//
//	s := xmlstream.NewScanner(xmlstream.Limits{})
//	s.ResetBytes(doc)
//	for {
//		kind, err := s.Next()
//		if err == io.EOF {
//			break // complete and well-formed
//		}
//		…
//	}
//
// It works over a []byte, in place, and over an io.Reader, with the same code
// and the same events whatever the size of the reads. Character data, CDATA
// sections, comments and processing instructions longer than 32 KiB arrive in
// pieces, over both ([Scanner.Partial]), so a reader costs bounded memory. A
// start tag is always one token; the limits bound it.
//
// An empty element <a/> is a [Start] and then an [End] with no octets. White
// space outside the root element is [Text] at depth 0. One byte order mark
// before the document is skipped and is part of no token. Apart from that the
// Raws of all tokens are the document, octet for octet.
//
// # How long values live
//
// All slices that a Scanner hands out (names, values, text, raw octets) alias
// its buffers, or the document itself, and die at the next Next or Reset.
// Offsets are absolute and stay true. A Scanner is for one goroutine and is
// meant to be kept and reset: scanning a good document then allocates nothing.
//
// # Printing
//
// A [Printer] writes a document token by token and can write only what is
// well-formed and namespace-well-formed: it escapes, closes, declares the
// namespaces that names need, and refuses the rest with a [*PrintError]. It also
// passes the tokens of a Scanner octet for octet, with the declarations that
// were in force around them.
//
// # Canonical forms
//
// A [Canonicalizer] turns tokens into Canonical XML, inclusive or exclusive,
// with or without comments, of a document or of one element in it, while they
// pass: digests of signed messages of any size cost bounded memory. Where a
// namespace is declared once and used in many elements the exclusive form is by
// its nature longer than the document, as each of them declares it.
//
// # Speed
//
// A scanner remembers the tags that it has seen, within bounds, and takes what
// repeats by comparison, from one document to the next: keep it and reset it
// rather than making a new one. Attributes are made when [Scanner.Attrs] is
// called, and [Scanner.Local] and [Scanner.Space] cost less than [Scanner.Name].
// Long texts are searched with AVX2 where the processor has it, unless the
// build tag purego is set.
//
// # Charsets
//
// The scanner reads UTF-8 and checks it. A [Reader], or [DecodeBytes] for a
// whole document, finds out the charset and converts.
//
// # Limits
//
// Input is hostile until proven otherwise. [Limits] bounds what must be
// buffered or kept, zero meaning the default; what breaks one is refused with a
// [*LimitError] that names it. Time is linear in the input whatever it holds:
// duplicate attributes and prefixes are found by hashes with a random seed,
// equal namespaces by index, and no octet is searched for twice.
//
// # Errors
//
// Every fault of the document is a [*SyntaxError] with offset, line, column and
// the path of open elements; its reason is one of the Err variables. Errors of
// the io.Reader, io.ErrUnexpectedEOF included, come out as they went in, and
// io.EOF after the last token. The first fault is final.
//
// # Specifications
//
//   - Extensible Markup Language (XML) 1.0, Fifth Edition: well-formedness,
//     complete but for the document type declaration
//   - Namespaces in XML 1.0, Third Edition: complete
//   - The Unicode Standard §3.9: UTF-8, UTF-16
//   - Canonical XML 1.0: complete but for what needs a DOCTYPE, of documents
//     and elements (document subsets that are not a tree are not formed)
//   - Exclusive XML Canonicalization 1.0: the same
//   - RFC 7303 §3: order of byte order mark, charset parameter, declaration
//
// Deviations: a DOCTYPE is always refused ([ErrDoctype]), since SOAP forbids
// it (SOAP 1.1 §3, SOAP 1.2 Part 1 §5) and every entity-expansion attack begins
// with one; so the only entities are the five predefined. UTF-32, UTF-7 and
// EBCDIC are unknown charsets. A byte order mark or Content-Type label that
// contradicts the declaration wins; XML 1.0 §4.3.3 calls that an error.
// Documents with relative namespaces have a canonical form here; Canonical XML
// 1.0 §1.3 wants them refused.
package xmlstream
