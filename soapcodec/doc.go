// Package soapcodec gives tokens their SOAP meaning: it decodes an envelope to
// facts in one pass and writes the gateway's own faults. Syntax belongs to
// package xmlstream; transports, routes and retries belong to package proxy.
//
// # Decoding
//
// A [Decoder] reads UTF-8 octets once, builds no tree, and can be driven token
// by token, so that a message may be checked while it passes through:
//
//	d.Reset(r)
//	err := d.Head()   // version, header blocks, action and operation are known
//	err = d.Finish()  // every octet is checked
//
// What it found is in [Facts]: they are filled as far as the decoder has come,
// belong to it, and die at the next Reset; strings in them may be kept. Names,
// namespaces, roles and actions that repeat between messages are interned, so
// a message costs an allocation only for values that are its own (a MessageID).
//
// A decoder never changes octets. With [Options.Normalize] or [Options.Node]
// it yields [Edit] values for [Apply] or for a copying stream; everything that
// no edit names goes on octet for octet. With [Options.Keys] it picks values out
// of the message on its way, without a second pass.
//
// # Translation
//
// [Options.Translate] gives a message the other version. The declarations that
// Envelope, Header, Body and Fault have of the old namespace are bound to the
// new one, so that names of SOAP follow and the content of Body keeps its octets.
// Where content uses such a prefix (an envelope inside the Body, a qualified
// name in text or an attribute value), the old binding is declared again on
// that element; what merely looks like such a name gets one declaration too
// many. Roles, mustUnderstand, relay and encodingStyle are translated; the parts
// of a Fault are written anew and its detail renamed. What the other version
// has no form for is an error: elements after Body and header blocks without a
// namespace in SOAP 1.2, and signed messages in both. Encoded data is not
// translated: the encodingStyle goes with it and still names what it is. A
// reason is cut at 64 KiB, and a faultactor behind the detail is lost.
//
// # Binding
//
// [Unmarshal] decodes the first child of Body into a struct and [Marshal] writes
// an envelope from structs, by the xml tags that encoding/xml knows: a name with
// an optional namespace before it, a>b paths, attr, chardata, cdata, innerxml,
// comment, any, "any,attr", omitempty, "-", XMLName (a [QName], or the Name of
// encoding/xml), embedded structs, pointers, slices, and types with MarshalText
// and UnmarshalText. A []byte is text. What is different:
//
//   - A name without a namespace is written in the namespace of the element
//     around it and read in any, as there; the tag soap:"unqualified" beside it
//     means the name in no namespace. Fields of an embedded struct take the namespace that the
//     XMLName of the outer one has, and fields without a name that of the XMLName
//     of their type, also in slices. An XMLName that was read is written again.
//   - innerxml is complete by itself: when it is read, each child gets the
//     declarations that are in force around it; when it is written, it must be
//     well-formed, with declarations for all its prefixes, or it is refused.
//   - xsi:nil makes a pointer nil, another value zero. The tag
//     soap:"nillable" writes a nil pointer so, also in a slice; without it nil is
//     left out. Empty
//     elements of a path are left out where omitempty leaves out the field.
//   - Booleans are true, false, 1 and 0; numbers are those of XML Schema, with
//     INF and NaN; a time.Time is an xs:dateTime or xs:date, in UTC if it has no
//     zone. Empty text is zero and false.
//   - Any attribute is a [BindAttr]. Namespace declarations are no attributes. Of
//     two attributes of a name the one in no namespace counts.
//   - What can't be written as XML is an error and never mended. Marshaler and
//     Unmarshaler of encoding/xml, arrays, maps and channels have no form.
//   - An interface is read only where it holds a pointer.
//
// Values that are read take at most 4 MiB and 32 times the octets of the
// message, counted without their text; values that are written nest at most 250
// deep.
//
// # Attachments
//
// A [Package] takes a multipart/related message apart without losing an octet and
// knows its root; a [PackageReader] checks the envelope in it while its user
// reads the parts (MTOM, XOP, SOAP with Attachments). What is a delimiter to one
// receiver and content to another is refused.
//
// # Limits
//
// Besides [xmlstream.Limits]: at most 1024 header blocks, and at most 4 KiB in
// an addressing value (white space included), because routes and duplicate
// checks depend on it whole; both break as [CodeLimit], and so does the value of
// a [Key] above 1 KiB. A role and the code of
// a received fault are cut at 4 KiB, its reason, node and role at 1 KiB, and no
// more than 16 subcodes and 64 QNames that were not understood are kept: nothing
// that is compared is longer.
//
// # Errors and faults
//
// What is wrong with a message is an [*Error]: a stable [Code] and the place
// from package xmlstream. Errors of the reader pass through untouched. A
// [Fault] is what this gateway answers, [FaultFacts] is what a peer sent: the
// two are different types, so a fault on the wire can't be mistaken for ours.
// All codes, statuses and default texts stand in one table (faulttable.go).
//
// A [FaultError] is such a fault where a value was to be decoded, a [BindError]
// says which field does not fit, and where.
//
// A Decoder is not safe for concurrent use. Functions and values are.
//
// # Specifications
//
//   - Simple Object Access Protocol (SOAP) 1.1, W3C Note, §3, §4, §6
//   - SOAP Version 1.2 Part 1: Messaging Framework (Second Edition), §2, §5, Appendix A
//   - SOAP Version 1.2 Part 2: Adjuncts (Second Edition), §6.5, §7
//   - Web Services Addressing 1.0 - Core and SOAP Binding; the member
//     submission of August 2004
//   - XML Signature Syntax and Processing, §4.4.3 (which parts of a message a
//     signature covers)
//   - Web Services Security: SOAP Message Security 1.0
//   - WS-I BP 1.1 and BP 2.0, as far as strictTable has their rules
//   - RFC 9110 §5.6, §8.3; RFC 7303
//   - RFC 2045, RFC 2046 §5.1, RFC 2387, RFC 2392; XOP 1.0 §4, §5
//
// Deviations, all of them lenient towards what is received:
//
//   - SOAP 1.2 Part 1 §5.1.1 to §5.3.1: encodingStyle and unqualified
//     attributes on Envelope, Header and Body are passed on; some toolkits send
//     them and no receiver is misled.
//   - SOAP 1.2 Part 1 §5: comments before and after the Envelope are passed on.
//   - SOAP 1.1 §3: processing instructions are passed on; in SOAP 1.2 they are
//     refused outside the content of Body.
//   - SOAP 1.1 §4: elements after Body, and header blocks without a namespace,
//     are passed on; in SOAP 1.2 they are refused.
//   - SOAP 1.1 §4.2.3: mustUnderstand also takes "true" and "false"; any other
//     value but "0" counts as mandatory, since reading it as optional could
//     skip a duty.
//   - SOAP 1.1 §4.4: every fault of the gateway has a detail element with its
//     stable code, also where the header was at fault; faultactor and Node are
//     written only for MustUnderstand, because for all other faults the gateway
//     answers in the place of the service.
//   - WS-I BP 1.1 R1031 (SHOULD NOT): a subcode of SOAP 1.2 becomes a dotted code
//     of SOAP 1.1, since it would be lost otherwise. A code of an application is
//     Receiver in SOAP 1.2, as SOAP 1.1 sends it with 500; those of WS-Security
//     and WS-Addressing are what their specifications say.
//   - SOAP 1.1 has no relay, no role ultimateReceiver, no NotUnderstood and one
//     reason: relay and that role are left out, the block stays in its own
//     namespace, and of several reasons the first in English is taken, else the
//     first.
//   - Message addressing headers count only where they are aimed at the
//     ultimate receiver. Where both addressing namespaces occur, 1.0 counts.
package soapcodec
